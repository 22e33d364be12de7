"""Batched statements over rows of one table, in each database's fastest form.

Saving row by row with an ORM costs about fifty times the disk's work, and each row a round trip to a server. So a
batch is one statement, or one prepared statement run by the driver:

- SQLite: INSERTs with many rows, `executemany` for changes
- PostgreSQL: one JSON parameter for all rows, which costs less to write than an array for each column. A few changed
  rows have a prepared statement each: a join of the table with a few rows may read all of the table.
- MariaDB: one INSERT with many rows, ON DUPLICATE KEY UPDATE for changes
"""

import json
from collections.abc import Callable, Sequence
from itertools import chain

import peewee

from heatlite.store.database.driver import Dialect
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row, Value
from heatlite.store.large_values import LARGE, LargeValues, Parts
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.fields import ContentField, EncryptedField

ROWS = 20
"""Rows of one INSERT on SQLite. More of them save little, and SQLite before 3.32 takes 999 parameters.

On PostgreSQL as many changed rows at most have a statement each.
"""


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
        self._database = database = encryption.database
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
        quote = database.quote
        self.name = quote(model._meta.table_name)
        self._key = quote(key)
        self._insert = f"INSERT INTO {self.name} ({quote(*self.columns)}) "
        self._select = f"SELECT {quote(*self.columns)} FROM {self.name} "
        types = [f"c{at} {_sql_type(model._meta.fields[name])}" for at, name in enumerate(self.columns)]
        self._insert_json = f"{self._insert}SELECT * FROM json_to_recordset(?::json) AS given ({', '.join(types)})"
        changes = ", ".join(f"{quote(name)} = given.c{at}" for at, name in enumerate(mutable))
        self._update_json = (
            f"UPDATE {self.name} SET {changes} FROM json_to_recordset(?::json) "
            f"AS given ({', '.join(types[: self._width])}) WHERE {self.name}.{self._key} = given.c{len(mutable)}"
        )
        row = f"({marks(self.columns)})"
        self._insert_rows = f"{self._insert}VALUES {', '.join([row] * ROWS)}"
        self._insert += f"VALUES {row}"
        if database.dialect is Dialect.MARIADB:
            changes = ", ".join(f"{quote(name)} = VALUES({quote(name)})" for name in mutable)
            self._update = f"{self._insert} ON DUPLICATE KEY UPDATE {changes}"
        else:
            changes = ", ".join(f"{quote(name)} = ?" for name in mutable)
            self._update = f"UPDATE {self.name} SET {changes} WHERE {self._key} = ?"

    def insert(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Add rows in their order, by `Database.send`."""
        if not rows:
            return
        rows = self._closed(rows)
        if self._database.dialect is Dialect.POSTGRESQL:
            if len(rows) == 1:
                self._database.send(self._insert, rows[0])
            else:
                self._database.send(self._insert_json, (self._objects(rows),))
            return
        if self._database.dialect is Dialect.SQLITE:
            whole = len(rows) - len(rows) % ROWS
            for at in range(0, whole, ROWS):
                self._database.write(self._insert_rows, [*chain.from_iterable(rows[at : at + ROWS])])
            rows = rows[whole:]
        if rows:
            self._database.write_many(self._insert, rows)

    def update(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Write the mutable columns of existing rows, by `Database.send`."""
        if not rows:
            return
        rows = self._closed(rows)
        if self._database.dialect is Dialect.MARIADB:
            self._database.write_many(self._update, rows)
            return
        rows = [row[: self._width] for row in rows]
        if self._database.dialect is Dialect.SQLITE:
            self._database.write_many(self._update, rows)
        elif len(rows) <= ROWS:
            for row in rows:
                self._database.send(self._update, row)
        else:
            self._database.send(self._update_json, (self._objects(rows),))

    def _objects(self, rows: Sequence[tuple[Value, ...]]) -> str:
        """Return rows as one parameter, a list of JSON objects."""
        return json.dumps([dict(zip(self._names, row, strict=False)) for row in rows], ensure_ascii=False)

    def delete(self, keys: Sequence[str]) -> None:
        """Remove rows by their keys."""
        for some in chunks(keys):
            self._database.send(f"DELETE FROM {self.name} WHERE {self._key} IN ({marks(some)})", some)

    def select(self, rest: str, parameters: Sequence[Value] = ()) -> Sequence[Row]:
        """Return whole rows. `rest` is the SQL after FROM, with ``?`` for each parameter."""
        return self._opened(self._database.read(self._select + rest, parameters))

    def send_select(self, rest: str, parameters: Sequence[Value] = ()) -> Callable[[], Sequence[Row]]:
        """Do as `select` by `Database.send`. Returns a call that returns the rows."""
        sent = self._database.send(self._select + rest, parameters)
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
