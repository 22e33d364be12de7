"""Waits of requests for locked rows, bounded so that other requests find a thread."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.bulkhead import Bulkhead
from heatlite.store.database.statements import Parameters, Row

BLOCKED_SECONDS = 2.0
"""Seconds in which requests do not wait for a row after one request timed out on it."""
IN_LINE_SECONDS = 0.5
"""Seconds until a request gives up, if half of the threads wait and none of them gets its row."""
THREADS = 8
"""Default number of threads that answer requests."""

Key: TypeAlias = tuple[str, object]
"""A statement, and its first parameter."""


class RowWaits:
    """Waits for row locks of the threads that answer requests.

    A process that freezes in a transaction keeps its row locks until the server ends the transaction. At most half of
    the threads wait for such rows. After a timeout one thread at a time tries the row again.
    """

    def __init__(self, threads: int = THREADS) -> None:
        self.threads = threads
        self._half = max(1, threads // 2)
        self._turns = Bulkhead(self._half, threads, IN_LINE_SECONDS, _crowded)
        self._blocked: dict[Key, float] = {}
        """Row → time until which no request waits for it."""
        self._lock = threading.Lock()

    @property
    def is_full(self) -> bool:
        """True if no further thread may wait at once."""
        return self._turns.busy >= self._half

    def select(
        self, run: Callable[[str, Parameters], Sequence[Row]], sql: str, parameters: Parameters, limit: float
    ) -> Sequence[Row]:
        """Run a SELECT … FOR UPDATE of the row that the first parameter names.

        It fails at once if another request has just timed out on that row. Otherwise the requests for stacks with a
        frozen worker would occupy all threads of the server. `limit` is the time limit of `run` for a lock in seconds.
        Raises DatabaseUnavailable.
        """
        key = (sql, parameters[0])
        if self._blocked.get(key, 0.0) > time.monotonic():
            raise _held(key)
        if self.is_full:
            found = run(f"{sql} SKIP LOCKED", parameters)
            if found or not run(sql.removesuffix(" FOR UPDATE"), parameters):
                return found  # the row is free, or there is none
        with self._turns.turn():
            self._begin(key)
            begun = time.monotonic()
            try:
                found = run(sql, parameters)
            except DatabaseUnavailable:
                if time.monotonic() - begun >= limit * 0.9:
                    self._timed_out(key)
                raise
        if key in self._blocked:
            with self._lock:
                self._blocked.pop(key, None)
        return found

    def _begin(self, row: Key) -> None:
        """Check the row. Reserve it if a request has timed out on it.

        Then other requests for it fail at once. Raises DatabaseUnavailable.
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

    def _timed_out(self, row: Key) -> None:
        """Have other requests for the row fail at once for a while."""
        with self._lock:
            now = time.monotonic()
            others = {key: until for key, until in self._blocked.items() if until > now}
            self._blocked = others | {row: now + BLOCKED_SECONDS}


def _held(row: Key) -> DatabaseUnavailable:
    return DatabaseUnavailable(reason=f"another transaction holds {row[1]}")


def _crowded() -> DatabaseUnavailable:
    return DatabaseUnavailable(reason="half of the requests wait for locked rows")
