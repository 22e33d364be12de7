"""Periodic work: a timer for jobs, and a loop that goes on after an outage."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from math import floor, inf
from typing import TypeVar

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.logs import logged

log = logging.getLogger(__name__)

RETRY_INTERVAL = 1.0
"""Seconds until the next call of a job after a failure."""

BEAT = 1.0
"""Seconds between the ticks on which jobs with longer pauses are due, so that one wake-up serves them all."""

GRACE = 0.02
"""Seconds that a due job waits for the first thread, so that at rest the second one has nothing to do."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(items: Iterable[Item], work: Callable[[Item], Result]) -> list[Result]:
    """Call `work` with each item, also after a DatabaseUnavailable.

    That may be for one item only, whose row another process holds. Returns the results. Raises the first
    DatabaseUnavailable after the last item.
    """
    results, failed = [], None
    for item in items:
        try:
            results.append(work(item))
        except DatabaseUnavailable as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return results


class Job:
    """Work of a timer. One thread at a time calls it, and no failure ends it."""

    def __init__(self, timer: "Timer", name: str, call: Callable[[], float]) -> None:
        self.name = name
        self.stopping = threading.Event()
        """Set when the job is to end."""
        self.due = inf
        """Time of the next call, by `time.monotonic`."""
        self.moment = inf
        """Time of the next call by the clock, if that is earlier."""
        self.is_running = False
        self._timer = timer
        self._call = call

    def start(self, due: float = 0.0) -> None:
        """Call it now, or at a time by `time.monotonic`, and again after each pause."""
        self._timer.start(self, due)

    def wake(self) -> None:
        """Call it now (from any thread). During a call: once more after it."""
        self._timer.hasten(self, 0.0, inf)

    def within(self, seconds: float) -> None:
        """Call it after this time, or earlier (from any thread)."""
        self._timer.hasten(self, time.monotonic() + seconds, inf)

    def at(self, moment: float) -> None:
        """Call it at this time by the clock, or earlier (from any thread)."""
        self._timer.hasten(self, inf, moment)

    def stop(self) -> None:
        """Wait for the current call, and let there be no other."""
        self.stopping.set()
        self._timer.remove(self)

    def call(self) -> float:
        """Call it once, and log a failure. Returns the seconds until the next call."""
        try:
            with logged(log, "%s: internal error", self.name):
                return self._call()
        except DatabaseUnavailable as error:
            log.warning("%s: %s", self.name, error)
        return RETRY_INTERVAL


class Timer:
    """Calls the jobs of a process when they are due.

    A thread waits for the next job and calls it. Meanwhile a second one waits, so that a job that blocks delays no
    other: the second thread takes what is due, and a third one waits. At rest there are two threads at most, and the
    first does everything.
    """

    def __init__(self, clock: Clock, close: Callable[[], None]) -> None:
        """Create a timer. `close` releases what a thread has opened, at its end."""
        self._clock = clock
        self._close = close
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._returned = threading.Condition(self._lock)
        """Notified when a call has returned."""
        self._jobs: list[Job] = []
        self._threads: set[threading.Thread] = set()
        self._waiting: list[threading.Event] = []
        """Events of the threads that call nothing, one or two: the first takes a job when it is due."""
        self._until: dict[threading.Event, float] = {}
        """Time to which each of them waits by itself."""
        self._is_stopping = False

    def job(self, name: str, call: Callable[[], float]) -> Job:
        """Return a job, to be started.

        `call` returns the longest pause until its next call, in seconds; infinity: it waits for a hint.
        """
        return Job(self, name, call)

    def start(self, job: Job, due: float) -> None:
        """Call a job at this time, and again after each pause."""
        with self._lock:
            self._jobs.append(job)
        self.hasten(job, due, inf)

    def hasten(self, job: Job, due: float, moment: float) -> None:
        """Call a job at one of these times at the latest, if it was started."""
        with self._lock:
            if job in self._jobs and (due < job.due or moment < job.moment):
                job.due, job.moment = min(due, job.due), min(moment, job.moment)
                if not job.is_running:
                    self._look()

    def remove(self, job: Job) -> None:
        """Wait for the call of a job, and forget it."""
        with self._lock:
            if job in self._jobs:
                self._jobs.remove(job)
            self._returned.wait_for(lambda: not job.is_running)

    def stop(self) -> None:
        """Wait for the calls in progress, and end the threads."""
        with self._lock:
            self._is_stopping = True
            for event in self._waiting:
                event.set()
            threads = [*self._threads]
        for thread in threads:
            thread.join()

    def _look(self) -> None:
        """Have the first thread find due jobs. Call with the lock held."""
        if self._waiting:
            self._waiting[0].set()
        elif not self._is_stopping:
            event = threading.Event()
            thread = threading.Thread(target=self._run, args=(event,), name="timer", daemon=True)
            thread.start()
            self._waiting.append(event)
            self._until[event] = 0.0
            self._threads.add(thread)

    def _due(self, now: float) -> Job | None:
        """Return the job that is due for the longest time."""
        moment = self._clock.now()
        due = [one for one in self._jobs if not one.is_running and (one.due <= now or one.moment <= moment)]
        return min(due, key=lambda job: job.due, default=None)

    def _begin(self, job: Job, event: threading.Event) -> None:
        """Note that the thread of the event calls a job."""
        job.is_running, job.due, job.moment = True, inf, inf
        self._waiting.remove(event)
        # A second thread waits by itself for what was due next when it began to, but not for times of the clock.
        idle = [one for one in self._jobs if not one.is_running]
        soonest = min((one.due for one in idle), default=inf) + GRACE
        if not self._waiting or self._until[self._waiting[0]] > soonest or any(one.moment < inf for one in idle):
            try:
                self._look()
            except RuntimeError as error:  # the machine has none left; other jobs wait for this one
                log.error("%s: no second thread: %s", job.name, error)

    def _end(self, job: Job, pause: float, event: threading.Event) -> bool:
        """Note that a call has returned. Returns False if its thread is needed no longer."""
        due = time.monotonic() + pause
        if BEAT <= pause < inf:
            due = self._began + floor((due - self._began) / BEAT) * BEAT
        job.is_running, job.due = False, min(job.due, due)
        self._returned.notify_all()
        if len(self._waiting) > 1:
            self._look()  # none of those that wait knows when this job is due
            return False
        self._waiting.insert(0, event)
        return not self._is_stopping

    def _run(self, event: threading.Event) -> None:
        """Call due jobs, as one of the threads."""
        goes_on = True
        while goes_on:
            event.clear()
            with self._lock:
                if self._is_stopping:
                    break
                is_first = self._waiting[0] is event
                now = time.monotonic()
                job = self._due(now if is_first else now - GRACE)
                if job is not None:
                    self._begin(job, event)
                idle = [one for one in self._jobs if not one.is_running]
                due = min((one.due for one in idle), default=inf)
                moment = min((one.moment for one in idle), default=inf) if is_first else inf
                self._until[event] = due if is_first else due + GRACE
            if job is not None:
                pause = job.call()
                with self._lock:
                    goes_on = self._end(job, pause, event)
            elif moment < inf:
                self._clock.wait(event, moment - self._clock.now(), due - now)
            else:
                event.wait(None if due == inf else max(0.0, self._until[event] - now))
        self._close()
        with self._lock:
            del self._until[event]
            self._threads.discard(threading.current_thread())
