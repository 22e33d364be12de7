"""Periodic work: a thread that polls, and a loop that goes on after an outage."""

import logging
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from heatlite.core.errors import DatabaseUnavailable

log = logging.getLogger(__name__)

RETRY_INTERVAL = 1.0
"""Seconds until the next poll after a failure."""

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


class PollingThread:
    """Calls a function again and again in a daemon thread. No failure ends it."""

    def __init__(self, name: str, poll: Callable[[], float], close: Callable[[], None]) -> None:
        """Create the thread.

        `poll` returns the longest pause until its next call, in seconds. `close` releases what the thread has opened.
        """
        self._poll = poll
        self._close = close
        self._wake_up = threading.Event()
        self.stopping = threading.Event()
        """Set when the thread is to end."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def wake(self) -> None:
        """Poll now (from any thread)."""
        self._wake_up.set()

    def stop(self) -> None:
        """Wait for the current poll and end the thread."""
        self.stopping.set()
        self.wake()
        self._thread.join()

    def poll(self) -> float:
        """Poll once, and log a failure."""
        try:
            return self._poll()
        except DatabaseUnavailable as error:
            log.warning("%s: %s", self._thread.name, error)
        except Exception:
            # The thread has to survive any failure, or its work would never be done again.
            log.exception("%s: internal error", self._thread.name)
        return RETRY_INTERVAL

    def _run(self) -> None:
        while not self.stopping.is_set():
            self._wake_up.clear()
            self._wake_up.wait(self.poll())
        self._close()
