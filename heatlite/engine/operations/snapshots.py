"""Snapshots: take, show, restore and delete saved states of a stack."""

from collections.abc import Callable, Iterator
from functools import cache, partial

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.context import Context
from heatlite.core.errors import NotSupported, RequestLimitExceeded, SnapshotNotFound
from heatlite.core.ids import new_id
from heatlite.core.json import AnyMap, Json, JsonMap
from heatlite.core.redaction.masking import Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.admission import ExaminedRefusal
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.admission.claims import PreparedRequest, tries_again
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.admission.preparation import Preparation, Prepared
from heatlite.engine.operations import asked
from heatlite.engine.operations.redefining.departed import Restorable, restorable
from heatlite.engine.operations.stacks import updated
from heatlite.engine.planning.snapshot_parts import parts, row_of_entry
from heatlite.engine.preview.preview import StackPreview, check_protected
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Later, StackRequest
from heatlite.engine.state.stack_document import check_document, hidden_in, read_record, without_data
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory
from heatlite.engine.types.type_calls import type_code
from heatlite.store.records import SnapshotRecord, StackRecord
from heatlite.template.document import Definition


class Snapshots(StackOperations):
    """Takes, restores and deletes snapshots."""

    def __init__(self, parts: Parts, preparation: Preparation, engine_services: EngineServices) -> None:
        super().__init__(parts)
        self.longest_list = parts.settings.max_stack_data
        """Maximum size of the data in a list, in characters of JSON."""
        self._preparation = preparation
        self._engine_services = engine_services

    def get(self, stack: StackRecord, snapshot_id: str) -> SnapshotRecord:
        """Return a snapshot of the stack. Raises SnapshotNotFound."""
        found = self._store.snapshots.get(stack.id, snapshot_id)
        if found is None:
            raise SnapshotNotFound(snapshot=snapshot_id, stack=stack.name)
        return found

    def shown(self, context: Context, stack: StackRecord, snapshot: SnapshotRecord) -> SnapshotRecord:
        """Return the snapshot with hidden values redacted.

        Without permission to export the stack, the secrets of resources and their ``resource_data`` are left out.
        """
        record = snapshot.data
        if record is None:
            return snapshot
        exports = context.may_see_hidden

        def secrets() -> list[object]:
            return hidden_in(record, {}) + ([] if exports else [*self._secrets(record, stack)])

        data = Mask(secrets).json(record if exports else without_data(record))
        assert isinstance(data, dict)
        return replace(snapshot, data=data)

    def _secrets(self, record: JsonMap, stack: StackRecord) -> Iterator[Json]:
        """Yield the secrets of the resources in a stack document, nested stacks included."""
        entries, resources = record.get("resources"), ResourceFactory(stack, self._engine_services)
        for entry in entries.values() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                row = row_of_entry(entry, stack)
                with type_code():
                    yield from resources.make(row).secrets()
                if "resources" in entry:
                    yield from self._secrets(entry, replace(stack, id=str(entry["id"]), name=row.physical_name))

    def take(self, context: Context, stack: StackRecord, name: str | None) -> SnapshotRecord:
        """Enqueue a snapshot.

        Raises RequestLimitExceeded at `max_snapshots_per_stack` or for a large stack document, and as `admitted`.
        """
        prechecked = self._admission.precheck(context, Operation.SNAPSHOT, stack, "POST", "/snapshots", {"name": name})
        now = self._clock.now()
        with self._admission.admitted(prechecked) as stack:
            limit = self._settings.max_snapshots_per_stack
            if self._store.snapshots.count(stack.id) >= limit:
                raise RequestLimitExceeded(message=f"The stack has {limit} snapshots already: delete one first.")
            check_document(self._store, stack, self._settings.max_stack_data)
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
            stack = with_state(stack, Verb.SNAPSHOT, Status.IN_PROGRESS, "Stack SNAPSHOT started")
            stack = replace(stack, updated_at=now)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            self._admission.enqueue(context, stack, Verb.SNAPSHOT, ActionInputs(snapshot=snapshot.id))
        return snapshot

    @tries_again
    def restore(self, context: Context, stack: StackRecord, snapshot_id: str, guard: JsonMap | None = None) -> None:
        """Enqueue a restore of the stack to a snapshot.

        `guard` is an object with that key, if the request brings one. Raises NotSupported for an incomplete snapshot,
        and as `admitted`.
        """
        path = f"/snapshots/{snapshot_id}/restore"
        examine = partial(self._examined, stack, snapshot_id)
        prechecked = self._admission.precheck(context, Operation.RESTORE, stack, "POST", path, guard, examine=examine)
        found = self._restorable(stack, snapshot_id)
        record = found.record
        request = StackRequest(adopted=record)
        prepared = self._preparation.new(stack, request)
        check_types(context, prepared.types)
        now = self._clock.now()
        guarded = cache(partial(self._admission.guard, context, stack, guard or {}))
        later = Later(asked.RESTORE, options={"snapshot": snapshot_id, **(guard or {})})
        back = self._asked(context, stack, request, prepared, later, guarded)
        claims = self._admission.examine(back)
        with self._admission.admitted(prechecked) as stack:
            for one in self._store.features:
                one.check_definition(stack.id, partial(self._definitions.defines, prepared.definition), True)
            claims.look(back.preview)
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id, prepared.hides)
            if prepared.hides and not stack.sealed:
                self._store.seal_tree(stack)
            after = replace(updated(stack, request, prepared, existing=True), updated_at=now)
            after = with_state(after, Verb.RESTORE, Status.IN_PROGRESS, "Stack RESTORE started")
            resources = ResourceFactory(after, self._engine_services)
            resources.restore(record.resources)
            check_protected(prepared.definition, resources)
            self._store.stacks.save(after)
            self._store.events.append_many([stack_event(after, now)])
            inputs = ActionInputs(resources=record.resources, left_out=found.left_out, guard=guarded())
            action = self._admission.enqueue(context, after, Verb.RESTORE, inputs)
            self._admission.guarded(action)
            self._admission.define(stack, after, action)
            claims.take(action, after)
        self._definitions.keep(after, prepared.definition)

    def _asked(
        self,
        context: Context,
        stack: StackRecord,
        request: StackRequest,
        prepared: Prepared,
        later: Later,
        guard: Callable[[], AnyMap | None],
    ) -> PreparedRequest:
        """Return the request for a restore, as features examine it."""
        after = replace(updated(stack, request, prepared, existing=True), updated_at=self._clock.now())
        after = with_state(after, Verb.RESTORE, Status.IN_PROGRESS, "")

        record = request.adopted
        assert record is not None

        def content() -> Json:
            return {**later.options, "guard": guard()}

        def preview() -> StackPreview:
            resources = ResourceFactory(after, self._engine_services)
            resources.restore(record.resources)
            return StackPreview(prepared.definition, resources, resources.nested(after.id))

        return PreparedRequest(context, after, prepared.types, preview, content=content, later=lambda: later)

    def _restorable(self, stack: StackRecord, snapshot_id: str) -> Restorable:
        """Return the stack document of a snapshot, without what has moved since.

        Raises SnapshotNotFound, NotSupported for an incomplete one, and SnapshotOutdated.
        """
        snapshot = self.get(stack, snapshot_id)
        if snapshot.verb is not Verb.CREATE or snapshot.status is not Status.COMPLETE:
            raise NotSupported("Restoring a snapshot that is not complete is not supported.")
        record = read_record(snapshot.data)

        def define() -> Definition:
            return self._preparation.new(stack, StackRequest(adopted=record)).definition

        return restorable(self._store, stack, snapshot_id, record, define)

    def _examined(self, stack: StackRecord, snapshot_id: str) -> ExaminedRefusal:
        """Return types and effect of a restore. Raises as `_restorable`."""
        record = self._restorable(stack, snapshot_id).record
        found = self._preparation.examined(stack, StackRequest(adopted=record), False)
        return replace(found, effect={"snapshot": snapshot_id, **found.effect})

    def delete(self, context: Context, stack: StackRecord, snapshot_id: str) -> None:
        """Delete a snapshot, by an action if types hold backups for it.

        Raises NotSupported for a snapshot in progress, and as `admitted`.
        """
        path = f"/snapshots/{snapshot_id}"
        examine = partial(_delete_effect, snapshot_id)
        prechecked = self._admission.precheck(
            context, Operation.DELETE_SNAPSHOT, stack, "DELETE", path, None, examine=examine
        )
        if self.get(stack, snapshot_id).status is Status.IN_PROGRESS:
            raise NotSupported("Deleting in-progress snapshot is not supported.")
        with self._admission.admitted(prechecked) as stack:
            snapshot = self.get(stack, snapshot_id)
            if not any(parts(snapshot, ResourceFactory(stack, self._engine_services))):
                self._store.snapshots.delete_many([snapshot.id])
                return
            reason = "Snapshot DELETE started"
            snapshot = replace(snapshot, verb=Verb.DELETE, status=Status.IN_PROGRESS, status_reason=reason)
            self._store.snapshots.save(snapshot)
            self._admission.enqueue(context, stack, Verb.SNAPSHOT, ActionInputs(deleted_snapshot=snapshot.id))


def _delete_effect(snapshot_id: str) -> ExaminedRefusal:
    return ExaminedRefusal(frozenset(), {"snapshot": snapshot_id})
