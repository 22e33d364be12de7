"""Admission control for stack operations.

Checks locks and running actions, then writes and enqueues in the same transaction. Records requests that a maintenance
lock refused.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs, ActionOutputs
from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DatabaseUnavailable,
    DeletionProtected,
    Forbidden,
    HeatliteError,
    HTTPBadRequest,
    NotFound,
    StackLocked,
    StackNotFound,
)
from heatlite.core.ids import random_id
from heatlite.core.json import AnyMap, Json, JsonMap
from heatlite.core.status import ActionStatus, Cause, LockLevel, Needs, Status, Verb
from heatlite.engine.admission.caller_context import context_to_json
from heatlite.engine.admission.claims import Claims, Examiner, NewDefinition, PreparedRequest, noting, reasons
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.admission.suppressed_requests import SuppressedRequests, effect
from heatlite.engine.state.conflict_rules import (
    DELETES,
    GROUP_OPERATIONS,
    REDEFINES,
    Operation,
    maintenance_refusal,
    refusal,
    uses_cloud,
)
from heatlite.engine.state.guarding import Guarding
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.store.records import ActionRecord, LockRecord, StackRecord, SuppressedRecord
from heatlite.store.store import Store

audit = logging.getLogger("heatlite.audit")
"""Audit log: a line for every lock, unlock, refusal and replay, with caller and reason."""

NO_OPTIONS = ActionInputs()

CHECKS_TYPES = DELETES | GROUP_OPERATIONS | REDEFINES | {
    Operation.SUSPEND, Operation.RESUME, Operation.RETRY, Operation.HEAL, Operation.REVERT,
}  # fmt: skip
"""Operations that require permission for every resource type of the stack.

