"""A bulkhead: what hangs takes a bounded number of threads, and the others go on."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from heatlite.core.errors import Unavailable


class Bulkhead:
    """Bounds how many threads do one thing at once, and how many wait for that.

    Safe for threads.
    """

    def __init__(self, at_once: int, in_line: int, seconds: float, refusal: Callable[[], Unavailable]) -> None:
        """The line is given up when it has not moved for so many seconds.

        `refusal` makes the error for those in it.
        """
        self._most = at_once
        self._longest = in_line
        self._seconds = seconds
        self._refusal = refusal
        self._changed = threading.Condition()
        self.busy = 0
        """Threads that have a turn."""
        self.waiting = 0
        """Threads in line."""
        self._moved = 0.0
        """Time when a thread last entered or left."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn, and have it. Raises the refusal."""
        self._wait()
        try:
            yield
        finally:
            with self._changed:
                self.busy -= 1
                self._moved = time.monotonic()
                self._changed.notify()

    def _wait(self) -> None:
        with self._changed:
            if self.busy >= self._most and self.waiting >= self._longest:
                raise self._refusal()
            self.waiting += 1
            try:
                while self.busy >= self._most:
                    left = self._moved + self._seconds - time.monotonic()
                    if left <= 0:
                        raise self._refusal()
                    self._changed.wait(left)
            finally:
                self.waiting -= 1
            self.busy += 1
            self._moved = time.monotonic()


class _Thread(threading.local):
    answers_requests = False


_THREAD = _Thread()


def answer_requests() -> None:
    """From now on this thread answers requests: there are few such threads."""
    _THREAD.answers_requests = True


@contextmanager
def for_requests(bulkhead: Bulkhead) -> Iterator[None]:
    """A turn, for a thread that answers requests; any other needs none."""
    if not _THREAD.answers_requests:
        yield
        return
    with bulkhead.turn():
        yield
