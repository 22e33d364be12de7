"""Batches on MariaDB: INSERTs with many rows, ON DUPLICATE KEY UPDATE for changes."""

from collections.abc import Iterator, Sequence
from itertools import chain

from heatlite.store.database.backend import Batch, Columns
from heatlite.store.database.database import Database
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Value

ROWS = 20
"""Rows of one INSERT. More of them save little."""
MODERATE = 256 * 1024
"""Characters of the rows of one INSERT, if it is not a single row."""


class MariaDbBatch(Batch):
    """Statements over rows of a table."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        names = [columns.names[at] for at in columns.mutable]
        changes = ", ".join(f"{name} = VALUES({name})" for name in names)
        # Begins as an INSERT, which would number the row anew: so it has all columns.
        self._all = f"({marks(columns.names)})"
        self._put = f"INSERT INTO {columns.table} ({', '.join(columns.names)}) VALUES {self._all}"
        self._update = f" ON DUPLICATE KEY UPDATE {changes}"

    def insert(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        for some in _moderate(self.given(rows)):
            sql = self._insert + f", {self._row}" * (len(some) - 1)
            database.send(sql, [*chain.from_iterable(some)])

    def update(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        for some in _moderate(rows):
            sql = self._put + f", {self._all}" * (len(some) - 1)
            database.send(sql + self._update, [*chain.from_iterable(some)])


def _moderate(rows: Sequence[tuple[Value, ...]]) -> Iterator[Sequence[tuple[Value, ...]]]:
    """Divide rows for statements of moderate size: a server refuses large ones."""
    first = size = 0
    for at, row in enumerate(rows):
        own = sum(len(cell) for cell in row if isinstance(cell, str))
        if at - first == ROWS or at > first and size + own > MODERATE:
            yield rows[first:at]
            first, size = at, 0
        size += own
    if rows:
        yield rows[first:]
