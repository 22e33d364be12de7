"""Helpers for values: current rows by name, values that may hold UNKNOWN."""

from collections.abc import Iterable, Mapping, Sequence

from heatlite.core.json import Json
from heatlite.core.status import Verb
from heatlite.store.records import ResourceRecord
from heatlite.template.expression import UNKNOWN

PASSED_OVER = "passed_over"
"""Key in the `data` of a row: an update has taken back an older object of its resource."""


def current_last(row: ResourceRecord) -> tuple[bool, bool, str]:
    """Return the key that sorts the rows of a resource. The current one is the last.

    It is the newest whose deletion has not begun, and that is not passed over.
    """
    return row.verb is not Verb.DELETE, PASSED_OVER not in row.data, row.id


def current_rows(rows: Iterable[ResourceRecord]) -> list[ResourceRecord]:
    """Return the current row of each name; the others wait for their clean-up."""
    found: dict[str, ResourceRecord] = {}
    for row in sorted(rows, key=lambda row: row.id):
        if row.name not in found or current_last(row) > current_last(found[row.name]):
            found[row.name] = row
    return list(found.values())


def left_over(rows: Sequence[ResourceRecord], of: ResourceRecord) -> list[ResourceRecord]:
    """Return the rows of a resource that wait for their clean-up beside `of`."""
    if len(rows) == 1:  # nearly always
        return []
    is_current = any(row.id == of.id for row in current_rows(rows))
    return [row for row in rows if row.id != of.id] if is_current else []


def without_unknown(value: object) -> Json:
    """Return the value with null in place of UNKNOWN, for a preview.

    Raises TypeError for other objects.
    """
    if value is None or isinstance(value, (str, int, float)):  # most: a check of an abstract class takes longer
        return value
    if value is UNKNOWN:
        return None
    if isinstance(value, Mapping):
        return {str(key): without_unknown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_unknown(item) for item in value]
    raise TypeError(f"{type(value).__name__} is not a template value")
