"""Batches on MariaDB: INSERTs with many rows, ON DUPLICATE KEY UPDATE for changes."""

from collections.abc import Iterator, Sequence
from itertools import chain

from heatlite.store.database.backend import Batch, Columns
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Value

ROWS = 20
"""Rows of one INSERT. More of them save little."""
MODERATE = 256 * 1024
"""Characters of the rows of one INSERT, if it is not a single row."""


class MariaDbBatch(Batch):
    """Statements over rows of a table."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        changes = ", ".join(f"{name} = VALUES({name})" for name in columns.mutable)
        self._update = f" ON DUPLICATE KEY UPDATE {changes}"

    def insert(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        self._send(database, rows, "")

    def update(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        self._send(database, rows, self._update)

    def _send(self, database: Database, rows: Sequence[tuple[Value, ...]], rest: str) -> None:
        for some in _moderate(rows):
            sql = self._insert + f", {self._row}" * (len(some) - 1)
            database.send(sql + rest, [*chain.from_iterable(some)])


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
