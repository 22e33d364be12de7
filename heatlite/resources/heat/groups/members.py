"""Members of groups: names, order of changes and sizes. Pure functions."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import count, islice
from typing import Final

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


# -- sizes -----------------------------------------------------------------------------------------


def wanted_size(present: int, low: object, high: object, desired: object) -> int:
    """Return the number of members after a create (`present` 0) or an update.

    It is the desired number, else the present one, within the limits. Unknown numbers are ignored.
    """
    size = desired if isinstance(desired, int) else present
    return within(size, low if isinstance(low, int) else 0, high if isinstance(high, int) else size)
