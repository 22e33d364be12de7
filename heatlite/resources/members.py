"""The law of groups: who is a member, who goes first, in what steps a group changes (heat-engine §13). Pure."""

import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Final

from heatlite.core.errors import RequestLimitExceeded
from heatlite.core.json import Json, JsonMap
from heatlite.core.json import size as json_size
from heatlite.plugin import Member

TEMPLATE_VERSION: Final = "2015-04-30"


MOST_MADE: Final = 64 * 1024 * 1024
"""Characters of JSON that the definitions of all members may come to (`max_stack_data` unless chosen otherwise)."""


def bounded(made: Json, before: int = 0) -> int:
    """The size of what is `before` and of definitions that were made. Raises RequestLimitExceeded."""
    total = before + json_size(made, MOST_MADE)
    if total > MOST_MADE:
        raise RequestLimitExceeded(message=f"the members come to more than {MOST_MADE} characters of JSON.")
    return total


def template_of(members: Mapping[str, Json]) -> JsonMap:
    """The template of a nested stack with these members. Raises RequestLimitExceeded for too much."""
    bounded(members)
    return {"heat_template_version": TEMPLATE_VERSION, "resources": dict(members)}


def definitions_in(template: Mapping[str, Json]) -> Mapping[str, Json]:
    """The members' definitions in such a template."""
    resources = template.get("resources")
    return resources if isinstance(resources, Mapping) else {}


# -- numbered members ------------------------------------------------------------------------------


def numbered(size: int, removed: Iterable[str]) -> list[str]:
    """The first `size` of "0", "1", … that have not been removed."""
    taken = frozenset(removed)
    return list(islice((name for name in map(str, count()) if name not in taken), size))


def removed_names(
    kept: Mapping[str, Json],
    wanted: Iterable[Json],
    names: Container[str],
    named: Callable[[str], str | None],
    afresh: bool,
) -> JsonMap:
    """The names that are never used again, each with the text that asked for it.

    `kept` are those so far. `wanted` are names or references of members that shall go; what means nothing is left out.
    `names` are the members' names, and `named` finds one by its reference. `afresh`: only the wanted ones count from
    now on, so that other names may be used again. (A member that is gone is known by the text that removed it.)
    """
    gone = {text: name for name, text in kept.items()}
    found: JsonMap = {} if afresh else dict(kept)
    for text in map(str, wanted):
        name = text if text in kept or text in names else gone.get(text) or named(text)
        if name is not None:
            found.setdefault(name, text)
    return found


def with_index(value: Json, variable: str, index: str) -> Json:
    """The value with the index in place of the variable, in texts but not in keys; itself where there is none."""
    if isinstance(value, str):
        return value.replace(variable, index)
    if isinstance(value, Mapping):
        return {key: with_index(item, variable, index) for key, item in value.items()}
    if isinstance(value, list):
        return [with_index(item, variable, index) for item in value]
    return value


def mentions(value: Json, variable: str) -> bool:
    """Whether `with_index` has something to do."""
    if isinstance(value, str):
        return variable in value
    if isinstance(value, Mapping):
        return any(mentions(item, variable) for item in value.values())
    return isinstance(value, list) and any(mentions(item, variable) for item in value)


# -- who goes first --------------------------------------------------------------------------------


def oldest_first(names: Iterable[str], members: Iterable[Member]) -> list[str]:
    """The order in which members of a scaling group go: the failed ones, then the oldest.

    One that the nested stack has not made yet is as good as failed.
    """
    found = {member.name: member for member in members}

    def order(name: str) -> tuple[bool, float, str]:
        member = found.get(name)
        return (False, 0.0, name) if member is None else (member.status != "FAILED", member.created_at, name)

    return sorted(names, key=order)


def highest_first(names: Iterable[str], kept: Sequence[str], target: int) -> list[str]:
    """The order in which members of a numbered group are changed: those that go, then the highest of the first `target`
    of `kept`, then those that are there only while the others change."""
    place = {name: index for index, name in enumerate(kept)}

    def order(name: str) -> int:
        index = place.get(name)
        if index is None:
            return 0
        return target - index if index < target else len(kept) + 1

    return sorted(names, key=order)


# -- steps -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """One step of a rolling change."""

    size: int
    """How many members there are after it."""
    fresh: int
    """How many members get the new definition in it, new ones counted."""


def batches(target: int, current: int, most: int, in_service: int) -> Iterator[Batch]:
    """The steps from `current` members to `target` ones of the new definition, `most` (1 at least) at once.

    `in_service` members are left alone in each step; a group may grow for that.
    """
    done = 0
    while not done >= current == target:
        fresh = min(most, max(target - done, 0))
        size = fresh + max(min(current, target - fresh), min(in_service, target, current))
        yield Batch(size, fresh)
        done += fresh - max(size - max(current, target), 0)
        current = size


def changed(
    present: Sequence[tuple[str, Json]],
    batch: Batch,
    new_name: Callable[[], str],
    definition: Callable[[str], Json],
) -> JsonMap:
    """The members after one step.

    `present`: names and definitions, the first to go at the front. Members are cut off there; of those that stay the
    first that differ get the new definition, as many as the step allows; new ones are added.
    """
    staying = present[max(len(present) - batch.size, 0) :]
    missing = batch.size - len(staying)
    to_change = batch.fresh - missing
    after: JsonMap = {}
    for name, old in staying:
        new = definition(name) if to_change > 0 else old
        if new != old:
            to_change -= 1
        after[name] = new
    for _ in range(missing):
        name = new_name()
        after[name] = definition(name)
    return after


# -- sizes -----------------------------------------------------------------------------------------


def within(size: int, low: int, high: int) -> int:
    """The nearest size that is allowed."""
    return max(low, min(size, high))


def wanted_size(present: int, low: object, high: object, desired: object) -> int:
    """How many members a create (`present` 0) or an update leaves: the desired number, else as many as there are.

    Numbers that are not known yet say nothing.
    """
    size = desired if isinstance(desired, int) else present
    return within(size, low if isinstance(low, int) else 0, high if isinstance(high, int) else size)


def adjusted(current: int, adjustment: float, kind: str, least: int | None, low: int, high: int) -> int:
    """The size of a group after an adjustment.

    `kind` is change_in_capacity, exact_capacity or percent_change_in_capacity; per cent are rounded towards 0, but
    change the group by 1 at least, or by `least`.
    """
    if kind == "exact_capacity":
        return within(int(adjustment), low, high)
    if kind == "change_in_capacity":
        return within(current + int(adjustment), low, high)
    exact = current * adjustment / 100
    step = 0 if exact == 0 else max(1, math.floor(abs(exact)), least or 0)
    return within(current + int(math.copysign(step, exact)), low, high)


_DURATION: Final = re.compile(r"PT(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?")


def seconds_of(duration: str) -> int:
    """The seconds of ``PT1H2M3S`` (ISO 8601). Raises ValueError."""
    match = _DURATION.fullmatch(duration)
    if match is None or duration == "PT":
        raise ValueError("Only ISO 8601 duration format of the form PT#H#M#S is supported.")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds
