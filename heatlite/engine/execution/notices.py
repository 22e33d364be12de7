"""Notices to executions of what other threads and processes have written."""

from collections.abc import Mapping

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.status import Control
from heatlite.engine.execution.attempts import AttemptTable
from heatlite.engine.execution.execution import Execution
from heatlite.store.store import Store

CLOCK_DIFFERENCE = 10.0
"""Seconds by which the clocks of two processes may differ without a late delivery of messages."""


class Notices:
    """Notifies the executions of a worker of controls, lost actions and messages."""

    def __init__(self, store: Store, clock: Clock, owner: str, table: AttemptTable) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._table = table
        self._controls: Mapping[str, Control] = {}
        """Controls of the worker's actions when they were read last."""
        self._messages_since = clock.now()
        """Time up to which messages were delivered."""

    def forward_controls(self) -> None:
        """Notify the executions whose control has changed since the last look."""
        if self._table.is_empty:
            return
        before, self._controls = self._controls, self._store.claims.controls(self._owner)
        self._notify_changed(self._table.executions(before.keys() | self._controls.keys()), self._controls)

    def recheck_controls(self) -> None:
        """Notify every execution whose control differs from its row's.

        An attempt may read the row at any time.
        """
        executions = {key: one for key, one in self._table.executions().items() if one.control is not None}
        if executions:
            self._notify_changed(executions, self._store.claims.controls(self._owner))

    def _notify_changed(self, executions: Mapping[str, Execution], controls: Mapping[str, Control]) -> None:
        for action_id, execution in executions.items():
            if controls.get(action_id) is not execution.control:
                self._notify(execution)

    def notify_lost(self) -> None:
        """Notify executions whose action was ended by force or taken over."""
        executions = self._table.executions()
        if self._store.claims.count_held_by(self._owner) < len(executions):
            held = set(self._store.claims.held_by(self._owner))
            for action_id in executions.keys() - held:
                self._notify(executions[action_id])

    def _notify(self, execution: Execution) -> None:
        execution.walker.notify()
        self._table.wake(execution.action.id)

    def deliver_messages(self) -> None:
        """Continue the attempts for which another process has stored a message.

        Each look goes back over the last one, since the clocks of processes differ.
        """
        since, self._messages_since = self._messages_since, self._clock.now()
        if not self._table.awaits_messages:
            return
        try:
            addresses = self._store.messages.changed_since(since - CLOCK_DIFFERENCE)
        except DatabaseUnavailable:
            self._messages_since = since
            raise
        self._table.deliver(addresses)
