"""Health marks: resources reported as unhealthy (docs/reference/health.md)."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.context import Context
from heatlite.core.errors import ActionInProgress, DatabaseUnavailable, HeatliteError, ResourceNotFound, StackLocked
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.core.wire.why import Holder
from heatlite.engine.admission.base import StackOperations
from heatlite.engine.preview.locked_children import LockedChildren
from heatlite.engine.state.conflict_rules import Operation, locked_error
from heatlite.engine.state.unit_of_work import resource_event, row_with_state, shortened
from heatlite.engine.state.values import current_rows
from heatlite.store.records import HealthRecord, PreviousState, ResourceRecord, StackRecord

MARKED = "The resource was explicitly marked as {} through the API"


class Mark(Struct, frozen=True):
    """A health mark of a resource."""

    resource: str
    """Its name, its path into nested stacks, or its physical id."""
    unhealthy: bool
    reason: str | None = None

    @property
    def operation(self) -> Operation:
        """The operation for admission."""
        return Operation.MARK if self.unhealthy else Operation.MARK_HEALTHY


class HealthMarks(StackOperations):
    """Marks resources unhealthy or healthy."""

    def mark(
        self, context: Context, stack: StackRecord, resource: str, unhealthy: bool, reason: str | None
    ) -> str | None:
        """Mark a resource as unhealthy, or take the mark back.

        `resource` is as in `Mark`. The next update replaces a marked resource; therefore the parent resource of a
        locked nested stack cannot be marked. Taking a mark back restores the state before it; a lock permits that.

        Returns why it had no effect: `not_marked`, or `deleted` for what is being deleted. Raises ResourceNotFound,
        ActionInProgress, and as `admitted`.
        """
        mark = Mark(resource, unhealthy, reason)
        path, body = f"/resources/{resource}", _body(mark)
        prechecked = self._admission.precheck(context, mark.operation, stack, "PATCH", path, body, target=resource)
        with self._admission.admitted(prechecked) as stack:
            return self._write(context, {stack.id: stack}, stack, mark)

    def mark_all(self, context: Context, stack: StackRecord, marks: Sequence[Mark]) -> str | None:
        """Mark resources of a tree in one transaction; all of them or none.

        Returns why one of them had no effect. Raises as `mark`: the first error, with all resources that were refused.
        """
        body: JsonMap = {"marks": [{"resource": one.resource, **_body(one)} for one in marks]}
        operations = {one.operation for one in marks}
        operation = operations.pop() if len(operations) == 1 else Operation.MARK
        prechecked = self._admission.precheck(context, operation, stack, "PATCH", "/resources", body)
        with self._admission.admitted(prechecked) as stack:
            refused: list[HeatliteError] = []
            held, ignored = {stack.id: stack}, None
            for mark in marks:
                try:
                    ignored = self._write(context, held, stack, mark) or ignored
                except DatabaseUnavailable:
                    raise
                except HeatliteError as error:
                    error.message = f"{mark.resource}: {error.message}"
                    refused.append(error)
            if refused:
                first = next((one for one in refused if isinstance(one, StackLocked)), refused[0])
                first.message = f"Nothing was marked. {' '.join(one.message for one in refused)}"
                raise first
        return ignored

    def _write(self, context: Context, held: dict[str, StackRecord], stack: StackRecord, mark: Mark) -> str | None:
        """Write the mark of a resource below a stack.

        `held` are the stacks that are held, by id. That of the resource is added. Returns why it has no effect.
        """
        owner, row = self.reader.resource_at(stack, mark.resource)
        if owner.id not in held:
            held[owner.id] = self._admission.hold(context, mark.operation, owner)
        stack, now = held[owner.id], self._clock.now()
        # A name finds the current row; a physical id may find one that waits for its clean-up.
        if row.name != mark.resource.strip("/").rpartition("/")[2] and not self._is_current(stack, row):
            raise ResourceNotFound(resource_name=mark.resource, stack_name=stack.name)
        if mark.unhealthy:
            self._refuse_locked(context, stack, row)
        if row.status is Status.IN_PROGRESS:
            since = to_text(row.updated_at or row.created_at)
            holder = Holder(kind="resource", id=row.id, since=since)
            raise ActionInProgress(stack_name=stack.name, action=row.verb, holder=holder)
        now_is = row.state_without_lock
        is_marked = now_is.verb is Verb.CHECK and now_is.status is Status.FAILED
        if row.verb is Verb.DELETE:
            return "deleted"
        if not mark.unhealthy and not is_marked:
            return "not_marked"
        text = shortened(mark.reason or "") or MARKED.format("unhealthy" if mark.unhealthy else "healthy")
        row = row_with_mark(row, mark.unhealthy, text, now)
        self._store.resources.save_many([row])
        self._store.events.append_many([resource_event(replace(row, status_reason=text), now)])
        self._store.resource_marked(stack.root_id or stack.id, mark.unhealthy, now)
        return None

    def _refuse_locked(self, context: Context, stack: StackRecord, row: ResourceRecord) -> None:
        """Raise StackLocked if a lock is in the row's nested stack, or below it."""
        if self.reader.may_nest(stack, row):
            locked = LockedChildren(self._store, self._definitions, self.reader, stack).locked(row)
            if locked is not None:
                raise locked_error(Operation.MARK, locked, context)

    def _is_current(self, stack: StackRecord, row: ResourceRecord) -> bool:
        """Return True unless the row waits for its clean-up."""
        rows = current_rows(self._store.resources.by_name(stack.id, [row.name]))
        return any(one.id == row.id for one in rows)


def _body(mark: Mark) -> JsonMap:
    body: JsonMap = {"mark_unhealthy": mark.unhealthy}
    return body if mark.reason is None else {**body, "resource_status_reason": mark.reason}


def row_with_mark(row: ResourceRecord, unhealthy: bool, text: str, now: float) -> ResourceRecord:
    """Return a row with a mark, or without one in the state before it.

    In a locked row it is the state for after the lock.
    """
    if row.is_locked and row.before_lock is not None:
        hidden = row.before_lock
        found = replace(
            row, verb=hidden.verb, status=hidden.status, status_reason=hidden.status_reason, before_lock=None
        )
        found = row_with_mark(found, unhealthy, text, now)
        after = PreviousState(found.verb, found.status, found.status_reason, now)
        return replace(row, before_lock=after, before_check=found.before_check, health=found.health)
    # The check of a nested stack with unknown health is CHECK_FAILED, too, without an unhealthy member.
    is_unknown = row.health is not None and row.health.since is not None
    row = replace(row, health=HealthRecord(marked=True) if unhealthy and is_unknown else None)
    before = None if unhealthy else row.before_check
    if before is not None:
        return row_with_state(row, before.verb, before.status, before.status_reason, now)
    return row_with_state(row, Verb.CHECK, Status.FAILED if unhealthy else Status.COMPLETE, text, now)
