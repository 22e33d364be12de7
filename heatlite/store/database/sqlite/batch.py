"""Batches on SQLite: INSERTs with many rows, a prepared statement for changes."""

from collections.abc import Sequence
from itertools import chain

from heatlite.store.database.backend import Batch
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Value

ROWS = 20
"""Rows of one INSERT. More of them save little, and SQLite before 3.32 takes 999 parameters."""


class SqliteBatch(Batch):
    """Statements over rows of a table."""

    def insert(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        rows = self.given(rows)
        whole = len(rows) - len(rows) % ROWS
        for at in range(0, whole, ROWS):
            sql = f"{self._insert}, {', '.join([self._row] * (ROWS - 1))}"
            database.send(sql, [*chain.from_iterable(rows[at : at + ROWS])])
        database.write_many(self._insert, rows[whole:])

    def update(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        database.write_many(self._update, [*map(self.changed, rows)])
