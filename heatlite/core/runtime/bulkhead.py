"""Bulkhead: limits the threads that a slow service can block.

An event loop must not wait at all.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from heatlite.core.errors import Unavailable


class MustWait(BaseException):
    """The thread would wait or write, and must do neither.

    No handler of errors catches it.
    """


class Waits(Struct):
    """Rights and waits of a thread in a block of `waits`."""

    are_allowed: bool
    have_been: bool = False
    """True once the thread has waited or written."""


class _Thread(threading.local):
    answers_requests = False
    waits = Waits(True)


_THREAD = _Thread()


@contextmanager
def waits(allowed: bool) -> Iterator[Waits]:
    """Note in the block whether this thread waits or writes.

    Unless that is allowed, MustWait is raised instead.
    """
    before, _THREAD.waits = _THREAD.waits, Waits(allowed)
    try:
        yield _THREAD.waits
    finally:
        _THREAD.waits = before


def may_wait() -> bool:
    """Return False in a thread that must neither wait nor write now."""
    return _THREAD.waits.are_allowed


def check_may_wait() -> None:
    """Raise MustWait if this thread must neither wait nor write.

    Call it before what does.
    """
    if not _THREAD.waits.are_allowed:
        raise MustWait
    _THREAD.waits.have_been = True


class Bulkhead:
    """Limits the threads that use a service at once, and those that wait for it.

    Safe for threads.
    """

    def __init__(self, at_once: int, in_line: int, seconds: float, refusal: Callable[[], Unavailable]) -> None:
        """Limit to `at_once` threads, with `in_line` waiting.

        A waiting thread gives up if no thread enters or leaves for `seconds`. `refusal` creates the error to raise.
        """
        self._most = at_once
        self._longest = in_line
        self._seconds = seconds
        self._refusal = refusal
        self._changed = threading.Condition()
        self.busy = 0
        """Number of threads inside."""
        self.waiting = 0
        """Number of waiting threads."""
        self._moved = 0.0
        """Time when a thread last entered or left."""

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Enter the bulkhead, after waiting if it is full. Raises the refusal."""
        check_may_wait()  # what it protects takes long
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


def answer_requests() -> None:
    """Mark this thread as one of the few that answer requests."""
    _THREAD.answers_requests = True


@contextmanager
def for_requests(bulkhead: Bulkhead) -> Iterator[None]:
    """Enter the bulkhead in a thread that answers requests; do nothing in any other."""
    check_may_wait()
    if not _THREAD.answers_requests:
        yield
        return
    with bulkhead.turn():
        yield
