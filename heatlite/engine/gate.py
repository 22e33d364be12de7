"""The way that every operation on a stack takes: ask the lock, then write and queue in the transaction that asked.

What a maintenance lock refuses is noted here, so that nothing is forgotten and nothing has to be kept elsewhere.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import Forbidden, StackLocked, StackNotFound
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap, canonical
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb
from heatlite.engine.journal import moved, stack_event
from heatlite.engine.locks import DELETES, Operation, maintenance_refusal, refusal
from heatlite.store.records import ActionRecord, LockRecord, StackRecord, SuppressedRecord
from heatlite.store.store import Store

audit = logging.getLogger("heatlite.audit")
"""Every lock, unlock, refusal and replay: who, when, why (lock-and-health §2)."""

MOST_NOTED = 10_000

ONCE = frozenset({Verb.SUSPEND, Verb.RESUME})
"""What there is nothing to do for where the stack has been through it (heat-engine §2)."""


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


class Gate:
    """Lets operations in, or says why not. `wake` is called after something was queued."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self.wake: Callable[[], None] = lambda: None
        self._store = store
        self._clock = clock
        self._settings = settings
        self._noted: set[bytes] = set()
        """Digests of refusals that are in the store already: a client that hammers a locked stack must not write each
        time. (The requests themselves would be gigabytes.)"""

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
    def allowed(self, attempt: Attempt, on: StackRecord | None = None) -> Iterator[StackRecord]:
        """A transaction with the stack as it is now. Raises why the operation may not start.

        `on` is the stack that will change where that is not the one that was addressed, but one nested in it.
        """
        try:
            with self._store.transaction():
                stack = self._store.stacks.hold((on or attempt.stack).id)
                if stack is None:
                    raise StackNotFound(name=attempt.stack.name)
                above, below = self._store.stacks.ancestors(stack), self._store.stacks.descendants(stack)
                live = self._store.actions.live([one.id for one in (stack, *above, *below)])
                error = refusal(attempt.operation, stack, above, below, live)
                if error is not None:
                    raise error
                lifted = [stack, *below] if attempt.operation in DELETES else [stack]
                if any(one.lock is not None and one.lock.by_admin for one in lifted) and not attempt.context.is_admin:
                    raise Forbidden("An administrator has locked the stack: only an administrator can change that.")
                yield stack
        except StackLocked as error:
            self._note(attempt, error)
            raise

    def _note(self, attempt: Attempt, error: StackLocked) -> None:
        """Put a refusal into the audit log and, once for each lock, into the list of suppressed requests."""
        stack, user = attempt.stack, attempt.context.user
        audit.info("refused stack=%s request=%s target=%s by=%s", stack.id, attempt.operation, attempt.target, user)
        if attempt.operation in (Operation.LOCK, Operation.UNLOCK):
            return
        same = (stack.id, error.locked_at, attempt.operation, attempt.target, user, attempt.path, attempt.body)
        key = hashlib.sha256(canonical(same).encode()).digest()
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
            self._store.suppressed.add(entry, error.locked_at)
        if len(self._noted) >= MOST_NOTED:
            self._noted.clear()
        self._noted.add(key)

    def start(self, attempt: Attempt, verb: Verb, lock: LockRecord | None = None) -> None:
        """Move the stack to <verb>_IN_PROGRESS and queue the action, in one transaction."""
        now = self._clock.now()
        with self.allowed(attempt) as stack:
            if verb in ONCE and stack.verb is verb and stack.status is Status.COMPLETE:
                return
            stack = moved(stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
            if lock is not None:
                stack = replace(stack, lock=lock)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            inputs: JsonMap = {} if lock is None else {"level": self._level(stack, lock)}
            self.queue(attempt.context, stack, verb, inputs)
        self.wake()

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
        """Put an action into the queue, within the caller's transaction; the caller wakes the worker afterwards."""
        action = self.action(context, stack, verb, inputs)
        if waits_for is not None:
            action = replace(action, status=ActionStatus.WAITING, waits_for=waits_for)
        self._store.actions.put(action)

    def action(
        self, context: Context, stack: StackRecord, verb: Verb, inputs: JsonMap | None = None
    ) -> ActionRecord:
        """An action that a caller asks for; it is not in the queue yet."""
        now = self._clock.now()
        return ActionRecord(
            id=new_id(),
            stack_id=stack.id,
            root_id=stack.root_id or stack.id,
            project=stack.project,
            verb=verb,
            status=ActionStatus.READY,
            requested_by=context.user,
            created_at=now,
            inputs=inputs or {},
            deadline=now + stack.timeout_seconds(self._settings.stack_action_timeout),
        )

    def forget(self, stack: StackRecord, entry_id: int) -> None:
        """Take a refusal off the list of suppressed requests."""
        with self._store.transaction():
            self._store.suppressed.delete(stack.id, entry_id)
        self._noted.clear()  # What comes again is to be listed again.
