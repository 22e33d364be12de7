"""OS::Heat::AutoScalingGroup, and the base of all scaling groups."""

import hashlib
import math
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count, islice
from typing import Final, Protocol, cast

from heatlite.core.errors import InvalidTemplateAttribute
from heatlite.core.group_sizes import adjusted, within
from heatlite.core.ids import new_id, short_id
from heatlite.core.json import Json, JsonMap, as_texts, dump
from heatlite.plugin import ChildStack, Member, NoActionNeeded, Schema, SupportStatus, prop
from heatlite.plugin.groups import SizedGroup, SizeLimits
from heatlite.plugin.nested import member_value, steps_of
from heatlite.plugin.resource import P_co
from heatlite.resources.heat.groups.base import Group
from heatlite.resources.heat.groups.members import oldest_first, template_of, wanted_size
from heatlite.resources.heat.groups.rolling import Batch, Rolling, RollingUpdate, members_after
from heatlite.template.expression import has_unknown
from heatlite.template.types import NestedTemplate


def _new_name() -> str:
    return short_id(new_id())


def _drawn_name(text: str) -> str:
    return short_id(str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)))


class ScalingGroup(Group[P_co], SizedGroup[P_co]):
    """Base of the scaling groups.

    Members have drawn names, which they keep. Failed members are removed first, then the oldest.
    """

    @abstractmethod
    def definition(self) -> Json:
        """Return the definition of a new member; UNKNOWN or null if it is not known yet."""

    def stack_of(self, members: Mapping[str, Json], pause: float = 0.0) -> ChildStack:
        """Return the nested stack with these members."""
        return ChildStack(template_of(members), pause=pause)

    def wanted(self, present: int) -> int:
        """Return the number of members after a create (`present` 0) or an update.

        An operation may have set it; it stays within the limits.
        """
        asked, limits = self.asked_size(), self.limits
        remembered = self.remembered_size(asked)
        return wanted_size(present, limits.low, limits.high, asked if remembered is None else remembered)

    @abstractmethod
    def rolling(self, definition: Json) -> Rolling | None:
        """Return the policy by which an update changes existing members.

        None: it leaves them unchanged.
        """

    def goal(self) -> ChildStack:
        definition = self.definition()
        if not isinstance(definition, Mapping):  # in a preview: the definition is not known yet
            return self.stack_of(self.definitions)
        old = self.definitions
        rolling = self.rolling(definition) if old else None
        if rolling is not None and has_unknown([rolling.most, rolling.in_service]):
            rolling = Rolling(1, 0, 0.0)  # in a preview: the policy is not known yet
        # Keep previews reproducible: new members get their random names only when they are created.
        names = (name for name in map("new_{}".format, count(1)) if name not in old)
        present = self._present()
        lost = old.keys() - {member.name for member in self.well()}
        for number, step in enumerate(_steps(self._plan(rolling))):
            present = [*members_after(present, step, names.__next__, lambda _: definition).items()]
            if number == 0:  # it makes failed members again: they are no longer the first to be removed
                present.sort(key=lambda item: item[0] in lost)
        after: JsonMap = dict(present)
        return self.stack_of({name: after[name] for name in old if name in after} | after)

    def child(self, number: int) -> ChildStack | None:
        definition = self.definition()
        if number == 0:
            self.drop_outdated_size(self.asked_size())
            rolling = self.rolling(definition) if self.definitions else None
            plan = self._plan(rolling)
            self.check_pauses(cast(int, plan["pauses"]), cast(float, plan["pause"]))
            self.data["plan"] = plan
        plan = cast(JsonMap, self.data["plan"])
        steps = list(_steps(plan))
        if number >= len(steps):
            self.data["plan"] = None
            self.data.pop("leaving", None)
            if not self.keeps_members:
                self._cool_down()
            return None
        pause = cast(float, plan["pause"]) if 0 < number < cast(int, plan["pauses"]) else 0.0
        return self._step(steps[number], definition, pause)

    def _plan(self, rolling: Rolling | None) -> JsonMap:
        """Return what `_steps` needs, and the number of steps with a pause."""
        current = len(self.definitions)
        plan: JsonMap = {"size": self.next_size(), "current": current, "pause": 0.0, "pauses": 0}
        if rolling is None:
            return plan
        return {**plan, **rolling.stored(), "pauses": len([*rolling.batches(current, current)])}

    @property
    def unfinished(self) -> bool:
        """True if a rolling update has not completed: this is its rollback or retry."""
        plan = self.data.get("plan")
        return isinstance(plan, dict) and "most" in plan

    def next_size(self) -> int:
        present = len(self.definitions)
        return present if self.keeps_members else self.limited(self.wanted(present))

    def _present(self) -> list[tuple[str, Json]]:
        """Return the members with their definitions, the first to be removed at the front."""
        old = self.definitions
        return [(name, old[name]) for name in self.leaving_order()]

    def _step(
        self, step: Batch, definition: Json, pause: float = 0.0, new_name: Callable[[], str] = _new_name
    ) -> ChildStack:
        old = self.definitions
        after = members_after(self._present(), step, new_name, lambda _: definition)
        kept: JsonMap = {name: after[name] for name in old if name in after}
        return self.stack_of(kept | after, pause)

    # -- operations and signals --------------------------------------------------------------------

    scaled_by_signals = True
    """False for a type that signals do not resize."""

    def leaving_order(self) -> list[str]:
        """Return failed members first, then the oldest.

        Those that policies have chosen come before them, and those of a snapshot that is being restored last.
        """
        nested, chosen = self.nested, as_texts(self.data.get("leaving"))
        order = oldest_first(self.definitions, () if nested is None else nested.members)
        return sorted(order, key=lambda name: (name not in chosen, name in self.facts.recorded))

    def let_leave(self, names: Sequence[str], since: float) -> None:
        self.data["leaving"] = [*names]

    def let_stay(self, since: float) -> None:
        self.data.pop("leaving", None)

    def new_names(self, count: int, leaving: Sequence[str]) -> list[str]:
        """Return names for new members.

        They stay the same while the group does, so that a plan holds.
        """
        return [*islice(self._names(leaving), count)]

    def _names(self, leaving: Sequence[str] = ()) -> Iterator[str]:
        """Return names of `new_names`, by the group as it is now."""
        nested = self.nested
        made = [] if nested is None else [[one.name, one.created_at] for one in nested.members]
        state = dump([self.physical_id, made, sorted(self.definitions), {**self.data}])
        taken = {*self.definitions, *leaving}
        drawn = (_drawn_name(f"{state} {number}") for number in count())
        return (name for name in drawn if name not in taken)

    def new_definition(self, name: str) -> Json:
        return self.definition()

    def having(self, names: Sequence[str]) -> ChildStack:
        present = self.definitions
        return self.stack_of({name: present.get(name) or self.new_definition(name) for name in names})

    def _cool_down(self) -> None:
        """Begin the cooldown after a create or update. It never shortens an earlier one."""
        if self.scaled_by_signals:
            seconds = max(self.size_limits().cooldown, self.cooldown_left())
            self.begin_cooldown(seconds, f"ExactCapacity : {len(self.well())}")

    def resized(self, wanted: Mapping[str, Json]) -> ChildStack:
        if not self.scaled_by_signals:
            raise NoActionNeeded(detail=f"signals do not scale group {self.name}.")
        limits = self.limits
        adjustment = cast(float, wanted["adjustment"])
        kind, least = str(wanted["kind"]), cast("int | None", wanted["least"])
        present = len(self.well())
        size = within(adjusted(present, adjustment, kind, least), limits.low, limits.high)
        if size == present:
            text = f"group {self.name} stays at {present} members; it has {limits.low} to {limits.high}."
            raise NoActionNeeded(detail=text)
        if self.cooldown_left() > 0:
            raise NoActionNeeded("cooldown", math.ceil(self.cooldown_left()))
        own, names = wanted["cooldown"], self._names()  # before the data change, so that a plan holds
        self.begin_cooldown(limits.cooldown if own is None else cast(float, own), f"{kind} : {adjustment:g}")
        return self._step(Batch(self.limited(size), 0), self.definition(), new_name=names.__next__)

    def live_metadata(self) -> JsonMap:
        """Return the metadata with the end of the cooldown, as in Heat."""
        until = self.data.get("cooldown_until")
        if not isinstance(until, int | float):
            return self.metadata
        moment = datetime.fromtimestamp(until, UTC).replace(tzinfo=None).isoformat()
        return {**self.metadata, "cooldown_end": {moment: self.data.get("cooldown_reason")}}

    # -- attributes --------------------------------------------------------------------------------

    def well(self) -> list[Member]:
        """Return the members that have not failed, oldest first."""
        nested = self.nested
        return [] if nested is None else [member for member in nested.members if member.status != "FAILED"]

    def reference(self) -> Json:
        return self.name if self.physical_id is None else self.physical_name


