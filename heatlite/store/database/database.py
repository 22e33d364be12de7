"""Connections, transactions and errors of one database.

Errors of the drivers become errors of the store:

- server unreachable, file locked, disk full → `DatabaseUnavailable`
- violation of a unique index → `Duplicate`
- a value that the database cannot store (too long, NUL in text) → `Invalid`
"""

import importlib
import math
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeAlias

import peewee
from peewee import Query, Select
from playhouse import db_url

from heatlite.core import masking
from heatlite.core.config import BadSetting
from heatlite.core.errors import DatabaseUnavailable, Invalid
from heatlite.store.database.limits import DEFAULT_LEASE, Limits, Pace, limits
from heatlite.store.errors import Duplicate, MissingDriver
from heatlite.store.listeners import NO_LISTENERS, Listeners

BUSY_SECONDS = 5
"""Seconds that a SQLite connection waits for another writer."""

FOUND_ROWS = 2
"""Capability flag CLIENT_FOUND_ROWS of the MySQL protocol."""

SILENT_SECONDS = 1.0
"""Seconds without queries to a server after it did not answer in time."""

BLOCKED_SECONDS = 2.0
"""Seconds in which requests do not wait for a row lock after one request timed out on it."""

Value: TypeAlias = None | str | int | float | bool
Parameters: TypeAlias = Sequence[Value | Sequence[Value]]
Row: TypeAlias = tuple[Any, ...]
"""A row of a SELECT, typed as its columns."""


class Dialect(StrEnum):
    """Supported kinds of database."""

    SQLITE = "SQLite"
    POSTGRESQL = "PostgreSQL"
    MARIADB = "MariaDB"


class Cursor(Protocol):
    """The part of a DB-API cursor (PEP 249) in use here."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Parameters, /) -> object: ...
    def executemany(self, sql: str, rows: Sequence[Sequence[Value]], /) -> object: ...
    def fetchall(self) -> Sequence[Row]: ...


class Connection(Protocol):
    """The part of a DB-API connection in use here."""

    def cursor(self) -> Cursor: ...
    def close(self) -> None: ...


class _Closer:
    """Closes a thread's connection when the thread and its state end."""

    def __init__(self, connection: Connection, errors: tuple[type[Exception], ...]) -> None:
        self.connection = connection
        self._errors = errors
        self._process = os.getpid()

    def __del__(self) -> None:
        # In a child after a fork the connection is the parent's.
        if self._process == os.getpid():
            with suppress(*self._errors):  # closed already
                self.connection.close()


class _ThreadState(threading.local):
    open: bool = False
    """True in a transaction."""
    failure: Exception | None = None
    """First error in the transaction, which then can only be rolled back."""
    closer: _Closer | None = None
    after_commit: tuple[Callable[[], None], ...] = ()
    """Calls to make once the transaction is committed."""
    memo: set[str] | None = None
    pace: Pace | None = None
    """Pace of this thread; None: the pace of the database."""


