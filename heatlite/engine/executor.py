"""Walk a plan.

A tick: take what handlers have answered, begin the steps that became ready, write all of it in one fenced commit, and
only then call the handlers whose intent is written. Handlers of types that make nothing outside their row
(`quick`) need no intent and run within the tick. The walk decides when things happen; what a step does and
what its row says is `transitions`' business.
"""

import heapq
import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from enum import Enum

from heatlite.core.clock import Clock
from heatlite.core.status import Control, Verb
from heatlite.engine.plan import Plan, Step, waiting
from heatlite.engine.step import Work, advance
from heatlite.engine.transitions import Transitions

STEPS_PER_TICK = 500
"""How many steps one commit covers at the most: enough to make the commit cheap, few enough to be watched."""

LONGEST_WAIT = 60.0
"""Seconds after which a walk looks up even if nothing has called it."""


class Stop(Enum):
    """Why nothing new is started; the value is what an aborted resource says."""

    FAILURE = "another resource failed"
    TIMEOUT = "Timed out"
    CANCEL = "the operation was cancelled"
    CANCEL_ROLLBACK = "the operation was cancelled and is rolled back"
    ABORT = "the stack is being deleted"
    DRAIN = "the engine shuts down"


CONTROLS = {
    Control.CANCEL: Stop.CANCEL,
    Control.CANCEL_ROLLBACK: Stop.CANCEL_ROLLBACK,
    Control.ABORT: Stop.ABORT,
}

REVISABLE = frozenset({None, Stop.FAILURE, Stop.CANCEL, Stop.CANCEL_ROLLBACK})
"""While what runs is waited for, a caller may still decide whether there is to be a rollback; the last word counts."""


def aborted_text(verb: Verb, stop: Stop) -> str:
    """What a resource says that was not waited for."""
    return f"{verb} aborted: {stop.value}"


class Executor:
    """Walks the plans of one execution, one after the other."""

    def __init__(
        self,
        clock: Clock,
        pool: Pool,
        transitions: Transitions,
        commit: Callable[[], None],
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
        self._commit = commit
        self._patience = patience
        self._patience_ends: float | None = None
        self._requested: Control | None = None
        self._draining = False
        self._wakeup = threading.Event()
        self._answers: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._calling = 0
        self._after_commit: list[Work] = []
        self._pauses: list[tuple[float, int, Work]] = []
        self._sequence = itertools.count()
        self._goes_on = False
        self._ready: deque[str] = deque()
        self._open: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = {}

    # -- asked from other threads ------------------------------------------------------------------

    def request(self, control: Control) -> None:
        """Somebody wants the action to stop."""
        self._requested = control
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

    def walk(self, plan: Plan, begin: Callable[[Step], Work]) -> None:
        """Do the steps of a plan, each as soon as what it requires has succeeded. Ends when nothing is under way."""
        self._goes_on = plan.goes_on
        self._open, self._dependents = waiting(plan.steps.values())
        self._ready = deque(key for key, count in self._open.items() if count == 0)
        while True:
            self._wakeup.clear()
            self._take_answers()
            self._look_up()
            for _ in range(STEPS_PER_TICK):
                if not self._ready or self.stop is not None:
                    break
                self._go_on(begin(plan.steps[self._ready.popleft()]))
            self._commit()
            for work in self._take_after_commit():
                self._call(work)
            if self._answers.empty() and not self._after_commit and not (self._ready and self.stop is None):
                if not self._calling and (not self._pauses or self.stop is Stop.DRAIN):
                    break
                self._wait()
        self._pauses.clear()
        self._commit()

    def _go_on(self, work: Work) -> None:
        """A work has begun: call its handler at once if it is quick, after the commit of its intent otherwise."""
        if work.ended:
            self._settle(work)
        elif work.resource.quick and not work.handled:
            self._call(work)
        else:
            self._after_commit.append(work)

    def _take_after_commit(self) -> list[Work]:
        works, self._after_commit = self._after_commit, []
        return works

    def _call(self, work: Work) -> None:
        """Call the type's next handler or check: here if it is quick, else in a thread of the pool."""
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
        follow_up = self._transitions.finish(work)
        if follow_up is not None:
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

    # -- stopping ----------------------------------------------------------------------------------

    def _look_up(self) -> None:
        """Notice what has been asked from outside, and the time."""
        if self._draining and self.stop is not Stop.DRAIN:
            # Whatever it was stopping for, the next engine finds out again from the rows and the action.
            self._halt(Stop.DRAIN)
        if self._requested is not None and self.stop is not Stop.DRAIN:
            wanted = CONTROLS[self._requested]
            if self.stop in REVISABLE or wanted is Stop.ABORT:
                self._halt(wanted)
        if self.stop is None and self.deadline is not None and self._clock.now() >= self.deadline:
            self._halt(Stop.TIMEOUT)
        if self.stop is not None and self.stop is not Stop.DRAIN:
            self._abort()

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
                # Its row tells of it; the stack's reason stays with what went wrong first.
                work.failure = aborted_text(work.verb, self.stop)
                self._transitions.finish(work)

    def _must_abort(self, work: Work) -> bool:
        """A half-made object is removed by the rollback anyway; one that changes in place had better finish."""
        if self.stop in (Stop.ABORT, Stop.TIMEOUT):
            return True
        if self._patience_ends is not None and self._clock.now() >= self._patience_ends:
            return True
        rolls_back = self.stop is Stop.CANCEL_ROLLBACK or self.stop is Stop.FAILURE and self.rolls_back
        return rolls_back and work.verb is Verb.CREATE

    def _wait(self) -> None:
        now = self._clock.now()
        until = [now + LONGEST_WAIT]
        if self._pauses and self.stop is not Stop.DRAIN:
            until.append(self._pauses[0][0])
        if self.deadline is not None and self.stop is None:
            until.append(self.deadline)
        if self._patience_ends is not None and self._pauses:
            until.append(self._patience_ends)
        seconds = min(until) - now
        if seconds <= 0:
            return
        if self._calling:
            # A call takes the machine's time, whatever the clock says: its answer may come at any moment.
            self._wakeup.wait(seconds)
        else:
            self._clock.wait(self._wakeup, seconds)
