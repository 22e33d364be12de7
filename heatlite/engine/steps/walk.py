"""Walk a plan.

A tick: take what handlers have answered, begin the steps that became ready, write all of it in one fenced commit, and
only then call the handlers whose intent is written. Handlers of types that make nothing outside their row
(`quick`) need no intent and run within the tick. The walk decides when things happen; what a step does and
what its row says is `transitions`' business.
"""

import heapq
import itertools
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from functools import partial

from heatlite.core.clock import Clock
from heatlite.core.meter import Meter
from heatlite.engine.planning.plan import Plan, Step, waiting
from heatlite.engine.state.database_retry import patiently
from heatlite.engine.steps.child_waits import Awaiting
from heatlite.engine.steps.children import Children
from heatlite.engine.steps.step import Work, advance, give_up
from heatlite.engine.steps.stopping import Stop, Stopping, aborted_text
from heatlite.engine.steps.transitions import Transitions
from heatlite.plugin.nested import StackResource

STEPS_PER_TICK = 500
"""How many steps one commit covers at the most: enough to make the commit cheap, few enough to be watched."""

LONGEST_WAIT = 60.0
"""Seconds after which a walk looks up even if nothing has called it."""
LONGEST_WAIT_FOR_OTHERS = 1.0
"""The same while it waits for nested stacks or at breakpoints: another process may have to do with them."""


