"""The driver of a kind of database: connections and errors.

Errors of the drivers become errors of the store:

- server unreachable, file locked, disk full, missing rights → `DatabaseUnavailable`
- SQLite file that is none or is damaged → `DatabaseUnusable`
- violation of a unique index → `Duplicate`
- a value that the database cannot store (too long, NUL in text) → `Invalid`
"""

import importlib
import math
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import peewee

from heatlite.core import masking
from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable, DatabaseUnusable, Invalid
from heatlite.core.extras import MissingLibrary
from heatlite.store.database.limits import Limits
from heatlite.store.database.statements import Connection, Fetched, Statement, Value
from heatlite.store.errors import Duplicate

BUSY_SECONDS = 5
"""Seconds that a writer of a SQLite file waits for its turn, and a connection for a program without turns."""

NO_RIGHTS = "42501"
"""PostgreSQL's code for missing rights, which its driver takes for a fault in the statement."""

DAMAGED = {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}
"""SQLite's codes for a file that no repetition makes readable."""

OF_FILES = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY}
"""SQLite's codes for a file that cannot be made, read or written."""

PROBED = 65536
"""Bytes that are written to learn what hinders SQLite. Its files beside a database have as many."""

FOUND_ROWS, MULTI_STATEMENTS = 2, 65536
"""Capability flags CLIENT_FOUND_ROWS and CLIENT_MULTI_STATEMENTS of the MySQL protocol."""


class Dialect(StrEnum):
    """Supported kinds of database."""

    SQLITE = "SQLite"
    POSTGRESQL = "PostgreSQL"
    MARIADB = "MariaDB"

    @property
    def quotation_mark(self) -> str:
        """The quotation mark around names of tables and columns."""
        return "`" if self is Dialect.MARIADB else '"'


TABLES = {
    Dialect.SQLITE: "SELECT name FROM sqlite_master WHERE type = 'table'",
    Dialect.POSTGRESQL: "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
    Dialect.MARIADB: "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
}
"""SQL for the names of the tables."""


class SqliteConnection:
    """Runs statements one by one."""

    is_lost = False

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statements: Sequence[Statement]) -> list[Fetched]:
        """Run statements. Raises the first error."""
        answers = []
        for sql, values in statements:
            cursor = self._connection.cursor().execute(sql, values)
            # Fetching reads the file, so it may fail, too. An open cursor would keep the file's old state.
            answers.append(Fetched(cursor.rowcount, cursor.fetchall()))
        return answers

    def run_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        """Run a statement once for each row."""
        self._connection.cursor().executemany(sql, rows)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Driver:
    """The driver for a database URL. Raises BadSetting and MissingLibrary."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.path: Path | None = None
        """The file of a SQLite database; None for a server."""
        scheme, _, rest = url.partition("://")
        if scheme == "sqlite":
            self.dialect = Dialect.SQLITE
            if not rest.startswith("/") or rest[1:] in ("", ":memory:"):
                raise BadSetting("A SQLite database is a file: sqlite:///relative/path or sqlite:////absolute/path.")
            self.path = Path(rest[1:])
            driver: ModuleType = sqlite3
        elif scheme in ("postgresql", "postgres"):
            self.dialect = Dialect.POSTGRESQL
            driver = _import("psycopg", self.dialect, "postgres")
        elif scheme == "mysql":
            self.dialect = Dialect.MARIADB
            driver = _import("pymysql", self.dialect, "mysql")
        else:
            kind = masking.scheme(url)
            wrong = f"Unknown kind of database: {kind!r}" if kind else "The database is not given as a URL"
            raise BadSetting(f"{wrong}; use sqlite:///, postgresql:// or mysql://.")
        # peewee wraps the driver's errors while it connects; our own statements raise the driver's.
        self._data_errors = (driver.DataError, peewee.DataError, UnicodeEncodeError, OverflowError)
        self._integrity_errors = (driver.IntegrityError, peewee.IntegrityError)
        self._own_errors = (driver.ProgrammingError, peewee.ProgrammingError)
        self.errors = (driver.Error, peewee.PeeweeException, *self._data_errors)
        """All errors of the driver."""

    def connections(self, limits: Limits) -> peewee.Database:
        """Return connections with these time limits, one per thread, opened on first use."""
        if self.path is not None:
            if _is_read_only(self.path):
                return peewee.SqliteDatabase(f"{self.path.absolute().as_uri()}?immutable=1", uri=True)
            return peewee.SqliteDatabase(
                str(self.path),
                pragmas={"journal_mode": "wal", "synchronous": "normal"},  # `GroupCommit` waits for the disk
                timeout=BUSY_SECONDS,
                check_same_thread=False,  # the thread that drops the Database closes what others have left
                field_types={"LONGTEXT": "TEXT"},
            )
        from playhouse import db_url  # imports the drivers of databases that are not used here

        try:
            given = db_url.parse(self._url, unquote_user=True, unquote_password=True)
        except ValueError:
            # The error's text may contain a part of the password.
            raise BadSetting(
                f"The database URL cannot be read; one looks like {self._url.partition(':')[0]}://user:password@host/name,"
                " with %2F for a / in the password."
            ) from None
        if self.dialect is Dialect.POSTGRESQL:
            from heatlite.store.database.postgresql import parameters

            return peewee.PostgresqlDatabase(
                given.pop("database"), prefer_psycopg3=True, field_types={"LONGTEXT": "TEXT"},
                **parameters(limits, given),
            )  # fmt: skip
        options: dict[str, Any] = {**_of_mariadb(limits), **given}
        from heatlite.store.database.mariadb import MariaDb

        return MariaDb(options.pop("database"), **options)

    def wrap(self, connection: Any, limits: Limits) -> Connection:
        """Return a driver's connection in our form."""
        if self.dialect is Dialect.POSTGRESQL:
            from heatlite.store.database import postgresql

            return postgresql.Connection(connection, limits.silence)
        if self.dialect is Dialect.MARIADB:
            from heatlite.store.database import mariadb

            return mariadb.Connection(connection)
        return SqliteConnection(connection)

    def translate_error(self, error: Exception) -> Exception:
        """Return the store's error for a driver's."""
        if isinstance(error, self._integrity_errors):
            return Duplicate(str(error))
        if isinstance(error, self._data_errors):
            return Invalid(f"The database cannot hold a value: {error}")
        causes = list(_causes(error))
        if any(getattr(one, "sqlstate", None) == NO_RIGHTS for one in causes):
            return DatabaseUnavailable(reason=str(error).partition("\n")[0])
        if any(getattr(one, "sqlite_errorcode", None) in DAMAGED for one in causes):
            way = "Install a backup (heatlite db restore FILE)"
            return DatabaseUnusable(path=self.path, reason=str(error), way=way)
        if isinstance(error, self._own_errors):
            return error  # a fault in our SQL, or no tables
        return DatabaseUnavailable(reason=str(error) if self.path is None else _described(error, causes, self.path))


