"""Encryption of the rows of sealed stacks.

A tree of stacks is *sealed* once it has a hidden value. From then on all content of its rows is encrypted, because
values derived from a hidden value may reveal it. The fields in `tables` (`ContentField`, `EncryptedField`) select the
columns; `batch.Table` applies them. An encrypted text has a prefix, so that reading needs no lookup.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache

import peewee
from msgspec import Struct

from heatlite.store.database.database import Database
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row
from heatlite.store.errors import UnreadableSecret
from heatlite.store.secrets.cipher import PREFIX, Cipher, open_cipher
from heatlite.store.tables import MODELS
from heatlite.store.tables.fields import ContentField, EncryptedField

EMPTY = frozenset({"", "{}", "[]", "null", '""'})
"""Texts that are stored as they are."""

MAX_KNOWN = 100_000
CHECKED_ROWS = 100
"""Rows at each end of a table in which a start looks for a secret to check the keys with."""


class _Table(Struct, frozen=True):
    """A table with columns of secrets."""

    name: str
    key: str
    """Its primary key."""
    columns: tuple[str, ...]


@cache
def _table(model: type[peewee.Model]) -> _Table:
    fields = model._meta.sorted_fields
    columns = tuple(one.column_name for one in fields if isinstance(one, ContentField | EncryptedField))
    return _Table(model._meta.table_name, next((one.column_name for one in fields if one.primary_key), ""), columns)


def _with_secrets(tables: Sequence[type[peewee.Model]]) -> list[_Table]:
    """Return the tables with columns of secrets. Each has a key of one column."""
    return [table for table in map(_table, tables) if table.columns]


def _prefix(column: str) -> str:
    return f"SUBSTR({column}, 1, {len(PREFIX)})"


class FieldEncryption:
    """Encrypts texts and columns, and knows the sealed stacks.

    A sealed stack stays sealed.
    """

    def __init__(
        self, database: Database, keys: Sequence[str], off: Callable[[], Sequence[type[peewee.Model]]] = lambda: ()
    ) -> None:
        """Create it.

        `keys` is the setting `encryption_keys`. `off` returns the tables of features that are off.
        """
        self.database = database
        self._models = [*MODELS]
        """The tables in use."""
        self._off = off
        self._keys = keys
        self._cipher: Cipher | None = None
        self._is_open = False
        self._lock = threading.Lock()
        self._known: set[str] = set()

    def add_tables(self, tables: Sequence[type[peewee.Model]]) -> None:
        """Take the tables of a feature into use."""
        self._models += tables

    def stored(self) -> list[type[peewee.Model]]:
        """Return the tables that the database has, also those of features that are off."""
        present = self.database.tables()
        return [model for model in (*self._models, *self._off()) if model._meta.table_name in present]

    @property
    def cipher(self) -> Cipher | None:
        """The cipher, opened on first use. Raises as `open_cipher`."""
        with self._lock:
            if not self._is_open:
                self._cipher = open_cipher(self._keys, self.database.path, self._has_secrets)
                self._is_open = True
        return self._cipher

    def _has_secrets(self) -> bool:
        """Return whether the database has an encrypted value. Reads every table if not.

        Also those of features that are off: a new key would open nothing of theirs.
        """
        quote = self.database.quote
        tests = [
            f"EXISTS (SELECT 1 FROM {quote(table.name)} WHERE {_prefix(quote(column))} = '{PREFIX}')"
            for table in _with_secrets(self.stored())
            for column in table.columns
        ]
        return bool(tests) and bool(self.database.read(f"SELECT {' OR '.join(tests)}")[0][0])

    def check(self, also_off: bool = False) -> None:
        """Decrypt some of the oldest and newest secrets of each table in use.

        Not all: it runs at each start. With `also_off` also of all tables of features that are off. Raises
        UnreadableSecret.
        """
        for table in self._with_rows(_with_secrets(self.stored() if also_off else self._models)):
            rows = self._ends(table)
            secrets = [row for row in rows if PREFIX in row]
            for number, *found in secrets[:1] + secrets[-1:]:
                column, key = self.database.quote(table.columns[found.index(PREFIX)]), self.database.quote(table.key)
                sql = f"SELECT {column} FROM {self.database.quote(table.name)} WHERE {key} = ?"
                for (text,) in self.database.read(sql, (number,)):
                    self.decrypt(text)

    def _with_rows(self, tables: Sequence[_Table]) -> list[_Table]:
        """Return the tables that have rows, by one statement: most have none."""
        tests = [f"EXISTS (SELECT 1 FROM {self.database.quote(table.name)})" for table in tables]
        (found,) = self.database.read(f"SELECT {', '.join(tests)}")
        return [table for table, has_rows in zip(tables, found, strict=True) if has_rows]

    def _ends(self, table: _Table) -> list[Row]:
        """Return the keys and the prefixes of a table's first and last rows."""
        quote = self.database.quote
        key, prefixes = quote(table.key), ", ".join(_prefix(quote(column)) for column in table.columns)
        ordered = f"SELECT {key}, {prefixes} FROM {quote(table.name)} ORDER BY {key}"
        rows = [*self.database.read(f"{ordered} LIMIT {CHECKED_ROWS}")]
        if len(rows) == CHECKED_ROWS:
            rows += reversed(self.database.read(f"{ordered} DESC LIMIT {CHECKED_ROWS}"))
        return rows

    # -- texts -------------------------------------------------------------------------------------

    def encrypt(self, text: str) -> str:
        """Return a text encrypted.

        Without a key, or if it is empty or encrypted already, it stays unchanged.
        """
        cipher = None if text in EMPTY or text.startswith(PREFIX) else self.cipher
        return text if cipher is None else cipher.encrypt_text(text)

    def decrypt(self, text: str) -> str:
        """Return the text given to `encrypt`. Raises UnreadableSecret."""
        if not text.startswith(PREFIX):
            return text
        cipher = self.cipher
        if cipher is None:
            raise UnreadableSecret(keys="encryption_keys")
        return cipher.decrypt_text(text)

    def digest(self, text: str) -> str:
        """Return a digest of 64 characters; keyed if there is a key."""
        cipher = self.cipher
        return hashlib.sha256(text.encode()).hexdigest() if cipher is None else cipher.sign(f"digest:{text}")

    def encrypt_columns(self, row: Row, columns: Sequence[int]) -> Row:
        """Return a row with the columns at the given indexes encrypted."""
        todo = [at for at in columns if row[at] is not None and row[at] not in EMPTY]
        if not todo:
            return row
        cells = [*row]
        for at in todo:
            cells[at] = self.encrypt(cells[at])
        return tuple(cells)

    def decrypt_rows(self, rows: Sequence[Row], columns: Sequence[int]) -> Sequence[Row]:
        """Return the rows given to `encrypt_columns`. Raises UnreadableSecret."""
        encrypted = [
            (number, at)
            for at in columns
            for number, row in enumerate(rows)
            if (text := row[at]) and text[0] == PREFIX[0] and text.startswith(PREFIX)
        ]
        if not encrypted:
            return rows
        out = [*rows]
        for number, at in encrypted:
            row = out[number]
            out[number] = (*row[:at], self.decrypt(row[at]), *row[at + 1 :])
        return out

    # -- stacks ------------------------------------------------------------------------------------

    def remember(self, stack_id: str, sealed: bool) -> None:
        """Remember, for this transaction or for good, whether a stack is sealed."""
        if not sealed:
            self.database.transaction_memo[stack_id] = 1
            return
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known.add(stack_id)

    def sealed_stacks(self, stack_ids: Iterable[str]) -> set[str]:
        """Return those of the stacks that are sealed.

        Reads each at most once per transaction.
        """
        wanted = set(stack_ids)
        sealed = wanted & self._known
        unknown = [*(wanted - sealed - self.database.transaction_memo.keys())]
        for some in chunks(unknown):
            found = self.database.read(f"SELECT id, sealed FROM stack WHERE id IN ({marks(some)})", some)
            sealed |= {stack_id for stack_id, is_sealed in found if is_sealed}
        for stack_id in unknown:
            self.remember(stack_id, stack_id in sealed)
        return sealed
