"""Walk a plan: begin each step when the steps that it requires have succeeded.

One tick takes the results of handlers, begins the steps that are ready, and writes all of it in one fenced commit. Only
then it calls the handlers whose intents are written. Types that make nothing outside their row (`is_quick`) need no
intent: their handlers run within the tick. The walk decides the order; `transitions` decides what a step does.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.engine.calls.handlers import advance, give_up
from heatlite.engine.calls.pool import Calls
from heatlite.engine.calls.step_execution import HandlerCall, HookWait, NestedOperation, StepExecution, StepPhase
from heatlite.engine.calls.stopping import Stop, Stopping, aborted_text
from heatlite.engine.planning.plan import Plan, Step, waiting
from heatlite.engine.state.database_retry import retry_while_unavailable, wait_until_retry
from heatlite.engine.steps.child_waits import ChildWaits
from heatlite.engine.steps.children import Children
from heatlite.engine.steps.transitions import Transitions

MAX_STEPS_PER_TICK = 500
"""Steps that one commit covers at most: enough to make the commit cheap, few enough to show progress."""

MAX_WAIT = 60.0
"""Seconds after which an idle walk checks its state without a notification."""
MAX_WAIT_FOR_OTHERS = 1.0
"""The same while it waits for nested stacks or at hooks, where other processes may act."""


class Walker:
    """Walks the plans of one execution, one after the other."""

    def __init__(
        self,
        clock: Clock,
        calls: Calls,
        transitions: Transitions,
        children: Children,
        commit: Callable[[], None],
        park: Callable[[int, Sequence[HookWait]], bool],
        set_aside: Callable[[], bool],
        stopping: Stopping,
    ) -> None:
        self._clock = clock
        self._transitions = transitions
        self._commit = commit
        self._park = park
        self._set_aside = set_aside
        self._stopping = stopping
        self._children = ChildWaits(
            clock, transitions, children, stopping, self._is_required, self._settle, self._pause
        )
        self._calls = calls
        self._wakeup = calls.wakeup
        self._after_commit: list[HandlerCall] = []
        self._pauses: list[tuple[float, int, HandlerCall | NestedOperation]] = []
        self._held: list[HookWait] = []
        self._sequence = itertools.count()
        self._has_mail = False
        self._goes_on = False
        self._optional = False
        self._ready: deque[str] = deque()
        self._open: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = {}

    # -- from other threads ------------------------------------------------------------------------

    def notify(self) -> None:
        """Have the control read again: it has changed, or the lease was lost."""
        self._stopping.notify()
        self._wakeup.set()

    def nudge(self) -> None:
        """Wake the walk: an event that it may wait for has happened."""
        self._wakeup.set()

    def deliver(self) -> None:
        """Wake the walk: a message has arrived at an address that it waits for."""
        self._has_mail = True
        self._wakeup.set()

    def drain(self) -> None:
        """Stop at the next tick and leave everything to another engine."""
        self._stopping.drain()
        self._wakeup.set()

    @property
    def awaits_nested(self) -> bool:
        """True if the walk waits for nested stacks, in which another process may work."""
        return bool(self._children) or self._stopping.stop is not None

    @property
    def awaited_addresses(self) -> frozenset[str]:
        """The addresses of mailboxes whose next message ends a pause."""
        calls = (execution for _, _, execution in self._pauses if isinstance(execution, HandlerCall))
        return frozenset(call.awaits for call in calls if call.awaits is not None)

    @property
    def is_nudged(self) -> bool:
        """True if a notification has arrived since the last tick."""
        return self._wakeup.is_set()

    # -- walk --------------------------------------------------------------------------------------

    def walk(self, plan: Plan, begin: Callable[[Step], StepExecution]) -> Iterator[float | None]:
        """Execute the steps of a plan until nothing runs or waits.

        Yields when no thread is needed for a while: the time of the next thing to do, in seconds since the epoch. A
        notification or the end of a nested stack may come first. Yields None after the action was parked or suspended;
        it continues when it is claimed again. The changes of the last tick are left to the next commit.
        """
        self._goes_on, self._optional = plan.goes_on, plan.optional
        self._open, self._dependents = waiting(plan.steps.values())
        self._ready = deque(key for key, count in self._open.items() if count == 0)
        while True:
            self._take_events()
            self._begin_ready(plan, begin)
            if self._is_over():
                break
            self._commit()
            if self._stopping.pauses:
                if self._calls.running:
                    self._wait()
                else:
                    yield from self.rest()
                continue
            called, self._after_commit = self._after_commit, []
            shared: list[HandlerCall] = []
            quick: list[HandlerCall] = []
            others: list[HandlerCall] = []
            for call in called:
                (shared if call.shares_commit else quick if call.is_quick else others).append(call)
            self._calls.start_shared(shared)  # from now on their phases change
            self._calls.start(others)
            for call in quick:
                self._call_here(call)
            if not quick:  # else some may have ended: write that first
                yield from self._idle()
        self._pauses.clear()
        self._children.clear()
        self._held.clear()
        if self._stopping.stop is Stop.DRAIN:
            self._commit()

    def _take_events(self) -> None:
        """Take all that has happened since the last tick."""
        self._calls.gather()
        self._wakeup.clear()
        self._stopping.poll_control()
        self._take_results()
        if not self._stopping.pauses:
            self._children.check()
            self._check_hooks()
        self._check_stop()

    def _begin_ready(self, plan: Plan, begin: Callable[[Step], StepExecution]) -> None:
        """Begin steps. While the walk stops, only those that an earlier attempt has begun."""
        for _ in range(MAX_STEPS_PER_TICK):
            if not self._can_begin():
                break
            step = plan.steps[self._ready[0]]
            try:
                goes_on = self._stopping.stop is None or self._transitions.continues(step)
                execution = begin(step) if goes_on else None
            except DatabaseUnavailable as error:
                wait_until_retry(self._clock, error)
                continue
            self._ready.popleft()
            if execution is not None and (self._stopping.stop is None or self._may_continue(execution)):
                self._go_on(execution)
            elif execution is not None:
                self._give_up(execution)
            if self._transitions.budget.wants_commit:
                break

    def _idle(self) -> Iterator[float | None]:
        """Wait if there is nothing to do. Yields as `walk`."""
        if self._calls.has_results or self._after_commit or self._can_begin() or self._is_over():
            return
        if self._children and not self._calls.running and (self._pauses or self._stopping.stop is not None):
            # Nested stacks need the thread, and end or stop in their own time.
            yield self._pauses[0][0] if self._pauses else math.inf
        elif self._calls.running:
            self._wait()
        elif self._pauses or self._stopping.stop is not None:
            yield self._next_time()
        elif self._park(len(self._children), self._held):
            yield None

    def _is_over(self) -> bool:
        """Return whether nothing runs, waits, or can begin."""
        if self._calls.running or self._after_commit or self._calls.has_results or self._has_more():
            return False
        return self._stopping.stop is Stop.DRAIN or not (self._pauses or self._children or self._held)

    def _has_more(self) -> bool:
        """Return whether there are steps to begin."""
        if not self._ready or self._stopping.stop is None:
            return bool(self._ready)
        return self._stopping.takes_up and bool(self._transitions.rows.interrupted)

    def _can_begin(self) -> bool:
        """Return whether a step may begin now."""
        return self._has_more() and not self._stopping.pauses

    # -- steps -------------------------------------------------------------------------------------

    def _may_continue(self, execution: StepExecution) -> bool:
        """Return whether a stopping walk continues what an earlier attempt has begun."""
        # A cancel repeats no call: that call may have ended the engine.
        was_called = execution.phase is StepPhase.CHECKING
        may_call = was_called or self._stopping.cause is Stop.FAILURE
        is_ordered = isinstance(execution, NestedOperation) and was_called  # the nested stack is asked to stop
        return execution.has_ended or is_ordered or may_call and not self._stopping.must_abort(execution)

    def _go_on(self, execution: StepExecution) -> None:
        """Continue an execution: quick handlers at once, others after their intent."""
        match execution:
            case _ if execution.has_ended:
                self._settle(execution)
            case HookWait():
                self._held.append(execution)
            case NestedOperation():
                self._children.begin(execution)
            case HandlerCall() if execution.is_delayed:
                assert execution.retry.starts_at is not None
                self._push(execution, execution.retry.starts_at)
            case HandlerCall() if (
                execution.is_quick and execution.phase is StepPhase.READY and not self._stopping.pauses
            ):
                self._call_here(execution)
            case HandlerCall():
                self._after_commit.append(execution)
            case _:
                raise AssertionError(f"{execution} has not ended and waits for nothing")

    def _call(self, call: HandlerCall) -> None:
        """Call the next handler or check: quick ones here, others in the pool."""
        if call.is_quick:
            self._call_here(call)
        else:
            self._calls.start([call])

    def _call_here(self, call: HandlerCall) -> None:
        advance(call, self._calls.meter)
        self._take_result(call)

    def _take_results(self) -> None:
        for call in self._calls.results():
            self._take_result(call)
        if self._stopping.pauses:
            return
        if self._has_mail:
            self._has_mail = False
            self._end_pauses_for_messages()
        now = self._clock.now()
        while self._pauses and self._pauses[0][0] <= now and self._stopping.stop is not Stop.DRAIN:
            execution = heapq.heappop(self._pauses)[2]
            if isinstance(execution, NestedOperation):
                self._children.place_delayed(execution)
            else:
                self._call(execution)

    def _end_pauses_for_messages(self) -> None:
        self._pauses = [
            (0.0 if isinstance(execution, HandlerCall) and execution.awaits else until, number, execution)
            for until, number, execution in self._pauses
        ]
        heapq.heapify(self._pauses)

    def _take_result(self, call: HandlerCall) -> None:
        if call.has_ended:
            self._settle(call)
        elif self._transitions.note_progress(call) and call.outage_since is None:
            # The commit of the handler's token comes before its check. During an outage the call pauses all the same.
            self._after_commit.append(call)
        else:
            self._pause(call, call.pause)

    def _pause(self, execution: HandlerCall | NestedOperation, seconds: float) -> None:
        self._push(execution, self._clock.now() + seconds)

    def _push(self, execution: HandlerCall | NestedOperation, until: float) -> None:
        heapq.heappush(self._pauses, (until, next(self._sequence), execution))

    def _is_required(self, execution: StepExecution) -> bool:
        """Return whether other steps wait for it."""
        return execution.step.key in self._dependents

    def _settle(self, execution: StepExecution) -> None:
        """Write the end of an execution and release the steps that wait for it."""
        cause = self._stopping.cause
        if cause is not None and execution.failure is not None:
            execution.failure = replace(execution.failure, is_transient=False)  # no retries
        following = retry_while_unavailable(self._clock, self._transitions.finish, execution)
        if following is not None:
            if cause is not None:
                following.fail(aborted_text(following.verb, cause))
            self._go_on(following)
            return
        if execution.failure is not None:
            text = f"Resource {execution.verb} failed: {execution.failure.text}"
            is_cut_off = cause is not None and execution.failure.text == aborted_text(execution.verb, cause)
            is_known = text in self._stopping.failures  # an earlier attempt may have met the same
            if not (self._optional or is_cut_off or is_known):
                self._stopping.failures.append(text)
            if not self._goes_on:
                self._stopping.fail()
                return
        for key in self._dependents.get(execution.step.key, ()):
            self._open[key] -= 1
            if self._open[key] == 0:
                self._ready.append(key)

    def _check_hooks(self) -> None:
        """Continue the resources whose hooks were cleared, unless the walk stops."""
        now = self._clock.now()
        over = retry_while_unavailable(self._clock, self._transitions.breakpoints.over, self._held, now)
        self._held = [wait for wait in self._held if wait not in over]
        for wait in over:
            if self._stopping.stop is None:
                wait.phase = StepPhase.DONE
                self._settle(wait)
            else:
                self._held.append(wait)

    # -- suspension --------------------------------------------------------------------------------

    def wait_out(self) -> Iterator[float | None]:
        """Wait for orders of an earlier attempt that this one has not resumed.

        Nothing then runs in nested stacks after the end of the operation. Yields as `walk`.
        """
        while self._stopping.gives_up:
            self._wakeup.clear()
            yield from self.rest()
            self._check_stop()
            running = self._children.running()
            if not running:
                break
            self._children.stop_all(running)
            if not self._stopping.drains:
                yield math.inf

    def rest(self) -> Iterator[float | None]:
        """Release the action if it is to be suspended; no call may run. Yields as `walk`."""
        self._stopping.poll_control()
        while self._stopping.pauses:
            if self._set_aside():
                yield None
            self._stopping.poll_control()

    # -- stopping ----------------------------------------------------------------------------------

    def _check_stop(self) -> None:
        """Stop if the control or the deadline demands it."""
        self._stopping.check()
        if self._stopping.gives_up and not self._stopping.pauses:
            self._abort()
            self._children.stop()

    def _abort(self) -> None:
        """Fail the executions that the stopped walk abandons, but let running calls end."""
        aborted = [item for item in self._pauses if self._must_abort(item[2])]
        if aborted:
            self._pauses = [item for item in self._pauses if not self._must_abort(item[2])]
            heapq.heapify(self._pauses)
        # A suspended walk may hold executions whose handlers were not called yet.
        calls_all = self._stopping.cause is Stop.FAILURE
        uncalled = [call for call in self._after_commit if not (call.phase is StepPhase.CHECKING or calls_all)]
        self._after_commit = [call for call in self._after_commit if call not in uncalled]
        for execution in [*(execution for _, _, execution in aborted), *self._held, *uncalled]:
            if isinstance(execution, NestedOperation):
                self._children.drop(execution)
            self._give_up(execution)
        self._held.clear()

    def _must_abort(self, execution: StepExecution) -> bool:
        # A nested operation pauses only before its order is placed.
        return isinstance(execution, NestedOperation) or self._stopping.must_abort(execution)

    def _give_up(self, execution: StepExecution) -> None:
        """Fail an execution, with the reason in its row.

        The stack's reason stays with the first failure.
        """
        assert self._stopping.cause is not None
        give_up(execution, aborted_text(execution.verb, self._stopping.cause))
        self._transitions.finish(execution)

    # -- waiting -----------------------------------------------------------------------------------

    def _next_time(self) -> float:
        """Return the time of the next thing to do without a notification."""
        now, stopping = self._clock.now(), self._stopping
        until = [now + MAX_WAIT]
        if stopping.pauses:
            return until[0]
        if self._pauses and stopping.stop is not Stop.DRAIN:
            until.append(self._pauses[0][0])
        if self._held:
            until.append(now + MAX_WAIT_FOR_OTHERS)
        if stopping.deadline is not None and stopping.stop is None:
            until.append(stopping.deadline)
        patience_ends = stopping.patience_ends
        if patience_ends is not None and patience_ends > now and (self._pauses or self._children):
            until.append(patience_ends)
        return min(until)

    def _wait(self) -> None:
        seconds = self._next_time() - self._clock.now()
        if seconds <= 0:
            return
        # Handlers take real time, whatever the clock says: a result may come at any moment.
        self._wakeup.wait(min(seconds, MAX_WAIT_FOR_OTHERS) if self._children else seconds)
