"""The use cases: what a caller can do to a stack. Each checks, then writes all in one transaction or nothing.

What takes time is queued as an action and carried out by a worker; a mark is made at once.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionInProgress,
    Forbidden,
    HeatliteError,
    HTTPBadRequest,
    InvalidBreakPointHook,
    NotFound,
    NotSupported,
    PhysicalResourceIDAmbiguity,
    RequestLimitExceeded,
    ResourceActionNotSupported,
    ResourceNotAvailable,
    ResourceNotFound,
    StackExists,
    StackLocked,
    StackNotFound,
    StackValidationFailed,
)
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, canonical
from heatlite.core.status import ActionStatus, Control, LockLevel, Status, Verb
from heatlite.engine.definitions import Definitions
from heatlite.engine.execution import timeout_seconds
from heatlite.engine.foresight import Foresight
from heatlite.engine.journal import moved, resource_event, stack_event
from heatlite.engine.locks import Operation, maintenance_refusal, refusal
from heatlite.engine.prepare import Preparation, Prepared
from heatlite.engine.requests import Changes, Preview, Request
from heatlite.engine.scope import READABLE, Resources, Values, current_rows, type_code, without_unknown
from heatlite.plugin.registry import Registry
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ActionRecord, LockRecord, ResourceRecord, StackRecord, SuppressedRecord
from heatlite.store.stacks import StackQuery
from heatlite.store.store import Store
from heatlite.template.document import OutputDefinition
from heatlite.template.expression import requires, resolve

log = logging.getLogger(__name__)
audit = logging.getLogger("heatlite.audit")
"""Every lock, unlock, refusal and replay: who, when, why (lock-and-health §2)."""

MARKED = "The resource was explicitly marked as {} through the API"

MOST_NOTED = 10_000

STACK_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,254}")

LOCKERS = frozenset({"admin", "member"})
"""Roles that may lock and unlock."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One caller's operation on a stack, with what it takes to send the request again."""

    context: Context
    operation: Operation
    stack: StackRecord
    method: str
    path: str
    """Below the stack: "" for the stack itself."""
    body: JsonMap | None
    target: str = ""