def _is_read_only(path: Path) -> bool:
    """Return True for a file on a read-only file system that can be read alone.

    SQLite then needs no files beside it. What a log beside it has is missing in it.
    """
    log = Path(f"{path}-wal")
    try:
        is_fixed = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        return is_fixed and not (log.exists() and log.stat().st_size)
    except OSError:
        return False


def _described(error: Exception, causes: Iterable[BaseException], path: Path) -> str:
    """Return SQLite's text, for a fault of its files with the path and the cause."""
    codes = {getattr(one, "sqlite_errorcode", 0) & 0xFF for one in causes}
    if codes.isdisjoint(OF_FILES):
        return str(error)
    try:
        with tempfile.TemporaryFile(dir=path.parent, buffering=0) as probe:
            probe.write(bytes(PROBED))
    except OSError as obstacle:
        return f"{path}: {error} ({path.parent}: {os.strerror(obstacle.errno or 0)})"
    return f"{path}: {error}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those behind it: peewee wraps the driver's, some twice."""
    while error is not None:
        yield error
        error = error.__context__


def _of_mariadb(limits: Limits) -> dict[str, object]:
    """Return connection parameters for MariaDB. PyMySQL sets keepalives itself."""
    seconds = {
        "innodb_lock_wait_timeout": 100_000_000 if limits.lock is None else math.ceil(limits.lock),
        "max_statement_time": limits.statement or 0,
        "idle_transaction_timeout": math.ceil(limits.idle),
        "net_read_timeout": math.ceil(limits.peer),
        "net_write_timeout": math.ceil(limits.peer),
    }
    # READ COMMITTED, as on PostgreSQL: without the gap locks that make writers of different stacks collide.
    session = ", ".join(["tx_isolation = 'READ-COMMITTED'", *(f"{name} = {value}" for name, value in seconds.items())])
    return {
        # An UPDATE returns the number of rows met, as elsewhere, not of those changed. The fence needs that.
        "client_flag": FOUND_ROWS | MULTI_STATEMENTS,
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "init_command": f"SET SESSION {session}",
        "connect_timeout": limits.connect,
        "read_timeout": limits.silence,
        "write_timeout": limits.silence,
    }


def _import(driver: str, dialect: Dialect, extra: str) -> ModuleType:
    try:
        return importlib.import_module(driver)
    except ImportError as error:
        raise MissingLibrary(dialect, driver, extra) from error