Operations with a new definition check the types of that definition instead.
"""

READS_FIRST = REDEFINES | {
    Operation.UPDATE, Operation.REVERT, Operation.JOIN, Operation.HEAL, Operation.RETRY, Operation.RESTORE,
}  # fmt: skip
"""Operations that read templates, objects or limits before their transaction."""

ZONE = "zone:"
"""Prefix of the stack tag that selects workers."""

WAITS_FOR_FEATURES = frozenset({
    Verb.CREATE, Verb.UPDATE, Verb.ROLLBACK, Verb.SUSPEND, Verb.RESUME, Verb.SNAPSHOT, Verb.RESTORE, Verb.ADOPT,
})  # fmt: skip
"""Verbs that wait until running work of features on the tree has ended. DELETE does not wait."""


class ExaminedRefusal(Struct, frozen=True):
    """Result of a closer look at a request that a lock refused."""

    types: frozenset[str]
    """Resource types that the caller must be allowed to use."""
    effect: JsonMap
    """Effect of the request, with secrets removed."""


class OperationRequest(Struct, frozen=True):
    """A requested stack operation, with the HTTP request needed to replay it."""

    context: Context
    operation: Operation
    stack: StackRecord
    method: str
    path: str
    """Path below the stack; "" for the stack itself."""
    body: JsonMap | None
    target: str = ""
    examine: Callable[[], ExaminedRefusal] | None = None
    """Examines the body. Raises the error that makes the request invalid."""
    cloud: CloudIdentity | None = None
    """Cloud to record for the stack on admission; None keeps the recorded one."""
    query: Sequence[tuple[str, str]] = ()
    """Keys and values of the query."""


class Admission:
    """Admits or rejects stack operations."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        clouds: StackClouds,
        examiners: Callable[[], Sequence[Examiner]] = lambda: (),
        defined: Callable[[NewDefinition], None] = lambda _: None,
        guarding: Callable[[], Guarding | None] = lambda: None,
    ) -> None:
        """`defined` lets features take part in the transaction that stores a definition.

        `guarding` returns the part of the feature that guards updates, if it is on.
        """
        self.guarding = guarding
        self._store = store
        self.examiners = examiners
        self._defined = defined
        self.clouds = clouds
        self._clock = clock
        self._settings = settings
        self.suppressed = SuppressedRequests(store)

    def precheck_action(
        self, context: Context, operation: Operation, stack: StackRecord, options: Json = None
    ) -> OperationRequest:
        """Precheck an operation that was sent as POST …/actions; see `precheck`."""
        return self.precheck(context, operation, stack, "POST", "/actions", {operation.value: options})

    def precheck(
        self,
        context: Context,
        operation: Operation,
        stack: StackRecord,
        method: str,
        path: str,
        body: JsonMap | None,
        target: str = "",
        examine: Callable[[], ExaminedRefusal] | None = None,
        adopts_cloud: bool = False,
        on: StackRecord | None = None,
        query: Sequence[tuple[str, str]] = (),
    ) -> OperationRequest:
        """Reject an operation early, before its template is read.

        Cheap check against the stack's own lock, and its cloud unless the request `adopts_cloud`. For `READS_FIRST`, or
        with `on` as in `admitted`, also against running actions. `admitted` repeats it inside the transaction. Raises
        StackNotFound, StackLocked, Forbidden, OtherCloud and the action conflicts of `refusal`.
        """
        target, query = target or stack.name, (*query, *context.options.items())
        request = OperationRequest(context, operation, stack, method, path, body, target, examine, query=query)
        if _is_gone(operation, stack):
            raise StackNotFound(name=stack.name)
        error = maintenance_refusal(operation, stack, context)
        if error is not None:
            self._record_refusal(request, error)
            raise error
        self.require_types(context, operation, stack)
        if operation in READS_FIRST or on is not None:
            held = on or stack
            above = self._store.stacks.ancestors(held)
            below = self._store.stacks.descendants(held) if operation in REDEFINES else ()
            live = self._store.actions.holding(self._store.actions.live([one.id for one in (held, *above, *below)]))
            busy = refusal(operation, held, above, below, live, context) if live or operation in REDEFINES else None
            if busy is not None:
                if isinstance(busy, StackLocked):
                    self._record_refusal(request, busy)
                raise busy
        if _uses_cloud(request):
            return replace(request, cloud=self.clouds.admitted(stack, adopts=adopts_cloud))
        return request

    def examine(self, asked: PreparedRequest) -> Claims:
        """Let features examine the plan of an operation.

        Call before its transaction, which takes the claims. Raises what refuses it.
        """
        found = [one.examine(asked) for one in self.examiners()]
        return Claims([one for one in found if one is not None])

    def is_examined(self, types: Collection[str]) -> bool:
        """Return whether features examine operations on a tree with these types."""
        return any(one.concerns(types) for one in self.examiners())

    def shown(self, asked: PreparedRequest) -> JsonMap:
        """Return what features add to a plan that is shown."""
        because = reasons(self.examiners(), asked)
        return {key: value for one in self.examiners() for key, value in one.shown(asked, because).items()}

    def validated(self, asked: PreparedRequest) -> JsonMap:
        """Return what features say about a template that is validated."""
        return {key: value for one in self.examiners() for key, value in one.validated(asked).items()}

    def require_cloud(self, stack: StackRecord) -> None:
        """Raise OtherCloud if the stack's objects are in another cloud than ours."""
        self.clouds.admitted(stack)

    def require_types(self, context: Context, operation: Operation, stack: StackRecord) -> None:
        """Raise Forbidden if the caller lacks permission for a type of the stack.

        Only operations that need permission are checked.
        """
        if operation in CHECKS_TYPES:
            check_types(context, self._store.resources.types(stack.id))

    @contextmanager
    def admitted(
        self, request: OperationRequest, on: StackRecord | None = None, beside: Sequence[str] = ()
    ) -> Iterator[StackRecord]:
        """Open a transaction with the locked stack row.

        Raises the conflict that rejects the operation.

        `on` is the nested stack that will change, if that is not the addressed stack. `beside` are the ids of further
        roots that it will `hold`: all are locked in one order.
        """
        try:
            with noting(), self._store.transaction():
                for one in sorted([request.stack.id, *beside]) if beside else ():
                    self._store.stacks.lock(one)
                stack, below = self._held(request.context, request.operation, on or request.stack)
                lifted = [stack, *below] if request.operation in DELETES else [stack]
                if any(one.lock is not None and one.lock.by_admin for one in lifted) and not request.context.is_admin:
                    raise Forbidden("An administrator has locked the stack: only an administrator can change that.")
                self.consume_replay(request.context)
                if request.context.scheduled is not None:
                    self._store.queue.take(request.context.scheduled.action_id)
                if request.cloud is not None:
                    self._store.stacks.record_cloud(stack.root_id or stack.id, request.cloud)
                    stack = stack if stack.root_id is not None else replace(stack, cloud=request.cloud)
                yield stack
                request.context.claim()
        except StackLocked as error:
            self._record_refusal(request, error)
            raise
        except DeletionProtected:
            who = request.context.user
            audit.info("protected stack=%s request=%s by=%s", request.stack.id, request.operation, who)
            raise

    def hold(self, context: Context, operation: Operation, stack: StackRecord) -> StackRecord:
        """Lock the row of a further stack. Call in the transaction of `admitted`.

        Raises the conflict that rejects the operation.
        """
        return self._held(context, operation, stack)[0]

    def _held(
        self, context: Context, operation: Operation, stack: StackRecord
    ) -> tuple[StackRecord, Sequence[StackRecord]]:
        """Lock the row of a stack; return it and the stacks below it."""
        held = self._store.stacks.lock(stack.id)
        if held is None or _is_gone(operation, held):
            raise StackNotFound(name=stack.name)
        above, below = self._store.stacks.ancestors(held), self._store.stacks.descendants(held)
        found = self._store.actions.live([one.id for one in (held, *above, *below)])
        live = holding = self._store.actions.holding(found)
        error = refusal(operation, held, above, below, live, context)
        if error is not None and below:
            # A retained stack holds its former parents no longer. Few requests are refused, so only these look for one.
            below = self._store.resources.attached(below)
            reached = {one.id for one in (held, *above, *below)}
            live = [action for action in live if action.stack_id in reached]
            error = refusal(operation, held, above, below, live, context)
        if error is not None:
            raise error
        for run in found:
            if run not in holding:
                self._store.queue.set_aside(run.id)  # it asks again when it can go on
        return held, below

    def consume_replay(self, context: Context) -> None:
        """Remove the replayed request in the transaction that writes its effect.

        One entry therefore takes effect once, however many callers replay it. Raises NotFound if another replay has
        removed it.
        """
        replay = context.replay
        if replay is None:
            return
        if not self._store.suppressed.delete(replay.stack_id, replay.entry_id):
            raise NotFound(entity="Suppressed request", name=replay.entry_id)
        self._store.database.after_commit(replay.settled)

    def _record_refusal(self, request: OperationRequest, error: StackLocked) -> None:
        """Add a refusal to the suppressed requests, once per lock, and log it.

        Raises Forbidden for a caller who may not use the requested types: such a request must not be replayed.
        """
        stack, context = request.stack, request.context
        operation, target = request.operation, request.target
        if context.replay is None and operation not in (Operation.LOCK, Operation.UNLOCK, Operation.RUN):
            self._suppress(request, error)
        text = "refused stack=%s request=%s target=%s by=%s"
        audit.info(text, stack.id, operation, target, context.user)

    def _suppress(self, request: OperationRequest, error: StackLocked) -> None:
        """Add a refused request to the suppressed ones. Raises as `_record_refusal`."""
        stack, context, operation = request.stack, request.context, request.operation
        if operation is Operation.SIGNAL:
            detail = f"The signal was answered with 200 and ignored. {error.lock}"
        else:
            detail = f"The request was refused with 409. {error.lock}"
        entry = SuppressedRecord(
            stack_id=stack.id,
            time=self._clock.now(),
            request=operation.value,
            target=request.target,
            requested_by=context.user,
            detail=detail,
            method=request.method,
            path=request.path,
            body=request.body,
            root_id=stack.root_id or stack.id,
            author=context_to_json(context),
            query=urlencode(request.query),
        )
        self.suppressed.add(entry, error.locked_at, lambda: self._effect(request))

    def _effect(self, request: OperationRequest) -> JsonMap:
        """Return the effect that a refused request would have.

        Raises as `_record_refusal`.
        """
        self.require_types(request.context, request.operation, request.stack)
        if request.examine is None:
            return effect(request.operation, request.body)
        try:
            examined = request.examine()
        except DatabaseUnavailable:
            raise
        except HeatliteError as error:  # The text of the error may contain hidden values.
            return {"problem": type(error).__name__}
        check_types(request.context, examined.types)
        return examined.effect

    def start(
        self,
        request: OperationRequest,
        verb: Verb,
        lock: LockRecord | None = None,
        cause: Cause = Cause.REQUEST,
        lifts: LockRecord | None = None,
    ) -> None:
        """Move the stack to <verb>_IN_PROGRESS and enqueue the action.

        Stores its new lock, if given. One transaction. `lifts` is the lock that an unlock is for; None: any. Raises
        ActionConflict if the stack has another one by now, and as `admitted`.
        """
        with self.admitted(request) as stack:
            if lifts is not None and stack.lock != lifts:
                raise ActionConflict(f"The lock of stack {stack.name} was changed meanwhile.")
            if lock is not None:
                stack = replace(stack, lock=lock)
            stack = self.set_in_progress(stack, verb)
            inputs = NO_OPTIONS
            if lock is not None:
                inputs = ActionInputs(level=self._level(stack, lock), reason=lock.reason)
            action = replace(self.new_action(request.context, stack, verb, inputs), cause=cause)
            self.enqueue_action(request.context, action)

    def set_in_progress(self, stack: StackRecord, verb: Verb) -> StackRecord:
        """Move a stack to <verb>_IN_PROGRESS, within the caller's transaction."""
        stack = with_state(stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
        self._store.stacks.save(stack)
        self._store.events.append_many([stack_event(stack, self._clock.now())])
        return stack

    def _level(self, stack: StackRecord, lock: LockRecord) -> LockLevel:
        """Return the level of a new lock.

        It never releases resources that an ancestor's lock holds.
        """
        locks = [lock, *(ancestor.lock for ancestor in self._store.stacks.ancestors(stack))]
        return LockLevel.ALL if any(one and one.level is LockLevel.ALL for one in locks) else lock.level

    def enqueue(
        self,
        context: Context,
        stack: StackRecord,
        verb: Verb,
        inputs: ActionInputs = NO_OPTIONS,
    ) -> ActionRecord:
        """Create and enqueue an action, within the caller's transaction. Returns it."""
        action = self.new_action(context, stack, verb, inputs)
        self.enqueue_action(context, action)
        return action

    def enqueue_action(
        self, context: Context, action: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()
    ) -> None:
        """Enqueue an action. Call in a transaction."""
        needs = {**dict(self.running_work(action)), **dict(depends_on)}
        self._store.queue.enqueue(action, [*needs.items()])
        context.queued.append(action.id)

    def record_done(
        self, context: Context, action: ActionRecord, outputs: ActionOutputs, depends_on: Sequence[str] = ()
    ) -> ActionRecord:
        """Write the action of an operation that the caller's transaction has carried out.

        Returns it as it has ended. `depends_on` has the ids of actions that have ended in the transaction before.
        """
        now = self._clock.now()
        action = replace(action, started_at=now)
        self._store.queue.enqueue(action, [(one, Needs.SUCCESS) for one in depends_on])
        self._store.moves.end(replace(action, status=ActionStatus.READY), ActionStatus.SUCCEEDED, "", now, outputs)
        context.queued.append(action.id)
        return replace(action, status=ActionStatus.SUCCEEDED, outputs=outputs, finished_at=now)

    def define(
        self, before: StackRecord | None, stack: StackRecord, action: ActionRecord, plan_digest: str | None = None
    ) -> None:
        """Tell features of a definition that the caller's transaction stores.

        One of a nested stack comes from its root: features are not told of it.
        """
        if stack.root_id is None:
            self._defined(NewDefinition(before, stack, action, plan_digest))

    def guard(self, context: Context, stack: StackRecord | None, further: JsonMap) -> AnyMap | None:
        """Return the guard of an update; None: it has none.

        `stack` is None for a create. `further` has the keys of features in the request. Raises the error that refuses
        it.
        """
        guarding = self.guarding()
        if guarding is None and further.get("guard"):
            raise HTTPBadRequest("guard: nothing guards updates here, as the feature for it is off. Leave it out.")
        return None if guarding is None else guarding.asked(context, stack, further)

    def guard_again(self, context: Context, stack: StackRecord, last: ActionRecord | None) -> AnyMap | None:
        """Return the guard of a retry; None: it has none.

        It has that of an update that has failed before its bake was over. Raises as `guard`.
        """
        if last is None or last.verb is not Verb.UPDATE or last.inputs.heal is not None or self.guarding() is None:
            return None
        if last.data.guard is not None and last.data.guard.ended is not None:
            return None
        return self.guard(context, stack, {"guard": last.inputs.guard})

    def guarded(self, action: ActionRecord) -> None:
        """Begin the guard of an update, if it has one.

        Call in the transaction that queues it.
        """
        guarding = self.guarding()
        if guarding is not None and action.inputs.guard is not None:
            guarding.begin(action)

    def running_work(self, action: ActionRecord) -> list[tuple[str, Needs]]:
        """Return the work of features that the action must wait for.

        Call with the stack row locked, so that no further one is sent.
        """
        if action.verb not in WAITS_FOR_FEATURES:
            return []
        return [(work, Needs.END) for one in self._store.features for work in one.running(action.root_id)]

    def new_action(
        self, context: Context, stack: StackRecord, verb: Verb, inputs: ActionInputs = NO_OPTIONS
    ) -> ActionRecord:
        """Return the record of a new action of the caller; nothing is written.

        It has the id and the times of the scheduled action that the request begins, if any.
        """
        now = self._clock.now()
        action = ActionRecord(
            id=random_id(),
            stack_id=stack.id,
            root_id=stack.root_id or stack.id,
            project=stack.project,
            verb=verb,
            status=ActionStatus.INIT,
            requested_by=context.user,
            created_at=now,
            cause=context.cause,
            inputs=inputs,
            context=context_to_json(context),
            zone=zone_of(stack),
            timeout=stack.timeout,
            deadline=now + self._settings.time_limit(stack.timeout),
        )
        begun = context.scheduled
        if begun is None:
            return action
        return replace(
            action, id=begun.action_id, created_at=begun.created_at, not_before=begun.not_before, updated_at=now
        )


def _uses_cloud(request: OperationRequest) -> bool:
    """True if an operation reads or changes objects of the stack in the cloud."""
    if request.operation is Operation.LOCK:
        options = (request.body or {}).get(Operation.LOCK.value)
        return not isinstance(options, dict) or options.get("level") != LockLevel.STACKS
    return uses_cloud(request.operation, request.stack)


def _is_gone(operation: Operation, stack: StackRecord) -> bool:
    """True if the stack is deleted.

    Lock and unlock report the state of a deleted stack instead.
    """
    return stack.deleted_at is not None and operation not in (Operation.LOCK, Operation.UNLOCK)


def zone_of(stack: StackRecord) -> str | None:
    """Return the worker zone named by the stack's tag ``zone:NAME``; None: any worker."""
    zones = (tag.removeprefix(ZONE) for tag in stack.tags if tag.startswith(ZONE) and tag != ZONE)
    return next(zones, None)
