"""Size budget of a tree of stacks, `max_stack_data` (docs/decisions/0019)."""

from collections.abc import Iterable, Mapping
from sys import maxsize

from heatlite.core.errors import RequestLimitExceeded
from heatlite.core.json import JsonMap
from heatlite.core.json import size as json_size
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ResourceRecord

COMMIT_SHARE = 64
"""Divisor of the budget: a walk commits after using that part.

Others see committed sizes only, and a transaction with more would keep other writers of SQLite waiting.
"""


class StackDataBudget:
    """Counts the size that one walk adds to its tree, against `max_stack_data`.

    Sizes are in characters of JSON. The rest of the tree is read again after each commit.
    """

    def __init__(self, resources: ResourceFactory) -> None:
        self._resources = resources
        self._share = resources.stack_data // COMMIT_SHARE
        self._held: dict[str, int] = {}
        """By row id, the size of properties and metadata, if there are any."""
        self._total = 0
        self._counts_rows = False
        self._in_tree = False
        self._elsewhere: int | None = None
        """The size of the rest of the tree; None: not read yet."""
        self._has_left_out_retained = False
        self._ordered: dict[str, int] = {}
        """By row id, the added size of nested definitions that are not committed yet."""
        self._taken = 0
        """The size added since the last commit."""

    def start(self, rows: Iterable[ResourceRecord], in_tree: bool) -> None:
        """Count the rows of the stack. `in_tree`: it has nested stacks, or is one."""
        self._counts_rows, self._in_tree = True, in_tree
        self._count(rows, {})

    def _count(self, rows: Iterable[ResourceRecord], known: Mapping[str, int]) -> None:
        self._held, data = {}, 0
        for row in rows:
            size = known.get(row.id)
            if size is not None:
                self._held[row.id] = size
            elif row.properties or row.metadata:  # a new row has neither
                self._held[row.id] = size_of(row.properties, row.metadata)
            if row.data:
                data += size_of(row.data)
        self._total = sum(self._held.values()) + data

    def take(self, key: str, wanted: Wanted) -> None:
        """Replace the size of a row by that of its wanted values.

        Raises RequestLimitExceeded.
        """
        size = size_of(wanted.properties, wanted.metadata)
        more = size - self._held.get(key, 0)
        self._check(more)
        self._total += more
        self._held[key] = size
        self._taken += max(0, more)

    def take_definition(self, row_id: str, more: int) -> None:
        """Add the growth of a nested stack's definition. Raises RequestLimitExceeded."""
        self._in_tree = True
        more = max(0, more)
        self._check(more - self._ordered.get(row_id, 0))
        self._ordered[row_id] = more
        self._taken += more

    def _check(self, more: int) -> None:
        if self._elsewhere is None:
            self._elsewhere = self._resources.tree_data(without_rows=self._counts_rows) if self._in_tree else 0
            self._has_left_out_retained = not self._in_tree
        most, nested = self._resources.stack_data, " and of those nested with it" if self._in_tree else ""
        total = self._total + self._elsewhere + sum(self._ordered.values()) + more
        if more > 0 and total > most and not self._has_left_out_retained:  # few trees are so full
            retained = self._resources.retained_data()
            self._elsewhere -= retained
            self._has_left_out_retained = True
            total -= retained
        if more > 0 and total > most:
            raise RequestLimitExceeded(
                message=f"the resources of the stack{nested} would come to {total} characters of JSON, more than {most}"
                " (max_stack_data). Reduce their values, or divide the stack."
            )

    @property
    def wants_commit(self) -> bool:
        """True if so much was added that it must be committed."""
        return self._taken > self._share

    def to_record(self) -> int | None:
        """Return the size of the stack's rows, for other walks; None: there are no others."""
        return self._total if self._counts_rows and self._in_tree else None

    def recount(self, rows: Iterable[ResourceRecord]) -> None:
        """Count the rows again at the end: rows were deleted, and types have stored data."""
        if self._counts_rows and self._in_tree:
            self._count(rows, self._held)

    def written(self) -> None:
        """Reset the counters after a commit."""
        self._elsewhere, self._taken = None, 0
        self._ordered.clear()


def size_of(*values: JsonMap) -> int:
    """Return the size of values in characters of JSON; an empty one counts nothing."""
    return sum([json_size(value, maxsize) for value in values if value])
