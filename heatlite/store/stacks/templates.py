"""Templates, stored once per content."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import peewee

from heatlite.core.errors import NotFound
from heatlite.core.json import Json, canonical, dump
from heatlite.store.database.sql import marks
from heatlite.store.database.statements import Value
from heatlite.store.records import TemplateRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Stack, Template
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import CONDENSED, condensed

TEMPLATE_GRACE = 3600.0
"""Seconds before an unreferenced template is deleted: a reader may still have a stack's old row."""

def holders_of(models: Iterable[type[peewee.Model]]) -> list[type[peewee.Model]]:
    """Return the tables with a column `template_id`.

    Their rows refer to templates.
    """
    return [model for model in models if "template_id" in model._meta.fields]


def unreferenced(holders: Iterable[type[peewee.Model]]) -> str:
    """Return the SQL condition for rows of `template` without references.

    `holders` are the tables of features that refer to templates, see `holders_of`.
    """
    places = [("stack", "template_id"), ("stack", "previous_template_id")]
    places += [(str(model._meta.table_name), "template_id") for model in holders]
    return " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} WHERE {table}.{column} = template.id)" for table, column in places
    )


_ROWS = Rows(TemplateRecord, Template, codecs={"document": CONDENSED})


class Templates:
    """Templates, stored once per content and deleted once no row refers to them.

    A template must not be deleted while a transaction is about to refer to it. So `put` locks the row until the end of
    the transaction with the reference, and deletion skips locked rows. On SQLite a transaction has the whole file.
    """

    def __init__(
        self,
        encryption: FieldEncryption,
        holders: Callable[[], Sequence[type[peewee.Model]]] = lambda: (),
        lost: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """`holders` returns the tables of features, on or off, that refer to templates.

        `lost` returns the features whose tables cannot be read: while there is one, no template is known to be unused.
        """
        self._holders = holders
        self._lost = lost
        self._encryption = encryption
        self._database = encryption.database
        self._table = Table(encryption, _ROWS)
        self._backend = self._database.backend

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
        if self._keep(template_id, sealed):
            return template_id
        close = self._encryption.encrypt if sealed else str
        text = {"document": close(condensed(dump(document))), "files": close(dump(files))}
        row = {"id": template_id, "unused_since": None, **text}
        self._database.upsert("template", row, ["id"], ["unused_since", *(text if sealed else ())])
        return template_id

    def _keep(self, template_id: str, sealed: bool) -> bool:
        """Lock a row against deletion. Returns False if it has to be added or changed."""
        sql = "SELECT id FROM template WHERE id = ? AND unused_since IS NULL"
        if sealed:
            sql += f" AND substr(document, 1, {len(PREFIX)}) = '{PREFIX}'"
        # Such a lock may not be asked for: two transactions that share it and then change it would deadlock.
        if self._backend.locks_unmatched_rows and not self._database.read(sql, (template_id,)):
            return False
        return len(self._database.read(sql + self._backend.for_reference, (template_id,))) > 0

    def unreferenced(self, limit: int) -> Sequence[str]:
        """Return the ids of unmarked templates without references."""
        return self._unused("unused_since IS NULL", (), limit)

    def unused_before(self, moment: float, limit: int) -> Sequence[str]:
        """Return the ids of templates marked as unused before a moment."""
        return self._unused("unused_since < ?", (moment,), limit)

    def _unused(self, condition: str, values: Sequence[Value], limit: int) -> Sequence[str]:
        sql = f"SELECT id FROM template WHERE {condition} AND {{free}} ORDER BY unused_since LIMIT {{limit}}"
        # Mostly stacks have all of them. Then features that are off need not be imported.
        if not self._database.read(sql.format(free=unreferenced(()), limit=1), values) or self._lost():
            return ()
        sql = sql.format(free=unreferenced(self._holders()), limit=limit)
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
        sql = f"SELECT id FROM template WHERE id IN ({marks(template_ids)}){self._backend.for_update_free}"
        locked = [template_id for (template_id,) in self._database.read(sql, template_ids)]
        if not locked:
            return []
        tables: list[tuple[type[peewee.Model], str]] = [(Stack, "template_id"), (Stack, "previous_template_id")]
        tables += [(model, "template_id") for model in self._holders()]
        used = {
            template_id
            for model, name in tables
            for (template_id,) in self._database.select(
                model.select(model._meta.fields[name]).where(model._meta.fields[name].in_(locked))
            )
        }
        return [template_id for template_id in locked if template_id not in used]

    def get(self, template_id: str) -> TemplateRecord:
        """Return a template by its id. Raises NotFound."""
        for found in self._table.select("WHERE id = ?", (template_id,)):
            return found
        raise NotFound(entity="Template", name=template_id)
