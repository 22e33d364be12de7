"""Warns of expiries, ends stacks at their time, or holds the end.

Every engine sweeps once a second (decision 0041).
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from msgspec.structs import replace

from heatlite.clients.cloud import CloudUnavailable
from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DatabaseUnavailable,
    HeatliteError,
    InvalidStackState,
    ResourceIsLocked,
    Unavailable,
    wire_name,
)
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.timer import for_each
from heatlite.core.status import MAX_REASON, Cause, Status, Verb
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.state.conflict_rules import Operation, locked_error, refusal
from heatlite.engine.state.protected import against_deletion
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.features.schedules.expiry.operations import check_rights
from heatlite.features.schedules.expiry.state import (
    LOOK_AGAIN,
    ExpiryRecord,
    ExpiryState,
    Then,
    done,
    held,
    renewed,
    waits,
    warned,
)
from heatlite.features.schedules.store.expiries import ExpiryStore
from heatlite.store.errors import Fenced
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

EXPIRY, WARNING, HELD = "EXPIRY", "WARNING", "HELD"
"""Verb and statuses of events: ``EXPIRY_WARNING``, ``EXPIRY_HELD``."""
OPERATIONS = {Then.DELETE: Operation.DELETE, Then.SUSPEND: Operation.SUSPEND}
PASSING = (ActionConflict, ResourceIsLocked, Unavailable, CloudUnavailable)
"""Errors of a busy stack, or of a service that is away: the expiry waits for a while."""


class ExpirySweep:
    """Looks at the expiries that are due."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        stacks: Stacks,
        clouds: StackClouds,
        author_of: Callable[[ExpiryRecord, StackRecord], Context],
    ) -> None:
        """`author_of` returns the user who set an expiry, with the present rights.

        It raises what forbids all.
        """
        self._store = store
        self._rows = store.of(ExpiryStore)
        self._clock = clock
        self._stacks = stacks
        self._clouds = clouds
        self._author_of = author_of

    def run(self, due: Sequence[ExpiryRecord]) -> None:
        """Look at what is due. Raises DatabaseUnavailable, after the last of them."""
        for_each(due, self._see_to)

    def _see_to(self, record: ExpiryRecord) -> None:
        # One stack must not keep the others from their end.
        with logged(log, "cannot look at the expiry of stack %s", record.stack_id) as look:
            self._look(record)
        if look.failed:
            with self._store.transaction():
                self._rows.change(record, replace(record, due=self._clock.now() + LOOK_AGAIN))

    def _look(self, record: ExpiryRecord) -> None:
        stack, now = self._store.stacks.get(record.stack_id), self._clock.now()
        if stack is None or stack.deleted_at is not None:
            with self._store.transaction():
                self._rows.delete(record.stack_id)
        elif record.state is ExpiryState.HELD:
            obstacle = self._obstacle(stack, record) or self._begun(stack, record, is_trial=True)
            if obstacle is None:
                self._warn(stack, record, renewed(record, now))
            else:
                self._write(stack, record, held(record, wire_name(obstacle), now))
        elif now < record.expires_at:
            self._warn(stack, record, warned(record, now))
        elif record.state is ExpiryState.PENDING:  # no engine ran when it was to warn
            self._warn(stack, record, renewed(record, now))
        else:
            self._end(stack, record)

    def _warn(self, stack: StackRecord, record: ExpiryRecord, after: ExpiryRecord) -> None:
        words = "is deleted" if record.task is Then.DELETE else "is suspended"
        text = f"The stack expires: it {words} at {to_text(after.expires_at)}, as {record.set_by} has set."
        self._write(stack, record, after, WARNING, f"{text} To extend: heatlite expire {stack.name} +7d")

    def _end(self, stack: StackRecord, record: ExpiryRecord) -> None:
        """Begin the action of an expiry, or note what is in the way."""
        error = self._obstacle(stack, record) or self._begun(stack, record)
        if error is None:
            return
        now = self._clock.now()
        later = waits(record, now) if isinstance(error, PASSING) else None
        if later is not None:
            self._write(stack, record, later)
            return
        code = wire_name(error)
        text = f"The stack has expired, but it is held ({code}): {error.message}"
        self._write(stack, record, held(record, code, now), HELD, text)

    def _obstacle(self, stack: StackRecord, record: ExpiryRecord) -> HeatliteError | None:
        """Return what would refuse the action now.

        Changes nothing, and records no refusal.
        """
        operation, below = OPERATIONS[record.task], self._store.stacks.descendants(stack)
        locked = next((one for one in (stack, *below) if one.lock is not None), None)
        if locked is not None:  # also by a lock that has failed, in which a user may delete the stack
            return locked_error(operation, locked)
        live = self._store.actions.holding(self._store.actions.live_of_root(stack.id))
        error = refusal(operation, stack, (), below, live)
        if error is not None:
            return error
        if live:
            return _busy(stack)
        if record.task is Then.SUSPEND and stack.state_without_lock == (Verb.SUSPEND, Status.COMPLETE):
            return InvalidStackState(f"Stack {stack.name} is suspended already.")
        protected = against_deletion(self._store, stack) if record.task is Then.DELETE else None
        if protected is not None:
            return protected.refusal(stack)
        try:
            check_rights(self._author_of(record, stack), record.task)
            self._clouds.admitted(stack)
        except DatabaseUnavailable:
            raise
        except HeatliteError as refused:
            return refused
        return None

    def _begun(self, stack: StackRecord, record: ExpiryRecord, is_trial: bool = False) -> HeatliteError | None:
        """Begin the action. Returns the error that refuses it, such as one of a policy.

        A trial is undone: it only returns the error.
        """
        try:
            queued = list[str]()
            claim = partial(self._claim, stack, record, queued, is_trial)
            context = replace(self._author_of(record, stack), cause=Cause.SCHEDULED, queued=queued, claim=claim)
            if record.task is Then.DELETE:
                self._stacks.delete(context, stack)
            else:
                self._stacks.suspend(context, stack)
        except Fenced:
            pass  # another engine was faster, the expiry was changed, or nothing refuses the trial
        except DatabaseUnavailable:
            raise
        except HeatliteError as error:
            return error
        return None

    def _claim(self, stack: StackRecord, record: ExpiryRecord, queued: Sequence[str], is_trial: bool) -> None:
        """Take the expiry, in the transaction that writes its action.

        Raises Fenced, and ActionConflict for an action that has begun meanwhile: a delete would cancel it.
        """
        live = self._store.actions.holding(self._store.actions.live_of_root(stack.id))
        if any(one.id not in queued for one in live):
            raise _busy(stack)
        if is_trial or not self._rows.change(record, done(record)):
            raise Fenced(record.stack_id)

    def _write(
        self, stack: StackRecord, record: ExpiryRecord, after: ExpiryRecord, event: str | None = None, text: str = ""
    ) -> None:
        """Write a change with its event, unless another engine was faster."""
        with self._store.transaction():
            held_stack = self._store.stacks.lock(stack.id)
            if held_stack is None or not self._rows.change(record, after) or event is None:
                return
            told = stack_event(held_stack, self._clock.now())
            told = replace(told, verb=EXPIRY, status=event, status_reason=text[:MAX_REASON])
            self._store.events.append_many([told])


def _busy(stack: StackRecord) -> ActionConflict:
    return ActionConflict(f"An action on stack {stack.name} has not ended. An expiry cancels none.")
