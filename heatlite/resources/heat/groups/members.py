"""Members of groups: names, order of changes, batches and sizes. Pure functions."""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Final

from msgspec import Struct

from heatlite.core.errors import RequestLimitExceeded
from heatlite.core.group_sizes import within
from heatlite.core.json import Json, JsonMap
from heatlite.core.json import size as json_size
from heatlite.plugin import Member

TEMPLATE_VERSION: Final = "2015-04-30"


MAX_GENERATED: Final = 64 * 1024 * 1024
"""Limit of all members' definitions, in characters of JSON. Equals the default of `max_stack_data`."""


def bounded(made: Json, before: int = 0) -> int:
    """Return the size of `made` in characters of JSON, plus `before`.

    Raises RequestLimitExceeded.
    """
    total = before + json_size(made, MAX_GENERATED)
    if total > MAX_GENERATED:
        raise RequestLimitExceeded(message=f"the members come to more than {MAX_GENERATED} characters of JSON.")
    return total


def template_of(members: Mapping[str, Json]) -> JsonMap:
    """Return the template of a nested stack with these members.

    Raises RequestLimitExceeded.
    """
    bounded(members)
    return {"heat_template_version": TEMPLATE_VERSION, "resources": dict(members)}


def definitions_in(template: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the members' definitions in such a template."""
    resources = template.get("resources")
    return resources if isinstance(resources, Mapping) else {}


# -- numbered members ------------------------------------------------------------------------------


def numbered(size: int, removed: Iterable[str]) -> list[str]:
    """Return the first `size` of the names "0", "1", … that have not been removed."""
    taken = frozenset(removed)
    return list(islice((name for name in map(str, count()) if name not in taken), size))


def removed_names(
    kept: Mapping[str, Json],
    wanted: Iterable[Json],
    names: Container[str],
    named: Callable[[str], str | None],
    afresh: bool,
) -> JsonMap:
    """Return the names that are never used again, with the requests of removal.

    `kept` are the removed names so far. `wanted` are names or references of members to remove; unknown ones are
    ignored. `names` are the members' names, and `named` finds a name by its member's reference. With `afresh` only the
    wanted ones count, so that other names may be used again. A member that no longer exists is found by the text that
    requested its removal.
    """
    gone = {text: name for name, text in kept.items()}
    found: JsonMap = {} if afresh else dict(kept)
    for text in map(str, wanted):
        name = text if text in kept or text in names else gone.get(text) or named(text)
        if name is not None:
            found.setdefault(name, text)
    return found


def with_index(value: Json, variable: str, index: str) -> Json:
    """Replace the variable by the index in all texts of the value, but not in keys."""
    if isinstance(value, str):
        return value.replace(variable, index)
    if isinstance(value, Mapping):
        return {key: with_index(item, variable, index) for key, item in value.items()}
    if isinstance(value, list):
        return [with_index(item, variable, index) for item in value]
    return value


def mentions(value: Json, variable: str) -> bool:
    """True if the variable occurs in a text of the value."""
    if isinstance(value, str):
        return variable in value
    if isinstance(value, Mapping):
        return any(mentions(item, variable) for item in value.values())
    return isinstance(value, list) and any(mentions(item, variable) for item in value)


# -- order -----------------------------------------------------------------------------------------


def oldest_first(names: Iterable[str], members: Iterable[Member]) -> list[str]:
    """Return the members of a scaling group in their order of removal.

    Failed ones come first, then the oldest. A member that the nested stack has not created yet counts as failed.
    """
    found = {member.name: member for member in members}

    def order(name: str) -> tuple[bool, float, str]:
        member = found.get(name)
        return (False, 0.0, name) if member is None else (member.status != "FAILED", member.created_at, name)

    return sorted(names, key=order)


def highest_first(names: Iterable[str], kept: Sequence[str], target: int) -> list[str]:
    """Return the members of a numbered group in the order in which they are changed.

    Members to be removed are first. The first `target` of `kept` follow, highest number first. Members that exist only
    during the change are last.
    """
    place = {name: index for index, name in enumerate(kept)}

    def order(name: str) -> int:
        index = place.get(name)
        if index is None:
            return 0
        return target - index if index < target else len(kept) + 1

    return sorted(names, key=order)


# -- steps -----------------------------------------------------------------------------------------


class Batch(Struct, frozen=True):
    """One step of a rolling change."""

    size: int
    """The number of members after the step."""
    fresh: int
    """The number of members that the step gives the new definition, new members included."""


def batches(target: int, current: int, most: int, in_service: int) -> Iterator[Batch]:
    """Return the steps from `current` to `target` members with the new definition.

    Each step gives at most `most` (≥ 1) members the new definition and leaves `in_service` members unchanged. A group
    may grow for that.
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
    """Return the members after one step.

    `present` are names and definitions, the first ones to be removed at the front. Surplus members are removed there.
    Of the rest, the first ones that differ get the new definition, as many as the step allows. New members are
    appended.
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


def wanted_size(present: int, low: object, high: object, desired: object) -> int:
    """Return the number of members after a create (`present` 0) or an update.

    It is the desired number, else the present one, within the limits. Unknown numbers are ignored.
    """
    size = desired if isinstance(desired, int) else present
    return within(size, low if isinstance(low, int) else 0, high if isinstance(high, int) else size)


_DURATION: Final = re.compile(r"PT(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?")


def seconds_of(duration: str) -> int:
    """Return the seconds of an ISO 8601 duration such as ``PT1H2M3S``.

    Raises ValueError.
    """
    match = _DURATION.fullmatch(duration)
    if match is None or duration == "PT":
        raise ValueError("Only ISO 8601 duration format of the form PT#H#M#S is supported.")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return 3600 * hours + 60 * minutes + seconds
