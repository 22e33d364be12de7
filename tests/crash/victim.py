"""A process that kills itself at a chosen commit, to leave behind whatever a kill -9 would."""

import os
import signal
import sqlite3
from typing import Any

from heatlite import wiring
from heatlite.core.config import Settings
from tests.crash.scenarios import SCENARIOS, settle

SURVIVED = 7
"""Exit code of a victim that ran to its end: there was no such commit."""


class Bomb:
    """Counts commits, and kills the process before or after the chosen one."""

    def __init__(self) -> None:
        self.commits_left: int | None = None
        self.after = False

    def arm(self, commits: int, after: bool) -> None:
        """Let `commits` - 1 commits pass."""
        self.commits_left, self.after = commits, after

    def tick(self, after: bool) -> None:
        """A commit is about to be made, or has just been."""
        if self.commits_left is None or after is not self.after:
            return
        self.commits_left -= 1
        if self.commits_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


bomb = Bomb()


class Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            bomb.tick(after=False)
        result = super().execute(sql, *parameters)
        if sql == "COMMIT":
            bomb.tick(after=True)
        return result


class Connection(sqlite3.Connection):
    def cursor(self, *args: Any, **kwargs: Any) -> Any:
        return super().cursor(Cursor)


def run(database: str, files: str, scenario: str, commits: int, after: bool) -> None:
    """Do the scenario's operation and die at the chosen commit; exit with SURVIVED if it is never reached."""
    os.environ["EXAMPLE_FILES"] = files
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, **kwargs, factory=Connection)  # type: ignore[assignment]
    server = wiring.embedded(Settings(database=database))
    bomb.arm(commits, after)
    SCENARIOS[scenario].act(server)
    settle(server)
    os._exit(SURVIVED)
