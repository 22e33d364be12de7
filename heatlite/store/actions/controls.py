"""Control signals: cancel, suspend and resume actions, held by a worker or not."""

from collections.abc import Sequence

from heatlite.core.status import ENDED_ACTIONS, LIVE_ACTIONS, PARKED_ACTIONS, ActionStatus, Control, Verb
from heatlite.store.actions.moves import Moves
from heatlite.store.actions.table import LIVE, OPEN, UNCLAIMED, ActionTable
from heatlite.store.database.sql import chunks, marks
from heatlite.store.records import ActionRecord

STOPPED_AT_ONCE = frozenset({Verb.CREATE, Verb.UPDATE})
"""Verbs that do not wait for running work of features once they are asked to stop: nothing is left to do then."""

_STRONGEST = (Control.FORCE_CANCEL, Control.ABORT)
_STAYS = {
    Control.FORCE_CANCEL: (Control.ABORT,),
    Control.ABORT: (),
    Control.END_BAKE: tuple(one for one in Control if one is not Control.END_BAKE),
}
"""Controls that a signal does not replace: for others `_STRONGEST`."""


class Controls:
    """Sends control signals to actions."""

    def __init__(self, actions: ActionTable, moves: Moves) -> None:
        self._actions = actions
        self._database = actions.database
        self._moves = moves

    def signal(self, action_id: str, control: Control, now: float) -> bool:
        """Ask a live action to stop.

        Returns False if it has ended, or has a stronger control already. An action without a worker becomes READY: the
        worker that claims it stops it in good order.
        """
        stronger = _STAYS.get(control, _STRONGEST)
        unless = "".join(f" AND (control IS NULL OR control <> '{one}')" for one in stronger)
        sql = f"UPDATE action SET control = ?, updated_at = ? WHERE id = ? AND {LIVE}{unless}"
        if self._database.write(sql, (control, now, action_id)) == 0:
            return False
        record = self._actions.get(action_id)
        assert record is not None
        reason = f"asked to {control}"
        if record.status is ActionStatus.RUNNING:
            self._actions.announce(record, is_ready=False)
        elif record.status is ActionStatus.SUSPENDED:
            self._wake_suspended(record, now, reason)
        elif record.status in PARKED_ACTIONS and record.pending == 0:
            self._actions.move(record, ActionStatus.READY, now, reason)
        elif record.status is ActionStatus.WAITING and record.verb in STOPPED_AT_ONCE:
            self._actions.move(record, ActionStatus.READY, now, reason, pending=0)
        elif record.status is ActionStatus.READY:
            # A retry may be delayed; a stop is not.
            sql = "UPDATE action SET not_before = ? WHERE id = ? AND not_before > ?"
            self._database.write(sql, (now, action_id, now))
            self._actions.announce(record, is_ready=True)
        return True

    def suspend(self, action: ActionRecord, now: float) -> None:
        """Suspend a live action: at once, or when its worker sees the signal.

        An action that has another control already only does that.
        """
        if action.status is ActionStatus.RUNNING:
            unless = "AND owner IS NOT NULL AND control IS NULL"
            sql = f"UPDATE action SET control = 'SUSPEND', updated_at = ? WHERE id = ? {unless}"
            if self._database.write(sql, (now, action.id)):
                self._actions.announce(action, is_ready=False)
        elif action.status in LIVE_ACTIONS - {ActionStatus.SUSPENDED} and action.control is None:
            self._actions.move(action, ActionStatus.SUSPENDED, now, "asked to SUSPEND", suspended_at=now)

    def resume(self, action: ActionRecord, now: float) -> None:
        """Resume an action that is suspended, or about to be.

        Its deadline moves by the time of the suspension.
        """
        if action.status is ActionStatus.SUSPENDED:
            self._wake_suspended(action, now, "asked to RESUME")
        else:
            sql = "UPDATE action SET control = NULL, updated_at = ? WHERE id = ? AND control = 'SUSPEND'"
            if self._database.write(sql, (now, action.id)):
                self._actions.announce(action, is_ready=False)

    def _wake_suspended(self, action: ActionRecord, now: float, reason: str) -> None:
        after = ActionStatus.WAITING if action.pending else ActionStatus.READY
        slept = 0.0 if action.suspended_at is None else now - action.suspended_at
        deadline = None if action.deadline is None else action.deadline + slept
        suspended = action.suspended + slept
        self._actions.move(action, after, now, reason, suspended_at=None, suspended=suspended, deadline=deadline)

    def cancel_queued(self, stack_ids: Sequence[str], reason: str, now: float) -> list[str]:
        """Cancel the unclaimed actions of the stacks, and return their ids."""
        ended: list[str] = []
        for some in chunks(stack_ids):
            queued = f"WHERE stack_id IN ({marks(some)}) AND {OPEN} AND {UNCLAIMED} ORDER BY seq"
            # All are locked, by creation, before one is ended: the end of an action writes to its dependents.
            locked = [self._actions.lock(found.id) for found in self._actions.select(queued, some)]
            for found in filter(None, locked):
                # A worker may have claimed it meanwhile.
                is_queued = found.status not in ENDED_ACTIONS | {ActionStatus.RUNNING}
                if is_queued and self._moves.end_if_unmoved(found, ActionStatus.CANCELLED, reason, now):
                    ended.append(found.id)
        return ended
