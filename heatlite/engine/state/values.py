"""Helpers for values: current rows by name, values that may hold UNKNOWN."""

from collections.abc import Iterable, Mapping

from heatlite.core.json import Json
from heatlite.store.records import ResourceRecord
from heatlite.template.expression import UNKNOWN


def current_rows(rows: Iterable[ResourceRecord]) -> list[ResourceRecord]:
    """Return the newest row of each name; older ones wait for their clean-up."""
    return list({row.name: row for row in sorted(rows, key=lambda row: row.id)}.values())


def without_unknown(value: object) -> Json:
    """Return the value with null in place of UNKNOWN, for a preview.

    Raises TypeError for other objects.
    """
    if value is UNKNOWN:
        return None
    if isinstance(value, Mapping):
        return {str(key): without_unknown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_unknown(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} is not a template value")
