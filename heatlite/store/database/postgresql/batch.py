"""Batches on PostgreSQL: one JSON parameter for all rows.

It costs less to write than an array for each column. A few changed rows have a prepared statement each: a join of the
table with a few rows may read all of the table.
"""

from collections.abc import Sequence

import peewee

from heatlite.core.json import dump
from heatlite.store.database.backend import Batch, Columns
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Value

ROWS = 20
"""Changed rows that have a statement each, at most."""


class PostgresqlBatch(Batch):
    """Statements over rows of a table."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(columns)
        types = tuple(map(_sql_type, columns.fields))
        self._insert_json = f"{self._into} SELECT * FROM {_given([types[at] for at in columns.given])}"
        *names, key = self.changed(columns.names)
        changes = ", ".join(f"{name} = given.c{at}" for at, name in enumerate(names))
        self._update_json = (
            f"UPDATE {columns.table} SET {changes} FROM {_given(self.changed(types))}"
            f" WHERE {columns.table}.{key} = given.c{len(names)}"
        )

    def insert(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        rows = self.given(rows)
        if len(rows) == 1:
            database.send(self._insert, rows[0])
        else:
            database.send(self._insert_json, (_objects(rows),))

    def update(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        rows = [*map(self.changed, rows)]
        if len(rows) > ROWS:
            database.send(self._update_json, (_objects(rows),))
            return
        for row in rows:
            database.send(self._update, row)


def _given(types: Sequence[Value]) -> str:
    """Return SQL for the rows of a parameter with columns of these types."""
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(types))
    return f"json_to_recordset(?::json) AS given ({columns})"


def _objects(rows: Sequence[tuple[Value, ...]]) -> str:
    """Return rows as one parameter, a list of JSON objects."""
    names = [f"c{at}" for at in range(len(rows[0]))]
    return dump([dict(zip(names, row, strict=True)) for row in rows])


def _sql_type(field: "peewee.Field[object]") -> str:
    match field:
        case peewee.BooleanField():
            return "boolean"
        case peewee.FloatField():
            return "double precision"
        case peewee.IntegerField():
            return "bigint"
        case _:
            return "text"
