"""Wait for nested stacks: place their orders, collect the results, and stop them."""

import logging
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.errors import HeatliteError
from heatlite.core.status import ActionStatus, Control, Verb
from heatlite.engine.calls.handlers import DIFFERS, DRIFTED, LEFT, fail_with, give_up
from heatlite.engine.calls.step_execution import NestedOperation, StepPhase
from heatlite.engine.calls.stopping import AT_ONCE, Stop, Stopping, aborted_text
from heatlite.engine.state.database_retry import retry_while_unavailable
from heatlite.engine.steps.children import Children, Order, nested_failure
from heatlite.engine.steps.transitions import Transitions

log = logging.getLogger(__name__)


class ChildWaits:
    """The operations of one walk on nested stacks."""

    def __init__(
        self,
        clock: Clock,
        transitions: Transitions,
        children: Children,
        stopping: Stopping,
        is_urgent: Callable[[NestedOperation], bool],
        settle: Callable[[NestedOperation], None],
        pause: Callable[[NestedOperation, float], None],
    ) -> None:
        self._clock = clock
        self._transitions = transitions
        self._children = children
        self._stopping = stopping
        self._is_urgent = is_urgent
        self._settle = settle
        self._pause = pause
        self._delayed: dict[NestedOperation, Order] = {}
        """Orders to place after a pause."""
        self._awaited: dict[str, NestedOperation] = {}
        """Operations by the id of the action on their nested stack."""
        self._stopped: dict[str, Control] = {}
        """The controls that such actions were sent."""

    def __len__(self) -> int:
        """Return the number of actions to wait for."""
        return len(self._awaited)

    def clear(self) -> None:
        """Forget all, at the end of a walk."""
        self._delayed.clear()
        self._awaited.clear()

    # -- orders ------------------------------------------------------------------------------------

    def begin(self, operation: NestedOperation) -> None:
        """Wait for the action of an earlier attempt, or place the first order."""
        ordered = operation.action_id
        if operation.is_recorded:  # its row has no token
            ordered = retry_while_unavailable(self._clock, self._children.derived, operation)
        if ordered is None:
            self._order(operation)
        else:
            self._awaited[ordered] = operation

    def _order(self, operation: NestedOperation) -> None:
        """Place the next order; without one the operation is done.

        While the walk stops no round begins, but one that was the last has completed the operation.
        """
        order, stop, deadline = None, self._stopping.cause, self._stopping.deadline
        try:
            if not operation.converges:
                order = retry_while_unavailable(self._clock, self._children.forward, operation, deadline)
            elif stop is None or operation.round > 0:
                urgent, definition = self._is_urgent(operation), self._transitions.definition
                converge = self._children.converge
                order = retry_while_unavailable(self._clock, converge, operation, definition, urgent, deadline)
            if stop is not None and operation.converges and (order is not None or operation.round == 0):
                order = None
                give_up(operation, aborted_text(operation.verb, stop))
        except Exception as error:  # types and functions may raise anything; it fails this resource only
            name, is_fault = operation.row.name, not isinstance(error, HeatliteError)
            log.info("resource %s: %s failed", name, operation.verb, exc_info=is_fault)
            fail_with(operation, error)
        if order is None:
            if operation.phase is not StepPhase.FAILED:
                operation.phase = StepPhase.DONE
            self._settle(operation)
        elif order.pause > 0:
            self._delayed[operation] = order
            self._pause(operation, order.pause)
        else:
            self._place(operation, order)

    def place_delayed(self, operation: NestedOperation) -> None:
        """Place the order of an operation after its pause."""
        self._place(operation, self._delayed.pop(operation))

    def _place(self, operation: NestedOperation, order: Order) -> None:
        # A suspension during the pause has extended the deadline.
        order = replace(order, action=replace(order.action, deadline=self._stopping.deadline))
        operation.action_id = order.action.id
        self._transitions.note_order(operation, order.stack.id)
        self._children.place(order)
        self._awaited[order.action.id] = operation

    # -- results -----------------------------------------------------------------------------------

    def check(self) -> None:
        """Continue the operations whose actions have ended.

        A child that fails, is urgent or ends last wakes this action in its commit (`Moves._wake_parent`).
        """
        if not self._awaited:
            return
        for action in retry_while_unavailable(self._clock, self._children.ended, list(self._awaited)):
            operation = self._awaited.pop(action.id)
            self._stopped.pop(action.id, None)
            reason, is_check = action.status_reason, operation.verb is Verb.CHECK
            if is_check:
                operation.tally = action.outputs.checked
            below = [f"{operation.row.name}/{path}" for path in action.outputs.reverted or ()]
            self._transitions.converging.reverted.update(dict.fromkeys(below))
            if action.status is not ActionStatus.SUCCEEDED:
                is_unknown = is_check and (operation.tally is None or not operation.tally.fails)
                operation.fail(nested_failure(operation.row.name, reason), reason if is_unknown else "")
                self._settle(operation)
            elif operation.converges:
                self._transitions.converging.note_old(operation.row.id, action)
                operation.round += 1
                self._order(operation)
            else:
                if operation.verb is Verb.DELETE and LEFT in reason:
                    operation.note = reason[reason.index(LEFT) :]
                elif is_check and DRIFTED in reason:
                    operation.note = DIFFERS + reason.partition(DRIFTED)[2]
                operation.phase = StepPhase.DONE
                self._settle(operation)

    # -- stopping ----------------------------------------------------------------------------------

    def drop(self, operation: NestedOperation) -> None:
        """Discard the operation's order."""
        self._delayed.pop(operation, None)

    def stop(self) -> None:
        """Ask nested stacks to stop, and keep waiting for them.

        They stop at once or after their running calls.
        """
        wanted: dict[Control, list[str]] = {}
        for action_id, operation in self._awaited.items():
            if self._stopping.must_abort(operation):
                wanted.setdefault(Control.FORCE_CANCEL, []).append(action_id)
            elif self._stopping.cause in (Stop.CANCEL, Stop.CANCEL_ROLLBACK):
                wanted.setdefault(Control.CANCEL, []).append(action_id)
        for control, action_ids in wanted.items():
            self._send(control, action_ids)

    def running(self) -> list[str]:
        """Return the ids of unfinished actions, ordered by any attempt."""
        return retry_while_unavailable(self._clock, self._children.running)

    def stop_all(self, action_ids: Sequence[str]) -> None:
        """Ask all of these to stop, at once or after their running calls."""
        if self._stopping.is_late or self._stopping.cause in AT_ONCE:
            self._send(Control.FORCE_CANCEL, action_ids)
        elif self._stopping.cause in (Stop.CANCEL, Stop.CANCEL_ROLLBACK):
            self._send(Control.CANCEL, action_ids)

    def _send(self, control: Control, action_ids: Sequence[str]) -> None:
        """Send a control to actions that were not sent it before."""
        new = [action_id for action_id in action_ids if self._stopped.get(action_id) is not control]
        if new:
            retry_while_unavailable(self._clock, self._children.stop, new, control)
            self._stopped.update(dict.fromkeys(new, control))