def _steps(plan: Mapping[str, Json]) -> Iterator[Batch]:
    """Yield the steps: change the members in batches, then set the group's size."""
    size, current, rolling = cast(int, plan["size"]), cast(int, plan["current"]), Rolling.stored_in(plan)
    rolls = [] if rolling is None else [*rolling.batches(current, current)]
    yield from rolls
    if not rolls or size != current:
        yield Batch(size, 0)


class Sizes(Protocol):
    """The sizes of a group, as its properties have them."""

    min_size: int
    max_size: int
    desired_capacity: int | None


class SizeRules(Schema):
    """Base of properties with `Sizes`."""

    def fault_order(self: Sizes) -> str | None:
        return "MinSize can not be greater than MaxSize" if self.min_size > self.max_size else None

    def fault_negative(self: Sizes) -> str | None:
        return "The size of AutoScalingGroup can not be less than zero" if self.min_size < 0 else None

    def fault_low_capacity(self: Sizes) -> str | None:
        return OUT_OF_RANGE if self.desired_capacity is not None and self.desired_capacity < self.min_size else None

    def fault_high_capacity(self: Sizes) -> str | None:
        return OUT_OF_RANGE if self.desired_capacity is not None and self.desired_capacity > self.max_size else None


OUT_OF_RANGE: Final = "DesiredCapacity must be between MinSize and MaxSize"


