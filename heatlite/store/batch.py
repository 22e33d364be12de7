"""Batched statements over rows of one table, in each database's fastest form.

Saving row by row with an ORM costs about fifty times the disk's work, and each row a round trip to a server. So a
batch is one statement, or one prepared statement run by the driver: `batch.py` in the folder of each kind of database.
"""

from collections.abc import Callable, Sequence
from functools import cache

import peewee

from heatlite.store.database.backend import Batch, Columns
from heatlite.store.database.sql import chunks, marks, quoted
from heatlite.store.database.statements import Row, Value
from heatlite.store.large_values import LARGE, LargeValues, Parts
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
        large_values: LargeValues | None = None,
    ) -> None:
        """`stack` is the column with the id of a row's stack, for tables with content.

        With `large_values` the columns of its kinds have references in place of large values. Without `stack` those
        are values of the row's project.
        """
        self._encryption = encryption
        self._database = encryption.database
        self.columns = (*mutable, key, *fixed)
        fields = [model._meta.fields[name] for name in self.columns]
        self._always = tuple(at for at, field in enumerate(fields) if isinstance(field, EncryptedField))
        self._content = tuple(at for at, field in enumerate(fields) if isinstance(field, ContentField | EncryptedField))
        shared = large_values.kinds if large_values else ()
        self._shared = tuple(at for at, field in enumerate(fields) if isinstance(field, shared))
        self._large_values = large_values
        self._stack = None if stack is None else self.columns.index(stack)
        self._root = self.columns.index("root_id") if "root_id" in self.columns else None
        backend = self._database.backend
        self._batch = _batch(backend.batch, backend.quotation_mark, model, tuple(mutable), key, tuple(fixed))
        self._key, self.name = self._database.quote(key), self._database.quote(model._meta.table_name)
        self._select = f"SELECT {self._database.quote(*self.columns)} FROM {self.name} "

    def insert(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Add rows in their order, by `Database.send`."""
        if rows:
            self._batch.insert(self._database, self._closed(rows))

    def update(self, rows: Sequence[tuple[Value, ...]]) -> None:
        """Write the mutable columns of existing rows, by `Database.send`."""
        if rows:
            self._batch.update(self._database, self._closed(rows))

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


@cache
def _batch(
    kind: type[Batch], mark: str, model: type[peewee.Model], mutable: tuple[str, ...], key: str, fixed: tuple[str, ...]
) -> Batch:
    """Return the statements of a table. Built once: each store needs them."""
    names = (*mutable, key, *fixed)
    columns = Columns(
        table=quoted(mark, (model._meta.table_name,)),
        names=tuple(quoted(mark, (name,)) for name in names),
        key=quoted(mark, (key,)),
        mutable=tuple(quoted(mark, (name,)) for name in mutable),
        fields=tuple(model._meta.fields[name] for name in names),
    )
    return kind(columns)
