"""Snapshots: what a stack is now, kept so that it can go back to it (heat-engine §10)."""

from collections.abc import Iterator
from dataclasses import replace

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import NotSupported, RequestLimitExceeded, SnapshotNotFound
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.core.masking import Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.definitions import Definitions
from heatlite.engine.gate import Gate
from heatlite.engine.handover import hidden_in, read_record
from heatlite.engine.journal import moved, stack_event
from heatlite.engine.locks import Operation
from heatlite.engine.offer import check_types
from heatlite.engine.prepare import Preparation
from heatlite.engine.requests import Request
from heatlite.engine.scope import Resources, Surroundings
from heatlite.engine.stacks import updated
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, SnapshotRecord, StackRecord
from heatlite.store.store import Store


class Snapshots:
    """Takes snapshots, goes back to them, removes them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        gate: Gate,
        preparation: Preparation,
        definitions: Definitions,
        surroundings: Surroundings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._gate = gate
        self._preparation = preparation
        self._definitions = definitions
        self._surroundings = surroundings

    def get(self, stack: StackRecord, snapshot_id: str) -> SnapshotRecord:
        """A snapshot of the stack. Raises SnapshotNotFound."""
        found = self._store.snapshots.get(stack.id, snapshot_id)
        if found is None:
            raise SnapshotNotFound(snapshot=snapshot_id, stack=stack.name)
        return found

    def shown(self, snapshot: SnapshotRecord) -> SnapshotRecord:
        """A snapshot as it may be shown: without what was hidden when it was taken."""
        record = snapshot.data
        if record is None:
            return snapshot
        data = Mask(lambda: hidden_in(record, {})).json(record)
        assert isinstance(data, dict)
        return replace(snapshot, data=data)

    def take(self, context: Context, stack: StackRecord, name: str | None) -> SnapshotRecord:
        """Queue a snapshot. Raises RequestLimitExceeded where the stack has as many as it may."""
        attempt = self._gate.attempt(context, Operation.SNAPSHOT, stack, "POST", "/snapshots", {"name": name})
        now = self._clock.now()
        with self._gate.allowed(attempt) as stack:
            limit = self._settings.max_snapshots_per_stack
            if len(self._store.snapshots.of(stack.id)) >= limit:
                raise RequestLimitExceeded(message=f"The stack has {limit} snapshots already: delete one first.")
            snapshot = SnapshotRecord(
                id=new_id(),
                stack_id=stack.id,
                name=name,
                verb=Verb.CREATE,
                status=Status.IN_PROGRESS,
                status_reason="Stack SNAPSHOT started",
                created_at=now,
            )
            self._store.snapshots.insert(snapshot)
            stack = replace(moved(stack, Verb.SNAPSHOT, Status.IN_PROGRESS, "Stack SNAPSHOT started"), updated_at=now)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            self._gate.queue(context, stack, Verb.SNAPSHOT, {"snapshot": snapshot.id})
        return snapshot

    def restore(self, context: Context, stack: StackRecord, snapshot_id: str) -> None:
        """Queue an update to what the stack was. Raises NotSupported for a snapshot that is not whole."""
        path = f"/snapshots/{snapshot_id}/restore"
        attempt = self._gate.attempt(context, Operation.RESTORE, stack, "POST", path, None)
        snapshot = self.get(stack, snapshot_id)
        if snapshot.verb is not Verb.CREATE or snapshot.status is not Status.COMPLETE:
            raise NotSupported("Restoring a snapshot that is not complete is not supported.")
        record = read_record(snapshot.data)
        request = Request(adopted=record)
        prepared = self._preparation.new(stack, request)
        check_types(context, prepared.types)
        now = self._clock.now()
        with self._gate.allowed(attempt) as stack:
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id, prepared.hides)
            if prepared.hides and not stack.sealed:
                self._store.seal_tree(stack)
            after = replace(updated(stack, request, prepared, existing=True), updated_at=now)
            after = moved(after, Verb.RESTORE, Status.IN_PROGRESS, "Stack RESTORE started")
            self._store.stacks.save(after)
            self._store.events.append_many([stack_event(after, now)])
            self._gate.queue(context, after, Verb.RESTORE, {"resources": record.resources})
        self._definitions.keep(after, prepared.definition)

    def delete(self, context: Context, stack: StackRecord, snapshot_id: str) -> None:
        """Remove a snapshot, by an action if types keep something for it. Raises NotSupported for one in progress."""
        path = f"/snapshots/{snapshot_id}"
        attempt = self._gate.attempt(context, Operation.DELETE_SNAPSHOT, stack, "DELETE", path, None)
        if self.get(stack, snapshot_id).status is Status.IN_PROGRESS:
            raise NotSupported("Deleting in-progress snapshot is not supported.")
        with self._gate.allowed(attempt) as stack:
            snapshot = self.get(stack, snapshot_id)
            if not any(parts(snapshot, Resources(stack, self._surroundings))):
                self._store.snapshots.delete_many([snapshot.id])
                return
            reason = "Snapshot DELETE started"
            snapshot = replace(snapshot, verb=Verb.DELETE, status=Status.IN_PROGRESS, status_reason=reason)
            self._store.snapshots.save(snapshot)
            self._gate.queue(context, stack, Verb.SNAPSHOT, {"delete": snapshot.id})


def parts(snapshot: SnapshotRecord, resources: Resources) -> Iterator[Resource[Schema]]:
    """The resources, as the snapshot has them, whose types keep something for it; those of nested stacks, too."""
    yield from _parts((snapshot.data or {}).get("resources"), resources)


def _parts(entries: Json, resources: Resources) -> Iterator[Resource[Schema]]:
    for entry in entries.values() if isinstance(entries, dict) else ():
        if isinstance(entry, dict):
            yield from _parts(entry.get("resources"), resources)
            row = _row(entry, resources.stack)
            if resources.type_of(row).has("delete_snapshot"):
                yield resources.make(row)


def _row(entry: JsonMap, stack: StackRecord) -> ResourceRecord:
    physical_id, data = entry["resource_id"], entry["resource_data"]
    return ResourceRecord(
        id="",
        stack_id=stack.id,
        name=str(entry["name"]),
        type=str(entry["type"]),
        mapped_type=str(entry["mapped_type"]),
        verb=Verb(str(entry["action"])),
        status=Status(str(entry["status"])),
        status_reason="",
        created_at=stack.created_at,
        physical_name=str(entry["physical_name"]),
        physical_id=physical_id if isinstance(physical_id, str) else None,
        data=data if isinstance(data, dict) else {},
    )
