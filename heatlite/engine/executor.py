"""Walk a plan.

A tick: take what handlers have answered, begin the steps that became ready, write all of it in one fenced commit, and
only then call the handlers whose intent is written. Handlers of types that make nothing outside their row
(`quick`) need no intent and run within the tick. The walk decides when things happen; what a step does and
what its row says is `transitions`' business.
"""

import heapq
import itertools
import logging
import math
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from enum import Enum
from functools import partial
from typing import TypeVar

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable, HeatliteError
from heatlite.core.status import ActionStatus, Control, Verb
from heatlite.engine.children import Children, Order, nested_failure
from heatlite.engine.plan import Plan, Step, waiting
from heatlite.engine.step import DIFFERS, DRIFTED, LEFT, Work, advance, failure_text, give_up
from heatlite.engine.transitions import Transitions
from heatlite.plugin.nested import StackResource

log = logging.getLogger(__name__)

STEPS_PER_TICK = 500
"""How many steps one commit covers at the most: enough to make the commit cheap, few enough to be watched."""

LONGEST_WAIT = 60.0
"""Seconds after which a walk looks up even if nothing has called it."""
LONGEST_WAIT_FOR_OTHERS = 1.0
"""The same while it waits for nested stacks or at breakpoints: another process may have to do with them."""


RETRY = 1.0
"""Seconds until a database that is away (locked, disk full) is asked again."""

Answer = TypeVar("Answer")


class Stop(Enum):
    """Why nothing new is started; the value is what an aborted resource says."""

    FAILURE = "another resource failed"
    TIMEOUT = "Timed out"
    CANCEL = "the operation was cancelled"
    FORCE_CANCEL = "the operation was given up"
    CANCEL_ROLLBACK = "the operation was cancelled and is rolled back"
    ABORT = "the stack is being deleted"
    DRAIN = "the engine shuts down"


CONTROLS = {
    Control.CANCEL: Stop.CANCEL,
    Control.FORCE_CANCEL: Stop.FORCE_CANCEL,
    Control.CANCEL_ROLLBACK: Stop.CANCEL_ROLLBACK,
    Control.ABORT: Stop.ABORT,
}

REVISABLE = frozenset({None, Stop.FAILURE, Stop.CANCEL, Stop.CANCEL_ROLLBACK})
"""While what runs is waited for, a caller may still decide whether there is to be a rollback; the last word counts."""


CONVERGING = frozenset({Verb.CREATE, Verb.UPDATE, Verb.ADOPT})
"""What a nested stack is not just told to do, but given a template for."""


def aborted_text(verb: Verb, stop: Stop) -> str:
    """What a resource says that was not waited for."""
    return f"{verb} aborted: {stop.value}"


def patiently(clock: Clock, ask: Callable[[], Answer]) -> Answer:
    """What `ask` gives, once the database is there. `ask` changes nothing where it raises.

    What is under way may not be given up just because nobody can write it down: it would be done twice.
    """
    while True:
        try:
            return ask()
        except DatabaseUnavailable as error:
            log.warning("the database is away, trying again: %s", error)
            clock.wait(threading.Event(), RETRY)


