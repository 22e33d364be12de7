"""Snapshots of stacks."""

from collections.abc import Iterator, Sequence

import peewee

from heatlite.core.status import Status
from heatlite.store.records import SnapshotRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Snapshot
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import CONDENSED

_ROWS = Rows(SnapshotRecord, Snapshot, codecs={"data": CONDENSED})


class Snapshots:
    """Snapshots. Each method is one statement."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._database = encryption.database
        self._table = Table(encryption, _ROWS, fixed=("stack_id", "name", "created_at"))

    def of(self, stack_id: str) -> list[SnapshotRecord]:
        """Return the snapshots of a stack, oldest first."""
        return [*self.each(stack_id)]

    def each(self, stack_id: str) -> Iterator[SnapshotRecord]:
        """Yield the snapshots of a stack, oldest first. Their data is parsed one by one."""
        for row in self._table.read("WHERE stack_id = ? ORDER BY created_at, id", (stack_id,)):
            yield from self._table.records([row])

    def count(self, stack_id: str) -> int:
        """Return the number of a stack."""
        counted = Snapshot.select(peewee.fn.COUNT(Snapshot.id)).where(Snapshot.stack_id == stack_id)
        count: int = self._database.select(counted)[0][0]
        return count

    def get(self, stack_id: str, snapshot_id: str) -> SnapshotRecord | None:
        """Return a snapshot of a stack."""
        return self._table.first("WHERE stack_id = ? AND id = ?", (stack_id, snapshot_id))

    def insert(self, record: SnapshotRecord) -> None:
        """Add a snapshot."""
        self._table.insert([record])

    def save(self, record: SnapshotRecord) -> None:
        """Write state and data of an existing snapshot."""
        self._table.update([record])

    def delete_many(self, ids: Sequence[str]) -> None:
        """Remove snapshots."""
        self._table.delete(ids)

    def clear(self, stack_id: str) -> None:
        """Remove all snapshots of a stack."""
        self._database.change(Snapshot.delete().where(Snapshot.stack_id == stack_id))

    def in_progress(self, stack_id: str) -> list[SnapshotRecord]:
        """Return the snapshots of a stack that are being taken or deleted."""
        return self._table.select("WHERE stack_id = ? AND status = ?", (stack_id, str(Status.IN_PROGRESS)))
