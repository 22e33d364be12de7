"""OS::Heat::ResourceGroup, and the base of all groups with numbered members."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import cast

from heatlite.core.errors import InvalidTemplateAttribute, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.plugin import ChildStack, Member, Schema, StackResource, SupportStatus, prop
from heatlite.plugin.groups import SizedGroup, SizeLimits
from heatlite.plugin.nested import member_value, steps_of
from heatlite.plugin.resource import P_co
from heatlite.resources.heat.groups.members import (
    Batch,
    batches,
    bounded,
    changed,
    definitions_in,
    highest_first,
    mentions,
    numbered,
    removed_names,
    template_of,
    with_index,
)
from heatlite.template.expression import select
from heatlite.template.types import NestedTemplate


class Group(StackResource[P_co]):
    """Base of the groups: a nested stack with members and joint attributes."""

    @property
    def definitions(self) -> Mapping[str, Json]:
        """The current definitions of the members by name; {} without a nested stack."""
        nested = self.nested
        return {} if nested is None else definitions_in(nested.template)

    @property
    def keeps_members(self) -> bool:
        """True if the operation keeps the existing members, whatever the template's size."""
        return self.facts.keeps_members and self.nested is not None

    def limited(self, size: int) -> int:
        """Return the size.

        Raises RequestLimitExceeded if a stack may not have as many resources.
        """
        most = self.facts.services.max_resources
        if size > most:
            raise RequestLimitExceeded(message=f"Maximum resources per stack exceeded: {most}.")
        return size

    def fitting(self, steps: Sequence[object], pause: float) -> None:
        """Raise ValueError if the pauses exceed the time limit of the operation."""
        if pause * (len(steps) - 1) >= self.facts.time_limit:
            raise ValueError("The current update policy will result in stack update timeout.")

    def attribute(self, name: str) -> Json:
        return self.attribute_at(name, ())

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        """Return an attribute of the group itself."""
        if name not in self.attribute_names:
            raise InvalidTemplateAttribute(resource=self.name, key=name)
        return cast(Json, select(getattr(self, f"attr_{name}")(), path, None))

    def reference(self) -> Json:
        """Return the nested stack's id; before its creation, the resource's name."""
        return self.name if self.physical_id is None else self.physical_id


class NumberedGroup(Group[P_co]):
    """Base of the groups with members called "0", "1" …

    An attribute that the group does not have itself is a list of the members' values.
    """

    any_attribute = True

    @property
    def members(self) -> dict[str, Member]:
        """The members by name, in the order of their numbers."""
        nested = self.nested
        found = {} if nested is None else {member.name: member for member in nested.members}
        return {name: found[name] for name in self.definitions if name in found}

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        start, steps = steps_of(name, path)
        if start == "resource" and steps:
            member = self.members.get(str(steps[0]))
            if member is None:
                raise self.no_member(str(steps[0]))
            return member_value(member, steps[1:])
        if start == "attributes":
            if not steps:
                raise InvalidTemplateAttribute(resource=self.name, key=name)
            return {name: member_value(member, steps) for name, member in self.members.items()}
        if name in self.attribute_names:
            return super().attribute_at(name, path)
        return [member.attribute(name, cast(Sequence[Json], path)) for member in self.members.values()]

    def attributes(self) -> JsonMap:
        return {name: self.attribute(name) for name in self.attributes_schema if name not in ("attributes", "show")}

    def attr_refs(self) -> list[Json]:
        """References of the members."""
        return [member.reference() for member in self.members.values()]

    def attr_attributes(self) -> dict[str, Json]:
        """The members' values of the attribute named after it, by the members' names."""
        raise InvalidTemplateAttribute(resource=self.name, key="attributes")


# -- OS::Heat::ResourceGroup -------------------------------------------------------------------------


class ResourceDef(Schema):
    type: str = prop(doc="The type of the members; it may be a template.")
    properties: dict[str, Json] | None = prop(
        doc="Their properties; the index variable is replaced by a member's number."
    )
    metadata: dict[str, Json] | None = prop(doc="Their metadata.")


class RemovalPolicy(Schema):
    resource_list: list[Json] = prop([], doc="Names or references of members.")


