"""Run handler calls in the threads of a pool and collect their results."""

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor as Pool

from heatlite.core.meter import Meter
from heatlite.engine.steps.handlers import advance
from heatlite.engine.steps.step_execution import HandlerCall


class Calls:
    """The handler calls of one execution."""

    def __init__(self, pool: Pool, meter: Meter) -> None:
        self.wakeup = threading.Event()
        """Set when there are results."""
        self.running: set[HandlerCall] = set()
        """Calls in the pool whose results were not taken."""
        self._pool = pool
        self._meter = meter
        self._results: queue.SimpleQueue[HandlerCall] = queue.SimpleQueue()
        self._unwritten: dict[HandlerCall, str | None] = {}
        """Calls that run or were not committed yet, each with the object's id as last written."""

    @property
    def has_results(self) -> bool:
        """True if there are results to take."""
        return not self._results.empty()

    def start(self, call: HandlerCall) -> None:
        """Advance a call in a thread of the pool."""
        self.running.add(call)
        self._unwritten.setdefault(call, call.row.physical_id)
        self._pool.submit(self._advance_in_thread, call)

    def _advance_in_thread(self, call: HandlerCall) -> None:
        self.advance(call)
        self._results.put(call)
        self.wakeup.set()

    def advance(self, call: HandlerCall) -> None:
        """Advance a call in this thread and measure it."""
        verb, began = call.handler_verb, time.perf_counter()
        advance(call)
        self._meter.handler_called(call.resource.type_name, verb, time.perf_counter() - began)

    def results(self) -> Iterator[HandlerCall]:
        """Take the calls that have returned."""
        while not self._results.empty():
            call = self._results.get()
            self.running.discard(call)
            yield call

    def wait(self) -> None:
        """Wait until no call runs, so that the next attempt repeats none that still runs."""
        while self.running:
            self.running.discard(self._results.get())

    def written(self) -> None:
        """Note that a commit holds all results that were taken."""
        self._unwritten = {call: before for call, before in self._unwritten.items() if call in self.running}

    def unwritten(self) -> list[HandlerCall]:
        """Return the calls with an object whose id no row holds. No call may run."""
        return [call for call, before in self._unwritten.items() if call.resource.physical_id not in (None, before)]
