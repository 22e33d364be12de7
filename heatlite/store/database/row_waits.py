"""Waits of requests for locked rows, bounded so that other requests find a thread."""

import threading
import time
from typing import TypeAlias

from heatlite.core.bulkhead import Bulkhead
from heatlite.core.errors import DatabaseUnavailable

BLOCKED_SECONDS = 2.0
"""Seconds in which requests do not wait for a row after one request timed out on it."""
IN_LINE_SECONDS = 0.5
"""Seconds until a request gives up, if half of the threads wait and none of them gets its row."""
THREADS = 8
"""Default number of threads that answer requests."""

Row: TypeAlias = tuple[str, object]
"""A statement, and its first parameter."""


class RowWaits:
    """Waits for row locks of the threads that answer requests.

    A process that freezes in a transaction keeps its row locks until the server ends the transaction. At most half of
    the threads wait for such rows. After a timeout one thread at a time tries the row again.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self.threads = threads
        self._half = max(1, threads // 2)
        self.turns = Bulkhead(self._half, threads, IN_LINE_SECONDS, _crowded)
        self._blocked: dict[Row, float] = {}
        """Row → time until which no request waits for it."""
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """True if no further thread may wait at once."""
        return self.turns.busy >= self._half

    def check(self, row: Row) -> None:
        """Raise DatabaseUnavailable if a request has just timed out on the row."""
        if self._blocked.get(row, 0.0) > time.monotonic():
            raise _held(row)

    def begin(self, row: Row) -> None:
        """Check the row. Reserve it if a request has timed out on it.

        Then other requests for it fail at once. Raises as `check`.
        """
        if not self._blocked:
            return
        with self._lock:
            until, now = self._blocked.get(row), time.monotonic()
            if until is None:
                return
            if until > now:
                raise _held(row)
            self._blocked[row] = now + BLOCKED_SECONDS

    def timed_out(self, row: Row) -> None:
        """Have other requests for the row fail at once for a while."""
        with self._lock:
            now = time.monotonic()
            others = {key: until for key, until in self._blocked.items() if until > now}
            self._blocked = others | {row: now + BLOCKED_SECONDS}

    def got(self, row: Row) -> None:
        """Note that a request has locked the row."""
        if row in self._blocked:
            with self._lock:
                self._blocked.pop(row, None)


def _held(row: Row) -> DatabaseUnavailable:
    return DatabaseUnavailable(reason=f"another transaction holds {row[1]}")


def _crowded() -> DatabaseUnavailable:
    return DatabaseUnavailable(reason="half of the requests wait for locked rows")
