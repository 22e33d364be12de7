"""Run handler calls in the threads of a pool and collect their results."""

import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor as Pool
from contextlib import AbstractContextManager

from heatlite.core.clock import Clock
from heatlite.core.runtime.meter import Meter
from heatlite.engine.calls.handlers import advance
from heatlite.engine.calls.step_execution import HandlerCall, PoolCall, StepPhase

log = logging.getLogger(__name__)

GATHERING = 0.004
"""Seconds for which results wait for those of other running calls."""
SHARED = 50
"""Maximum of calls in one transaction, so that other writers wait briefly."""


class Calls:
    """The handler calls of one execution.

    A process may be frozen between a commit and a call. Another engine may then have ended the action, and a late call
    would make its object again. So no call begins after the end of the lease as this execution knows it, unless the
    action's row says that the execution still holds it.
    """

    def __init__(
        self,
        pool: Pool,
        meter: Meter,
        clock: Clock,
        lease: float,
        ask: Callable[[], object],
        transaction: Callable[[], AbstractContextManager[object]],
        threads: int,
    ) -> None:
        """Take the `lease` in seconds, the questions to the store, and the pool's size.

        `threads` is the number of its threads. `ask` reads the action's row; it raises Fenced if another worker has the
        action. `transaction` opens one.
        """
        self.wakeup = threading.Event()
        """Set when there are results."""
        self.running: set[HandlerCall] = set()
        """Calls in the pool whose results were not taken."""
        self._pool = pool
        self.meter = meter
        self._clock = clock
        self._lease = lease
        self._ask = ask
        self._transaction = transaction
        self._threads = threads
        self._held_until = 0.0
        """End of the lease as last known; a heartbeat may have extended it."""
        self._results: queue.SimpleQueue[HandlerCall] = queue.SimpleQueue()
        self._late: set[HandlerCall] = set()
        """Results of calls that did not begin within the lease."""
        self._unwritten: dict[HandlerCall, str | None] = {}
        """Calls that run or were not committed yet, each with the object's id as last written."""

    @property
    def has_results(self) -> bool:
        """True if there are results to take."""
        return not self._results.empty()

    def start(self, calls: Iterable[HandlerCall]) -> None:
        """Advance calls in threads of the pool. Raises Fenced."""
        self._start([[call] for call in calls])

    def start_shared(self, calls: Sequence[HandlerCall]) -> None:
        """Advance calls that write to the store only, some in each transaction.

        Raises Fenced.
        """
        self._start([calls[first : first + SHARED] for first in range(0, len(calls), SHARED)])

    def _start(self, batches: Sequence[Sequence[HandlerCall]]) -> None:
        """Advance batches of calls in their order.

        One job of the pool takes batch after batch: a job for each takes longer than many calls.
        """
        if not batches:
            return
        now = self._clock.now()
        if now >= self._held_until:
            self._ask()
            self._held_until = now + self._lease
        for call in itertools.chain.from_iterable(batches):
            self.running.add(call)
            self._unwritten.setdefault(call, call.row.physical_id)
        waiting = deque(batches)
        for _ in range(min(len(batches), self._threads)):
            self._pool.submit(self._advance_all, waiting, now + self._lease)

    def _advance_all(self, waiting: deque[Sequence[HandlerCall]], latest: float) -> None:
        """Advance what waits, beside the other jobs that do (in a thread of the pool)."""
        while True:
            try:
                calls = waiting.popleft()
            except IndexError:
                return
            if self._clock.now() >= latest:
                self._late.update(calls)
            elif len(calls) == 1:
                advance(calls[0], self.meter)
            else:
                self._advance_shared(calls)
            for call in calls:
                self._results.put(call)
            self.wakeup.set()

    def _advance_shared(self, calls: Sequence[HandlerCall]) -> None:
        """Advance calls in one transaction. If it fails, advance each again in its own."""
        ids = [call.resource.physical_id for call in calls]
        try:
            with self._transaction():
                for call in calls:
                    advance(call, self.meter)
        except Exception:  # whatever failed, each call may do so alone
            log.warning("a transaction of %d resources failed; each gets its own", len(calls), exc_info=True)
            for call, physical_id in zip(calls, ids, strict=True):
                call.phase, call.failure, call.resource.physical_id = StepPhase.READY, None, physical_id
                advance(call, self.meter)

    def gather(self) -> None:
        """Wait some milliseconds for more results while other calls run.

        One commit then writes them all.
        """
        until = time.monotonic() + GATHERING
        while 0 < self._results.qsize() < len(self.running) and time.monotonic() < until:
            time.sleep(GATHERING / 4)

    def results(self) -> Iterator[HandlerCall]:
        """Take the calls that have returned, and start late ones again. Raises Fenced."""
        while not self._results.empty():
            call = self._results.get()
            self.running.discard(call)
            if call in self._late:
                self._late.discard(call)
                self.start([call])
            else:
                yield call

    def wait(self) -> None:
        """Wait until no call runs, so that the next attempt repeats none that still runs."""
        while self.running:
            self.running.discard(self._results.get())

    def written(self, begun: float) -> None:
        """Note a commit that holds all results taken and renewed the lease.

        `begun` is the time of its beginning.
        """
        self._held_until = begun + self._lease
        self._unwritten = {call: before for call, before in self._unwritten.items() if call in self.running}

    def unwritten(self) -> list[HandlerCall]:
        """Return the calls with an object whose id no row holds. No call may run.

        A member of a pool is found by its address.
        """
        calls = ((call, before) for call, before in self._unwritten.items() if not isinstance(call, PoolCall))
        return [call for call, before in calls if call.resource.physical_id not in (None, before)]
