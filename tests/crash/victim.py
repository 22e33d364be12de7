"""Process that stands still before each commit, or ends itself at a chosen one.

It ends by kill -9 or SIGTERM.
"""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.execution import commits
from tests.crash.scenarios import FAILURES, SCENARIOS, Scenario, settle

SURVIVED = 7
"""Exit code of a victim that ran to its end: there was no such commit."""
STOPPED = 8
"""Exit code of one that has given back what it had."""

commits.MAX_UNTOUCHED = 1  # so that it also ends between the rows of a tick


def kill() -> None:
    """End this process without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


def pause() -> None:
    """Stand still, so that the test can copy what a kill would leave.

    No thread goes on before SIGCONT.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    bomb.commits_left = 1


class Bomb:
    """Counts commits, and kills or stops the process before or after the chosen one."""

    def __init__(self) -> None:
        self.commits_left: int | None = None
        self.after = False
        self._fuse: str | None = None
        self._explode = kill

    def arm(self, commits: int, after: bool, fuse: str | None = None, explode: Callable[[], None] = kill) -> None:
        """Let `commits` - 1 commits pass.

        With a `fuse` they are counted from the one that writes this value on.
        """
        self.commits_left, self.after, self._fuse, self._explode = commits, after, fuse, explode

    def see(self, values: Any) -> None:
        """Values are about to be written."""
        if self._fuse is not None and self._fuse in values:
            self._fuse = None

    def tick(self, after: bool) -> None:
        """A commit is about to be made, or has just been."""
        if self.commits_left is None or self._fuse is not None or after is not self.after:
            return
        self.commits_left -= 1
        if self.commits_left == 0:
            self._explode()


bomb = Bomb()


class Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            bomb.tick(after=False)
        elif parameters and not sql.startswith("SELECT"):
            bomb.see(parameters[0])
        result = super().execute(sql, *parameters)
        if sql == "COMMIT":
            bomb.tick(after=True)
        return result

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:  # type: ignore[override]
        rows = list(rows)
        for row in rows:
            bomb.see(row)
        return super().executemany(sql, rows)


class Connection(sqlite3.Connection):
    def cursor(self, *_: Any) -> Any:
        """Return a cursor that counts; `execute` of the connection uses one, too."""
        return super().cursor(Cursor)


def count_commits() -> None:
    """Have every COMMIT of this process count."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, **kwargs, factory=Connection)  # type: ignore[assignment]


def run(database: str, files: str, scenario: str) -> None:
    """Do the operation of a scenario as `act` does."""
    act(database, files, SCENARIOS[scenario])


def act(database: str, files: str, scenario: Scenario) -> None:
    """Do the scenario's operation, with a pause before each commit.

    Exits with SURVIVED.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_commits()
    server = wiring.embedded(Settings(database=database))
    bomb.arm(1, after=False, explode=pause)
    scenario.act(server)
    settle(server)
    os._exit(SURVIVED)


class Stopped(Exception):
    """SIGTERM has come."""


def fail(database: str, files: str, failure: str, commits: int, how: str) -> None:
    """Do what fails and end at the commit after it, else exit with SURVIVED.

    `how`: ``kill`` pauses before each commit from it on; ``stop`` ends in good order after it.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_commits()
    server = wiring.embedded(Settings(database=database))
    stops = threading.Event()
    stop = server.worker.stop

    def stop_noticed() -> None:
        stops.set()
        stop()

    def terminate() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        stops.wait(60)  # else the operation would be over before the main thread hears of it

    def raise_stopped(*_: object) -> None:
        raise Stopped

    server.worker.stop = stop_noticed  # type: ignore[method-assign]
    signal.signal(signal.SIGTERM, raise_stopped)
    bomb.arm(commits, how == "stop", FAILURES[failure].fuse, terminate if how == "stop" else pause)
    try:
        FAILURES[failure].act(server)
        settle(server)
    except Stopped:
        bomb.commits_left = None
        server.close()
        os._exit(STOPPED)
    os._exit(SURVIVED)


def live(database: str, files: str, limit: int) -> None:
    """Carry out all actions; exit with SURVIVED unless an action ends this process."""
    os.environ["EXAMPLE_FILES"] = files
    server = wiring.embedded(Settings(database=database, takeover_limit=limit))
    settle(server)
    server.close()
    os._exit(SURVIVED)
