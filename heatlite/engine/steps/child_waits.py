"""What a walk waits for in nested stacks: it orders, looks what came of it, and asks them to stop."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from heatlite.core.clock import Clock
from heatlite.core.errors import HeatliteError
from heatlite.core.status import ActionStatus, Control, Verb
from heatlite.engine.state.database_retry import patiently
from heatlite.engine.steps.check_verdicts import cause_of
from heatlite.engine.steps.children import Children, Order, nested_failure
from heatlite.engine.steps.step import DIFFERS, DRIFTED, LEFT, Work, failure_text, give_up
from heatlite.engine.steps.stopping import AT_ONCE, Stop, Stopping, aborted_text
from heatlite.engine.steps.transitions import Transitions

log = logging.getLogger(__name__)

CONVERGING = frozenset({Verb.CREATE, Verb.UPDATE, Verb.ADOPT})
"""What a nested stack is not just told to do, but given a template for."""


class Awaiting:
    """The works of one walk that stand for nested stacks."""

    def __init__(
        self,
        clock: Clock,
        transitions: Transitions,
        children: Children,
        stopping: Stopping,
        is_urgent: Callable[[Work], bool],
        settle: Callable[[Work], None],
        pause: Callable[[Work, float], None],
    ) -> None:
        self._clock = clock
        self._transitions = transitions
        self._children = children
        self._stopping = stopping
        self._is_urgent = is_urgent
        self._settle = settle
        self._pause = pause
        self._orders: dict[int, Order] = {}
        """By the identity of the work: what it asks of its nested stack once its pause is over."""
        self._awaited: dict[str, Work] = {}
        """By the id of the action on its nested stack that a work waits for."""
        self._stopped: dict[str, Control] = {}
        """What such an action has been asked for."""

    def __len__(self) -> int:
        """How many nested stacks are at work."""
        return len(self._awaited)

    def forget(self) -> None:
        """The walk is over."""
        self._orders.clear()
        self._awaited.clear()

    # -- orders ------------------------------------------------------------------------------------

    def begin(self, work: Work) -> None:
        """Wait for what an earlier attempt has asked of the nested stack, or ask for the first thing."""
        if work.handled and isinstance(work.token, dict):
            work.awaits, work.round = str(work.token["action"]), int(work.token["round"])
            self._awaited[work.awaits] = work
            return
        ordered = None
        if work.silent:  # its row does not tell of it, nor whether that has ended already
            ordered = patiently(self._clock, partial(self._children.derived, work.resource.physical_id))
        if ordered is None:
            self._order(work)
        else:
            self._awaited[ordered] = work

    def _order(self, work: Work) -> None:
        """Ask for the next thing; with nothing more to ask for, the work is done."""
        order, stop, deadline = None, self._stopping.cause, self._stopping.deadline
        try:
            if work.verb not in CONVERGING:
                order = patiently(self._clock, partial(self._children.forward, work, deadline))
            elif stop is None:
                urgent, definition = self._is_urgent(work), self._transitions.definition
                converge = partial(self._children.converge, work, definition, urgent, deadline)
                order = patiently(self._clock, converge)
            else:
                give_up(work, aborted_text(work.verb, stop))
        except Exception as error:
            log.info("resource %s: %s failed", work.row.name, work.verb, exc_info=not isinstance(error, HeatliteError))
            work.failure = failure_text(work.row.name, error)
            work.unknown = cause_of(error) if work.verb is Verb.CHECK else ""
        if order is None:
            work.done = work.failure is None
            self._settle(work)
        elif order.pause > 0:
            self._orders[id(work)] = order
            self._pause(work, order.pause)
        else:
            self._place(work, order)

    def go_on(self, work: Work) -> bool:
        """The pause of a work is over: place its order. False if it has none."""
        order = self._orders.pop(id(work), None)
        if order is not None:
            self._place(work, order)
        return order is not None

    def _place(self, work: Work, order: Order) -> None:
        # What was suspended while the order waited has more time.
        order = replace(order, action=replace(order.action, deadline=self._stopping.deadline))
        work.awaits = order.action.id
        work.token = {"action": order.action.id, "round": work.round}
        self._transitions.note_order(work, order.stack.id)
        self._children.place(order)
        self._awaited[work.awaits] = work

    # -- what came of them -------------------------------------------------------------------------

    def look(self) -> None:
        """Go on with the works whose nested stacks have done what was asked of them."""
        if not self._awaited:
            return
        for action in patiently(self._clock, partial(self._children.ended, list(self._awaited))):
            work = self._awaited.pop(action.id)
            self._stopped.pop(action.id, None)
            if work.verb is Verb.CHECK:
                work.below = action.outputs.checked
            if action.status is not ActionStatus.SUCCEEDED:
                work.failure = nested_failure(work.row.name, action.status_reason)
                if work.verb is Verb.CHECK and (work.below is None or not work.below.fails):
                    work.unknown = action.status_reason
                self._settle(work)
            elif work.verb in CONVERGING:
                work.round += 1
                self._order(work)
            else:
                if work.verb is Verb.DELETE and LEFT in action.status_reason:
                    work.note = action.status_reason[action.status_reason.index(LEFT) :]
                elif work.verb is Verb.CHECK and DRIFTED in action.status_reason:
                    work.note = DIFFERS + action.status_reason.partition(DRIFTED)[2]
                work.done = True
                self._settle(work)

    # -- stopping ----------------------------------------------------------------------------------

    def must_abort(self, work: Work) -> bool:
        """Whether nobody waits for a work any longer."""
        # With its order not placed yet it has not begun.
        return id(work) in self._orders or self._stopping.must_abort(work)

    def drop(self, work: Work) -> None:
        """Nobody waits for a work any longer: it orders nothing."""
        self._orders.pop(id(work), None)

    def stop(self) -> None:
        """Ask nested stacks to stop, at once or when what runs in them has ended. They are waited for."""
        wanted: dict[Control, list[str]] = {}
        for action_id, work in self._awaited.items():
            if self._stopping.must_abort(work):
                wanted.setdefault(Control.FORCE_CANCEL, []).append(action_id)
            elif self._stopping.cause in (Stop.CANCEL, Stop.CANCEL_ROLLBACK):
                wanted.setdefault(Control.CANCEL, []).append(action_id)
        for control, action_ids in wanted.items():
            self._ask(control, action_ids)

    def left(self) -> list[str]:
        """The ids of the actions that were ordered, by whichever attempt, and have not ended."""
        return patiently(self._clock, self._children.running)

    def stop_all(self, action_ids: Sequence[str]) -> None:
        """Ask all of these to stop, at once or when what runs in them has ended."""
        if self._stopping.is_late or self._stopping.cause in AT_ONCE:
            self._ask(Control.FORCE_CANCEL, action_ids)
        elif self._stopping.cause in (Stop.CANCEL, Stop.CANCEL_ROLLBACK):
            self._ask(Control.CANCEL, action_ids)

    def _ask(self, control: Control, action_ids: Sequence[str]) -> None:
        """Ask actions on nested stacks to stop, each once."""
        anew = [action_id for action_id in action_ids if self._stopped.get(action_id) is not control]
        if anew:
            patiently(self._clock, partial(self._children.stop, anew, control))
            self._stopped.update(dict.fromkeys(anew, control))
