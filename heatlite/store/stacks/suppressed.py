"""Requests that a maintenance lock refused or ignored."""

from collections.abc import Sequence

import peewee
from msgspec.structs import replace

from heatlite.core.json import canonical, dump
from heatlite.store.database.statements import Value
from heatlite.store.records import DroppedRecord, SuppressedRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Suppressed, SuppressedDropped
from heatlite.store.writes.batch import Table
from heatlite.store.writes.limit_locks import LimitLocks

MAX_KEPT = 1000
"""Requests stored per tree: a client that retries forever must not fill the disk."""
MAX_STORED = 16 * 1024 * 1024
"""Stored characters per tree."""
MAX_BODY = 1024 * 1024
"""Characters of a body. A larger one is not stored, and the request cannot be replayed."""

_ROWS = Rows(SuppressedRecord, Suppressed, names={"count": "times"})
_DROPPED = Rows(DroppedRecord, SuppressedDropped, names={"count": "times"})


class SuppressedRequests:
    """Suppressed requests of all stacks."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._table = Table(encryption, _ROWS)
        self._database = encryption.database
        self._limit_locks = LimitLocks(encryption.database)
        # Plain SQL: each refusal of a reader runs it, and peewee would take longer to write it.
        self._listed = "SELECT 1 FROM suppressed WHERE stack_id = ? AND digest = ?"

    def digest(self, record: SuppressedRecord, locked_at: float) -> str:
        """Return the digest of a request and its lock; repeats have the same one."""
        place = (record.method, record.path, *([record.query] if record.query else []))
        same = (record.request, record.target, record.requested_by, *place, record.body, locked_at)
        return self._encryption.digest(canonical(same))

    def add(self, record: SuppressedRecord, locked_at: float) -> bool:
        """Store a request once per lock (`locked_at`), and count repeats.

        The tree's least recent requests are dropped if it is full. Returns True for a new request.
        """
        digest = self.digest(record, locked_at)
        if self.count_repeat(record.stack_id, digest, record.time, record.count):
            return False
        root_id = record.root_id or record.stack_id
        self._limit_locks.take(f"suppressed requests of {root_id}")
        is_whole = record.body is None or len(dump(record.body)) <= MAX_BODY
        replayable = record.replayable and is_whole
        body = record.body if replayable else None
        kept = replace(record, root_id=root_id, last_time=record.time, body=body, replayable=replayable)
        row = self._table.cells(kept)
        texts = (str(row[name] or "") for name in ("body", "effect", "target", "detail", "path", "query"))
        row |= {"size": sum(map(len, texts)), "digest": digest}
        del row["id"]
        # Another process may have added it meanwhile.
        self._database.upsert("suppressed", row, ["stack_id", "digest"], ["last_time"], added=["times"])
        self._make_room(root_id, record.time)
        return True

    def count_repeat(self, stack_id: str, digest: str, time: float, times: int) -> bool:
        """Count repeats of a request. Returns False if it is not in the list."""
        query = Suppressed.update(times=Suppressed.times + times, last_time=time).where(
            (Suppressed.stack_id == stack_id) & (Suppressed.digest == digest)
        )
        return self._database.change(query) == 1

    def is_listed(self, stack_id: str, digest: str) -> bool:
        """Return whether a request is in the list."""
        return bool(self._database.read(self._listed, (stack_id, digest)))

    def _make_room(self, root_id: str, now: float) -> None:
        """Drop and count the least recent requests of a tree that is over a limit."""
        of_tree = Suppressed.root_id == root_id
        size = peewee.fn.COALESCE(peewee.fn.SUM(Suppressed.size), 0)
        kept, stored = self._database.select(Suppressed.select(peewee.fn.COUNT(Suppressed.id), size).where(of_tree))[0]
        if kept <= MAX_KEPT and stored <= MAX_STORED:
            return
        oldest = Suppressed.select(Suppressed.id, Suppressed.size).where(of_tree)
        dropped = []
        for number, size in self._database.select(oldest.order_by(Suppressed.last_time, Suppressed.id)):
            if kept <= MAX_KEPT and stored <= MAX_STORED:
                break
            dropped.append(number)
            kept, stored = kept - 1, stored - size
        self._database.change(Suppressed.delete().where(Suppressed.id.in_(dropped)))
        row: dict[str, Value] = {"root_id": root_id, "times": len(dropped), "last_time": now}
        self._database.upsert("suppressed_dropped", row, ["root_id"], ["last_time"], added=["times"])

    def dropped(self, root_id: str) -> DroppedRecord | None:
        """Return the drops from a tree's list; None if none since it was last empty."""
        query = SuppressedDropped.select(*_DROPPED.selected()).where(SuppressedDropped.root_id == root_id)
        return next(iter(_DROPPED.records(self._database.select(query))), None)

    def get(self, stack_id: str, number: int) -> SuppressedRecord | None:
        """Return a request of the stack's list."""
        found = self._select(_listed(stack_id) & (Suppressed.id == number))
        return found[0] if found else None

    def delete(self, stack_id: str, number: int) -> bool:
        """Remove a request from the list of a stack. Returns whether it existed."""
        meant = _listed(stack_id) & (Suppressed.id == number)
        roots = self._database.select(Suppressed.select(Suppressed.root_id).where(meant))
        if self._database.change(Suppressed.delete().where(meant)) != 1:
            return False
        for (root_id,) in roots:
            rest = Suppressed.select(Suppressed.id).where(Suppressed.root_id == root_id).limit(1)
            if not self._database.select(rest):
                self._database.change(SuppressedDropped.delete().where(SuppressedDropped.root_id == root_id))
        return True

    def clear(self, stack_id: str) -> None:
        """Remove all requests of a stack, and of the tree whose root it is."""
        self._database.change(Suppressed.delete().where(_listed(stack_id)))
        self._database.change(SuppressedDropped.delete().where(SuppressedDropped.root_id == stack_id))

    def list(self, stack_id: str) -> Sequence[SuppressedRecord]:
        """Return the requests of a stack, or of a root's whole tree, oldest first."""
        return self._select(_listed(stack_id))

    def _select(self, condition: peewee.ColumnBase) -> Sequence[SuppressedRecord]:
        select = Suppressed.select(*_ROWS.selected()).where(condition).order_by(Suppressed.id)
        return self._table.records(self._database.select(select))


def _listed(stack_id: str) -> peewee.ColumnBase:
    return (Suppressed.stack_id == stack_id) | (Suppressed.root_id == stack_id)
