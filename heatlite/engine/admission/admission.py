"""The way that every operation on a stack takes: ask the lock, then write and queue in the transaction that asked.

What a maintenance lock refuses goes to the list of suppressed requests (`suppression.py`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    DatabaseUnavailable,
    DeletionProtected,
    Forbidden,
    HeatliteError,
    NotFound,
    StackLocked,
    StackNotFound,
)
from heatlite.core.ids import random_id
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import ActionStatus, Cause, LockLevel, Needs, Status, Verb
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.admission.suppressed_requests import Suppression, effect
from heatlite.engine.state.conflict_rules import DELETES, Operation, maintenance_refusal, refusal
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.unit_of_work import moved, stack_event
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import ActionRecord, LockRecord, StackRecord, SuppressedRecord
from heatlite.store.secrets.cipher import Cipher
from heatlite.store.store import Store

audit = logging.getLogger("heatlite.audit")
"""Every lock, unlock, refusal and replay: who, when, why (lock-and-health §2)."""

ASKS_FOR_TYPES = DELETES | {Operation.SUSPEND, Operation.RESUME, Operation.RETRY}
"""What is only for those who may use all of the types that the stack has (resource-types.md: Availability); where there
is a definition to be checked, who checks that asks."""

ZONE = "zone:"

@dataclass(frozen=True, slots=True)
class Examined:
    """What a request turns out to be when it is looked at more closely."""

    types: frozenset[str]
    """The types of resources that its caller must be allowed to use."""
    effect: JsonMap
    """What it would do, as it may be shown."""


CHANGES_MACHINES = frozenset({
    Verb.CREATE, Verb.UPDATE, Verb.ROLLBACK, Verb.SUSPEND, Verb.RESUME, Verb.SNAPSHOT, Verb.RESTORE, Verb.ADOPT,
})  # fmt: skip
"""What is not done while machines of the tree are at work themselves. A deletion waits for nobody, all else leaves them
alone."""

ASKS_CLOUD = frozenset({
    Operation.UPDATE, Operation.DELETE, Operation.CHECK, Operation.SUSPEND, Operation.RESUME, Operation.RETRY,
    Operation.SNAPSHOT, Operation.RESTORE, Operation.DELETE_SNAPSHOT, Operation.SIGNAL,
})  # fmt: skip
"""What is not done in another cloud than the stack's, beside locks that touch resources. A forced delete passes: it
leaves behind, and lists, what it cannot reach."""


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
    examine: Callable[[], Examined] | None = None
    """Looks at what the body asks for. Raises what is wrong with it."""
    cloud: CloudIdentity | None = None
    """The cloud that the stack records as soon as the operation is let in; None: nothing new."""


class Gate:
    """Lets operations in, or says why not."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, clouds: StackClouds) -> None:
        self._store = store
        self._clouds = clouds
        self._clock = clock
        self._settings = settings
        self.suppression = Suppression(store, clock)

    def act(self, context: Context, operation: Operation, stack: StackRecord, options: Json = None) -> Attempt:
        """Begin an operation that came as POST …/actions; see `attempt`."""
        return self.attempt(context, operation, stack, "POST", "/actions", {operation.value: options})

    def attempt(
        self,
        context: Context,
        operation: Operation,
        stack: StackRecord,
        method: str,
        path: str,
        body: JsonMap | None,
        target: str = "",
        examine: Callable[[], Examined] | None = None,
        adopts_cloud: bool = False,
    ) -> Attempt:
        """Begin an operation. What the stack's own lock forbids is refused here, before anything is looked at; so is an
        update of a stack that is busy, before its template is read: of a hundred at once ninety-nine cost little; and
        what would run against another cloud than the stack's, unless it `adopts_cloud`."""
        attempt = Attempt(context, operation, stack, method, path, body, target or stack.name, examine)
        if _is_gone(operation, stack):
            raise StackNotFound(name=stack.name)
        error = maintenance_refusal(operation, stack)
        if error is not None:
            self._note(attempt, error)
            raise error
        self.ask_for_types(context, operation, stack)
        if operation is Operation.UPDATE:
            above = self._store.stacks.ancestors(stack)
            live = self._store.actions.live([one.id for one in (stack, *above)])
            busy = refusal(operation, stack, above, (), live) if live else None
            if busy is not None:
                if isinstance(busy, StackLocked):
                    self._note(attempt, busy)
                raise busy
        if _acts_on_cloud(attempt):
            return replace(attempt, cloud=self._clouds.admitted(stack, adopts=adopts_cloud))
        return attempt

    def ask_for_types(self, context: Context, operation: Operation, stack: StackRecord) -> None:
        """Raise Forbidden where the caller may not use all types of the stack, and the operation needs that."""
        if operation in ASKS_FOR_TYPES:
            check_types(context, self._store.resources.types(stack.id))

    @contextmanager
    def allowed(self, attempt: Attempt, on: StackRecord | None = None) -> Iterator[StackRecord]:
        """A transaction with the stack as it is now. Raises why the operation may not start.

        `on` is the stack that will change where that is not the one that was addressed, but one nested in it.
        """
        try:
            with self._store.transaction():
                stack = self._store.stacks.hold((on or attempt.stack).id)
                if stack is None or _is_gone(attempt.operation, stack):
                    raise StackNotFound(name=attempt.stack.name)
                above, below = self._store.stacks.ancestors(stack), self._store.stacks.descendants(stack)
                live = self._store.actions.live([one.id for one in (stack, *above, *below)])
                error = refusal(attempt.operation, stack, above, below, live)
                if error is not None:
                    raise error
                lifted = [stack, *below] if attempt.operation in DELETES else [stack]
                if any(one.lock is not None and one.lock.by_admin for one in lifted) and not attempt.context.is_admin:
                    raise Forbidden("An administrator has locked the stack: only an administrator can change that.")
                self.settle(attempt.context)
                if attempt.cloud is not None:
                    self._store.stacks.record_cloud(stack.root_id or stack.id, attempt.cloud)
                    stack = stack if stack.root_id is not None else replace(stack, cloud=attempt.cloud)
                yield stack
        except StackLocked as error:
            self._note(attempt, error)
            raise
        except DeletionProtected:
            who = attempt.context.user
            audit.info("protected stack=%s request=%s by=%s", attempt.stack.id, attempt.operation, who)
            raise

    def settle(self, context: Context) -> None:
        """Take the request that the caller replays off the list, in the transaction that writes what comes of it.

        So one entry takes effect once, however many replay it. Raises NotFound where another was first.
        """
        replay = context.replay
        if replay is None:
            return
        if not self._store.suppressed.delete(replay.stack_id, replay.entry_id):
            raise NotFound(entity="Suppressed request", name=replay.entry_id)
        self._store.database.after_commit(replay.settled)

    def _note(self, attempt: Attempt, error: StackLocked) -> None:
        """Put a refusal into the audit log and into the list of suppressed requests.

        Raises Forbidden for a caller who may not use the types that the request asks for: nobody is to replay it.
        """
        stack, context = attempt.stack, attempt.context
        operation, target = attempt.operation, attempt.target
        audit.info("refused stack=%s request=%s target=%s by=%s", stack.id, operation, target, context.user)
        if context.replay is not None or operation in (Operation.LOCK, Operation.UNLOCK, Operation.PLAYBOOK):
            return
        if operation is Operation.SIGNAL:
            detail = f"The signal was answered with 200 and ignored. {error.lock}"
        else:
            detail = f"The request was refused with 409. {error.lock}"
        entry = SuppressedRecord(
            stack_id=stack.id,
            time=self._clock.now(),
            request=operation.value,
            target=target,
            requested_by=context.user,
            detail=detail,
            method=attempt.method,
            path=attempt.path,
            body=attempt.body,
            root_id=stack.root_id or stack.id,
            author=context_stored(context),
        )
        self.suppression.note(entry, error.locked_at, lambda: self._effect(attempt))

    def _effect(self, attempt: Attempt) -> JsonMap:
        """What a refused request would do. Raises as `_note`."""
        self.ask_for_types(attempt.context, attempt.operation, attempt.stack)
        if attempt.examine is None:
            return effect(attempt.operation, attempt.body)
        try:
            examined = attempt.examine()
        except DatabaseUnavailable:
            raise
        except HeatliteError as error:  # The text of the error may tell what is hidden.
            return {"problem": type(error).__name__}
        check_types(attempt.context, examined.types)
        return examined.effect

    def start(
        self, attempt: Attempt, verb: Verb, lock: LockRecord | None = None, cause: Cause = Cause.REQUEST
    ) -> None:
        """Move the stack to <verb>_IN_PROGRESS, with its new lock if there is one, and queue the action, in one
        transaction."""
        with self.allowed(attempt) as stack:
            if lock is not None:
                stack = replace(stack, lock=lock)
            stack = self.begin(stack, verb)
            inputs: JsonMap = {} if lock is None else {"level": self._level(stack, lock)}
            self.put(attempt.context, replace(self.action(attempt.context, stack, verb, inputs), cause=cause))

    def begin(self, stack: StackRecord, verb: Verb) -> StackRecord:
        """Move a stack to <verb>_IN_PROGRESS, within the caller's transaction."""
        stack = moved(stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
        self._store.stacks.save(stack)
        self._store.events.append_many([stack_event(stack, self._clock.now())])
        return stack

    def _level(self, stack: StackRecord, lock: LockRecord) -> LockLevel:
        """How deep a new lock is to go; what an ancestor's lock holds it does not let go of."""
        locks = [lock, *(ancestor.lock for ancestor in self._store.stacks.ancestors(stack))]
        return LockLevel.ALL if any(one and one.level is LockLevel.ALL for one in locks) else lock.level

    def queue(
        self,
        context: Context,
        stack: StackRecord,
        verb: Verb,
        inputs: JsonMap | None = None,
        waits_for: str | None = None,
    ) -> None:
        """Put an action into the queue, within the caller's transaction. One that `waits_for` another is done when that
        has ended, however it ended."""
        depends_on = [] if waits_for is None else [(waits_for, Needs.END)]
        self.put(context, self.action(context, stack, verb, inputs), depends_on)

    def put(self, context: Context, action: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """Put a caller's action into the queue, or keep it until its time has come, within the caller's transaction."""
        if action.not_before is None:
            self._store.queue.enqueue(action, [*({**dict(self.at_work(action)), **dict(depends_on)}).items()])
        else:
            self._store.queue.schedule(action, depends_on)
        context.queued.append(action.id)

    def at_work(self, action: ActionRecord) -> list[tuple[str, Needs]]:
        """What machines do that an action changes: it depends on the end of that. In a transaction that holds the
        stack, so that nothing more is sent there from now on."""
        if action.verb not in CHANGES_MACHINES:
            return []
        return [(node_action, Needs.END) for node_action in self._store.node_actions.at_agents(action.root_id)]

    def action(
        self, context: Context, stack: StackRecord, verb: Verb, inputs: JsonMap | None = None
    ) -> ActionRecord:
        """An action that a caller asks for; it is not in the queue yet."""
        now = self._clock.now()
        return ActionRecord(
            id=random_id(),
            stack_id=stack.id,
            root_id=stack.root_id or stack.id,
            project=stack.project,
            verb=verb,
            status=ActionStatus.INIT,
            requested_by=context.user,
            created_at=now,
            inputs=inputs or {},
            context=context_stored(context),
            secrets=self._kept(context),
            zone=zone_of(stack),
            timeout=(stack.timeout_mins or 0) * 60,
            deadline=now + stack.timeout_seconds(self._settings.default_action_timeout),
        )

    def _kept(self, context: Context) -> str | None:
        """What a caller proves himself with, encrypted; without a key it is not kept."""
        cipher = self._store.sealing.cipher if context.secrets else None
        return None if cipher is None else cipher.encrypt({**context.secrets})


def _acts_on_cloud(attempt: Attempt) -> bool:
    """Whether an operation asks the cloud about objects of the stack, or changes them there."""
    match attempt.operation:
        case Operation.LOCK:
            options = (attempt.body or {}).get(Operation.LOCK.value)
            return not isinstance(options, dict) or options.get("level") != LockLevel.STACKS
        case Operation.UNLOCK:
            return attempt.stack.lock is not None and attempt.stack.lock.level is LockLevel.ALL
        case operation:
            return operation in ASKS_CLOUD


def _is_gone(operation: Operation, stack: StackRecord) -> bool:
    """Whether the stack is deleted, for all but those who are told in which state it is instead."""
    return stack.deleted_at is not None and operation not in (Operation.LOCK, Operation.UNLOCK)


def zone_of(stack: StackRecord) -> str | None:
    """The label of the workers that are to do what is done to a stack: its tag ``zone:NAME``; None: any worker."""
    zones = (tag.removeprefix(ZONE) for tag in stack.tags if tag.startswith(ZONE) and tag != ZONE)
    return next(zones, None)


def context_stored(context: Context) -> JsonMap:
    """What the row of an action keeps of its caller beside its columns, and beside what is secret."""
    return {
        "roles": sorted(context.roles),
        "request_id": context.request_id,
        "user_id": context.user_id,
        "user_domain_id": context.user_domain_id,
        "project_domain_id": context.project_domain_id,
    }


def context_of(action: ActionRecord, cipher: Cipher | None) -> Context:
    """Who asked for an action; until it has ended with what he sent to prove himself. Raises UnreadableSecret."""
    secrets = {}
    if action.secrets is not None:
        if cipher is None:
            raise UnreadableSecret(keys="encryption_keys")
        secrets = {name: str(value) for name, value in cipher.decrypt(action.secrets).items()}
    return replace(_restored(action.project, action.requested_by, action.context), secrets=secrets)


def author_of(entry: SuppressedRecord, project: str) -> Context:
    """The caller who made a suppressed request, as that caller was then."""
    return _restored(project, entry.requested_by, entry.author)


def _restored(project: str, user: str, stored: JsonMap) -> Context:
    """The caller of whom `context_stored` is kept."""
    roles = stored.get("roles")
    return Context(
        project=project,
        user=user,
        roles=frozenset(str(role) for role in roles) if isinstance(roles, list) else frozenset(),
        request_id=str(stored.get("request_id", "")),
        user_id=str(stored.get("user_id", "")),
        user_domain_id=str(stored.get("user_domain_id", "")),
        project_domain_id=str(stored.get("project_domain_id", "")),
    )
