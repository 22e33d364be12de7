"""The maintenance lock: set, lifted, run out; and the requests that it kept out (lock-and-health §2)."""

import logging
from collections.abc import Sequence

from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context, Replay
from heatlite.core.errors import HeatliteError, HTTPBadRequest, InvalidStackState, NotFound
from heatlite.core.json import JsonMap
from heatlite.core.status import Cause, LockLevel, Status, Verb
from heatlite.engine.admission.admission import Admission, audit
from heatlite.engine.admission.caller_context import restore_author
from heatlite.engine.state.conflict_rules import Operation
from heatlite.store.records import DroppedRecord, LockRecord, StackRecord, SuppressedRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

class Maintenance:
    """Locks and unlocks stacks."""

    def __init__(self, store: Store, clock: Clock, admission: Admission) -> None:
        self._store = store
        self._clock = clock
        self._admission = admission
        self._stuck: frozenset[tuple[str, float]] = frozenset()
        """Expired locks that could not be lifted when last tried, each by its stack and since when it is there."""

    def lock(
        self, context: Context, stack: StackRecord, level: LockLevel, reason: str | None, expires_at: float | None
    ) -> None:
        """Put a stack under maintenance, or change level, reason or expiry (seed: heat-stack-lock)."""
        options: JsonMap = {"level": level.value}
        if reason is not None:
            options["reason"] = reason
        if expires_at is not None:
            options["expires_at"] = to_text(expires_at)
        prechecked = self._admission.precheck_action(context, Operation.LOCK, stack, options)
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise HTTPBadRequest(f"'expires_at' is {to_text(expires_at)}, which is not in the future.")
        lock = LockRecord(level, context.user, context.is_admin, now, reason, expires_at)
        self._admission.start(prechecked, Verb.LOCK, lock)
        audit.info("lock stack=%s by=%s level=%s reason=%r", stack.id, context.user, level, reason)

    def unlock(self, context: Context, stack: StackRecord, cause: Cause = Cause.REQUEST) -> None:
        """End the maintenance: what the lock holds gets its earlier state back."""
        prechecked = self._admission.precheck_action(context, Operation.UNLOCK, stack)
        self._admission.start(prechecked, Verb.UNLOCK, cause=cause)
        audit.info("unlock stack=%s by=%s", stack.id, context.user)

    def expire_locks(self) -> None:
        """Unlock the stacks whose lock has run out, also if that was while no engine ran. What cannot be lifted yet is
        tried again at each call, and told of once."""
        stuck = set()
        for stack in self._store.stacks.expired_locks(self._clock.now()):
            if stack.verb is not Verb.LOCK or stack.status is Status.IN_PROGRESS:
                continue  # On its way; or the unlock has failed, and that is for a person to look at.
            if any(ancestor.lock is not None for ancestor in self._store.stacks.ancestors(stack)):
                continue  # It stays locked as long as that one is.
            context = Context(stack.project, user="lock expiry")
            try:
                self.unlock(context, stack, Cause.SCHEDULED)
            except HeatliteError as error:
                key = (stack.id, 0.0 if stack.lock is None else stack.lock.locked_at)
                stuck.add(key)
                if key not in self._stuck:
                    log.info("stack %s: its lock has expired, but: %s", stack.name, error)
        self._stuck = frozenset(stuck)

    def listed(self, stack: StackRecord) -> tuple[Sequence[SuppressedRecord], DroppedRecord | None]:
        """The requests that locks have refused, oldest first, and what was dropped to make room for them.

        Those of a root are those of its whole tree.
        """
        self._admission.suppressed.flush()
        return self._store.suppressed.list(stack.id), self._store.suppressed.dropped(stack.id)

    def suppressed(self, stack: StackRecord, entry_id: int) -> SuppressedRecord:
        """A request that a lock refused, of those that are listed for the stack. Raises NotFound."""
        entry = self._store.suppressed.get(stack.id, entry_id)
        if entry is None:
            raise NotFound(entity="Suppressed request", name=entry_id)
        return entry

    def replay(
        self, context: Context, stack: StackRecord, entry_id: int
    ) -> tuple[StackRecord, SuppressedRecord, Replay]:
        """What it takes to make a refused request again, and the stack that it is for.

        Raises NotFound, and InvalidStackState for a request that was too large to be kept.
        """
        entry = self.suppressed(stack, entry_id)
        target = stack if entry.stack_id == stack.id else self._store.stacks.get(entry.stack_id)
        if target is None:
            raise NotFound(entity="Suppressed request", name=entry_id)
        if not entry.replayable:
            raise InvalidStackState(
                f"Suppressed request {entry_id} was too large to be kept, so it cannot be replayed: ask"
                f" {entry.requested_by} to make it again, then drop the entry."
            )
        return target, entry, Replay(entry.stack_id, entry.id, restore_author(entry, stack.project), context.request_id)

    def replayed(self, context: Context, entry: SuppressedRecord, replay: Replay) -> None:
        """A refused request was made again and was accepted; one that had nothing to change is taken off the list."""
        if replay.is_settled:
            self._admission.suppressed.clear_cache()
        else:
            self._admission.suppressed.remove(entry.stack_id, entry.id)
        audit.info(
            "replay stack=%s entry=%s request=%s by=%s for=%s",
            entry.stack_id, entry.id, entry.request, context.user, entry.requested_by,
        )  # fmt: skip

    def drop_suppressed(self, context: Context, stack: StackRecord, entry_id: int) -> None:
        """Forget a request that a lock refused. Raises NotFound."""
        entry = self.suppressed(stack, entry_id)
        if not self._admission.suppressed.remove(stack.id, entry_id):
            raise NotFound(entity="Suppressed request", name=entry_id)
        audit.info("drop stack=%s entry=%s request=%s by=%s", entry.stack_id, entry_id, entry.request, context.user)
