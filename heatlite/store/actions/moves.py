"""Moves of actions: finish, end, park, suspend, requeue, and wake."""

from collections.abc import Callable, Sequence

from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.json import dump
from heatlite.core.runtime.timer import for_each
from heatlite.core.status import PARKED_ACTIONS, ActionStatus, Control
from heatlite.store.actions.dependencies import Dependencies
from heatlite.store.actions.queue import ActionQueue
from heatlite.store.actions.table import HELD, LIVE, PARKED, STILL, UNCLAIMED, ActionTable, any_of, held
from heatlite.store.database.statements import Row, Value
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord

_END = (
    "UPDATE action SET status = ?, status_reason = ?, outputs = ?, finished_at = ?, updated_at = ?,"
    " owner = NULL, lease_until = NULL, exclusive_key = NULL, request = NULL, attempt = attempt + ? "
)
_PARK = (
    "UPDATE action SET status = ?, owner = NULL, lease_until = NULL, open_children = ?, wake_at = ?, updated_at = ?"
    f" {HELD} AND control IS NULL"
)
_SUSPEND = (
    "UPDATE action SET status = 'SUSPENDED', owner = NULL, lease_until = NULL, control = NULL, suspended_at = ?,"
    f" updated_at = ? {HELD} AND control = 'SUSPEND'"
)
_REQUEUE = (
    "UPDATE action SET status = 'READY', owner = NULL, lease_until = NULL, retries = retries + 1, not_before = ?,"
    f" updated_at = ? {HELD}"
)
_START_ROLLBACK = (
    "UPDATE action SET deadline = ?, control = CASE WHEN control = 'CANCEL_ROLLBACK' THEN NULL ELSE control END"
    " WHERE id = ?"
)
_EXPLAIN = "UPDATE action SET status_reason = ?, updated_at = ? WHERE id = ? AND status = 'WAITING'"
_TO_WAKE = (
    f"SELECT id FROM action WHERE status {any_of(PARKED_ACTIONS)} AND pending = 0 AND (deadline <= ? OR wake_at <= ?"
    " OR open_children > 0 AND open_children > (SELECT COUNT(*) FROM action AS child WHERE child.parent_id = action.id"
    f" AND child.{LIVE}))"
)

_NO_OUTPUTS = ActionOutputs()


