"""Batched statements over rows of one table, in each database's fastest form.

Saving row by row with an ORM costs about fifty times the disk's work, and each row a round trip to a server. So a
batch is one statement, or one prepared statement run by the driver:

- SQLite: `executemany`
- PostgreSQL: one array for each column, unfolded by `unnest`
- MariaDB: one INSERT with many rows, ON DUPLICATE KEY UPDATE for changes
"""

from collections.abc import Sequence

import peewee

from heatlite.store.database.database import Dialect, Row, Value
from heatlite.store.database.sql import chunks, marks
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.fields import ContentField, EncryptedField


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
    ) -> None:
        """`stack` is the column with the id of a row's stack, for tables with content."""
        self._encryption = encryption
        self._database = database = encryption.database
        self.columns = (*mutable, key, *fixed)
        self._width = len(mutable) + 1
        fields = [model._meta.fields[name] for name in self.columns]
        self._always = tuple(at for at, field in enumerate(fields) if isinstance(field, EncryptedField))
        self._content = tuple(at for at, field in enumerate(fields) if isinstance(field, ContentField | EncryptedField))
        self._stack = None if stack is None else self.columns.index(stack)
        quote = database.quote
        self.name = quote(model._meta.table_name)
        self._key = quote(key)
        self._insert = f"INSERT INTO {self.name} ({quote(*self.columns)}) "
        self._select = f"SELECT {quote(*self.columns)} FROM {self.name} "
        if database.dialect is Dialect.POSTGRESQL:
            arrays = [f"%s::{_array_type(model._meta.fields[name])}" for name in self.columns]
            self._floats = {
                at for at, name in enumerate(self.columns) if isinstance(model._meta.fields[name], peewee.FloatField)
            }
            self._insert += f"SELECT * FROM unnest({', '.join(arrays)})"
            changes = ", ".join(f"{quote(name)} = given.{quote(name)}" for name in mutable)
            self._update = (
                f"UPDATE {self.name} SET {changes} FROM unnest({', '.join(arrays[: self._width])}) "
                f"AS given ({quote(*mutable, key)}) WHERE {self.name}.{self._key} = given.{self._key}"
            )
        else:
            self._insert += f"VALUES ({marks(self.columns)})"
            if database.dialect is Dialect.MARIADB:
                changes = ", ".join(f"{quote(name)} = VALUES({quote(name)})" for name in mutable)
                self._update = f"{self._insert} ON DUPLICATE KEY UPDATE {changes}"
            else:
                changes = ", ".join(f"{quote(name)} = ?" for name in mutable)
                self._update = f"UPDATE {self.name} SET {changes} WHERE {self._key} = ?"

    def insert(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Add rows in their order."""
        if not rows:
            return
        rows = self._closed(rows)
        if self._database.dialect is Dialect.POSTGRESQL:
            self._database.write(self._insert, self._arrays(rows))
        else:
            self._database.write_many(self._insert, rows)

    def update(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Write the mutable columns of existing rows."""
        if not rows:
            return
        rows = self._closed(rows)
        if self._database.dialect is Dialect.POSTGRESQL:
            self._database.write(self._update, self._arrays([row[: self._width] for row in rows]))
        elif self._database.dialect is Dialect.MARIADB:
            self._database.write_many(self._update, rows)
        else:
            self._database.write_many(self._update, [row[: self._width] for row in rows])

    def delete(self, keys: Sequence[str]) -> None:
        """Remove rows by their keys."""
        for some in chunks(keys):
            self._database.write(f"DELETE FROM {self.name} WHERE {self._key} IN ({marks(some)})", some)

    def select(self, rest: str, parameters: Sequence[Value] = ()) -> Sequence[Row]:
        """Return whole rows. `rest` is the SQL after FROM, with ``?`` for each parameter."""
        rows = self._database.read(self._select + rest, parameters)
        return [self._encryption.decrypt_columns(row, self._content) for row in rows] if self._content else rows

    def _closed(self, rows: Sequence[tuple[Value, ...]]) -> Sequence[tuple[Value, ...]]:
        if self._always:
            rows = [self._encryption.encrypt_columns(row, self._always) for row in rows]
        if self._stack is None:
            return rows
        at = self._stack
        sealed = self._encryption.sealed_stacks({str(row[at]) for row in rows})
        if not sealed:
            return rows
        return [self._encryption.encrypt_columns(row, self._content) if row[at] in sealed else row for row in rows]

    def _arrays(self, rows: Sequence[tuple[Value, ...]]) -> list[list[Value]]:
        columns = [list(column) for column in zip(*rows, strict=True)]
        for at in self._floats:
            if at < len(columns):
                # psycopg makes no array of mixed ints and floats.
                columns[at] = [value if value is None else float(value) for value in columns[at]]
        return columns


def _array_type(field: "peewee.Field[object]") -> str:
    match field:
        case peewee.BooleanField():
            return "boolean[]"
        case peewee.FloatField():
            return "double precision[]"
        case peewee.IntegerField():
            return "bigint[]"
        case _:
            return "text[]"
