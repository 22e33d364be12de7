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
        types = [f"c{at} {_sql_type(field)}" for at, field in enumerate(columns.fields)]
        given = "FROM json_to_recordset(?::json) AS given"
        self._insert_json = f"{self._into} SELECT * {given} ({', '.join(types)})"
        changes = ", ".join(f"{name} = given.c{at}" for at, name in enumerate(columns.mutable))
        self._update_json = (
            f"UPDATE {columns.table} SET {changes} {given} ({', '.join(types[: self._width])})"
            f" WHERE {columns.table}.{columns.key} = given.c{self._width - 1}"
        )
        self._names = tuple(f"c{at}" for at in range(len(types)))

    def insert(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        if len(rows) == 1:
            database.send(self._insert, rows[0])
        else:
            database.send(self._insert_json, (self._objects(rows),))

    def update(self, database: Database, rows: Sequence[tuple[Value, ...]]) -> None:
        rows = [row[: self._width] for row in rows]
        if len(rows) > ROWS:
            database.send(self._update_json, (self._objects(rows),))
            return
        for row in rows:
            database.send(self._update, row)

    def _objects(self, rows: Sequence[tuple[Value, ...]]) -> str:
        """Return rows as one parameter, a list of JSON objects."""
        return dump([dict(zip(self._names, row, strict=False)) for row in rows])


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