# -- OS::Heat::AutoScalingGroup ----------------------------------------------------------------------


NOT_OF_MEMBERS: Final = frozenset({"condition", "depends_on", "external_id"})
"""Keys in `resource` that have no effect, as in Heat: they are about the template around the group."""


def _member(definition: Mapping[str, Json]) -> JsonMap:
    return {key: value for key, value in definition.items() if key not in NOT_OF_MEMBERS}


class AutoScalingGroupProps(SizeRules):
    max_size: int = prop(between=(0, None), update=True, doc="Maximum number of members.")
    min_size: int = prop(between=(0, None), update=True, doc="Minimum number of members.")
    resource: dict[str, Json] = prop(update=True, doc="The definition of a member, as a resource in a template.")
    cooldown: int | None = prop(update=True, doc="Seconds after a scaling in which signals are ignored.")
    desired_capacity: int | None = prop(update=True, doc="The number of members after a create or an update.")
    rolling_updates: RollingUpdate = prop(
        {"max_batch_size": 1, "min_in_service": 0, "pause_time": 0},
        update=True,
        doc="Batches in which a change of `resource` is applied to existing members.",
    )


class AutoScalingGroup(ScalingGroup[AutoScalingGroupProps], type="OS::Heat::AutoScalingGroup"):
    """A group of identical members.

    Scaling policies change its size within the limits.
    """

    any_attribute = True
    support_status = SupportStatus(version="2014.1")

    @classmethod
    def nested_template(cls, given: Mapping[str, object]) -> NestedTemplate | None:
        """Return a template with one member: all are alike."""
        coerced, faults = cls.schema.examine(given)
        definition, size = coerced.get("resource"), coerced.get("desired_capacity", coerced.get("min_size"))
        if faults or not isinstance(definition, Mapping):
            return None
        times = size if isinstance(size, int) else 1
        return NestedTemplate(template_of({"member": _member(definition)}), times, ("resource",))

    def definition(self) -> Json:
        definition = self.facts.properties["resource"]
        return _member(definition) if isinstance(definition, Mapping) else definition

    def asked_size(self) -> int | None:
        return self.props.desired_capacity

    def rolling(self, definition: Json) -> Rolling | None:
        """Update all members that differ, so that a retry continues a failed update."""
        if all(old == definition for old in self.definitions.values()):
            return None
        return self.props.rolling_updates.rolling()

    def size_limits(self) -> SizeLimits:
        props = self.props
        return SizeLimits(props.min_size, props.max_size, props.cooldown or 0)

    def attribute_at(self, name: str, path: Sequence[object]) -> Json:
        start, steps = steps_of(name, path)
        if start == "resource" and steps:
            members = self.well()
            number = str(steps[0])
            if not (number.isdecimal() and int(number) < len(members)):
                raise self.no_member(number)
            return member_value(members[int(number)], steps[1:])
        if start in ("outputs", "outputs_list") and steps:
            values = {member.name: member_value(member, steps) for member in self.well()}
            return values if start == "outputs" else list(values.values())
        return super().attribute_at(name, path)

    def attributes(self) -> JsonMap:
        return {name: self.attribute(name) for name in ("current_size", "refs", "refs_map")}

    def attr_current_size(self) -> int:
        """The number of members that have not failed."""
        return len(self.well())

    def attr_refs(self) -> list[Json]:
        """References of the members, oldest first."""
        return [member.reference() for member in self.well()]

    def attr_refs_map(self) -> dict[str, Json]:
        """References of the members, by their names."""
        return {member.name: member.reference() for member in self.well()}

    def attr_outputs(self) -> dict[str, Json]:
        """The members' values of the attribute named after it, by the members' names."""
        raise InvalidTemplateAttribute(resource=self.name, key="outputs")

    def attr_outputs_list(self) -> list[Json]:
        """The members' values of the attribute named after it, oldest first."""
        raise InvalidTemplateAttribute(resource=self.name, key="outputs_list")
