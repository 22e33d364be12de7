"""SQLite: a file. Its transactions lock all of it, and its writers take turns."""

import fcntl
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import peewee

from heatlite.core.config import BadSetting
from heatlite.core.errors import CommitUnanswered, DatabaseUnavailable, DatabaseUnusable
from heatlite.store.database.backend import Backend, Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.engine_lock import open_beside
from heatlite.store.database.limits import Limits
from heatlite.store.database.sqlite import connection
from heatlite.store.database.sqlite.batch import SqliteBatch
from heatlite.store.database.sqlite.group_commit import GroupCommit
from heatlite.store.database.sqlite.turns import Turns

DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
"""Codes for a file that no repetition makes readable."""
OF_FILES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
"""Codes for a file that cannot be made, read or written."""
PROBED = 65536
"""Bytes that are written to learn what hinders SQLite. Its files beside a database have as many."""


class SqliteBackend(Backend):
    """A database in a file."""

    dialect = Dialect.SQLITE
    batch = SqliteBatch
    library = "sqlite3"
    tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
    has_row_locks = False
    mark = "?"
    begin = "BEGIN IMMEDIATE"
    for_update = for_update_free = for_reference = ""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        path = url.removeprefix("sqlite://")
        if not path.startswith("/") or path[1:] in ("", ":memory:"):
            raise BadSetting("A SQLite database is a file: sqlite:///relative/path or sqlite:////absolute/path.")
        self._file = self.path = Path(path[1:])
        self._turns, self._commits = Turns(self._file), GroupCommit(self._file)

    def connections(self, limits: Limits) -> peewee.Database:  # noqa: ARG002 - they are those of servers
        return connection.connections(self._file)

    def wrap(self, found: sqlite3.Connection, limits: Limits) -> connection.Connection:  # noqa: ARG002
        return connection.Connection(found)

    def renew(self) -> None:
        self._turns.close_after_fork()
        self._turns, self._commits = Turns(self._file), GroupCommit(self._file)

    def turn(self, given_up: Callable[[], None]) -> AbstractContextManager[None]:
        return self._turns.turn(given_up)

    def make_durable(self, database: Database) -> None:
        try:
            self._commits.wait()
        except OSError as error:
            with suppress(DatabaseUnavailable):  # the log is still readable: its content goes to the file itself
                if _checkpoint(database):
                    return
            raise CommitUnanswered(reason=str(error)) from error

    def recognize(self, error: Exception, causes: Sequence[BaseException]) -> Exception | None:
        codes = {getattr(one, "sqlite_errorcode", 0) for one in causes}
        if codes & DAMAGED:
            way = "Install a backup (heatlite db restore FILE)"
            return DatabaseUnusable(path=self.path, reason=str(error), way=way)
        if OF_FILES.isdisjoint(code & 0xFF for code in codes):
            return None
        try:
            with tempfile.TemporaryFile(dir=self._file.parent, buffering=0) as probe:
                probe.write(bytes(PROBED))
        except OSError as obstacle:
            found = os.strerror(obstacle.errno or 0)
            return DatabaseUnavailable(reason=f"{self.path}: {error} ({self._file.parent}: {found})")
        return DatabaseUnavailable(reason=f"{self.path}: {error}")

    @contextmanager
    def migrating(self, database: Database) -> Iterator[None]:  # noqa: ARG002
        descriptor = open_beside(self._file, "upgrade")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def wipe(self, database: Database) -> bool:
        with database.alone():
            # Free pages and the write-ahead log still have the overwritten data.
            database.read("VACUUM")
            return _checkpoint(database)


def _checkpoint(database: Database) -> bool:
    """Empty the log. Returns False if another process kept it busy."""
    ((busy, _, _),) = database.read("PRAGMA wal_checkpoint(TRUNCATE)")
    return not busy


BACKEND = SqliteBackend
