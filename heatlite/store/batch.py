"""Batched statements over rows of one table, in each database's fastest form.

Saving row by row with an ORM costs about fifty times the disk's work, and each row a round trip to a server. So a
batch is one statement, or one prepared statement run by the driver:

- SQLite: INSERTs with many rows, `executemany` for changes
- PostgreSQL: one JSON parameter for all rows, which costs less to write than an array for each column. A few changed
  rows have a prepared statement each: a join of the table with a few rows may read all of the table.
- MariaDB: INSERTs with many rows, ON DUPLICATE KEY UPDATE for changes
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain

import peewee
from msgspec import Struct

from heatlite.core.json import dump
from heatlite.store.database.driver import Dialect
from heatlite.store.database.sql import chunks, marks, quoted
from heatlite.store.database.statements import Row, Value
from heatlite.store.large_values import LARGE, LargeValues, Parts
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.fields import ContentField, EncryptedField

ROWS = 20
"""Rows of one INSERT on SQLite and MariaDB. More of them save little, and SQLite before 3.32 takes 999 parameters.

On PostgreSQL as many changed rows at most have a statement each.
"""

MODERATE = 256 * 1024
"""Characters of the rows of one INSERT on MariaDB, if it is not a single row."""


class _Statements(Struct, frozen=True):
    """SQL of a table, with ``?`` for each parameter."""

    name: str
    key: str
    select: str
    insert: str
    insert_rows: str
    insert_json: str
    update: str
    update_json: str


class Table:
    """Statements over whole rows of one table.

    A row is a tuple: the mutable columns, the key, and the fixed columns, which never change once inserted. Rows are
    encrypted on the way in, as `FieldEncryption` demands, and decrypted on the way out.
    """

    def __init__(
        self,
        encryption: FieldEncryption,
        model: type[peewee.Model],
        mutable: Sequence[str],
        key: str,
        fixed: Sequence[str],
        stack: str | None = None,
        large_values: LargeValues | None = None,
    ) -> None:
        """`stack` is the column with the id of a row's stack, for tables with content.

        With `large_values` the columns of its kinds have references in place of large values. Without `stack` those
        are values of the row's project.
        """
        self._encryption = encryption
        self._database = encryption.database
        self.columns = (*mutable, key, *fixed)
        self._width = len(mutable) + 1
        self._names = tuple(f"c{at}" for at in range(len(self.columns)))
        fields = [model._meta.fields[name] for name in self.columns]
        self._always = tuple(at for at, field in enumerate(fields) if isinstance(field, EncryptedField))
        self._content = tuple(at for at, field in enumerate(fields) if isinstance(field, ContentField | EncryptedField))
        shared = large_values.kinds if large_values else ()
        self._shared = tuple(at for at, field in enumerate(fields) if isinstance(field, shared))
        self._large_values = large_values
        self._stack = None if stack is None else self.columns.index(stack)
        self._root = self.columns.index("root_id") if "root_id" in self.columns else None
        self._sql = _statements(self._database.dialect, model, tuple(mutable), key, tuple(fixed))
        self.name = self._sql.name

    def insert(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Add rows in their order, by `Database.send`."""
        if not rows:
            return
        rows = self._closed(rows)
        if self._database.dialect is Dialect.POSTGRESQL:
            if len(rows) == 1:
                self._database.send(self._sql.insert, rows[0])
            else:
                self._database.send(self._sql.insert_json, (self._objects(rows),))
            return
        if self._database.dialect is Dialect.MARIADB:
            self._send_rows(rows, "")
            return
        whole = len(rows) - len(rows) % ROWS
        for at in range(0, whole, ROWS):
            self._database.write(self._sql.insert_rows, [*chain.from_iterable(rows[at : at + ROWS])])
        if rows[whole:]:
            self._database.write_many(self._sql.insert, rows[whole:])

    def _send_rows(self, rows: Sequence[tuple[Value, ...]], rest: str) -> None:
        """Send INSERTs of some rows each, with the `rest` of the statement."""
        for some in _moderate(rows):
            sql = self._sql.insert + f", ({marks(self.columns)})" * (len(some) - 1)
            self._database.send(sql + rest, [*chain.from_iterable(some)])

    def update(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Write the mutable columns of existing rows, by `Database.send`."""
        if not rows:
            return
        rows = self._closed(rows)
        if self._database.dialect is Dialect.MARIADB:
            self._send_rows(rows, self._sql.update)
            return
        rows = [row[: self._width] for row in rows]
        if self._database.dialect is Dialect.SQLITE:
            self._database.write_many(self._sql.update, rows)
        elif len(rows) <= ROWS:
            for row in rows:
                self._database.send(self._sql.update, row)
        else:
            self._database.send(self._sql.update_json, (self._objects(rows),))

    def _objects(self, rows: Sequence[tuple[Value, ...]]) -> str:
        """Return rows as one parameter, a list of JSON objects."""
        return dump([dict(zip(self._names, row, strict=False)) for row in rows])

    def delete(self, keys: Sequence[str]) -> None:
        """Remove rows by their keys."""
        for some in chunks(keys):
            self._database.send(f"DELETE FROM {self.name} WHERE {self._sql.key} IN ({marks(some)})", some)

    def select(self, rest: str, parameters: Sequence[Value] = ()) -> Sequence[Row]:
        """Return whole rows. `rest` is the SQL after FROM, with ``?`` for each parameter."""
        return self._opened(self._database.read(self._sql.select + rest, parameters))

    def send_select(self, rest: str, parameters: Sequence[Value] = ()) -> Callable[[], Sequence[Row]]:
        """Do as `select` by `Database.send`. Returns a call that returns the rows."""
        sent = self._database.send(self._sql.select + rest, parameters)
        return lambda: self._opened(sent.rows())

    def _opened(self, rows: Sequence[Row]) -> Sequence[Row]:
        if self._content:
            rows = [self._encryption.decrypt_columns(row, self._content) for row in rows]
        return rows if self._large_values is None else self._large_values.restore(rows, self._shared)

    def _closed(self, rows: Sequence[tuple[Value, ...]]) -> Sequence[tuple[Value, ...]]:
        if self._stack is None and self._large_values is not None:
            project = self.columns.index("project")
            values: Parts = {}
            rows = [self._extracted(row, str(row[project]), True, self._large_values, values) for row in rows]
            self._large_values.put(values)
        if self._always:
            rows = [self._encryption.encrypt_columns(row, self._always) for row in rows]
        if self._stack is None:
            return rows
        at = self._stack
        sealed = self._encryption.sealed_stacks({str(row[at]) for row in rows})
        if self._large_values is not None:
            rows = self._extracted_by_tree(rows, at, sealed, self._large_values)
        if not sealed:
            return rows
        return [self._encryption.encrypt_columns(row, self._content) if row[at] in sealed else row for row in rows]

    def _extracted_by_tree(
        self, rows: Sequence[Row], stack: int, sealed: set[str], large_values: LargeValues
    ) -> Sequence[Row]:
        """Return rows with references to large values of their trees."""
        found = sorted(
            {n for at in self._shared for n, row in enumerate(rows) if (text := row[at]) and len(text) >= LARGE}
        )
        if not found:
            return rows
        root = self._root
        known = large_values.roots([str(rows[n][stack]) for n in found]) if root is None else {}
        out, values = [*rows], Parts()
        for n in found:
            row, stack_id = rows[n], str(rows[n][stack])
            root_id = known.get(stack_id) or str(root is not None and row[root] or stack_id)
            out[n] = self._extracted(row, root_id, stack_id in sealed, large_values, values)
        large_values.put(values)
        return out

    def _extracted(
        self, row: tuple[Value, ...], owner: str, sealed: bool, large_values: LargeValues, values: Parts
    ) -> tuple[Value, ...]:
        """Return a row with references in place of large values."""
        cells, known = [*row], dict[bytes, str]()
        for at in self._shared:
            if cells[at] is not None:
                cells[at] = large_values.extract(str(cells[at]), owner, sealed, known, values)
        return tuple(cells)


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


@cache
def _statements(
    dialect: Dialect, model: type[peewee.Model], mutable: tuple[str, ...], key: str, fixed: tuple[str, ...]
) -> _Statements:
    """Return the statements of a table. Built once: each store needs them."""
    columns = (*mutable, key, *fixed)

    def quote(*names: str) -> str:
        return quoted(dialect.quotation_mark, names)

    name = quote(model._meta.table_name)
    into = f"INSERT INTO {name} ({quote(*columns)}) "
    row = f"({marks(columns)})"
    insert = f"{into}VALUES {row}"
    types = [f"c{at} {_sql_type(model._meta.fields[column])}" for at, column in enumerate(columns)]
    changes = ", ".join(f"{quote(column)} = given.c{at}" for at, column in enumerate(mutable))
    update_json = (
        f"UPDATE {name} SET {changes} FROM json_to_recordset(?::json) "
        f"AS given ({', '.join(types[: len(mutable) + 1])}) WHERE {name}.{quote(key)} = given.c{len(mutable)}"
    )
    if dialect is Dialect.MARIADB:
        changes = ", ".join(f"{quote(column)} = VALUES({quote(column)})" for column in mutable)
        update = f" ON DUPLICATE KEY UPDATE {changes}"
    else:
        changes = ", ".join(f"{quote(column)} = ?" for column in mutable)
        update = f"UPDATE {name} SET {changes} WHERE {quote(key)} = ?"
    return _Statements(
        name=name,
        key=quote(key),
        select=f"SELECT {quote(*columns)} FROM {name} ",
        insert=insert,
        insert_rows=f"{into}VALUES {', '.join([row] * ROWS)}",
        insert_json=f"{into}SELECT * FROM json_to_recordset(?::json) AS given ({', '.join(types)})",
        update=update,
        update_json=update_json,
    )


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