class ResourceGroupProps(Schema):
    count: int = prop(1, between=(0, None), update=True, doc="The number of members.")
    index_var: str = prop("%index%", length=(3, None), doc="The placeholder for a member's number in its properties.")
    resource_def: ResourceDef = prop(update=True, doc="The definition of each member.")
    removal_policies: list[RemovalPolicy] = prop(
        [], update=True, doc="Members that are removed first; their names are not used again."
    )
    removal_policies_mode: str = prop(
        "append",
        one_of=("append", "update"),
        update=True,
        doc="append: names removed earlier stay removed; update: only those named now are removed.",
    )


class BatchCreate(Schema):
    max_batch_size: int = prop(1, between=(1, None), doc="Maximum number of members created at once.")
    pause_time: float = prop(0, between=(0, None), doc="Seconds between the batches.")


class RollingUpdate(Schema):
    min_in_service: int = prop(0, between=(0, None), doc="Minimum number of members left unchanged during each batch.")
    max_batch_size: int = prop(1, between=(1, None), doc="Maximum number of members changed at once.")
    pause_time: float = prop(0, between=(0, None), doc="Seconds between the batches.")


class ResourceGroupPolicy(Schema):
    batch_create: BatchCreate | None = prop(doc="Batches in which members are created; default: all at once.")
    rolling_update: RollingUpdate | None = prop(
        doc="Batches in which a new resource_def is applied; default: all at once."
    )


class ResourceGroup(
    NumberedGroup[ResourceGroupProps], SizedGroup[ResourceGroupProps], type="OS::Heat::ResourceGroup"
):
    """A group of members that are alike except for their number.

    If the group shrinks, the members with the highest numbers are removed, unless removal_policies name others.
    """

    update_policy = ResourceGroupPolicy
    support_status = SupportStatus(version="2014.1")

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        """Return a template with one member, since all are alike.

        A group of size 0 has none: its definition is not checked, as in Heat.
        """
        coerced, faults = cls.schema.examine(given)
        size = coerced.get("count", 1)
        define = _definer(coerced.get("resource_def"), str(coerced.get("index_var", "%index%")))
        if faults or define is None:
            return None
        members = {} if size == 0 else {"0": define("0")}
        return NestedTemplate(template_of(members), size if isinstance(size, int) else 1, ("resource_def",))

    def goal(self) -> ChildStack:
        removed = self._removed()
        return self._whole(removed)

    def child(self, number: int) -> ChildStack | None:
        if number == 0:
            self.drop_outdated_size(self.asked_size())
            self.data["removed"] = self._removed()
            self.data["rolling"] = self._rolling()
        removed, rolling = self.data["removed"], self.data["rolling"]
        assert isinstance(removed, dict)
        if not isinstance(rolling, dict):
            return self._whole(removed) if number == 0 else None
        step = next(islice(_batches(rolling), number, None), None)
        if step is None:
            self.data["rolling"] = None
            return None
        define = self._definer()
        assert define is not None
        names = numbered(step.size, removed)
        target = self._size()
        present = {name: old for name, old in self.definitions.items() if name not in removed}
        new_names = (name for name in names if name not in present)
        order = highest_first(present, names, target)
        after = changed([(name, present[name]) for name in order], step, new_names.__next__, define)
        pause = cast(float, rolling["pause"]) if number else 0.0
        return ChildStack(template_of(dict(sorted(after.items(), key=lambda item: int(item[0])))), pause=pause)

    def attr_refs_map(self) -> dict[str, Json]:
        """References of the members, by their names."""
        return {name: member.reference() for name, member in self.members.items()}

    def attr_removed_rsrc_list(self) -> list[Json]:
        """Names of the members that removal_policies have removed."""
        return [*as_map(self.data.get("removed"))]

    def _whole(self, removed: Mapping[str, Json]) -> ChildStack:
        """Return all members with the current definition."""
        define = self._definer()
        if define is None:  # in a preview: the definition is not known yet
            return ChildStack(template_of(self.definitions))
        names = [*self.definitions] if self.keeps_members else numbered(self._size(), removed)
        return ChildStack(template_of({name: define(name) for name in names}))

    def _size(self) -> int:
        if self.keeps_members:
            return len(self.definitions)
        size: object = self.props.count
        if not isinstance(size, int):
            return len(self.definitions)
        remembered = self.remembered_size(size)
        return self.limited(size if remembered is None else remembered)

    def _definer(self) -> Callable[[str], JsonMap] | None:
        return _definer(self.facts.properties["resource_def"], self.props.index_var)

    def _removed(self) -> JsonMap:
        kept = as_map(self.data.get("removed"))
        wanted = _listed(self.facts.properties.get("removal_policies"))
        afresh = self.props.removal_policies_mode == "update"

        @cache
        def references() -> dict[str, str]:
            return {str(member.reference()): name for name, member in self.members.items()}

        def named(text: str) -> str | None:
            return references().get(text)

        # Without members, as in Heat, everything that is named is a name that is not to be used.
        names = self.definitions if self.nested is not None else [str(text) for text in wanted]
        removed = removed_names(kept, wanted, names, named, afresh)
        return {**removed, **self._withdrawn()}

    def _withdrawn(self) -> JsonMap:
        """Return the names that operations have removed, which are never used again."""
        return as_map(self.data.get("withdrawn"))

    # -- operations ----------------------------------------------------------------------------------

    def size_limits(self) -> SizeLimits:
        return SizeLimits(0, self.facts.services.max_resources)

    def asked_size(self) -> int | None:
        return self.props.count

    def leaving_order(self) -> list[str]:
        """Return the members with the highest numbers first."""
        return sorted(self.definitions, key=int, reverse=True)

    def new_names(self, count: int, leaving: Sequence[str]) -> list[str]:
        taken = {*self.definitions, *leaving, *self._removed()}
        return numbered(count, taken)

    def new_definition(self, name: str) -> Json:
        define = self._definer()
        assert define is not None
        return define(name)

    def having(self, names: Sequence[str]) -> ChildStack:
        """Return the stack with these members.

        Names that an update would use again for others are kept out.
        """
        present = self.definitions
        removed = self._removed()
        while (again := [name for name in numbered(len(names), removed) if name not in names]):
            self.data["withdrawn"] = {**self._withdrawn(), **{name: name for name in again}}
            removed = {**removed, **self._withdrawn()}
        self.data["removed"] = removed
        members = {name: present.get(name, None) or self.new_definition(name) for name in sorted(names, key=int)}
        return ChildStack(template_of(members))

    def _rolling(self) -> JsonMap | None:
        """Return the parameters of `_batches` for a create or update in batches.

        None: all at once.
        """
        given = self.facts.update_policy
        policy = ResourceGroupPolicy(ResourceGroupPolicy.coerce(given))
        before = self.facts.before
        if before is None or self.nested is None:
            if policy.batch_create is None:
                return None
            most, in_service, pause = policy.batch_create.max_batch_size, 0, policy.batch_create.pause_time
        else:
            differs = "resource_def" in self.schema.diff(before, self.facts.properties)
            unfinished = self.data.get("rolling") is not None  # the last update failed: this is its retry or rollback
            if policy.rolling_update is None or not (differs or unfinished):
                return None
            update = policy.rolling_update
            most, in_service, pause = update.max_batch_size, update.min_in_service, update.pause_time
        removed = self._removed()
        current = sum(name not in removed for name in self.definitions)
        rolling: JsonMap = {
            "target": self._size(), "current": current, "most": most, "in_service": in_service, "pause": pause
        }  # fmt: skip
        steps = list(_batches(rolling))
        self.fitting(steps, pause)
        return rolling if steps else None


