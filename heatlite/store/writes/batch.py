"""Batched statements over rows of one table, in each database's fastest form.

Saving row by row with an ORM costs about fifty times the disk's work, and each row a round trip to a server. So a
batch is one statement, or one prepared statement run by the driver: `batch.py` in the folder of each kind of database.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, Generic

import peewee

from heatlite.store.database.backend import Batch, Columns
from heatlite.store.database.sql import chunks, marks, quoted, with_marks_in
from heatlite.store.database.statements import Row, Value
from heatlite.store.rows import Record, Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.fields import ContentField, EncryptedField
from heatlite.store.writes.large_values import LARGE, LargeValues, ValuesByOwner


class Table(Generic[Record]):
    """Statements over whole rows of one table.

    Records are encrypted on the way in, as `FieldEncryption` demands, and decrypted on the way out.
    """

    def __init__(
        self,
        encryption: FieldEncryption,
        rows: Rows[Record],
        key: str = "id",
        fixed: Collection[str] = (),
        stack: str | None = None,
        large_values: LargeValues | None = None,
    ) -> None:
        """`key` is the column by which rows are changed and removed.

        `fixed` are the columns that never change once inserted. `stack` is the column with the id of a row's stack: the
        content of sealed stacks is encrypted. With `large_values` the columns of its kinds have references in place of
        large values. Without `stack` those are values of the row's project.
        """
        self.encryption = encryption
        self._database = encryption.database
        self._rows = rows
        names = rows.columns
        fields = [rows.model._meta.fields[name] for name in names]
        self._always = _places(fields, EncryptedField)
        self._content = _places(fields, ContentField, EncryptedField)
        self._shared = _places(fields, *large_values.kinds) if large_values else []
        self._large_values = large_values
        self._stack = None if stack is None else names.index(stack)
        self._root = names.index("root_id") if "root_id" in names else None
        backend = self._database.backend
        self._batch = _batch(backend.batch, backend.quotation_mark, rows, key, frozenset(fixed))
        self._key, self.name = self._database.quote(key), self._database.quote(rows.model._meta.table_name)
        self._columns = self._database.quote(*(field.column_name for field in fields))

    def insert(self, records: Sequence[Record]) -> None:
        """Add rows in their order, by `Database.send`."""
        if records:
            self._batch.insert(self._database, self._closed(records))

    def update(self, records: Sequence[Record]) -> None:
        """Write the mutable columns of existing rows, by `Database.send`."""
        if records:
            self._batch.update(self._database, self._closed(records))

    def delete(self, keys: Sequence[str]) -> None:
        """Remove rows by their keys."""
        for some in chunks(keys):
            self._database.send(f"DELETE FROM {self.name} WHERE {self._key} IN ({marks(some)})", some)

    def select(self, rest: str, parameters: Sequence[Value] = ()) -> list[Record]:
        """Return records.

        `rest` is the SQL after the name of the table, with ``?`` for each parameter.
        """
        return self.records(self.read(rest, parameters))

    def select_in(self, rest: str, values: Sequence[Value], *more: Value) -> list[Record]:
        """Return the records of a `rest` with ``IN ()``, which stands for the values.

        One statement per `IN_LIMIT` values. `more` are the parameters behind them.
        """
        found = (self.select(with_marks_in(rest, some), (*some, *more)) for some in chunks(values))
        return [one for records in found for one in records]

    def first(self, rest: str, parameters: Sequence[Value] = ()) -> Record | None:
        """Return the first record of `select`; None if there is none."""
        return next(iter(self.select(rest, parameters)), None)

    def send_select(self, rest: str, parameters: Sequence[Value] = ()) -> Callable[[], list[Record]]:
        """Do as `select` by `Database.send`. Returns a call that returns the records."""
        sent = self._database.send(f"SELECT {self._columns} FROM {self.name} {rest}", parameters)
        return lambda: self.records(sent.rows())

    def read(self, rest: str, parameters: Sequence[Value] = ()) -> Sequence[Row]:
        """Return rows as the database has them; see `select`."""
        return self._database.read(f"SELECT {self._columns} FROM {self.name} {rest}", parameters)

    def cells(self, record: Record) -> dict[str, Value]:
        """Return the row of a record as `insert` writes it, by column."""
        return dict(zip(self._rows.written, *self._closed([record]), strict=True))

    def rows(self, records: Sequence[Record]) -> Sequence[Row]:
        """Return the rows of records, before they are encrypted."""
        return self._rows.rows(records)

    def records(self, rows: Sequence[Row]) -> list[Record]:
        """Return the records of rows as `read` returns them. Raises UnreadableSecret."""
        rows = self.encryption.decrypt_rows(rows, self._content)
        if self._large_values is not None:
            rows = self._large_values.restore(rows, self._shared)
        return self._rows.records(rows)

    def _closed(self, records: Sequence[Record]) -> Sequence[Row]:
        rows = self.rows(records)
        if self._stack is None and self._large_values is not None:
            project = self._rows.columns.index("project")
            values: ValuesByOwner = {}
            rows = [self._extracted(row, str(row[project]), True, self._large_values, values) for row in rows]
            self._large_values.put(values)
        if self._always:
            rows = [self.encryption.encrypt_columns(row, self._always) for row in rows]
        if self._stack is None:
            return rows
        at = self._stack
        sealed = self.encryption.sealed_stacks({str(row[at]) for row in rows})
        if self._large_values is not None:
            rows = self._extracted_by_tree(rows, at, sealed, self._large_values)
        if not sealed:
            return rows
        return [self.encryption.encrypt_columns(row, self._content) if row[at] in sealed else row for row in rows]

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
        out, values = [*rows], ValuesByOwner()
        for n in found:
            row, stack_id = rows[n], str(rows[n][stack])
            root_id = known.get(stack_id) or str(root is not None and row[root] or stack_id)
            out[n] = self._extracted(row, root_id, stack_id in sealed, large_values, values)
        large_values.put(values)
        return out

    def _extracted(
        self, row: tuple[Value, ...], owner: str, sealed: bool, large_values: LargeValues, values: ValuesByOwner
    ) -> tuple[Value, ...]:
        """Return a row with references in place of large values."""
        cells, known = [*row], dict[bytes, str]()
        for at in self._shared:
            if cells[at] is not None:
                cells[at] = large_values.extract(str(cells[at]), owner, sealed, known, values)
        return tuple(cells)


def _places(fields: Sequence["peewee.Field[Any]"], *kinds: type["peewee.Field[Any]"]) -> list[int]:
    return [at for at, field in enumerate(fields) if isinstance(field, kinds)]


@cache
def _batch(kind: type[Batch], mark: str, rows: Rows[Any], key: str, fixed: frozenset[str]) -> Batch:
    """Return the statements of a table. Built once: each store needs them."""
    fields = [rows.model._meta.fields[name] for name in rows.written]
    numbers = _places(fields, peewee.AutoField, peewee.BigAutoField)
    given = tuple(at for at in range(len(fields)) if at not in numbers)
    return kind(
        Columns(
            table=quoted(mark, (rows.model._meta.table_name,)),
            names=tuple(quoted(mark, (field.column_name,)) for field in fields),
            fields=tuple(fields),
            given=given,
            key=rows.written.index(key) if key in rows.written else 0,  # records without it are not changed
            mutable=tuple(at for at in given if rows.written[at] != key and rows.written[at] not in fixed),
        )
    )