class Moves:
    """Moves actions that a worker holds, and wakes those that wait for them."""

    def __init__(
        self,
        actions: ActionTable,
        dependencies: Dependencies,
        queue: ActionQueue,
        wake_tree: Callable[[str, float], object],
    ) -> None:
        """`wake_tree` takes a root and the time, and makes due what waits for the tree."""
        self._actions = actions
        self._database = actions.database
        self._dependencies = dependencies
        self._queue = queue
        self._wake_tree = wake_tree

    # -- end ---------------------------------------------------------------------------------------

    def finish(
        self, action: ActionRecord, status: ActionStatus, reason: str, now: float, outputs: ActionOutputs = _NO_OUTPUTS
    ) -> None:
        """End a held action and wake its dependents and its parent. Raises Fenced.

        A parent is woken when its last child has ended, or a child that is urgent or has failed.
        """
        self._actions.lock_stack(action)
        if not self._end(action, status, reason, now, outputs, HELD, held(action), taken_away=False):
            raise Fenced(action.id)

    def end(
        self, action: ActionRecord, status: ActionStatus, reason: str, now: float, outputs: ActionOutputs = _NO_OUTPUTS
    ) -> None:
        """End an action from outside, and fence its worker.

        Raises Fenced if the action moved meanwhile.
        """
        if not self.end_if_unmoved(action, status, reason, now, outputs):
            raise Fenced(action.id)

    def end_if_unmoved(
        self, action: ActionRecord, status: ActionStatus, reason: str, now: float, outputs: ActionOutputs = _NO_OUTPUTS
    ) -> bool:
        """End an action unless it moved since it was read; return whether it ended."""
        where = f"WHERE {STILL}"
        as_read = (action.id, action.attempt, action.status)
        return self._end(action, status, reason, now, outputs, where, as_read, taken_away=True)

    def _end(
        self,
        action: ActionRecord,
        status: ActionStatus,
        reason: str,
        now: float,
        outputs: ActionOutputs,
        where: str,
        parameters: Sequence[Value],
        taken_away: bool,
    ) -> bool:
        stored = self._actions.encrypted(action, dump(outputs))
        ended = self._database.send(_END + where, (status, reason, stored, now, now, int(taken_away), *parameters))
        if taken_away and ended.rowcount == 0:
            return False
        self._actions.record_move(action, status, now, reason)
        self._dependencies.resolve(action.id, status is ActionStatus.SUCCEEDED, now)
        if ended.rowcount == 0:
            return False  # the caller undoes all of it
        if action.interval and status is not ActionStatus.CANCELLED and not self._was_asked_to_stop(action.id):
            self._queue.schedule_successor(action, now)
        if action.parent_id is None:
            self._wake_tree(action.root_id, now)
        else:
            self._wake_parent(action.parent_id, action.urgent or status is not ActionStatus.SUCCEEDED, now)
        return True

    def _was_asked_to_stop(self, action_id: str) -> bool:
        """Return whether a stop was requested, even if the worker did not notice."""
        ((control,),) = self._database.read("SELECT control FROM action WHERE id = ?", (action_id,))
        return control not in (None, Control.SUSPEND)

    def _wake_parent(self, action_id: str, at_once: bool, now: float) -> None:
        sql = f"SELECT 1 FROM action WHERE parent_id = ? AND {LIVE} LIMIT 1"
        if at_once or not self._database.read(sql, (action_id,)):
            self.wake(action_id, now)

    # -- give up the lease -------------------------------------------------------------------------

    def park(
        self,
        action: ActionRecord,
        children: int,
        status: ActionStatus,
        now: float,
        wake_at: float | None = None,
        reason: str = "",
    ) -> bool:
        """Park a held action that waits for `children` child actions, or at breakpoints.

        Returns False if a child has ended already, or a control signal came. `status` is one of PARKED_ACTIONS.
        `wake_parked` wakes the action at `wake_at`. Call it in a transaction, after `Claims.renew`.
        """
        ((count,),) = self._database.read(f"SELECT COUNT(*) FROM action WHERE parent_id = ? AND {LIVE}", (action.id,))
        if count < children or self._database.write(_PARK, (status, count, wake_at, now, *held(action))) == 0:
            return False
        self._actions.record_move(action, status, now, reason)
        return True

    def suspend_held(self, action: ActionRecord, now: float) -> bool:
        """Suspend a held action with the control SUSPEND.

        Returns False if its control has changed since. Call it in a transaction, after `Claims.renew`.
        """
        if self._database.write(_SUSPEND, (now, now, *held(action))) == 0:
            return False
        self._actions.record_move(action, ActionStatus.SUSPENDED, now, "asked to SUSPEND")
        return True

    def requeue(self, action: ActionRecord, reason: str, now: float, not_before: float) -> None:
        """Make a held action READY again, for a retry not before that time. Raises Fenced."""
        if self._database.write(_REQUEUE, (not_before, now, *held(action))) == 0:
            raise Fenced(action.id)
        self._actions.record_move(action, ActionStatus.READY, now, reason)
        self._actions.announce(action, is_ready=True)

    def explain_wait(self, action_id: str, reason: str, now: float) -> None:
        """Write what a WAITING action waits for; "" if that is clear."""
        self._database.write(_EXPLAIN, (reason, now, action_id))

    def start_rollback(self, action_id: str, deadline: float) -> None:
        """Set the deadline of a rollback, and clear the control that asked for it."""
        self._database.write(_START_ROLLBACK, (deadline, action_id))

    def set_deadline(self, action_id: str, deadline: float | None) -> None:
        """Set the deadline of an action."""
        self._database.write("UPDATE action SET deadline = ? WHERE id = ?", (deadline, action_id))

    def clear_control(self, action_id: str, control: Control) -> None:
        """Clear a control that the action has obeyed."""
        self._database.write("UPDATE action SET control = NULL WHERE id = ? AND control = ?", (action_id, control))

    # -- wake --------------------------------------------------------------------------------------

    def wake(self, action_id: str, now: float) -> None:
        """Make a parked action READY; do nothing if it is not parked."""
        for found in self._actions.select(f"WHERE id = ? AND {PARKED}", (action_id,)):
            self._actions.move(found, ActionStatus.READY, now)

    def wake_parked(self, now: float) -> int:
        """Wake parked actions that are due or lost a wake-up; return their number.

        Each is woken in a transaction of its own. Raises DatabaseUnavailable after the last one: another process may
        hold the row of one only.
        """

        def wake(row: Row) -> int:
            with self._database.transaction():
                parked = self._actions.readable(f"WHERE id = ? AND status {any_of(PARKED_ACTIONS)}", row)
                return sum(self._actions.move(found, ActionStatus.READY, now) for found in parked)

        return sum(for_each(self._database.read(_TO_WAKE, (now, now)), wake))

    def overdue(self, now: float) -> list[ActionRecord]:
        """Return the readable unclaimed actions whose deadline has passed, oldest first."""
        waiting = any_of(PARKED_ACTIONS | {ActionStatus.READY})
        return self._actions.readable(f"WHERE status {waiting} AND {UNCLAIMED} AND deadline <= ? ORDER BY seq", (now,))
