"""Re-encryption: key rotation, and the first encryption of a tree."""

from collections.abc import Iterator, Sequence
from functools import partial

import peewee
from msgspec import Struct

from heatlite.core.json import dump, parse
from heatlite.core.redaction.masking import MASK
from heatlite.store.errors import UnreadableSecret
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.stacks.templates import holders_of
from heatlite.store.tables.fields import ContentField, EncryptedField, MaskedField
from heatlite.store.tables.stacks import Event, Stack, Template

PAGE = 200
"""Rows per read, and on SQLite per transaction."""


class RotationResult(Struct):
    """Result of a key rotation."""

    rows: int = 0
    """Number of rows written."""
    unreadable: list[str] = []
    """Rows that no key decrypts, left as they are: ``resource 5f1c…``."""
    lost: Sequence[str] = ()
    """Features whose tables this program cannot read: their rows keep the old keys."""
    wiped: bool = True
    """True if the old data is gone from the file; False if another process kept it busy."""


class _Columns(Struct, frozen=True):
    """The columns of a table that may be encrypted."""

    model: type[peewee.Model]
    content: Sequence[str]
    sealed: Sequence[str]
    holders: Sequence[type[peewee.Model]]
    """Tables of features that refer to templates."""

    @property
    def key(self) -> str:
        primary = self.model._meta.primary_key
        assert isinstance(primary, peewee.Field)
        return str(primary.name)

    @property
    def label(self) -> str:
        """The column that identifies a row to people."""
        return "id" if "id" in self.model._meta.fields else self.key

    def owned(self, stacks: str) -> str:
        """Return the SQL condition for rows of `stacks`.

        `stacks` is a SELECT of ids, with ``{id}`` for the column.
        """
        if self.model is Template:
            ways = [stacks.format(id=column) for column in ("template_id", "previous_template_id")]
            owned = stacks.format(id="id")
            for one in self.holders:
                ways.append(f"SELECT template_id FROM {one._meta.table_name} WHERE stack_id IN ({owned})")
            return " OR ".join(f"id IN ({one})" for one in ways)
        return f"{'id' if self.model is Stack else 'stack_id'} IN ({stacks.format(id='id')})"


def _tables(encryption: FieldEncryption) -> Iterator[_Columns]:
    stored = encryption.stored()
    holders = [model for model in holders_of(stored) if model is not Stack]
    for model in stored:
        fields = model._meta.sorted_fields
        content = [one.name for one in fields if isinstance(one, ContentField | MaskedField)]
        sealed = [one.name for one in fields if isinstance(one, EncryptedField)]
        if content or sealed:
            yield _Columns(model, content, sealed, holders)


def rotate(encryption: FieldEncryption) -> RotationResult:
    """Encrypt every stored secret with the first key.

    This includes secrets stored in clear before there was a key. Needs a key. Engines may run meanwhile: a row that
    they change is left as they write it.
    """
    done = RotationResult()
    stacks = "SELECT {id} FROM stack WHERE sealed AND {id} IS NOT NULL"
    for table in _tables(encryption):
        _rewrite(encryption, table, stacks, (), True, done)
    return done


def seal_tree(encryption: FieldEncryption, root_id: str) -> None:
    """Seal a tree of stacks: encrypt all its content. Call it in a transaction."""
    database = encryption.database
    members = "id = ? OR root_id = ?"
    database.write(f"UPDATE stack SET sealed = ? WHERE {members}", (True, root_id, root_id))
    for (stack_id,) in database.read(f"SELECT id FROM stack WHERE {members}", (root_id,) * 2):
        encryption.remember(stack_id, sealed=True)
    if encryption.cipher is None:
        return
    stacks = "SELECT {id} FROM stack WHERE (" + members + ") AND {id} IS NOT NULL"
    for table in _tables(encryption):
        if table.content:
            _rewrite(encryption, table, stacks, (root_id,) * 2, False, RotationResult())


def _rewrite(
    encryption: FieldEncryption,
    table: _Columns,
    stacks: str,
    values: tuple[str, ...],
    again: bool,
    done: RotationResult,
) -> None:
    """Encrypt the content of rows of some stacks.

    With `again` also re-encrypt all other encrypted columns of the table.
    """
    database = encryption.database
    columns = [*table.content, *table.sealed]
    conditions, given = [], []
    if table.content:
        owned = table.owned(stacks)
        conditions.append(owned)
        given += [*values] * owned.count(" FROM stack ")
    if again:
        conditions += [f"{name} LIKE ?" for name in table.content] + [f"{name} IS NOT NULL" for name in table.sealed]
        given += [f"{PREFIX}%"] * len(table.content)
    environments = [name for name in table.content if again and name in ("environment", "previous_environment")]
    conditions += [f"{name} LIKE ?" for name in environments]
    given += ['%"secret":%'] * len(environments)  # of a webhook
    name = database.quote(table.model._meta.table_name)
    chosen = " OR ".join(f"({one})" for one in conditions)
    select = f"SELECT {database.quote(table.key, table.label, *columns)} FROM {name}"
    sql = f"{select} WHERE {{last}} ({chosen}) ORDER BY {table.key} LIMIT {PAGE}"
    last: list[str | int] = []
    while True:
        after = f"{table.key} > ? AND" if last else ""
        rows = database.read(sql.format(last=after), [*last, *given])
        if not rows:
            return
        last = [rows[-1][0]]
        # On a server one row per transaction: other transactions lock the same rows in another order.
        size = 1 if database.backend.has_row_locks else PAGE
        for start in range(0, len(rows), size):
            with database.transaction():
                for key, label, *cells in rows[start : start + size]:
                    old = dict(zip(columns, cells, strict=True))
                    try:
                        anew = partial(_masked if table.model is Event else _anew, encryption, again)
                        new = {one: anew(text) for one, text in old.items() if text is not None}
                    except UnreadableSecret:
                        done.unreadable.append(f"{table.model._meta.table_name} {label}")
                        continue
                    changed = {one: text for one, text in new.items() if text != old[one]}
                    done.rows += _write(encryption, table, key, old, changed)


def _masked(_: FieldEncryption, again: bool, text: str) -> str:  # noqa: ARG001
    return dump(dict.fromkeys(parse(text), MASK))


def _anew(encryption: FieldEncryption, again: bool, text: str) -> str:
    if not text.startswith(PREFIX):
        return encryption.encrypt(text)
    cipher = encryption.cipher
    return cipher.rotate(text) if again and cipher is not None else text


def _write(
    encryption: FieldEncryption, table: _Columns, key: str | int, old: dict[str, str | None], new: dict[str, str]
) -> int:
    """Write a row's new cells unless they changed meanwhile; return the rows written."""
    if not new:
        return 0
    database = encryption.database
    quoted = {name: database.quote(name) for name in new}
    changes = ", ".join(f"{quoted[name]} = ?" for name in new)
    same = " AND ".join(f"{quoted[name]} = ?" for name in new)
    name = database.quote(table.model._meta.table_name)
    sql = f"UPDATE {name} SET {changes} WHERE {table.key} = ? AND {same}"
    return database.write(sql, [*new.values(), key, *(old[one] for one in new)])
