"""Lists of values in SQL."""

from collections.abc import Collection, Sequence

IN_LIMIT = 500
"""Values in one IN (…). SQLite before 3.32 takes 999 parameters."""


def chunks(values: Sequence[str]) -> list[Sequence[str]]:
    """Split values into lists that one IN (…) can hold."""
    return [values[start : start + IN_LIMIT] for start in range(0, len(values), IN_LIMIT)]


def marks(values: Collection[object]) -> str:
    """Return the parameter marks of an IN (…) for the values."""
    return ", ".join("?" * len(values))
