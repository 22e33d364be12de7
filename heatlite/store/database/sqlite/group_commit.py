"""Commits to a SQLite file that wait for the disk together."""

import os
import threading
from pathlib import Path


class GroupCommit:
    """Makes committed transactions durable, those of several threads at once.

    With `synchronous = FULL` SQLite waits for the disk within each commit, and no other transaction begins meanwhile.
    With NORMAL it does not wait. So each thread waits here instead, after its turn and before it returns.
    """

    def __init__(self, database: Path) -> None:
        self._log = Path(f"{os.path.realpath(database)}-wal")
        self._changed = threading.Condition()
        self._is_running = False
        self._begun = self._ended = self._failures = 0
        """Numbers of calls of `fdatasync`. The one that ends has the number of its begin."""

    def wait(self) -> None:
        """Wait until a call of `fdatasync` that has begun after this call ends.

        Raises OSError. The kernel then forgets what it could not write, so a repetition proves nothing.
        """
        with self._changed:
            wanted, failures = self._begun + 1, self._failures
            while self._is_running and self._ended < wanted and self._failures == failures:
                self._changed.wait()
            if self._failures != failures:
                raise OSError("fdatasync has failed in another thread")
            if self._ended >= wanted:
                return
            self._is_running = True
            self._begun = number = self._begun + 1
        try:
            _sync(self._log)
        except BaseException:
            self._end(failures=1)
            raise
        self._end(number)

    def _end(self, number: int = 0, failures: int = 0) -> None:
        with self._changed:
            self._is_running = False
            self._ended = max(self._ended, number)
            self._failures += failures
            self._changed.notify_all()


def _sync(log: Path) -> None:
    # SQLite has no locks on this file, so closing it frees none.
    descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
