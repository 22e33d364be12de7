"""OS::Heat::ResourceGroup."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import cast

from heatlite.core.errors import InvalidValue
from heatlite.core.json import Json, JsonMap, as_map, as_texts
from heatlite.plugin import ChildStack, Schema, SupportStatus, prop
from heatlite.plugin.groups import SizedGroup, SizeLimits
from heatlite.resources.heat.groups.base import NumberedGroup
from heatlite.resources.heat.groups.members import (
    bounded,
    highest_first,
    mentions,
    numbered,
    removed_names,
    template_of,
    with_index,
)
from heatlite.resources.heat.groups.rolling import Batches, Rolling, RollingUpdate, members_after
from heatlite.template.types import NestedTemplate


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


class ResourceGroupPolicy(Schema):
    batch_create: Batches | None = prop(doc="Batches in which members are created; default: all at once.")
    rolling_update: RollingUpdate | None = prop(
        doc="Batches in which a new resource_def is applied; default: all at once."
    )


class ResourceGroup(NumberedGroup[ResourceGroupProps], SizedGroup[ResourceGroupProps], type="OS::Heat::ResourceGroup"):
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
            self.data["rolling"] = self._plan()
        removed, plan = self.data["removed"], as_map(self.data["rolling"])
        assert isinstance(removed, dict)
        rolling = Rolling.stored_in(plan)
        if rolling is None:
            return self._whole(removed) if number == 0 else None
        steps = rolling.batches(cast(int, plan["target"]), cast(int, plan["current"]))
        step = next(islice(steps, number, None), None)
        if step is None:
            self.data["rolling"] = None
            return None
        define = self._definer()
        assert define is not None
        names = numbered(step.size, removed)
        target = self.next_size()
        present = {name: old for name, old in self.definitions.items() if name not in removed}
        new_names = (name for name in names if name not in present)
        order = highest_first(present, names, target)
        after = members_after([(name, present[name]) for name in order], step, new_names.__next__, define)
        members = dict(sorted(after.items(), key=lambda item: int(item[0])))
        return ChildStack(template_of(members), pause=rolling.pause if number else 0.0)

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
        names = [*self.definitions] if self.keeps_members else numbered(self.next_size(), removed)
        return ChildStack(template_of({name: define(name) for name in names}))

    def next_size(self) -> int:
        if self.keeps_members or self._definer() is None:
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

    def admit(self, names: Sequence[str]) -> None:
        withdrawn = {name: text for name, text in self._withdrawn().items() if name not in names}
        kept = self._removed().keys() - (self._withdrawn().keys() - withdrawn.keys())
        self.data["withdrawn"] = withdrawn
        self.data["removed"] = {name: text for name, text in as_map(self.data.get("removed")).items() if name in kept}
        after = [*self.definitions, *names]
        possible = numbered(len(after), self._removed())
        if sorted(after) != sorted(possible):
            free = ", ".join(sorted({*possible} - {*self.definitions}, key=int))
            raise InvalidValue(f"Group {self.name} gives {len(names)} new members the names {free}.")

    def new_definition(self, name: str) -> Json:
        define = self._definer()
        assert define is not None
        return define(name)

    def having(self, names: Sequence[str]) -> ChildStack:
        """Return the stack with these members.

        Names that an update would use again for others are kept out.
        """
        present = self.definitions
        self._keep_out_of(names)
        members = {name: present.get(name, None) or self.new_definition(name) for name in sorted(names, key=int)}
        return ChildStack(template_of(members))

    def _keep_out_of(self, names: Sequence[str]) -> list[str]:
        """Keep out of the group what an update would number beside these members.

        Returns those names.
        """
        removed, kept_out = self._removed(), list[str]()
        while again := [name for name in numbered(len(names), removed) if name not in names]:
            kept_out += again
            self.data["withdrawn"] = {**self._withdrawn(), **{name: name for name in again}}
            removed = {**removed, **self._withdrawn()}
        self.data["removed"] = removed
        return kept_out

    def named_leaving(self) -> Sequence[str]:
        return [name for name in self.definitions if name in self._removed()]

    def let_leave(self, names: Sequence[str], since: float) -> None:
        chosen = self._chosen(since)
        if names:
            chosen += self._keep_out_of([name for name in self.definitions if name not in names])
        if chosen:
            self.data["leaving"] = {"names": [*chosen], "at": self.facts.now()}

    def let_stay(self, since: float) -> None:
        chosen = self._chosen(since)
        for key in ("removed", "withdrawn") if chosen else ():
            kept = as_map(self.data.get(key))
            self.data[key] = {name: text for name, text in kept.items() if name not in chosen}

    def _chosen(self, since: float) -> list[str]:
        """Forget the numbers that policies have taken out, and return those since a time."""
        chosen = as_map(self.data.pop("leaving", None))
        return [*as_texts(chosen["names"])] if chosen and cast(float, chosen["at"]) >= since else []

    def _plan(self) -> JsonMap | None:
        """Return what `child` needs for a create or update in batches.

        None: all at once.
        """
        rolling = self._rolling()
        if rolling is None:
            return None
        removed = self._removed()
        target, current = self.next_size(), sum(name not in removed for name in self.definitions)
        steps = [*rolling.batches(target, current)]
        self.check_pauses(len(steps), rolling.pause)
        return {"target": target, "current": current, **rolling.stored()} if steps else None

    def _rolling(self) -> Rolling | None:
        """Return the policy of this create or update. None: all at once."""
        policy = ResourceGroupPolicy(ResourceGroupPolicy.coerce(self.facts.update_policy))
        before = self.facts.before
        if before is None or self.nested is None:
            return None if policy.batch_create is None else policy.batch_create.rolling()
        differs = "resource_def" in self.schema.diff(before, self.facts.properties)
        unfinished = self.data.get("rolling") is not None  # the last update failed: this is its retry or rollback
        update = policy.rolling_update
        return update.rolling() if update is not None and (differs or unfinished) else None


def _listed(policies: object) -> list[Json]:
    """Return all members that removal policies name; in a preview they may be unknown."""
    found: list[Json] = []
    for policy in policies if isinstance(policies, list) else ():
        named = policy.get("resource_list") if isinstance(policy, Mapping) else None
        found += named if isinstance(named, list) else []
    return found


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
