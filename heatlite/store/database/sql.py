"""Lists of names and values in SQL."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import TypeVar

Element = TypeVar("Element")

IN_LIMIT = 500
"""Values in one IN (…). SQLite before 3.32 takes 999 parameters."""


def chunks(values: Sequence[Element], limit: int = IN_LIMIT) -> list[Sequence[Element]]:
    """Split values into lists that one IN (…) can hold."""
    return [values[start : start + limit] for start in range(0, len(values), limit)]


def marks(values: Collection[object]) -> str:
    """Return the parameter marks of an IN (…) for the values."""
    return ", ".join("?" * len(values))


def with_marks_in(sql: str, values: Collection[object]) -> str:
    """Return SQL with the parameter marks of the values in its ``IN ()``."""
    return sql.replace("IN ()", f"IN ({marks(values)})")


@cache
def quoted(mark: str, names: tuple[str, ...]) -> str:
    """Return names of tables or columns in quotation marks, with commas between."""
    return ", ".join(f"{mark}{name}{mark}" for name in names)