class Stacks:
    """All use cases. `wake` is called after something was queued."""

    def __init__(
        self, store: Store, types: Registry, clock: Clock, settings: Settings, definitions: Definitions
    ) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._store = store
        self._types = types
        self._clock = clock
        self._settings = settings
        self._definitions = definitions
        self._preparation = Preparation(store, types, settings, definitions)
        self._noted: set[tuple[object, ...]] = set()
        """Refusals that are in the store already: a client that hammers a locked stack must not write each time."""

    # -- create and update -------------------------------------------------------------------------

    def create(self, context: Context, request: Request) -> StackRecord:
        """Queue the creation of a stack; it is CREATE_IN_PROGRESS when this returns.

        Raises StackExists, and whatever is wrong with the request.
        """
        stack, prepared = self._new_stack(context, request)
        stack = moved(stack, Verb.CREATE, Status.IN_PROGRESS, "Stack CREATE started")
        with self._store.transaction():
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id)
            self._store.stacks.insert(stack)
            self._store.events.append_many([stack_event(stack, stack.created_at)])
            self._queue(context, stack, Verb.CREATE)
        self._definitions.keep(stack, prepared.definition)
        self.wake()
        return stack

    def _new_stack(self, context: Context, request: Request) -> tuple[StackRecord, Prepared]:
        """A stack that could be made, and its definition. The order of the checks is Heat's (hot-language §13)."""
        name = request.name or ""
        stack = StackRecord(
            id=new_id(),
            name=name,
            project=context.project,
            username=context.user,
            template_id="",
            environment={},
            verb=Verb.INIT,
            status=Status.COMPLETE,
            status_reason="",
            created_at=self._clock.now(),
            timeout_mins=request.timeout_mins or None,
            disable_rollback=True if request.disable_rollback is None else request.disable_rollback,
            tags=request.tags or (),
        )
        if self._store.stacks.by_name(context.project, name) is not None:
            raise StackExists(stack_name=name)
        if not STACK_NAME.fullmatch(name):
            raise StackValidationFailed(
                f"Invalid stack name {name} must contain only alphanumeric or \"_-.\" characters, must start with alpha"
                " and must be 255 characters or less."
            )
        self._check_quota(context)
        prepared = self._preparation.new(stack, request)
        return replace(stack, template_id=prepared.template_id, environment=prepared.environment), prepared

    def _check_quota(self, context: Context) -> None:
        limit = self._settings.max_stacks_per_tenant
        if self._store.stacks.count(context.project, StackQuery()) >= limit:
            raise RequestLimitExceeded(message=f"You have reached the maximum stacks per tenant, {limit}.")

    def preview_create(self, context: Context, request: Request) -> Preview:
        """What `create` would make. Raises what `create` would raise."""
        stack, prepared = self._new_stack(context, request)
        foresight = Foresight(prepared.definition, [], self._resources_of(stack))
        return Preview(stack, prepared.definition, foresight.changes().added)

    def update(self, context: Context, stack: StackRecord, request: Request, existing: bool) -> None:
        """Queue an update; UPDATE_IN_PROGRESS when this returns.

        With `existing` (PATCH) what the request leaves out stays as it is, else (PUT) it goes back to its default.
        An empty PATCH runs the same definition again: failed and unhealthy resources are replaced.
        """
        method = "PATCH" if existing else "PUT"
        attempt = self._attempt(context, Operation.UPDATE, stack, method, "", request.body)
        prepared = self._preparation.changed(stack, request, existing)
        now = self._clock.now()
        with self._allowed(attempt) as stack:
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id)
            after = replace(_updated(stack, request, prepared, existing), updated_at=now)
            after = moved(after, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")
            self._store.stacks.save(after)
            self._store.events.append_many([stack_event(after, now)])
            self._queue(context, after, Verb.UPDATE)
        self._definitions.keep(after, prepared.definition)
        self.wake()

    def preview_update(self, stack: StackRecord, request: Request, existing: bool) -> Changes:
        """What `update` would do, as far as that is known beforehand."""
        prepared = self._preparation.changed(stack, request, existing)
        after = _updated(stack, request, prepared, existing)
        rows = self._store.resources.of(stack.id)
        return Foresight(prepared.definition, rows, self._resources_of(after)).changes()

    def validate(self, request: Request) -> JsonMap:
        """The answer of POST /validate. Raises what is wrong with the template."""
        return self._preparation.validate(request).describe()

    # -- delete, check, cancel ---------------------------------------------------------------------

    def delete(self, context: Context, stack: StackRecord) -> None:
        """Queue the deletion; whatever holds the stack is cancelled and waited for.

        A lock or unlock that failed is lifted by it (lock-and-health §2).
        """
        attempt = self._attempt(context, Operation.DELETE, stack, "DELETE", "", None)
        now = self._clock.now()
        with self._allowed(attempt) as stack:
            self._store.actions.cancel_queued([stack.id], "the stack is deleted", now)
            holder = None
            for action in self._store.actions.live([stack.id]):
                self._store.actions.signal(action.id, Control.ABORT)
                holder = action.id
            stack = moved(stack, Verb.DELETE, Status.IN_PROGRESS, "Stack DELETE started")
            stack = replace(stack, updated_at=now, lock=None)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            self._queue(context, stack, Verb.DELETE, waits_for=holder)
        self.wake()

    def check(self, context: Context, stack: StackRecord) -> None:
        """Queue a check of every resource."""
        self._start(self._act(context, Operation.CHECK, stack), Verb.CHECK)

    def suspend(self, context: Context, stack: StackRecord) -> None:
        """Not yet; what else is in the way is told first."""
        with self._allowed(self._act(context, Operation.SUSPEND, stack)):
            raise NotSupported("Suspending a stack is not supported.")

    def resume(self, context: Context, stack: StackRecord) -> None:
        """Not yet; what else is in the way is told first."""
        with self._allowed(self._act(context, Operation.RESUME, stack)):
            raise NotSupported("Resuming a stack is not supported.")

    def cancel(self, context: Context, stack: StackRecord, rollback: bool) -> None:
        """Ask the running operation to stop. Raises NotSupported if there is none that can be cancelled.

        A queued one is asked as well: it starts, finds the control, and ends as if it had been cut short.
        """
        operation = Operation.CANCEL_UPDATE if rollback else Operation.CANCEL_WITHOUT_ROLLBACK
        with self._allowed(self._act(context, operation, stack)) as stack:
            for action in self._store.actions.live([stack.id]):
                self._store.actions.signal(action.id, Control.CANCEL_ROLLBACK if rollback else Control.CANCEL)
        self.wake()

    # -- health ------------------------------------------------------------------------------------

    def mark(self, context: Context, stack: StackRecord, resource: str, unhealthy: bool, reason: str | None) -> None:
        """Say that a resource is unhealthy or well again (lock-and-health §1; seed: heat-mark-unhealthy).

        `resource` is its name or its physical id. The next update replaces what is CHECK_FAILED.
        """
        body: JsonMap = {"mark_unhealthy": unhealthy}
        if reason is not None:
            body["resource_status_reason"] = reason
        path = f"/resources/{resource}"
        attempt = self._attempt(context, Operation.MARK, stack, "PATCH", path, body, target=resource)
        now = self._clock.now()
        with self._allowed(attempt) as stack:
            row = self.resource(stack, resource)
            if row.status is Status.IN_PROGRESS:
                raise ActionInProgress(stack_name=stack.name, action=row.verb)
            is_marked = row.verb is Verb.CHECK and row.status is Status.FAILED
            if row.verb is Verb.DELETE or not unhealthy and not is_marked:
                return
            status = Status.FAILED if unhealthy else Status.COMPLETE
            text = reason or MARKED.format("unhealthy" if unhealthy else "healthy")
            row = replace(row, verb=Verb.CHECK, status=status, status_reason=text, updated_at=now)
            self._store.resources.save_many([row])
            self._store.events.append_many([resource_event(row, now)])

    def signal(self, stack: StackRecord, resource: str, details: JsonMap | None) -> None:
        """Deliver a signal to a resource. No type of this installation takes one that changes the topology.

        Raises ResourceActionNotSupported for a type without a handler, ResourceNotAvailable, InvalidBreakPointHook.
        """
        row = self.resource(stack, resource)
        if details and "unset_hook" in details:
            raise InvalidBreakPointHook(f"The hook {details['unset_hook']!r} is not set on resource {row.name}.")
        if not self._resources_of(stack).type_of(row).has("signal"):
            raise ResourceActionNotSupported(action="signal")
        if row.verb is Verb.INIT:
            raise ResourceNotAvailable(resource_name=row.name)
        raise NotSupported("Signals are not supported yet.")

    # -- maintenance lock --------------------------------------------------------------------------

    def lock(
        self, context: Context, stack: StackRecord, level: LockLevel, reason: str | None, expires_at: float | None
    ) -> None:
        """Put a stack under maintenance, or change level, reason or expiry (seed: heat-stack-lock)."""
        _check_role(context)
        options: JsonMap = {"level": level.value}
        if reason is not None:
            options["reason"] = reason
        if expires_at is not None:
            options["expires_at"] = to_text(expires_at)
        attempt = self._act(context, Operation.LOCK, stack, options)
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise HTTPBadRequest(f"'expires_at' is {to_text(expires_at)}, which is not in the future.")
        self._start(attempt, Verb.LOCK, LockRecord(level, context.user, context.is_admin, now, reason, expires_at))
        audit.info("lock stack=%s by=%s level=%s reason=%r", stack.id, context.user, level, reason)

    def unlock(self, context: Context, stack: StackRecord) -> None:
        """End the maintenance: what the lock holds gets its earlier state back."""
        _check_role(context)
        self._start(self._act(context, Operation.UNLOCK, stack), Verb.UNLOCK)
        audit.info("unlock stack=%s by=%s", stack.id, context.user)

    def expire_locks(self) -> None:
        """Unlock the stacks whose lock has run out, also if that was while no engine ran."""
        for stack in self._store.stacks.expired_locks(self._clock.now()):
            if stack.verb is not Verb.LOCK or stack.status is Status.IN_PROGRESS:
                continue  # On its way; or the unlock has failed, and that is for a person to look at.
            context = Context(stack.project, user="lock expiry")
            try:
                self.unlock(context, stack)
            except HeatliteError as error:
                log.info("stack %s: its lock has expired, but: %s", stack.name, error)

    def suppressed(self, stack: StackRecord, entry_id: int) -> SuppressedRecord:
        """A request that the lock refused. Raises NotFound."""
        entry = self._store.suppressed.get(stack.id, entry_id)
        if entry is None:
            raise NotFound(entity="Suppressed request", name=entry_id)
        return entry

    def drop_suppressed(self, context: Context, stack: StackRecord, entry_id: int) -> None:
        """Forget a request that the lock refused, be it replayed or not wanted any more. Raises NotFound."""
        entry = self.suppressed(stack, entry_id)
        with self._store.transaction():
            self._store.suppressed.delete(stack.id, entry_id)
        self._noted.clear()  # What comes again is to be listed again.
        audit.info("drop stack=%s entry=%s request=%s by=%s", stack.id, entry_id, entry.request, context.user)

    # -- the way every operation takes -------------------------------------------------------------

    def _act(self, context: Context, operation: Operation, stack: StackRecord, options: Json = None) -> Attempt:
        return self._attempt(context, operation, stack, "POST", "/actions", {operation.value: options})

    def _attempt(
        self,
        context: Context,
        operation: Operation,
        stack: StackRecord,
        method: str,
        path: str,
        body: JsonMap | None,
        target: str = "",
    ) -> Attempt:
        """Begin an operation. What the stack's own lock forbids is refused here, before anything is looked at."""
        attempt = Attempt(context, operation, stack, method, path, body, target or stack.name)
        if stack.deleted_at is not None and operation not in (Operation.LOCK, Operation.UNLOCK):
            raise StackNotFound(name=stack.name)
        error = maintenance_refusal(operation, stack)
        if error is not None:
            self._note(attempt, error)
            raise error
        return attempt

    @contextmanager
    def _allowed(self, attempt: Attempt) -> Iterator[StackRecord]:
        """A transaction with the stack as it is now. Raises why the operation may not start."""
        try:
            with self._store.transaction():
                stack = self._store.stacks.hold(attempt.stack.id)
                if stack is None:
                    raise StackNotFound(name=attempt.stack.name)
                relatives = [*self._store.stacks.ancestors(stack), *self._store.stacks.descendants(stack)]
                live = self._store.actions.live([stack.id, *(relative.id for relative in relatives)])
                error = refusal(attempt.operation, stack, relatives, live)
                if error is not None:
                    raise error
                if stack.lock is not None and stack.lock.by_admin and not attempt.context.is_admin:
                    raise Forbidden("An administrator has locked the stack: only an administrator can change that.")
                yield stack
        except StackLocked as error:
            self._note(attempt, error)
            raise

    def _note(self, attempt: Attempt, error: HeatliteError) -> None:
        """Put a refusal into the audit log and, once for each lock, into the list of suppressed requests."""
        stack, user = attempt.stack, attempt.context.user
        audit.info("refused stack=%s request=%s target=%s by=%s", stack.id, attempt.operation, attempt.target, user)
        if attempt.operation in (Operation.LOCK, Operation.UNLOCK):
            return
        locked_at = 0.0 if stack.lock is None else stack.lock.locked_at
        key = (stack.id, locked_at, attempt.operation, attempt.target, user, attempt.path, canonical(attempt.body))
        if key in self._noted:
            return
        entry = SuppressedRecord(
            stack_id=stack.id,
            time=self._clock.now(),
            request=attempt.operation.value,
            target=attempt.target,
            requested_by=user,
            detail=error.message,
            method=attempt.method,
            path=attempt.path,
            body=attempt.body,
        )
        with self._store.transaction():
            self._store.suppressed.add(entry, locked_at)
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted.add(key)

    def _start(self, attempt: Attempt, verb: Verb, lock: LockRecord | None = None) -> None:
        """Move the stack to <verb>_IN_PROGRESS and queue the action, in one transaction."""
        now = self._clock.now()
        with self._allowed(attempt) as stack:
            stack = moved(stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
            if lock is not None:
                stack = replace(stack, lock=lock)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            inputs: JsonMap = {} if lock is None else {"level": lock.level.value}
            self._queue(attempt.context, stack, verb, inputs)
        self.wake()

    def _queue(
        self,
        context: Context,
        stack: StackRecord,
        verb: Verb,
        inputs: JsonMap | None = None,
        waits_for: str | None = None,
    ) -> None:
        now = self._clock.now()
        self._store.actions.put(
            ActionRecord(
                id=new_id(),
                stack_id=stack.id,
                root_id=stack.root_id or stack.id,
                project=stack.project,
                verb=verb,
                status=ActionStatus.WAITING if waits_for else ActionStatus.READY,
                requested_by=context.user,
                created_at=now,
                inputs=inputs or {},
                waits_for=waits_for,
                deadline=now + timeout_seconds(stack, self._settings),
            )
        )

    # -- reading what only the types know ----------------------------------------------------------

    def outputs(self, stack: StackRecord) -> list[JsonMap]:
        """The outputs with their values, in the template's order; one that cannot be had is null, with the error."""
        definition = self._definitions.of(stack)
        if not definition.outputs:
            return []
        names = {name for output in definition.outputs.values() for name in requires(output.value)}
        rows = self._store.resources.by_name(stack.id, sorted(names)) if names else []
        values = Values(self._resources_of(stack), {row.name: row for row in current_rows(rows)})
        return [_output(output, values) for output in definition.outputs.values()]

    def attributes(self, stack: StackRecord, row: ResourceRecord, names: Sequence[str]) -> JsonMap:
        """A resource's attributes, and those of `names`; null where one cannot be had."""
        if row.verb not in READABLE:
            return {}
        resource = self._resources_of(stack).make(row)
        values = {name: _attribute(resource, name) for name in (*resource.attributes_schema, *names)}
        if values.get("show") is None and "show" not in names:
            values.pop("show", None)
        return values

    def _resources_of(self, stack: StackRecord) -> Resources:
        return Resources(stack, self._types, self._clock.now)

    def resource(self, stack: StackRecord, name: str) -> ResourceRecord:
        """The row that stands for a name, else the one with that physical id.

        Raises ResourceNotFound; PhysicalResourceIDAmbiguity when several have the id.
        """
        rows = current_rows(self._store.resources.find(stack.id, name))
        if not rows:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        if len(rows) > 1:
            raise PhysicalResourceIDAmbiguity(phys_id=name)
        return rows[0]


def _check_role(context: Context) -> None:
    """Whether the caller may have to do with locks at all. Raises Forbidden."""
    if not context.roles & LOCKERS:
        raise Forbidden(action="actions:lock")


def _updated(stack: StackRecord, request: Request, prepared: Prepared, existing: bool) -> StackRecord:
    """The stack with what an update changes of its record; a rollback goes back to the last definition reached."""
    reached = stack.previous_template_id is None or stack.previous_environment is None
    if request.tags is not None:
        tags = request.tags
    else:
        tags = stack.tags if existing else ()
    return replace(
        stack,
        template_id=prepared.template_id,
        environment=prepared.environment,
        previous_template_id=stack.template_id if reached else stack.previous_template_id,
        previous_environment=stack.environment if reached else stack.previous_environment,
        timeout_mins=stack.timeout_mins if request.timeout_mins is None else request.timeout_mins or None,
        disable_rollback=stack.disable_rollback if request.disable_rollback is None else request.disable_rollback,
        tags=tags,
    )


def _output(output: OutputDefinition, values: Values) -> JsonMap:
    shown: JsonMap = {"output_key": output.name, "description": output.description or "No description given"}
    try:
        shown["output_value"] = without_unknown(resolve(output.value, values)) if output.condition else None
    except HeatliteError as error:
        # Heat's rule: one output that fails must not hide the stack.
        log.info("output %s: %s", output.name, error)
        shown["output_value"] = None
        shown["output_error"] = str(error)
    return shown


def _attribute(resource: Resource[Schema], name: str) -> Json:
    try:
        with type_code():
            return resource.attribute(name)
    except HeatliteError as error:
        log.info("resource %s: attribute %s: %s", resource.name, name, error)
        return None