class Database:
    """A database with one connection per thread, opened on first use.

    Connections to a server have the time limits of their thread's pace (`limits.Limits`).
    """

    def __init__(self, url: str, lease: float | None = None) -> None:
        """`lease` is the lease of the workers in seconds; None: maintenance only."""
        self.url = url
        self._lease = DEFAULT_LEASE if lease is None else lease
        self._pace = Pace.MAINTENANCE if lease is None else Pace.WORK
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
            raise BadSetting(f"Unknown kind of database: {masking.scheme(url)!r}; use sqlite:///, postgresql:// or mysql://.")
        # peewee wraps the driver's errors while it connects; our own statements raise the driver's.
        self._data_errors = (driver.DataError, peewee.DataError, UnicodeEncodeError, OverflowError)
        self._integrity_errors = (driver.IntegrityError, peewee.IntegrityError)
        self._own_errors = (driver.ProgrammingError, peewee.ProgrammingError)
        self._errors = (driver.Error, peewee.PeeweeException, *self._data_errors)
        self._by_pace = {pace: self._new(limits(pace, self._lease)) for pace in Pace}
        self._state = _ThreadState()
        self._writing = threading.Lock()
        self._silent: float | None = None
        """Time of the server's last timeout; None: it answers."""
        self._probing = threading.Lock()
        """Held by the one thread that probes a silent server."""
        self._connecting = threading.Lock()
        self._in_vain = 0
        """Number of connection attempts that timed out."""
        self._blocked: dict[Value | Sequence[Value], float] = {}
        """Rows on whose lock a request timed out, with the time until which no other request waits."""
        self.listeners: Listeners = NO_LISTENERS
        """Set by `Store.listen`."""
        _renew_after_fork(self)

    def _new(self, limits: Limits) -> peewee.Database:
        if self.path is not None:
            # FULL: the intents of the running plan must survive a power cut (WAL with NORMAL may lose them).
            return peewee.SqliteDatabase(
                str(self.path),
                pragmas={"journal_mode": "wal", "synchronous": "full"},
                timeout=BUSY_SECONDS,
                field_types={"LONGTEXT": "TEXT"},
            )
        try:
            given = db_url.parse(self.url, unquote_user=True, unquote_password=True)
        except ValueError:
            # The error's text may contain a part of the password.
            raise BadSetting(
                f"The database URL cannot be read; one looks like {self.url.partition(':')[0]}://user:password@host/name,"
                " with %2F for a / in the password."
            ) from None
        if self.dialect is Dialect.POSTGRESQL:
            from heatlite.store.database.postgresql import Postgres, parameters

            found: peewee.Database = Postgres(
                given.pop("database"), prefer_psycopg3=True, field_types={"LONGTEXT": "TEXT"},
                **parameters(limits, given),
            )  # fmt: skip
            return found
        options: dict[str, Any] = {**_of_mariadb(limits), **given}
        return peewee.MySQLDatabase(options.pop("database"), **options)

    @property
    def peewee(self) -> peewee.Database:
        """The peewee database of this thread's pace."""
        return self._by_pace[self._state.pace or self._pace]

    def use_request_limits(self) -> None:
        """Use the time limits of requests in this thread from now on."""
        self._state.pace = Pace.REQUEST

    @contextmanager
    def maintenance_limits(self) -> Iterator[None]:
        """Use the time limits of maintenance in this thread. Not inside a transaction."""
        if self._state.open:
            raise RuntimeError("the pace is not changed inside a transaction")
        self._drop()
        before, self._state.pace = self._state.pace, Pace.MAINTENANCE
        try:
            yield
        finally:
            self._drop()
            self._state.pace = before

    def quote(self, *names: str) -> str:
        """Return the names as SQL identifiers, separated by commas."""
        mark = "`" if self.dialect is Dialect.MARIADB else '"'
        return ", ".join(f"{mark}{name}{mark}" for name in names)

    # -- statements ------------------------------------------------------------------------------

    def read(self, sql: str, parameters: Parameters = ()) -> Sequence[Row]:
        """Return all rows of a SELECT with ``?`` marks. Raises DatabaseUnavailable."""
        sql = self._with_marks(sql)
        if self._state.pace is Pace.REQUEST and sql.endswith(" FOR UPDATE"):
            return self._locked(sql, parameters)
        return self._run(sql, parameters).fetchall()

    def _locked(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        """Run a request's SELECT … FOR UPDATE of the row that the first parameter names.

        It fails at once if another request has just timed out on that row. Otherwise the requests for one stack with a
        frozen worker would occupy all threads of the server.
        """
        row, begun = parameters[0], time.monotonic()
        if self._blocked.get(row, 0.0) > begun:
            raise DatabaseUnavailable(reason=f"another transaction holds {row}")
        try:
            return self._run(sql, parameters).fetchall()
        except DatabaseUnavailable:
            now = time.monotonic()
            if now - begun >= (self._limits.lock or 0.0) * 0.9:
                others = {key: until for key, until in self._blocked.items() if until > now}
                self._blocked = others | {row: now + BLOCKED_SECONDS}
            raise

    def select(self, query: Select) -> Sequence[Row]:
        """Return all rows of a peewee query."""
        return self.read(*self._compiled(query))

    def change(self, query: Query) -> int:
        """Run a peewee INSERT, UPDATE or DELETE and return the number of rows met."""
        return self.write(*self._compiled(query))

    def _compiled(self, query: Query) -> tuple[str, list[Value]]:
        sql, parameters = self.peewee.get_sql_context().sql(query).query()  # type: ignore[no-untyped-call]
        return sql, parameters

    def write(self, sql: str, parameters: Parameters = ()) -> int:
        """Change rows by SQL with ``?`` marks; return their number. In a transaction only."""
        self.check_open()
        return self._run(self._with_marks(sql), parameters).rowcount

    def write_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        """Run a statement once for each row. Only inside a transaction."""
        self.check_open()
        try:
            self._connection().cursor().executemany(self._with_marks(sql), rows)
        except self._errors as error:
            raise self.translate_error(error) from error

    def _with_marks(self, sql: str) -> str:
        """Return SQL with the marks of the driver; the SQL of peewee has them already."""
        return sql if self.dialect is Dialect.SQLITE else sql.replace("?", "%s")

    def check_open(self) -> None:
        """Raise RuntimeError outside a transaction."""
        if not self._state.open:
            raise RuntimeError("rows are only changed inside Store.transaction()")
        # SQLite may have rolled back by itself. It would then commit each further statement on its own.
        self._check_sound()

    def _check_sound(self) -> None:
        if self._state.failure is not None:
            raise RuntimeError("a statement of this transaction failed; nothing was kept") from self._state.failure

    def _run(self, sql: str, parameters: Parameters) -> Cursor:
        if self._state.open or self.dialect is Dialect.SQLITE:
            return self._answered(sql, parameters)
        silent = self._silent
        if silent is None:
            return self._answered(sql, parameters)
        # One thread at a time probes a silent server, so that the others do not hang on it. The probe is delayed: the
        # requests in line have waited long enough.
        if time.monotonic() < silent + SILENT_SECONDS or not self._probing.acquire(blocking=False):
            raise self._silence()
        try:
            return self._answered(sql, parameters)
        finally:
            self._probing.release()

    def _answered(self, sql: str, parameters: Parameters) -> Cursor:
        begun = time.monotonic()
        try:
            cursor = self._execute(sql, parameters)
        except self._errors as error:
            lost = self._lost()
            is_gone = lost or self.peewee.is_closed()
            is_silent = is_gone and time.monotonic() - begun >= self._limits.connect
            self._silent = time.monotonic() if is_silent else None
            if self._state.open or not lost or is_silent:
                raise self.translate_error(error) from error
        else:
            self._silent = None
            return cursor
        # The server went away between two uses: a new connection, and once more.
        self._drop()
        try:
            return self._execute(sql, parameters)
        except self._errors as error:
            self._silent = time.monotonic() if time.monotonic() - begun >= self._limits.connect else None
            raise self.translate_error(error) from error

    @property
    def _limits(self) -> Limits:
        return limits(self._state.pace or self._pace, self._lease)

    def _execute(self, sql: str, parameters: Parameters) -> Cursor:
        cursor = self._connection().cursor()
        cursor.execute(sql, parameters)
        return cursor

    def _connection(self) -> Connection:
        if self.dialect is not Dialect.SQLITE and self.peewee.is_closed():
            self._connect()
        connection: Connection = self.peewee.connection()  # type: ignore[no-untyped-call]
        closer = self._state.closer
        if closer is None or closer.connection is not connection:
            self._state.closer = _Closer(connection, self._errors)
        return connection

    def _connect(self) -> None:
        """Open a connection.

        peewee opens one at a time. After a timeout the threads in line fail at once instead of waiting in turn.
        """
        before = self._in_vain
        with self._connecting:
            if self._in_vain != before:
                raise self._silence()
            begun = time.monotonic()
            try:
                self.peewee.connect()
            except self._errors:
                self._in_vain += time.monotonic() - begun >= self._limits.connect
                raise

    def _silence(self) -> DatabaseUnavailable:
        self.listeners.database_unavailable()
        return DatabaseUnavailable(reason="the server does not answer")

    def _lost(self) -> bool:
        """Return whether the server has closed this thread's connection."""
        if self.dialect is Dialect.SQLITE or self.peewee.is_closed():
            return False
        connection = self._connection()
        return not getattr(connection, "open", True) or bool(getattr(connection, "closed", False))

    def translate_error(self, error: Exception) -> Exception:
        """Return the store's error for a driver's, and mark the transaction as failed."""
        ours: Exception
        if isinstance(error, self._integrity_errors):
            ours = Duplicate(str(error))
        elif isinstance(error, self._data_errors):
            ours = Invalid(f"The database cannot hold a value: {error}")
        elif isinstance(error, self._own_errors):
            ours = error  # a fault in our SQL, or no tables
        else:
            self.listeners.database_unavailable()
            ours = DatabaseUnavailable(reason=str(error))
        if self._state.open and self._state.failure is None:
            self._state.failure = ours
        return ours

    # -- transactions ----------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction; an inner one joins the outer one.

        On SQLite it takes the write lock at once, so that data read inside cannot change before the commit. After an
        error of the database the transaction can only be rolled back. A caller that catches the error and goes on
        gets RuntimeError at the end.
        """
        state = self._state
        if state.open:
            yield
            return
        asked = time.monotonic()
        with self._turn():
            self._begin(BUSY_SECONDS - (time.monotonic() - asked))
            state.open = True
            state.memo = None
            try:
                yield
                self._check_sound()
                self._run("COMMIT", ())
            except BaseException:
                self._roll_back()
                state.after_commit = ()
                raise
            finally:
                state.open = False
                state.failure = None
        calls, state.after_commit = state.after_commit, ()
        self.listeners.committed()
        for call in calls:
            call()

    def after_commit(self, call: Callable[[], None]) -> None:
        """Make a call after the commit of this thread's transaction. It must not raise."""
        self.check_open()
        self._state.after_commit += (call,)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait until no other thread of this process writes to SQLite.

        SQLite itself waits by polling, with pauses of up to a tenth of a second.
        """
        if self.dialect is not Dialect.SQLITE:
            yield
            return
        if not self._writing.acquire(timeout=BUSY_SECONDS):
            self.listeners.database_unavailable()
            raise DatabaseUnavailable(reason="database is locked")
        try:
            yield
        finally:
            self._writing.release()

    def _begin(self, left: float) -> None:
        """Begin a transaction. SQLite waits at most `left` seconds for another writer."""
        if self.dialect is not Dialect.SQLITE:
            self._run("BEGIN", ())
        elif left > BUSY_SECONDS - 0.5:
            self._run("BEGIN IMMEDIATE", ())
        else:  # the thread has waited for its turn already
            self._run(f"PRAGMA busy_timeout = {max(0, int(left * 1000))}", ())
            try:
                self._run("BEGIN IMMEDIATE", ())
            finally:
                self._run(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}", ())

    def _roll_back(self) -> None:
        try:
            self._execute("ROLLBACK", ())
        except self._errors:
            # SQLite has rolled back by itself (full disk), or the server is gone. A closed connection commits nothing.
            self._drop()

    @property
    def transaction_memo(self) -> set[str]:
        """A set of ids that lasts as long as this thread's transaction."""
        if not self._state.open:
            return set()
        if self._state.memo is None:
            self._state.memo = set()
        return self._state.memo

    @property
    def in_transaction(self) -> bool:
        """True if this thread is in a transaction."""
        return self._state.open

    # -- connections -----------------------------------------------------------------------------

    def close(self) -> None:
        """Close this thread's connection. Not inside a transaction."""
        if self._state.open:
            raise RuntimeError("a connection is not closed inside a transaction")
        self._drop()

    def _drop(self) -> None:
        try:
            self.peewee.close()
        except self._errors:
            self.peewee.dispose()

    def renew(self) -> None:
        """Replace the parent's connections in a child process after a fork."""
        _INHERITED.extend(self._by_pace.values())
        self._by_pace = {pace: self._new(limits(pace, self._lease)) for pace in Pace}
        self._state = _ThreadState()
        self._writing = threading.Lock()
        self._probing = threading.Lock()
        self._connecting = threading.Lock()
        self._silent = None


_INHERITED: list[peewee.Database] = []
"""Connections of the parent process. Dropping the last reference to one would close it."""


def _renew_after_fork(database: Database) -> None:
    reference = weakref.ref(database)

    def renew() -> None:
        found = reference()
        if found is not None:
            found.renew()

    os.register_at_fork(after_in_child=renew)


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
        "client_flag": FOUND_ROWS,
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
        raise MissingDriver(f"{dialect} needs {driver}: pip install 'heatlite[{extra}]'") from error
