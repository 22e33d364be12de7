"""Maintenance locks and suppressed requests (docs/reference/lock.md)."""

import logging
from collections.abc import Sequence

from msgspec import to_builtins
from msgspec.structs import asdict

from heatlite.core.clock import Clock, from_text, to_text
from heatlite.core.context import Context, Replay
from heatlite.core.errors import HeatliteError, HTTPBadRequest, InvalidStackState, NotFound
from heatlite.core.json import JsonMap
from heatlite.core.status import Cause, Status, Verb
from heatlite.core.wire.locks import LockOptions
from heatlite.engine.admission.admission import Admission, audit
from heatlite.engine.admission.caller_context import restore_author
from heatlite.engine.state.conflict_rules import Operation
from heatlite.store.records import DroppedRecord, LockRecord, StackRecord, SuppressedRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)


class MaintenanceLock:
    """Locks and unlocks stacks, and handles the requests that locks suppressed."""

    def __init__(self, store: Store, clock: Clock, admission: Admission) -> None:
        self._store = store
        self._clock = clock
        self._admission = admission
        self._stuck: frozenset[tuple[str, float]] = frozenset()
        """Expired locks that could not be lifted at the last try, as (stack id, locked_at)."""

    def lock(self, context: Context, stack: StackRecord, options: LockOptions) -> None:
        """Lock a stack, or change the options of its lock.

        Raises HTTPBadRequest for a time in the past, and as `admitted`.
        """
        expires_at = None if options.expires_at is None else from_text(options.expires_at)
        asked: JsonMap = {name: value for name, value in to_builtins(options).items() if value is not None}
        if expires_at is not None:
            asked["expires_at"] = to_text(expires_at)
        prechecked = self._admission.precheck_action(context, Operation.LOCK, stack, asked)
        now = self._clock.now()
        if expires_at is not None and expires_at <= now:
            raise HTTPBadRequest(f"'expires_at' is {to_text(expires_at)}, which is not in the future.")
        kept = {**asdict(options), "expires_at": expires_at}
        lock = LockRecord(locked_by=context.user, by_admin=context.is_admin, locked_at=now, **kept)
        self._admission.start(prechecked, Verb.LOCK, lock)
        audit.info("lock stack=%s by=%s level=%s reason=%r", stack.id, context.user, options.level, options.reason)

    def unlock(self, context: Context, stack: StackRecord) -> None:
        """Lift the lock of a stack. Stack and resources get their earlier states back."""
        prechecked = self._admission.precheck_action(context, Operation.UNLOCK, stack)
        self._admission.start(prechecked, Verb.UNLOCK)
        audit.info("unlock stack=%s by=%s", stack.id, context.user)

    def _lift_expired(self, stack: StackRecord) -> None:
        """Lift the lock of a stack, unless it was changed since it was read.

        Raises ActionConflict, and as `unlock`.
        """
        context = Context(stack.project, user="lock expiry")
        prechecked = self._admission.precheck_action(context, Operation.UNLOCK, stack)
        self._admission.start(prechecked, Verb.UNLOCK, cause=Cause.SCHEDULED, lifts=stack.lock)
        audit.info("unlock stack=%s by=%s", stack.id, context.user)

    def expire_locks(self) -> None:
        """Lift expired locks, also those of times without an engine: a job of the sweep.

        A lock that cannot be lifted yet is tried again at each call, and logged once.
        """
        stuck = set()
        for stack in self._store.stacks.expired_locks(self._clock.now()):
            if stack.verb is not Verb.LOCK or stack.status is Status.IN_PROGRESS:
                continue  # Already being lifted; or an unlock has failed, which needs an operator.
            if any(ancestor.lock is not None for ancestor in self._store.stacks.ancestors(stack)):
                continue  # The ancestor's lock holds the stack anyway.
            try:
                self._lift_expired(stack)
            except HeatliteError as error:
                key = (stack.id, 0.0 if stack.lock is None else stack.lock.locked_at)
                stuck.add(key)
                if key not in self._stuck:
                    log.info("stack %s: expired lock not lifted yet: %s", stack.name, error)
        self._stuck = frozenset(stuck)

    def listed(self, stack: StackRecord) -> tuple[Sequence[SuppressedRecord], DroppedRecord | None]:
        """Return the suppressed requests, oldest first, and the summary of dropped ones.

        The list of a root stack covers its whole tree.
        """
        self._admission.suppressed.flush()
        return self._store.suppressed.list(stack.id), self._store.suppressed.dropped(stack.id)

    def suppressed(self, stack: StackRecord, entry_id: int) -> SuppressedRecord:
        """Return one suppressed request from the stack's list. Raises NotFound."""
        entry = self._store.suppressed.get(stack.id, entry_id)
        if entry is None:
            raise NotFound(entity="Suppressed request", name=entry_id)
        return entry

    def replay(
        self, context: Context, stack: StackRecord, entry_id: int
    ) -> tuple[StackRecord, SuppressedRecord, Replay]:
        """Return target stack, entry and replay context of a suppressed request.

        Raises NotFound, and InvalidStackState for a request that was not kept whole.
        """
        entry = self.suppressed(stack, entry_id)
        target = stack if entry.stack_id == stack.id else self._store.stacks.get(entry.stack_id)
        if target is None:
            raise NotFound(entity="Suppressed request", name=entry_id)
        if not entry.replayable:
            raise InvalidStackState(
                f"Suppressed request {entry_id} was not kept whole, so it cannot be replayed. Ask"
                f" {entry.requested_by} to send it again, then drop the entry."
            )
        return target, entry, Replay(entry.stack_id, entry.id, restore_author(entry, stack.project), context.request_id)

    def replayed(self, context: Context, entry: SuppressedRecord, replay: Replay) -> None:
        """Record an accepted replay.

        Admission has removed the entry already. If the request had nothing to change, it is removed here.
        """
        if not replay.is_settled:
            self._admission.suppressed.remove(entry.stack_id, entry.id)
        audit.info(
            "replay stack=%s entry=%s request=%s by=%s for=%s",
            entry.stack_id, entry.id, entry.request, context.user, entry.requested_by,
        )  # fmt: skip

    def drop_suppressed(self, context: Context, stack: StackRecord, entry_id: int) -> None:
        """Remove a suppressed request without replaying it. Raises NotFound."""
        entry = self.suppressed(stack, entry_id)
        if not self._admission.suppressed.remove(stack.id, entry_id):
            raise NotFound(entity="Suppressed request", name=entry_id)
        audit.info("drop stack=%s entry=%s request=%s by=%s", entry.stack_id, entry_id, entry.request, context.user)
