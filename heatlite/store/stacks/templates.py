"""Templates, stored once per content."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from heatlite.core.errors import NotFound
from heatlite.core.json import Json, canonical, dump
from heatlite.store.batch import Table
from heatlite.store.database.driver import Dialect
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Value
from heatlite.store.large_values import condensed, whole
from heatlite.store.records import TemplateRecord
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Stack, Template

TEMPLATE_GRACE = 3600.0
"""Seconds before an unreferenced template is deleted: a reader may still have a stack's old row."""

UNREFERENCED = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM stack WHERE stack.{column} = template.id)"
    for column in ("template_id", "previous_template_id")
)
"""SQL condition for rows of `template` without references from stacks."""

_TEMPLATE_LOCKS: Mapping[Dialect, tuple[str, str, str]] = {
    Dialect.SQLITE: ("", "", ""),
    Dialect.POSTGRESQL: (" FOR KEY SHARE", " FOR UPDATE", " FOR UPDATE SKIP LOCKED"),
    Dialect.MARIADB: (" LOCK IN SHARE MODE", " FOR UPDATE", " FOR UPDATE SKIP LOCKED"),
}
"""Locks on a row of `template`: shared, exclusive, and exclusive without locked rows."""


class Templates:
    """Templates, stored once per content and deleted once no stack refers to them.

    A template must not be deleted while a transaction is about to refer to it. So `put` locks the row until the end of
    the transaction with the reference, and deletion skips locked rows. On SQLite a transaction has the whole file.
    """

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database
        self._table = Table(encryption, Template, ("document", "files"), key="id", fixed=())
        self._share, self._own, self._own_free = _TEMPLATE_LOCKS[self._database.dialect]

    @staticmethod
    def address(document: Mapping[str, Json], files: Mapping[str, str]) -> str:
        """Return the id of a template with this content: SHA-256."""
        return hashlib.sha256(canonical([document, files]).encode()).hexdigest()

    def put(
        self,
        document: Mapping[str, Json],
        files: Mapping[str, str],
        template_id: str | None = None,
        sealed: bool = False,
    ) -> str:
        """Store a template unless it exists, and return its id.

        `template_id` is that id if the caller knows it. Call it in the transaction that writes the reference, which
        keeps the template from deletion. The template of a `sealed` stack becomes encrypted even if another stack
        stored it in clear.
        """
        template_id = template_id or self.address(document, files)
        sealed = sealed and self._encryption.cipher is not None
        close = self._encryption.encrypt if sealed else str
        found = self._state(template_id, "")
        while True:
            if found is not None:
                # Two transactions that share a row and then both change it would deadlock.
                found = self._state(template_id, self._own if self._lacks(found, sealed) else self._share)
            if found is not None:
                if self._lacks(found, sealed):
                    row = {"document": close(condensed(dump(document))), "files": close(dump(files))} if sealed else {}
                    changed = {"unused_since": None, **row}
                    self._database.change(Template.update(changed).where(Template.id == template_id))
                return template_id
            row = {"id": template_id, "document": close(condensed(dump(document))), "files": close(dump(files))}
            if self._database.change(Template.insert(row).on_conflict_ignore()):
                return template_id
            found = ("", None)  # another transaction has stored it meanwhile

    def _state(self, template_id: str, lock: str) -> tuple[str, float | None] | None:
        """Return the start of a template's text and its `unused_since`, or None."""
        sql = f"SELECT substr(document, 1, {len(PREFIX)}), unused_since FROM template WHERE id = ?"
        rows = self._database.read(sql + lock, (template_id,))
        return (rows[0][0], rows[0][1]) if rows else None

    @staticmethod
    def _lacks(found: tuple[str, float | None], sealed: bool) -> bool:
        """Return whether the row must change: it is marked as unused, or lacks encryption."""
        start, unused_since = found
        return unused_since is not None or (sealed and start != PREFIX)

    def unreferenced(self, limit: int) -> Sequence[str]:
        """Return the ids of unmarked templates without references."""
        return self._unused("unused_since IS NULL", (), limit)

    def unused_before(self, moment: float, limit: int) -> Sequence[str]:
        """Return the ids of templates marked as unused before a moment."""
        return self._unused("unused_since < ?", (moment,), limit)

    def _unused(self, condition: str, values: Sequence[Value], limit: int) -> Sequence[str]:
        sql = f"SELECT id FROM template WHERE {condition} AND {UNREFERENCED} ORDER BY unused_since LIMIT {limit}"
        return [template_id for (template_id,) in self._database.read(sql, values)]

    def mark_unused(self, template_ids: Sequence[str], now: float) -> int:
        """Mark templates without references as unused; return their number."""
        free = self._still_unused(template_ids)
        if not free:
            return 0
        return self._database.change(Template.update({"unused_since": now}).where(Template.id.in_(free)))

    def remove_unused(self, template_ids: Sequence[str]) -> int:
        """Delete templates without references; return their number."""
        free = self._still_unused(template_ids)
        if not free:
            return 0
        return self._database.change(Template.delete().where(Template.id.in_(free)))

    def _still_unused(self, template_ids: Sequence[str]) -> list[str]:
        """Return those of the templates without references, locked against new ones.

        The second statement sees references committed before the rows were locked.
        """
        sql = f"SELECT id FROM template WHERE id IN ({marks(template_ids)}){self._own_free}"
        locked = [template_id for (template_id,) in self._database.read(sql, template_ids)]
        if not locked:
            return []
        used = {
            template_id
            for column in (Stack.template_id, Stack.previous_template_id)
            for (template_id,) in self._database.select(Stack.select(column).where(column.in_(locked)))
        }
        return [template_id for template_id in locked if template_id not in used]

    def get(self, template_id: str) -> TemplateRecord:
        """Return a template by its id. Raises NotFound."""
        for document, files, found in self._table.select("WHERE id = ?", (template_id,)):
            return TemplateRecord(id=found, document=json.loads(whole(document)), files=json.loads(files))
        raise NotFound(entity="Template", name=template_id)
