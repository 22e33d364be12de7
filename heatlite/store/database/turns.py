"""Turns of the threads that write to a SQLite file.

A commit waits for the disk, which takes longer than most requests and ticks. So a thread whose work is done passes the
open transaction to the next one in line: a request to a request, a worker to a worker. The last one commits for all,
and each returns after that commit.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.driver import BUSY_SECONDS
from heatlite.store.database.limits import Pace
from heatlite.store.database.statements import Parameters

PAUSE_SECONDS = 0.25
"""Seconds of one pause while another thread writes."""
MOST_TOGETHER = 16
"""Maximum number of threads that share a transaction. Other writers wait for all of them."""
SHARING = frozenset({Pace.REQUEST, Pace.WORK})
"""Paces of threads that share transactions, each with its own kind. The others are in no hurry."""


Handle = TypeVar("Handle")
"""A connection."""
Run: TypeAlias = Callable[[str, Parameters], object]
"""Runs a statement. Raises the store's errors."""


class Shared(Generic[Handle]):
    """A transaction that threads pass on."""

    def __init__(self, connection: Handle) -> None:
        self.connection = connection
        self.passed = 0
        """Number of times that it was passed on."""
        self.failure: Exception | None = None
        """Error because of which none of its changes is kept."""
        self._ended = threading.Event()

    def end(self) -> None:
        """Let the threads go on."""
        self._ended.set()

    def is_committed(self) -> bool:
        """Wait for the end; return False after a failure."""
        self._ended.wait()
        return self.failure is None


class Turn(Generic[Handle]):
    """The turn of a thread, with its part of a transaction."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        # The main thread alone may be interrupted while it waits.
        self._may_share = pace in SHARING and threading.current_thread() is not threading.main_thread()
        self.left = float(BUSY_SECONDS)
        """Seconds left to wait for another process."""
        self.shared: Shared[Handle] | None = None
        """The transaction, if other threads take part."""
        self.next: Turn[Handle] | None = None
        """The turn that goes on with the transaction."""
        self._begins = threading.Lock()
        self._begins.acquire()

    def shares_with(self, other: "Turn[Handle]") -> bool:
        """Return True if both may be in one transaction."""
        return self._may_share and other._may_share and self.pace is other.pace

    def begin(self) -> None:
        """Let the thread begin."""
        self._begins.release()

    def wait(self) -> bool:
        """Wait for one pause. Returns True if the thread may begin."""
        return self._begins.acquire(timeout=PAUSE_SECONDS)

    def open(self, run: Run) -> None:
        """Open a transaction, or a part of that of other threads."""
        if self.shared is not None:
            self._run(run, "SAVEPOINT part")
        elif self.left > BUSY_SECONDS - 0.5:
            run("BEGIN IMMEDIATE", ())
        else:  # the thread has waited already
            run(f"PRAGMA busy_timeout = {max(0, int(self.left * 1000))}", ())
            try:
                run("BEGIN IMMEDIATE", ())
            finally:
                run(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}", ())

    def undo(self, run: Run) -> bool:
        """Undo this part of a shared transaction.

        Returns False if the other parts are lost, too.
        """
        try:
            self._run(run, "ROLLBACK TO part")
        except Exception:  # noqa: BLE001 - noted; SQLite has rolled back by itself, as on a full disk
            return False
        return True

    def close(self, run: Run) -> None:
        """Commit the transaction with all its parts."""
        self._run(run, "COMMIT")

    def _run(self, run: Run, sql: str) -> None:
        """Run a statement whose failure is that of all parts."""
        try:
            run(sql, ())
        except Exception as error:
            if self.shared is not None:
                self.shared.failure = error
            raise


class Turns(Generic[Handle]):
    """The threads of a process that write, in order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._line: deque[Turn[Handle]] = deque()

    def take(self, pace: Pace, given_up: Callable[[], None]) -> Turn[Handle]:
        """Wait for the turn.

        SQLite itself polls, with pauses of up to 0.1 s. Both count pauses: a process that stands still ends no write.
        Raises DatabaseUnavailable after calling `given_up`.
        """
        turn = Turn[Handle](pace)
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return turn
            self._line.append(turn)
        try:
            while not turn.wait():
                turn.left -= PAUSE_SECONDS
                if turn.left <= 0 and self._leave_line(turn):
                    given_up()
                    raise DatabaseUnavailable(reason="database is locked")
        except KeyboardInterrupt:  # of the main thread, which shares nothing
            if not self._leave_line(turn):
                self.release(turn)
            raise
        return turn

    def _leave_line(self, turn: Turn[Handle]) -> bool:
        """Return False if the turn has come."""
        with self._lock:
            if turn not in self._line:
                return False
            self._line.remove(turn)
            return True

    def choose_next(self, turn: Turn[Handle]) -> bool:
        """Choose the turn that goes on with the transaction of this one.

        Returns False if there is none.

        It may come before others in the line, which wait for `MOST_TOGETHER` turns at most.
        """
        if turn.shared is not None and turn.shared.passed >= MOST_TOGETHER - 1:
            return False
        with self._lock:
            turn.next = next(filter(turn.shares_with, self._line), None)
            if turn.next is not None:
                self._line.remove(turn.next)
        return turn.next is not None

    def release(self, turn: Turn[Handle]) -> None:
        """Let the next thread begin."""
        following = turn.next
        if following is not None:
            following.shared = turn.shared
        else:
            with self._lock:
                following = self._line.popleft() if self._line else None
                self._is_taken = following is not None
        if following is not None:
            following.begin()
