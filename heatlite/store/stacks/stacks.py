"""Stacks."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

import peewee
from msgspec.structs import replace

from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import StackExists
from heatlite.core.json import JsonMap, dump, parse
from heatlite.store.database.paging import after, directed
from heatlite.store.database.sql import chunks
from heatlite.store.database.statements import Row
from heatlite.store.errors import Duplicate
from heatlite.store.feature_store import FeatureStore, tables_of
from heatlite.store.records import LockRecord, StackPlace, StackRecord, StackSummary
from heatlite.store.rows import Codec, Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.stacks.resources import Nested
from heatlite.store.stacks.stack_query import SORTED_BY, StackQuery, in_project, list_conditions
from heatlite.store.stacks.webhooks import Webhooks
from heatlite.store.tables.access import Credential
from heatlite.store.tables.actions import Action, Dependency, Transition
from heatlite.store.tables.stacks import LargeValue, Resource, Sink, Snapshot, Stack, StackSize, Suppressed
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import LargeValues
from heatlite.store.writes.stack_locks import StackLocks

INSERTED = 32
"""Number of stacks whose names are known without a query."""

_LOCK_COLUMNS = {name: f"lock_{name}" for name in LockRecord.__struct_fields__ if not hasattr(Stack, name)}
_LOCK = Rows(LockRecord, Stack, names={**_LOCK_COLUMNS, "by_admin": "locked_by_admin"})
_TAGS = Codec(lambda tags: f",{','.join(tags)},", lambda text: tuple(text[1:-1].split(",")) if text else (), empty="")
_PLACES = Rows(StackPlace, Stack)
_SUMMARY = Rows(StackSummary, Stack, codecs={"tags": _TAGS})


def _live_name(record: StackRecord) -> str | None:
    return record.name if record.deleted_at is None else None


_ROWS = Rows(StackRecord, Stack, codecs={"tags": _TAGS}, parts={"lock": _LOCK}, computed={"live_name": _live_name})
_ENVIRONMENTS = (_ROWS.columns.index("environment"), _ROWS.columns.index("previous_environment"))


class _StackTable(Table[StackRecord]):
    """Encrypts the secret of a webhook even if the stack is not sealed."""

    def rows(self, records: Sequence[StackRecord]) -> Sequence[Row]:
        return [
            self.encryption.encrypt_columns(row, _ENVIRONMENTS)
            if has_secret(record.environment) or has_secret(record.previous_environment) else row
            for record, row in zip(records, super().rows(records), strict=True)
        ]  # fmt: skip


class Stacks:
    """The stacks."""

    def __init__(
        self,
        encryption: FieldEncryption,
        large_values: LargeValues,
        features: Sequence[FeatureStore],
        stores_off: Callable[[], Sequence[FeatureStore]],
    ) -> None:
        self._encryption = encryption
        self._features = features
        self._stores_off = stores_off
        self._database = encryption.database
        self._table = _StackTable(encryption, _ROWS, fixed=("cloud",), stack="id", large_values=large_values)
        self._places = Table(encryption, _PLACES)
        self._webhooks = Webhooks(self._database)
        self.locks = StackLocks(self._database)
        """Locks on stacks without their roots."""
        self._inserted: deque[tuple[str, str]] = deque(maxlen=INSERTED)
        """Id and name of the stacks that this process has inserted last."""

    def insert(self, record: StackRecord) -> None:
        """Add a stack. Raises StackExists if a live stack of the project has the name."""
        try:
            self._insert([record])
            self._database.flush()
        except Duplicate as error:
            if "live_name" in str(error):
                raise StackExists(stack_name=record.name) from error
            raise
        self._add_webhooks([record])

    def insert_many(self, records: Sequence[StackRecord]) -> None:
        """Add stacks with generated names.

        Raises Duplicate, at the end of the transaction at the latest.
        """
        self._insert(records)
        self._add_webhooks(records)

    def _insert(self, records: Sequence[StackRecord]) -> None:
        for record in records:
            self._encryption.remember(record.id, record.sealed)
            self._inserted.append((record.id, record.name))
        self._table.insert(records)
        self.locks.note(record.id for record in records)

    def save_many(self, records: Sequence[StackRecord]) -> None:
        """Write existing stacks, as `save` does."""
        sealed = self._encryption.sealed_stacks(record.id for record in records if not record.sealed)
        for record in records:
            if record.sealed:
                self._encryption.remember(record.id, sealed=True)
        kept = [replace(record, sealed=True) if record.id in sealed else record for record in records]
        self._table.update(kept)
        self.locks.note(record.id for record in records)
        for gone in chunks([record.id for record in records if record.deleted_at is not None]):
            self._database.change(StackSize.delete().where(StackSize.stack_id.in_(gone)))
        self._add_webhooks(records)

    def save(self, record: StackRecord) -> None:
        """Write an existing stack.

        `deleted_at` frees its name. A sealed stack stays sealed.
        """
        self.save_many([record])

    def record_cloud(self, root_id: str, cloud: CloudIdentity) -> None:
        """Write the cloud of a tree's objects."""
        self._database.change(Stack.update(cloud=dump(cloud)).where(Stack.id == root_id))

    def cloud_of(self, record: StackRecord) -> CloudIdentity | None:
        """Return the cloud of a stack's objects, from its root; None: none is recorded."""
        if record.root_id is None:
            return record.cloud
        found = self._database.read(f"SELECT cloud FROM {self._table.name} WHERE id = ?", (record.root_id,))
        return CloudIdentity.from_json(parse(found[0][0])) if found and found[0][0] else None

    def _add_webhooks(self, records: Sequence[StackRecord]) -> None:
        """Add the webhooks of the environments, for events stored from now on."""
        for record in records:
            sinks = record.environment.get("event_sinks")
            if isinstance(sinks, list) and sinks:
                self._webhooks.add(record.id, sinks)

    def get(self, stack_id: str) -> StackRecord | None:
        """Return a stack by its id, even a deleted one."""
        return self._table.first("WHERE id = ?", (stack_id,))

    def send_get(self, stack_id: str) -> Callable[[], StackRecord | None]:
        """Do as `get` by `Database.send`. Returns a call that returns the stack."""
        read = self._table.send_select("WHERE id = ?", (stack_id,))
        return lambda: next(iter(read()), None)

    def name_of(self, stack_id: str) -> str | None:
        """Return the name of a stack, even of a deleted one; None: there is no such stack.

        That of a stack just inserted needs no query.
        """
        for inserted_id, name in reversed([*self._inserted]):
            if inserted_id == stack_id:
                return name
        names = self._database.read(f"SELECT name FROM {self._table.name} WHERE id = ?", (stack_id,))
        return names[0][0] if names else None

    def by_name(self, project: str, name: str) -> StackRecord | None:
        """Return the live stack with the name."""
        return self._table.first("WHERE project = ? AND live_name = ?", (project, name))

    def lock(self, stack_id: str) -> StackRecord | None:
        """Return a stack, locked with its root until the transaction ends.

        The lock of the root makes requests to stacks of one tree follow each other. On SQLite a transaction has the
        whole file anyway.
        """
        if not self._database.backend.has_row_locks:
            found = self.get(stack_id)
        else:
            root = "(SELECT nested.root_id FROM stack AS nested WHERE nested.id = ?)"
            self._table.first(f"WHERE id = {root} FOR UPDATE", (stack_id,))
            found = self._table.first("WHERE id = ? FOR UPDATE", (stack_id,))
            self.locks.note({stack_id} if found is None else {stack_id, found.root_id or stack_id})
        if found is not None:
            self._encryption.remember(stack_id, found.sealed)
        return found

    def place(self, record: StackRecord) -> tuple[StackRecord, tuple[str, ...]]:
        """Return the root of a stack, and the path of the stack below it."""
        lineage = [record, *self.ancestors(record)]
        return lineage[-1], tuple(one.parent_resource for one in reversed(lineage) if one.parent_resource is not None)

    def ancestors(self, record: StackRecord) -> list[StackRecord]:
        """Return the ancestors of a stack, the parent first."""
        out: list[StackRecord] = []
        while record.parent_id is not None:
            parent = self.get(record.parent_id)
            if parent is None:
                break
            out.append(parent)
            record = parent
        return out

    def descendants(self, record: StackRecord) -> list[StackRecord]:
        """Return the live stacks nested at any depth, parents before children."""
        found = self._table.select("WHERE root_id = ? AND deleted_at IS NULL", (record.root_id or record.id,))
        return _below(record.id, found)

    def places(self, record: StackRecord, depth: int) -> list[StackPlace]:
        """Return the places of the live stacks nested down to `depth`.

        Parents come before children.
        """
        rest = "WHERE root_id = ? AND deleted_at IS NULL AND depth <= ?"
        return _below(record.id, self._places.select(rest, (record.root_id or record.id, record.depth + depth)))

    def of_ids(self, stack_ids: Sequence[str]) -> dict[str, StackRecord]:
        """Return the stacks with these ids."""
        return {row.id: row for row in self._table.select_in("WHERE id IN ()", stack_ids)}

    def nested(self, stack_id: str, depth: int) -> dict[str, str]:
        """Return the stacks nested down to `depth`, even deleted ones: id → name."""
        parent, child = Stack.alias(), Stack.alias()
        first = parent.select(parent.id, parent.name, peewee.SQL("1")).where(parent.parent_id == stack_id)
        tree = first.cte("tree", recursive=True, columns=("id", "name", "level"))
        children = child.select(child.id, child.name, tree.c.level + 1).join(tree, on=(child.parent_id == tree.c.id))
        tree = tree.union_all(children.where(tree.c.level < depth))
        return dict(self._database.select(tree.select_from(tree.c.id, tree.c.name)))

    def live(self, stack_ids: Sequence[str]) -> set[str]:
        """Return the ids of those of the stacks that are not deleted."""
        found: set[str] = set()
        for some in chunks(stack_ids):
            select = Stack.select(Stack.id).where(Stack.id.in_(some), Stack.deleted_at.is_null())
            found.update(stack_id for (stack_id,) in self._database.select(select))
        return found

    def deleted_before(self, moment: float, limit: int) -> Sequence[str]:
        """Return the ids of stacks deleted before a moment, longest deleted first.

        Leaves out those in which a live stack was nested: it was retained, and has large values in its root.
        """
        has_none = (
            f"NOT EXISTS (SELECT 1 FROM stack AS nested WHERE nested.{link} = stack.id AND nested.deleted_at IS NULL)"
            for link in ("root_id", "parent_id")
        )
        sql = f"SELECT id FROM stack WHERE deleted_at < ? AND {' AND '.join(has_none)} ORDER BY deleted_at, id LIMIT ?"
        rows = self._database.read(sql, (moment, limit))
        return [stack_id for (stack_id,) in rows]

    def remove(self, stack_ids: Sequence[str]) -> None:
        """Remove stacks with all their rows except events."""
        actions = Action.select(Action.id).where(Action.stack_id.in_(stack_ids))
        self._database.change(Transition.delete().where(Transition.action_id.in_(actions)))
        self._database.change(Dependency.delete().where(Dependency.dependent.in_(actions)))
        of_stack = (Resource, Action, Suppressed, Sink, Snapshot, Credential, StackSize, LargeValue)
        for model in of_stack:
            self._database.change(model.delete().where(model.stack_id.in_(stack_ids)))
        for one in (*self._features, *self._stores_off()):
            one.stacks_removed(stack_ids)
        self._database.change(Stack.delete().where(Stack.id.in_(stack_ids)))

    def expired_locks(self, now: float) -> list[StackRecord]:
        """Return the live stacks whose maintenance lock has expired."""
        # "deleted_at IS NULL" would make SQLite take the index of that column, and read all live stacks.
        rest = "WHERE lock_expires_at <= ? AND COALESCE(deleted_at, 0) = 0 ORDER BY lock_expires_at"
        return self._table.select(rest, (now,))

    def projects(self) -> list[str]:
        """Return the projects with live stacks."""
        select = Stack.select(Stack.project).where(Stack.deleted_at.is_null()).distinct()
        return [project for (project,) in self._database.select(select)]

    def list(self, project: str | None, query: StackQuery) -> list[StackSummary]:
        """Return a page of a project's stacks; None: of all projects."""
        if query.limit == 0:
            return []
        keys = [SORTED_BY[key] for key in query.sort_keys if key in SORTED_BY]
        descending = query.sort_dir == "desc" if keys or query.sort_dir else True
        order = [*(keys or [Stack.created_at]), Stack.id]
        conditions = [*self._conditions(project, query)]
        if query.marker is not None:
            marked = self._database.select(Stack.select(*order).where(Stack.id == query.marker, *in_project(project)))
            if marked:
                conditions.append(after(order, marked[0], descending))
        select = Stack.select(*_SUMMARY.selected()).where(*conditions).order_by(*directed(order, descending))
        return _SUMMARY.records(self._database.select(select.limit(query.limit)))

    def count_roots(self, project: str) -> int:
        """Return the number of live stacks of a project, without nested ones."""
        live = "project = ? AND deleted_at IS NULL AND parent_id IS NULL"
        ((count,),) = self._database.read(f"SELECT COUNT(*) FROM {self._table.name} WHERE {live}", (project,))
        return int(count)

    def count(self, project: str | None, query: StackQuery) -> int:
        """Return the number of stacks on all pages of a list."""
        select = Stack.select(peewee.fn.COUNT(Stack.id)).where(*self._conditions(project, query))
        count: int = self._database.select(select)[0][0]
        return count

    def _conditions(self, project: str | None, query: StackQuery) -> Sequence[peewee.ColumnBase]:
        return list_conditions(project, query, self._database.backend, tables_of(self._features))


# -- rows ----------------------------------------------------------------------------------------


def _below(stack_id: str, rows: Iterable[Nested]) -> list[Nested]:
    """Return the stacks nested in a stack, parents before children."""
    children: dict[str | None, list[Nested]] = {}
    for found in rows:
        children.setdefault(found.parent_id, []).append(found)
    out: list[Nested] = []
    level = children.get(stack_id, [])
    while level:
        out += level
        level = [child for parent in level for child in children.get(parent.id, [])]
    return out


def has_secret(environment: JsonMap | None) -> bool:
    """Return whether an environment has the secret of a webhook."""
    sinks = (environment or {}).get("event_sinks")
    return isinstance(sinks, list) and any(isinstance(sink, dict) and "secret" in sink for sink in sinks)
