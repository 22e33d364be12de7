"""Snapshots of stacks."""

from collections.abc import Iterator, Sequence

import peewee

from heatlite.core.json import dump, parse
from heatlite.core.status import Status, Verb
from heatlite.store.batch import Table
from heatlite.store.database.statements import Row, Value
from heatlite.store.large_values import condensed, whole
from heatlite.store.records import SnapshotRecord
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Snapshot

_MUTABLE = ("verb", "status", "status_reason", "data")


class Snapshots:
    """Snapshots. Each method is one statement."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._database = encryption.database
        self._table = Table(encryption, Snapshot, _MUTABLE, key="id", fixed=("stack_id", "name", "created_at"))

    def of(self, stack_id: str) -> list[SnapshotRecord]:
        """Return the snapshots of a stack, oldest first."""
        return [*self.each(stack_id)]

    def each(self, stack_id: str) -> Iterator[SnapshotRecord]:
        """Yield the snapshots of a stack, oldest first. Their data is parsed one by one."""
        return map(_record, self._table.select("WHERE stack_id = ? ORDER BY created_at, id", (stack_id,)))

    def count(self, stack_id: str) -> int:
        """Return the number of a stack."""
        counted = Snapshot.select(peewee.fn.COUNT(Snapshot.id)).where(Snapshot.stack_id == stack_id)
        count: int = self._database.select(counted)[0][0]
        return count

    def get(self, stack_id: str, snapshot_id: str) -> SnapshotRecord | None:
        """Return a snapshot of a stack."""
        found = self._table.select("WHERE stack_id = ? AND id = ?", (stack_id, snapshot_id))
        return _record(found[0]) if found else None

    def insert(self, record: SnapshotRecord) -> None:
        """Add a snapshot."""
        self._table.insert([_row(record)])

    def save(self, record: SnapshotRecord) -> None:
        """Write state and data of an existing snapshot."""
        self._table.update([_row(record)])

    def delete_many(self, ids: Sequence[str]) -> None:
        """Remove snapshots."""
        self._table.delete(ids)

    def clear(self, stack_id: str) -> None:
        """Remove all snapshots of a stack."""
        self._database.change(Snapshot.delete().where(Snapshot.stack_id == stack_id))

    def in_progress(self, stack_id: str) -> list[SnapshotRecord]:
        """Return the snapshots of a stack that are being taken or deleted."""
        found = self._table.select("WHERE stack_id = ? AND status = ?", (stack_id, str(Status.IN_PROGRESS)))
        return [_record(row) for row in found]


def _row(record: SnapshotRecord) -> tuple[Value, ...]:
    return (
        record.verb,
        record.status,
        record.status_reason,
        None if record.data is None else condensed(dump(record.data)),
        record.id,
        record.stack_id,
        record.name,
        record.created_at,
    )


def _record(row: Row) -> SnapshotRecord:
    verb, status, status_reason, data, identifier, stack_id, name, created_at = row
    return SnapshotRecord(
        id=identifier,
        stack_id=stack_id,
        name=name,
        verb=Verb(verb),
        status=Status(status),
        status_reason=status_reason,
        created_at=created_at,
        data=None if data is None else parse(whole(data)),
    )
