"""Termination of actions by forced cancel, timeout or internal error.

The action, the stack's state and those of its resources end in one transaction. No row stays IN_PROGRESS without an
action.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.actions.check_tally import CheckTally
from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.clock import Clock
from heatlite.core.runtime.timer import for_each
from heatlite.core.status import ENDED_ACTIONS, STATUS_AFTER, ActionStatus, Control, Result, Status, Verb
from heatlite.engine.calls import check_verdicts
from heatlite.engine.execution.snapshot_contents import fail_snapshots
from heatlite.engine.state.hooks import waits_at
from heatlite.engine.state.unit_of_work import resource_event, stack_event, with_state
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store


class Termination:
    """Ends actions that no worker completes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def cancel(self, action: ActionRecord) -> None:
        """End an action and its derived actions, the deepest first.

        Workers may hold them. Call in a transaction that holds the stack and has taken the action. Raises Fenced if it
        has ended.
        """
        for derived in [child.id for child in self._store.actions.children(action.id)]:
            child = self._taken(derived)
            if child is not None:
                self.cancel(child)
        self._end(action.id, Result.CANCEL)

    def time_out(self) -> None:
        """End waiting actions whose deadline has passed.

        Raises DatabaseUnavailable, after the last one: it may be for one action only.
        """
        for_each(self._store.moves.overdue(self._clock.now()), self._time_out)

    def _time_out(self, overdue: ActionRecord) -> None:
        with self._store.transaction():
            action = self.take(overdue)
            if action is None or action.status is not overdue.status:
                return
            if not action.inputs.force:
                self._end(action.id, Result.TIMEOUT)
                return
            # A forced delete continues; the action that it waits for ends.
            for holder in self._store.actions.live([action.stack_id]):
                if holder.id != action.id:
                    self._store.actions.lock(holder.id)  # lock order: before its derived actions
                    self.cancel(holder)

    def take(self, action: ActionRecord) -> ActionRecord | None:
        """Lock the action and its stack, and return the action as it is now."""
        # Lock order: root first, parents before their derived actions.
        self._store.stacks.lock(action.root_id)
        self._store.claims.lock_parent(action)
        self._store.stacks.lock(action.stack_id)
        return self._store.actions.lock(action.id)

    def _taken(self, action_id: str) -> ActionRecord | None:
        """Lock a derived action and its stack; None if it has ended."""
        action = self._store.actions.get(action_id)
        if action is not None:
            self._store.stacks.lock(action.stack_id)
            action = self._store.actions.lock(action_id)
        return None if action is None or action.status in ENDED_ACTIONS else action

    def _end(self, action_id: str, result: Result) -> None:
        action = self._store.actions.lock(action_id)  # read again: the end of a derived action may have changed it
        if action is None:
            raise Fenced(action_id)
        now, stack = self._clock.now(), None
        reason = "Timed out" if result is Result.TIMEOUT else "Cancelled"
        # A scheduled action does not set the stack's state yet; a run never does.
        if action.status is not ActionStatus.INIT and action.verb is not Verb.RUN:
            stack = self._store.stacks.get(action.stack_id)
            verb = action.verb if stack is None else stack.verb
            reason = reason if result is Result.TIMEOUT else f"Stack {verb} cancelled"
            stack = self._fail_stack(action, action.control, reason)
        ended = outputs(result, reason, stack)
        self._store.moves.end(action, STATUS_AFTER[result], reason, now, ended)

    def give_up(self, action: ActionRecord, reason: str, lease: float) -> None:
        """End an action that this worker holds. Raises Fenced, DatabaseUnavailable."""
        with self._store.transaction():
            now = self._clock.now()
            self._store.claims.lock_parent(action)
            control = self._store.claims.renew(action, now, lease)
            failed = self._fail_stack(action, control, reason)
            for derived in [child.id for child in self._store.actions.children(action.id)]:
                # No parent waits for it any more.
                self._store.controls.signal(derived, Control.FORCE_CANCEL, now)
            self._store.moves.finish(action, ActionStatus.FAILED, reason, now, outputs(Result.ERROR, reason, failed))

    def _fail_stack(self, action: ActionRecord, control: Control | None, reason: str) -> StackRecord | None:
        """Fail the begun resources, and the stack if the action sets its state."""
        now, stack_id, failed = self._clock.now(), action.stack_id, None
        stack = self._store.stacks.get(stack_id)
        self._store.messages.clear(action.id)
        # A delete and the action that it aborts share the rows: the last to end fails them.
        is_last = len(self._store.actions.holding(self._store.actions.live([stack_id]))) == 1
        events = [resource_event(row, now) for row in self._fail_rows(stack_id, reason, now)] if is_last else []
        if stack is not None and stack.status is Status.IN_PROGRESS and control is not Control.ABORT:
            # Members that were to leave after a wait stay, and so does the state of their stack.
            failed = with_state(stack, *(action.data.state_before or (stack.verb, Status.FAILED, reason)))
            self._store.stacks.save(failed)
            events.append(stack_event(failed, now))
        if is_last or failed is None:  # otherwise the aborted action may still use them
            self._end_waits(self._store.resources.with_token([stack_id]))
            if stack is not None:
                fail_snapshots(self._store, failed or stack, reason)
        self._store.events.append_many(events)
        return failed

    def _fail_rows(self, stack_id: str, reason: str, now: float) -> list[ResourceRecord]:
        """Fail the resources in progress. Returns the rows as their events show them.

        An interrupted check has no result: its row is restored.
        """
        rows, shown = [], []
        for row in self._store.resources.of(stack_id):
            if row.status is Status.IN_PROGRESS:
                before = check_verdicts.unseen(row, reason, now) if row.verb is Verb.CHECK else None
                failed = replace(row, status=Status.FAILED, status_reason=reason, token=None, updated_at=now)
                rows.append(before or failed)
                shown.append(failed if before is None else check_verdicts.event_row(row, reason))
        self._store.resources.save_many(rows)
        return shown

    def _end_waits(self, rows: Sequence[ResourceRecord]) -> None:
        """Clear the hook tokens of ended actions.

        The next action would take them as its own.
        """
        self._store.resources.save_many([replace(row, token=None) for row in rows if waits_at(row) is not None])


def outputs(
    result: Result,
    reason: str,
    stack: StackRecord | None = None,
    checked: CheckTally | None = None,
) -> ActionOutputs:
    """Return the outputs of an ended action.

    `stack` only if the action sets the stack's state.
    """
    return ActionOutputs(
        result,
        None if stack is None else f"{stack.verb}_{stack.status}",
        None if result is Result.OK else reason,
        checked=None if checked is None else checked.counts(),
    )


def suspend_derived(store: Store, action: ActionRecord, now: float) -> None:
    """Suspend all live actions derived from an action, at any depth.

    Call in a transaction that holds the action and its stack.
    """
    for derived in held_derived(store, action):
        store.controls.suspend(derived, now)
        suspend_derived(store, derived, now)


def held_derived(store: Store, action: ActionRecord) -> list[ActionRecord]:
    """Lock the live derived actions with their stacks, and return them."""
    children = store.actions.children(action.id)
    for child in children:
        store.stacks.lock(child.stack_id)
    taken = (store.actions.lock(child.id) for child in children)
    return [child for child in taken if child is not None and child.status not in ENDED_ACTIONS]