class Executor:
    """Walks the plans of one execution, one after the other."""

    def __init__(
        self,
        clock: Clock,
        pool: Pool,
        transitions: Transitions,
        children: Children,
        meter: Meter,
        commit: Callable[[], None],
        park: Callable[[int, Sequence[Work]], bool],
        set_aside: Callable[[], bool],
        stopping: Stopping,
    ) -> None:
        self.failures: list[str] = []
        """``Resource CREATE failed: …``, in the order in which they happened."""
        self._clock = clock
        self._pool = pool
        self._transitions = transitions
        self._meter = meter
        self._commit = commit
        self._park = park
        self._set_aside = set_aside
        self._stopping = stopping
        self._awaiting = Awaiting(
            clock, transitions, children, stopping, self._is_required, self._settle, self._pause
        )
        self._wakeup = threading.Event()
        self._answers: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._calling: set[int] = set()
        """The identities of the works whose calls are under way."""
        self._called: dict[int, tuple[Work, str | None]] = {}
        """Of these, and of what was called since the last commit: the work, and its object's id as last written."""
        self._after_commit: list[Work] = []
        self._pauses: list[tuple[float, int, Work]] = []
        self._held: list[Work] = []
        """What waits at breakpoints."""
        self._sequence = itertools.count()
        self._goes_on = False
        self._optional = False
        self._ready: deque[str] = deque()
        self._open: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = {}

    # -- asked from other threads ------------------------------------------------------------------

    def call(self) -> None:
        """Something else is asked of the action now, or it is somebody else's."""
        self._stopping.call()
        self._wakeup.set()

    def wait_for_calls(self) -> None:
        """After a walk that could not go on: until no handler is at work any more, so that the one who begins anew
        does not do the same beside it."""
        while self._calling:
            self._calling.discard(id(self._answers.get()))

    def nudge(self) -> None:
        """Something has happened that the walk may wait for."""
        self._wakeup.set()

    def drain(self) -> None:
        """Stop at the next tick, leaving everything so that another engine can go on with it."""
        self._stopping.drain()
        self._wakeup.set()

    def written(self) -> None:
        """To be told when a commit has been made, of all that was answered before."""
        self._called = {key: called for key, called in self._called.items() if key in self._calling}

    def unwritten(self) -> list[Work]:
        """Once no handler is at work any more: the works that have made an object of which no row tells."""
        return [work for work, before in self._called.values() if work.resource.physical_id not in (None, before)]

    # -- the walk ----------------------------------------------------------------------------------

    def walk(self, plan: Plan, begin: Callable[[Step], Work]) -> Iterator[float | None]:
        """Do the steps of a plan, each as soon as what it requires has succeeded. Ends when nothing is under way.

        Yields when it needs no thread for a while: a time (seconds since the epoch) until which there is nothing to do
        but for a `nudge`, a `call` or a `drain`, or for what other processes do in nested stacks; or None when it has
        let go of the action because it is suspended, or because there is nothing but nested stacks and breakpoints to
        wait for, and goes on once it is claimed again. What the last tick has changed is left to the next commit, which
        is the next walk's, or tells how the stack has ended.
        """
        self._goes_on, self._optional = plan.goes_on, plan.optional
        self._open, self._dependents = waiting(plan.steps.values())
        self._ready = deque(key for key, count in self._open.items() if count == 0)
        while True:
            self._wakeup.clear()
            self._stopping.hear()
            self._take_answers()
            if not self._stopping.pauses:
                self._awaiting.look()
                self._look_at_breakpoints()
            self._look_up()
            for _ in range(STEPS_PER_TICK):
                if not self._can_begin():
                    break
                self._begin(plan.steps[self._ready.popleft()], begin)
                if self._transitions.budget.wants_commit:
                    break
            if self._is_over():
                break
            self._commit()
            if self._stopping.pauses:
                if self._calling:
                    self._wait()
                else:
                    yield from self.rest()
                continue
            called = self._take_after_commit()
            for work in called:
                self._call(work)
            if any(work.quick for work in called):
                continue  # they may have ended: nobody waits before that is written
            if self._answers.empty() and not self._after_commit and not self._can_begin():
                if self._is_over():
                    continue
                if self._awaiting and not self._calling and (self._pauses or self._stopping.stop is not None):
                    # Nested stacks need the thread, and end or stop in their own time.
                    yield self._pauses[0][0] if self._pauses else math.inf
                elif self._calling:
                    self._wait()
                elif self._pauses or self._stopping.stop is not None:
                    yield self._next_look()
                elif self._park(len(self._awaiting), self._held):
                    yield None
        self._pauses.clear()
        self._awaiting.forget()
        self._held.clear()
        if self._stopping.stop is Stop.DRAIN:
            self._commit()

    def _is_over(self) -> bool:
        """Whether nothing is under way and nothing can begin."""
        if self._calling or self._after_commit or not self._answers.empty() or self._has_more():
            return False
        return self._stopping.stop is Stop.DRAIN or not (self._pauses or self._awaiting or self._held)

    def _has_more(self) -> bool:
        """Whether there are steps to begin."""
        takes_up = self._stopping.takes_up and bool(self._transitions.cut_off)
        return bool(self._ready) and (self._stopping.stop is None or takes_up)

    def _can_begin(self) -> bool:
        """Whether there is a step whose turn has come."""
        return self._has_more() and not self._stopping.pauses

    def _begin(self, step: Step, begin: Callable[[Step], Work]) -> None:
        """Begin a step. While the walk stops, only let it end if an earlier attempt has begun it."""
        if self._stopping.stop is None:
            self._go_on(patiently(self._clock, partial(begin, step)))
            return
        work = patiently(self._clock, partial(self._transitions.take_up, step, begin))
        if work is None:
            return
        # A cancel begins no call anew: it may be the call that has ended the engine.
        is_called = work.handled or self._stopping.cause is Stop.FAILURE
        is_ordered = isinstance(work.resource, StackResource) and work.handled  # asked to stop where it is at work
        if work.ended or is_ordered or is_called and not self._stopping.must_abort(work):
            self._go_on(work)
        else:
            self._give_up(work)

    def _go_on(self, work: Work) -> None:
        """A work has begun: call its handler at once if it is quick, after the commit of its intent otherwise."""
        if work.ended:
            self._settle(work)
        elif work.hook is not None:
            self._held.append(work)
        elif isinstance(work.resource, StackResource):
            self._awaiting.begin(work)
        elif work.waits:
            assert work.starts_at is not None
            heapq.heappush(self._pauses, (work.starts_at, next(self._sequence), work))
        elif work.quick and not work.handled and not self._stopping.pauses:
            self._call(work)
        else:
            self._after_commit.append(work)

    def _take_after_commit(self) -> list[Work]:
        works, self._after_commit = self._after_commit, []
        return works

    def _call(self, work: Work) -> None:
        """Call the type's next handler or check: here if it is quick, else in a thread of the pool."""
        if self._awaiting.go_on(work):
            return
        if work.quick:
            self._advance(work)
            self._answered(work)
            return
        self._calling.add(id(work))
        self._called.setdefault(id(work), (work, work.row.physical_id))
        self._pool.submit(self._call_in_thread, work)

    def _call_in_thread(self, work: Work) -> None:
        self._advance(work)
        self._answers.put(work)
        self._wakeup.set()

    def _advance(self, work: Work) -> None:
        verb, began = work.does, time.perf_counter()
        advance(work)
        self._meter.handler_called(work.resource.type_name, verb, time.perf_counter() - began)

    def _take_answers(self) -> None:
        while not self._answers.empty():
            work = self._answers.get()
            self._calling.discard(id(work))
            self._answered(work)
        if self._stopping.pauses:
            return
        now = self._clock.now()
        while self._pauses and self._pauses[0][0] <= now and self._stopping.stop is not Stop.DRAIN:
            self._call(heapq.heappop(self._pauses)[2])

    def _answered(self, work: Work) -> None:
        if work.ended:
            self._settle(work)
        elif self._transitions.note_progress(work):
            # What the handler keeps is written before its check acts on it.
            self._after_commit.append(work)
        else:
            self._pause(work, work.pause)

    def _pause(self, work: Work, seconds: float) -> None:
        heapq.heappush(self._pauses, (self._clock.now() + seconds, next(self._sequence), work))

    def _is_required(self, work: Work) -> bool:
        """Whether something waits for it."""
        return work.step.key in self._dependents

    def _settle(self, work: Work) -> None:
        cause = self._stopping.cause
        if cause is not None:
            work.passes = False  # nothing is tried again
        follow_up = patiently(self._clock, partial(self._transitions.finish, work))
        if follow_up is not None:
            if cause is not None:
                follow_up.failure = aborted_text(follow_up.verb, cause)
            self._go_on(follow_up)
            return
        if work.failure is not None:
            text = f"Resource {work.verb} failed: {work.failure}"
            if not self._optional and text not in self.failures:  # an earlier attempt may have met the same
                self.failures.append(text)
            if not self._goes_on:
                self._stopping.fail()
                return
        for key in self._dependents.get(work.step.key, ()):
            self._open[key] -= 1
            if self._open[key] == 0:
                self._ready.append(key)

    def _look_at_breakpoints(self) -> None:
        """Go on with the works whose breakpoints have been cleared. Once the walk stops, nothing new begins."""
        free = patiently(self._clock, partial(self._transitions.breakpoints.let_go, self._held, self._clock.now()))
        for work in free:
            work.done = True
        self._held = [work for work in self._held if not work.done]
        for work in free:
            if self._stopping.stop is None:
                self._settle(work)
            else:
                work.done = False
                self._held.append(work)

    def wait_out(self) -> Iterator[float | None]:
        """After a walk that had to stop: wait for what an earlier attempt has asked of nested stacks and this one has
        not taken up any more, so that nothing runs in them once the operation has ended. Yields as `walk`."""
        while self._stopping.gives_up:
            self._wakeup.clear()
            yield from self.rest()
            left = self._awaiting.left()
            if not left:
                break
            self._look_up()
            self._awaiting.stop_all(left)
            if not self._stopping.drains:
                yield math.inf

    def rest(self) -> Iterator[float | None]:
        """Let go of the action here if it is to be suspended; nothing may be under way. Yields as `walk`."""
        self._stopping.hear()
        while self._stopping.pauses:
            if self._set_aside():
                yield None
            self._stopping.hear()

    # -- stopping ----------------------------------------------------------------------------------

    def _look_up(self) -> None:
        """Notice what has been asked from outside, and the time."""
        self._stopping.look_up()
        if self._stopping.gives_up and not self._stopping.pauses:
            self._abort()
            self._awaiting.stop()

    def _abort(self) -> None:
        """Fail the works that nobody waits for any longer. A call that is under way is waited for."""
        aborted = [item for item in self._pauses if self._awaiting.must_abort(item[2])]
        if aborted:
            self._pauses = [item for item in self._pauses if not self._awaiting.must_abort(item[2])]
            heapq.heapify(self._pauses)
            for _, _, work in aborted:
                self._awaiting.drop(work)
        # Who was suspended may have begun what nobody was called for yet.
        calls_all = self._stopping.cause is Stop.FAILURE
        uncalled = [one for one in self._after_commit if not (one.handled or calls_all)]
        self._after_commit = [work for work in self._after_commit if work not in uncalled]
        for work in [*(work for _, _, work in aborted), *self._held, *uncalled]:
            self._give_up(work)
        self._held.clear()

    def _give_up(self, work: Work) -> None:
        """Fail a work. Its row tells of it; the stack's reason stays with what went wrong first."""
        assert self._stopping.cause is not None
        give_up(work, aborted_text(work.verb, self._stopping.cause))
        self._transitions.finish(work)

    @property
    def awaits_nested(self) -> bool:
        """Whether it waits for nested stacks; another process may be at work in them."""
        return bool(self._awaiting) or self._stopping.stop is not None

    @property
    def nudged(self) -> bool:
        """Whether something has happened since the walk has last looked."""
        return self._wakeup.is_set()

    def _next_look(self) -> float:
        """When there is something to do, if nothing happens before."""
        now, stopping = self._clock.now(), self._stopping
        until = [now + LONGEST_WAIT]
        if stopping.pauses:
            return until[0]
        if self._pauses and stopping.stop is not Stop.DRAIN:
            until.append(self._pauses[0][0])
        if self._held:
            until.append(now + LONGEST_WAIT_FOR_OTHERS)
        if stopping.deadline is not None and stopping.stop is None:
            until.append(stopping.deadline)
        patience_ends = stopping.patience_ends
        if patience_ends is not None and patience_ends > now and (self._pauses or self._awaiting):
            until.append(patience_ends)
        return min(until)

    def _wait(self) -> None:
        seconds = self._next_look() - self._clock.now()
        if seconds <= 0:
            return
        # Handlers take the machine's time, whatever the clock says: an answer may come at any moment.
        self._wakeup.wait(min(seconds, LONGEST_WAIT_FOR_OTHERS) if self._awaiting else seconds)
