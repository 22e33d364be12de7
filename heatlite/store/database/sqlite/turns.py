"""Turns of the processes and threads that write to a SQLite file.

SQLite has one writer at a time. Its own lock makes the others poll, and a busy one may starve them.
"""

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from pathlib import Path
from queue import SimpleQueue

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.backend import BUSY_SECONDS
from heatlite.store.database.engine_lock import lock, open_beside

PAUSE_SECONDS = 0.25
"""Seconds of one pause of a thread in line. Pauses are counted, so a process that stands still ends no wait."""
GIVE_WAY_SECONDS = 0.001
"""Seconds in which a process lets those begin that waited before it."""


class WriterLock:
    """The turn of a process, which the kernel frees with the process.

    There are two files beside the database. The process that writes has locked one of them. Those that wait share the
    lock of the other, so that a busy process gives way. One that is stopped meanwhile costs the others
    `GIVE_WAY_SECONDS` for each turn.
    """

    def __init__(self, database: Path) -> None:
        self._turn = open_beside(database, "turn")
        self._waiting = open_beside(database, "waiting")
        # In a child after a fork this leaves the parent's locks alone.
        self.close = weakref.finalize(self, _close, self._turn, self._waiting)
        self.close.atexit = False

    def try_lock(self) -> bool:
        """Take the turn at once. Returns False if another process has it or waits for it."""
        if not lock(self._waiting, LOCK_EX):
            return False
        try:
            return lock(self._turn, LOCK_EX)
        finally:
            flock(self._waiting, LOCK_UN)

    def wait(self) -> None:
        """Wait for the turn, without a time limit."""
        for _ in range(5):  # another process may be in `try_lock`
            if lock(self._waiting, LOCK_SH):
                break
            time.sleep(GIVE_WAY_SECONDS)
        if lock(self._turn, LOCK_EX):  # free, although others may have been woken for it
            flock(self._turn, LOCK_UN)
            time.sleep(GIVE_WAY_SECONDS)
        flock(self._turn, LOCK_EX)
        flock(self._waiting, LOCK_UN)

    def unlock(self) -> None:
        """End the turn."""
        flock(self._turn, LOCK_UN)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Turns:
    """The threads of a process that write, in order."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._file: WriterLock | None = None
        self._lock = threading.Lock()
        self._is_taken = False
        """True while the process has the turn, or waits for it."""
        self._line = deque[threading.Lock]()
        """Locks of the threads in line: to unlock one lets its thread begin."""
        self._requests: SimpleQueue[bool] | None = None
        """Each True makes a thread wait for the turn; False ends it. None: there was no need of it yet."""

    @contextmanager
    def turn(self, given_up: Callable[[], None]) -> Iterator[None]:
        """Wait for the turn of this thread, and pass it on at the end of the block.

        Raises DatabaseUnavailable after calling `given_up`.
        """
        self._take(given_up)
        try:
            yield
        finally:
            self._release()

    def _take(self, given_up: Callable[[], None]) -> None:
        begins = threading.Lock()
        begins.acquire()
        with self._lock:
            file = self._opened()
            if not self._is_taken:
                is_free = file.try_lock()
                self._is_taken = True
                if is_free:
                    return
                self._wait(file)
            self._line.append(begins)
        try:
            for _ in range(int(BUSY_SECONDS / PAUSE_SECONDS)):
                if begins.acquire(timeout=PAUSE_SECONDS):
                    return
        except KeyboardInterrupt:
            if not self._leave_line(begins):
                self._release()
            raise
        if self._leave_line(begins):
            given_up()
            raise DatabaseUnavailable(reason="database is locked")

    def _opened(self) -> WriterLock:
        if self._file is None:
            self._file = WriterLock(self._database)
        return self._file

    def _wait(self, file: WriterLock) -> None:
        """Wait for other processes, in a thread of its own.

        A call of `flock` has no time limit, and nothing ends it.
        """
        if self._requests is None:
            self._requests = SimpleQueue[bool]()
            arguments = (weakref.ref(self), file, self._requests)
            threading.Thread(target=_answer, args=arguments, name="writer-turns", daemon=True).start()
            weakref.finalize(self, self._requests.put, False).atexit = False
        self._requests.put(True)

    def _leave_line(self, begins: threading.Lock) -> bool:
        """Return False if the turn has come."""
        with self._lock:
            if begins not in self._line:
                return False
            self._line.remove(begins)
            return True

    def _release(self) -> None:
        with self._lock:
            file = self._opened()
            file.unlock()
            if not self._line:
                self._is_taken = False
            elif file.try_lock():
                self._line.popleft().release()
            else:
                self._wait(file)

    def begin_next(self, file: WriterLock) -> None:
        """Let the first thread in line begin, now that the process has the turn."""
        with self._lock:
            if self._line:
                self._line.popleft().release()
            else:
                file.unlock()
                self._is_taken = False

    def close_after_fork(self) -> None:
        """Close the files of the parent in its child."""
        if self._file is not None:
            self._file.close()


def _answer(turns: "weakref.ref[Turns]", file: WriterLock, requests: SimpleQueue[bool]) -> None:
    while requests.get():
        file.wait()
        found = turns()
        if found is not None:
            found.begin_next(file)
        del found