def _listed(policies: object) -> list[Json]:
    """Return all members that removal policies name; in a preview they may be unknown."""
    found: list[Json] = []
    for policy in policies if isinstance(policies, list) else ():
        named = policy.get("resource_list") if isinstance(policy, Mapping) else None
        found += named if isinstance(named, list) else []
    return found


def _batches(rolling: JsonMap) -> Iterator[Batch]:
    target, current, most, in_service = (
        cast(int, rolling[key]) for key in ("target", "current", "most", "in_service")
    )
    return batches(target, current, most, in_service)


def _definer(resource_def: object, variable: str) -> Callable[[str], JsonMap] | None:
    """Return a function from a member's name to its definition.

    None while that is unknown.

    Members whose definition does not contain their number share one.
    """
    if not isinstance(resource_def, Mapping) or not isinstance(resource_def.get("type"), str):
        return None
    common: JsonMap = {key: value for key, value in resource_def.items() if value is not None}
    properties = common.get("properties")
    if not isinstance(properties, Mapping):
        return lambda _: common
    given: JsonMap = {key: value for key, value in properties.items() if value is not None}
    common["properties"] = given
    if not mentions(given, variable):
        return lambda _: common
    made = 0

    def define(name: str) -> JsonMap:
        nonlocal made
        own = with_index(given, variable, name)
        made = bounded(own, made)  # each member has a copy of its own
        return {**common, "properties": own}

    return define