class Executor:
    """Walks the plans of one execution, one after the other."""

    def __init__(
        self,
        clock: Clock,
        pool: Pool,
        transitions: Transitions,
        children: Children,
        commit: Callable[[], None],
        park: Callable[[int, Sequence[Work]], bool],
        patience: float,
        rolls_back: bool,
        deadline: float | None,
    ) -> None:
        self.stop: Stop | None = None
        self.failures: list[str] = []
        """``Resource CREATE failed: …``, in the order in which they happened."""
        self.deadline = deadline
        self.rolls_back = rolls_back
        """Whether a failure will be followed by a rollback."""
        self._clock = clock
        self._pool = pool
        self._transitions = transitions
        self._children = children
        self._commit = commit
        self._park = park
        self._patience = patience
        self._patience_ends: float | None = None
        self._requested: Control | None = None
        self._draining = False
        self._wakeup = threading.Event()
        self._answers: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._calling = 0
        self._after_commit: list[Work] = []
        self._pauses: list[tuple[float, int, Work]] = []
        self._orders: dict[int, Order] = {}
        """By the identity of the work: what it asks of its nested stack once its pause is over."""
        self._awaited: dict[str, Work] = {}
        """By the id of the action on its nested stack that a work waits for."""
        self._stopped: dict[str, Control] = {}
        """What such an action has been asked for."""
        self._held: list[Work] = []
        """What waits at breakpoints."""
        self._sequence = itertools.count()
        self._goes_on = False
        self._ready: deque[str] = deque()
        self._open: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = {}

    # -- asked from other threads ------------------------------------------------------------------

    def request(self, control: Control) -> bool:
        """Somebody wants the action to stop. Whether that is new."""
        if self._requested is control:
            return False
        self._requested = control
        self._wakeup.set()
        return True

    def nudge(self) -> None:
        """Something has happened that the walk may wait for."""
        self._wakeup.set()

    def drain(self) -> None:
        """Stop at the next tick, leaving everything so that another engine can go on with it."""
        self._draining = True
        self._wakeup.set()

    # -- the walk ----------------------------------------------------------------------------------

    def restart(self, deadline: float | None) -> None:
        """Forget why the last walk stopped: a rollback begins, with its own time, and is not rolled back itself."""
        self.stop, self._requested, self._patience_ends = None, None, None
        self.failures = []
        self.deadline = deadline
        self.rolls_back = False

    def walk(self, plan: Plan, begin: Callable[[Step], Work]) -> Iterator[float | None]:
        """Do the steps of a plan, each as soon as what it requires has succeeded. Ends when nothing is under way.

        Yields when it needs no thread for a while: a time (seconds since the epoch) until which there is nothing to do
        but for a `nudge`, a `request` or a `drain`, or for what other processes do in nested stacks; or None when it
        has let go of the action because there is nothing but nested stacks and breakpoints to wait for, and goes on
        once it is claimed again. What the last tick has changed is left to the next commit, which is the next walk's,
        or tells how the stack has ended.
        """
        self._goes_on = plan.goes_on
        self._open, self._dependents = waiting(plan.steps.values())
        self._ready = deque(key for key, count in self._open.items() if count == 0)
        while True:
            self._wakeup.clear()
            self._take_answers()
            self._look_at_children()
            self._look_at_breakpoints()
            self._look_up()
            for _ in range(STEPS_PER_TICK):
                if not self._ready or self.stop is not None:
                    break
                self._go_on(patiently(self._clock, partial(begin, plan.steps[self._ready.popleft()])))
            if self._is_over():
                break
            self._commit()
            called = self._take_after_commit()
            for work in called:
                self._call(work)
            if any(work.resource.quick for work in called):
                continue  # they may have ended: nobody waits before that is written
            if self._answers.empty() and not self._after_commit and not (self._ready and self.stop is None):
                if self._is_over():
                    continue
                if self._awaited and not self._calling and (self._pauses or self.stop is not None):
                    # Nested stacks need the thread, and end or stop in their own time.
                    yield self._pauses[0][0] if self._pauses else math.inf
                elif self._calling:
                    self._wait()
                elif self._pauses or self.stop is not None:
                    yield self._next_look()
                elif self._park(len(self._awaited), self._held):
                    yield None
        self._pauses.clear()
        self._orders.clear()
        self._awaited.clear()
        self._held.clear()
        if self.stop is Stop.DRAIN:
            self._commit()

    def _is_over(self) -> bool:
        """Whether nothing is under way and nothing can begin."""
        if self._calling or self._after_commit or not self._answers.empty() or (self._ready and self.stop is None):
            return False
        return self.stop is Stop.DRAIN or not (self._pauses or self._awaited or self._held)

    def _go_on(self, work: Work) -> None:
        """A work has begun: call its handler at once if it is quick, after the commit of its intent otherwise."""
        if work.ended:
            self._settle(work)
        elif work.hook is not None:
            self._held.append(work)
        elif isinstance(work.resource, StackResource):
            self._go_on_nested(work)
        elif work.waits:
            assert work.starts_at is not None
            heapq.heappush(self._pauses, (work.starts_at, next(self._sequence), work))
        elif work.resource.quick and not work.handled:
            self._call(work)
        else:
            self._after_commit.append(work)

    def _take_after_commit(self) -> list[Work]:
        works, self._after_commit = self._after_commit, []
        return works

    def _call(self, work: Work) -> None:
        """Call the type's next handler or check: here if it is quick, else in a thread of the pool."""
        order = self._orders.pop(id(work), None)
        if order is not None:
            self._place(work, order)
            return
        if work.resource.quick:
            advance(work)
            self._answered(work)
            return
        self._calling += 1
        self._pool.submit(self._call_in_thread, work)

    def _call_in_thread(self, work: Work) -> None:
        advance(work)
        self._answers.put(work)
        self._wakeup.set()

    def _take_answers(self) -> None:
        while not self._answers.empty():
            self._calling -= 1
            self._answered(self._answers.get())
        now = self._clock.now()
        while self._pauses and self._pauses[0][0] <= now and self.stop is not Stop.DRAIN:
            self._call(heapq.heappop(self._pauses)[2])

    def _answered(self, work: Work) -> None:
        if work.ended:
            self._settle(work)
        elif self._transitions.note_progress(work):
            # What the handler keeps is written before its check acts on it.
            self._after_commit.append(work)
        else:
            heapq.heappush(self._pauses, (self._clock.now() + work.pause, next(self._sequence), work))

    def _settle(self, work: Work) -> None:
        if self.stop not in (None, Stop.DRAIN):
            work.passes = False  # nothing is tried again
        follow_up = patiently(self._clock, partial(self._transitions.finish, work))
        if follow_up is not None:
            if self.stop is not None and self.stop is not Stop.DRAIN:
                follow_up.failure = aborted_text(follow_up.verb, self.stop)
            self._go_on(follow_up)
            return
        if work.failure is not None:
            self.failures.append(f"Resource {work.verb} failed: {work.failure}")
            if not self._goes_on:
                if self.stop is None:
                    self._halt(Stop.FAILURE)
                return
        for key in self._dependents.get(work.step.key, ()):
            self._open[key] -= 1
            if self._open[key] == 0:
                self._ready.append(key)

    def _look_at_breakpoints(self) -> None:
        """Go on with the works whose breakpoints have been cleared. Once the walk stops, nothing new begins."""
        free = patiently(self._clock, partial(self._transitions.breakpoints.let_go, self._held))
        for work in free:
            work.done = True
        self._held = [work for work in self._held if not work.done]
        for work in free:
            if self.stop is None:
                self._settle(work)
            else:
                work.done = False
                self._held.append(work)

    # -- nested stacks -------------------------------------------------------------------------------

    def _go_on_nested(self, work: Work) -> None:
        """Wait for what an earlier attempt has asked of the nested stack, or ask for the first thing."""
        if work.handled and isinstance(work.token, dict):
            work.awaits, work.round = str(work.token["action"]), int(work.token["round"])
            self._awaited[work.awaits] = work
            return
        ordered = None
        if work.silent:  # its row does not tell of it
            ordered = patiently(self._clock, partial(self._children.derived, work.resource.physical_id))
        if ordered is None:
            self._order(work)
        else:
            self._awaited[ordered] = work

    def _order(self, work: Work) -> None:
        """Ask for the next thing; with nothing more to ask for, the work is done."""
        order = None
        try:
            if work.verb not in CONVERGING:
                order = patiently(self._clock, partial(self._children.forward, work, self.deadline))
            elif self.stop is None:
                urgent = work.step.key in self._dependents
                definition, converge = self._transitions.definition, self._children.converge
                order = patiently(self._clock, partial(converge, work, definition, urgent, self.deadline))
            else:
                give_up(work, aborted_text(work.verb, self.stop))
        except Exception as error:
            log.info("resource %s: %s failed", work.row.name, work.verb, exc_info=not isinstance(error, HeatliteError))
            work.failure = failure_text(work.row.name, error)
        if order is None:
            work.done = work.failure is None
            self._settle(work)
        elif order.pause > 0:
            self._orders[id(work)] = order
            heapq.heappush(self._pauses, (self._clock.now() + order.pause, next(self._sequence), work))
        else:
            self._place(work, order)

    def _place(self, work: Work, order: Order) -> None:
        work.awaits = order.action.id
        work.token = {"action": order.action.id, "round": work.round}
        self._transitions.note_order(work, order.stack.id)
        self._children.place(order)
        self._awaited[work.awaits] = work

    def _look_at_children(self) -> None:
        """Go on with the works whose nested stacks have done what was asked of them."""
        if not self._awaited:
            return
        for action in patiently(self._clock, partial(self._children.ended, list(self._awaited))):
            work = self._awaited.pop(action.id)
            self._stopped.pop(action.id, None)
            if action.status is not ActionStatus.SUCCEEDED:
                work.failure = nested_failure(work.row.name, action.status_reason)
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

    def _stop_children(self) -> None:
        """Ask nested stacks to stop, at once or when what runs in them has ended. They are waited for."""
        wanted: dict[Control, list[str]] = {}
        for action_id, work in self._awaited.items():
            if self._must_abort(work):
                wanted.setdefault(Control.FORCE_CANCEL, []).append(action_id)
            elif self.stop in (Stop.CANCEL, Stop.CANCEL_ROLLBACK):
                wanted.setdefault(Control.CANCEL, []).append(action_id)
        for control, action_ids in wanted.items():
            self._ask(control, action_ids)

    def _ask(self, control: Control, action_ids: Sequence[str]) -> None:
        """Ask actions on nested stacks to stop, each once."""
        anew = [action_id for action_id in action_ids if self._stopped.get(action_id) is not control]
        if anew:
            patiently(self._clock, partial(self._children.stop, anew, control))
            self._stopped.update(dict.fromkeys(anew, control))

    def wait_out(self) -> Iterator[float | None]:
        """After a walk that had to stop: wait for what an earlier attempt has asked of nested stacks and this one has
        not taken up any more, so that nothing runs in them once the operation has ended. Yields as `walk`."""
        while self.stop is not None and self.stop is not Stop.DRAIN:
            self._wakeup.clear()
            left = patiently(self._clock, self._children.running)
            if not left:
                break
            self._look_up()
            late = self._patience_ends is not None and self._clock.now() >= self._patience_ends
            if late or self.stop in (Stop.ABORT, Stop.TIMEOUT, Stop.FORCE_CANCEL):
                self._ask(Control.FORCE_CANCEL, left)
            elif self.stop in (Stop.CANCEL, Stop.CANCEL_ROLLBACK):
                self._ask(Control.CANCEL, left)
            if not self._draining:
                yield math.inf

    # -- stopping ----------------------------------------------------------------------------------

    def _look_up(self) -> None:
        """Notice what has been asked from outside, and the time."""
        if self._draining and self.stop is not Stop.DRAIN:
            # Whatever it was stopping for, the next engine finds out again from the rows and the action.
            self._halt(Stop.DRAIN)
        if self._requested is not None and self.stop is not Stop.DRAIN:
            wanted = CONTROLS[self._requested]
            if self.stop in REVISABLE or wanted in (Stop.ABORT, Stop.FORCE_CANCEL) and self.stop is not Stop.ABORT:
                self._halt(wanted)
        if self.stop is None and self.deadline is not None and self._clock.now() >= self.deadline:
            self._halt(Stop.TIMEOUT)
        if self.stop is not None and self.stop is not Stop.DRAIN:
            self._abort()
            self._stop_children()

    def _halt(self, stop: Stop) -> None:
        self.stop = stop
        if self._patience_ends is None:
            self._patience_ends = self._clock.now() + self._patience

    def _abort(self) -> None:
        """Fail the works that nobody waits for any longer. A call that is under way is waited for."""
        assert self.stop is not None
        aborted = [item for item in self._pauses if self._must_abort(item[2])]
        if aborted:
            self._pauses = [item for item in self._pauses if not self._must_abort(item[2])]
            heapq.heapify(self._pauses)
            for _, _, work in aborted:
                self._orders.pop(id(work), None)
        # Its row tells of it; the stack's reason stays with what went wrong first.
        for work in [*(work for _, _, work in aborted), *self._held]:
            give_up(work, aborted_text(work.verb, self.stop))
            self._transitions.finish(work)
        self._held.clear()

    def _must_abort(self, work: Work) -> bool:
        """A half-made object is removed by the rollback anyway; one that changes in place had better finish."""
        if self.stop in (Stop.ABORT, Stop.TIMEOUT, Stop.FORCE_CANCEL):
            return True
        if id(work) in self._orders:
            return True  # it has not begun
        if work.waits:
            return True
        if self._patience_ends is not None and self._clock.now() >= self._patience_ends:
            return True
        rolls_back = self.stop is Stop.CANCEL_ROLLBACK or self.stop is Stop.FAILURE and self.rolls_back
        return rolls_back and work.verb is Verb.CREATE

    @property
    def awaits_nested(self) -> bool:
        """Whether it waits for nested stacks; another process may be at work in them."""
        return bool(self._awaited) or self.stop is not None

    @property
    def nudged(self) -> bool:
        """Whether something has happened since the walk has last looked."""
        return self._wakeup.is_set()

    def _next_look(self) -> float:
        """When there is something to do, if nothing happens before."""
        now = self._clock.now()
        until = [now + LONGEST_WAIT]
        if self._pauses and self.stop is not Stop.DRAIN:
            until.append(self._pauses[0][0])
        if self._held:
            until.append(now + LONGEST_WAIT_FOR_OTHERS)
        if self.deadline is not None and self.stop is None:
            until.append(self.deadline)
        if self._patience_ends is not None and self._patience_ends > now and (self._pauses or self._awaited):
            until.append(self._patience_ends)
        return min(until)

    def _wait(self) -> None:
        seconds = self._next_look() - self._clock.now()
        if seconds <= 0:
            return
        # Handlers take the machine's time, whatever the clock says: an answer may come at any moment.
        self._wakeup.wait(min(seconds, LONGEST_WAIT_FOR_OTHERS) if self._awaited else seconds)
