"""Connections, transactions and statements of one database."""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import peewee
from peewee import Query, Select

from heatlite.core.errors import CommitUnanswered, DatabaseUnavailable
from heatlite.core.runtime.bulkhead import check_may_wait, may_wait
from heatlite.store.database.backend import backend_of
from heatlite.store.database.limits import DEFAULT_LEASE, Limits, Pace, limits
from heatlite.store.database.row_waits import RowWaits
from heatlite.store.database.sql import chunks, marks, quoted, with_marks_in
from heatlite.store.database.statements import Connection, FetchedRows, Parameters, PendingStatements, Row, Sent, Value
from heatlite.store.listeners import NO_LISTENERS, Listeners

SILENT_SECONDS = 1.0
"""Seconds without queries to a server after it did not answer in time."""


class _Closer:
    """Closes a thread's connection when the thread and its state end."""

    def __init__(self, connection: Connection, errors: tuple[type[Exception], ...]) -> None:
        self.connection = connection
        # No __del__: the garbage collector may finalize the connection before this object.
        weakref.finalize(self, _close, connection, errors, os.getpid()).atexit = False


def _close(connection: Connection, errors: tuple[type[Exception], ...], process: int) -> None:
    """Close a connection of `process`. In a child after a fork it is the parent's."""
    if process == os.getpid():
        with suppress(*errors):  # closed already
            connection.close()


class _ThreadState(threading.local):
    open: bool = False
    """True in a transaction."""
    waiting: PendingStatements
    failure: Exception | None = None
    """First error in the transaction, which then can only be rolled back."""
    closer: _Closer | None = None
    before_commit: Callable[[], None] | None = None
    """Call to make at the end of the next transaction."""
    pace: Pace | None = None
    """Pace of this thread; None: the pace of the database."""

    def __init__(self) -> None:
        self.waiting = PendingStatements()
        self.memo: dict[str, object] = {}
        self.after_commit: list[Callable[[], None]] = []
        """Calls to make once the transaction is committed."""


class Database:
    """A database with one connection per thread, opened on first use.

    Connections to a server have the time limits of their thread's pace (`limits.Limits`).
    """

    def __init__(self, url: str, lease: float | None = None) -> None:
        """`lease` is the lease of the workers in seconds; None: maintenance only."""
        self.url = url
        self._lease = DEFAULT_LEASE if lease is None else lease
        self._pace = Pace.MAINTENANCE if lease is None else Pace.WORK
        self.backend = backend_of(url)
        self.path = self.backend.path
        self._errors = self.backend.errors
        self._by_pace = {pace: self.backend.connections(limits(pace, self._lease)) for pace in Pace}
        self._state = _ThreadState()
        self._silent: float | None = None
        """Time of the server's last timeout; None: it answers."""
        self._probing = threading.Lock()
        """Held by the one thread that probes a silent server."""
        self._connecting = threading.Lock()
        self._in_vain = 0
        """Number of connection attempts that timed out."""
        self.row_waits = RowWaits()
        """Set by the server for its number of threads."""
        self.listeners: Listeners = NO_LISTENERS
        """Set by `Store.listen`."""
        _renew_after_fork(self)

    @property
    def peewee(self) -> peewee.Database:
        """The peewee database of this thread's pace."""
        return self._by_pace[self._state.pace or self._pace]

    def use_request_limits(self) -> None:
        """Use the time limits of requests in this thread from now on."""
        self._drop()
        self._state.pace = Pace.REQUEST

    @contextmanager
    def limits_of(self, pace: Pace) -> Iterator[None]:
        """Use the time limits of a pace in this thread. Not inside a transaction."""
        if self._state.open:
            raise RuntimeError("the pace is not changed inside a transaction")
        self._drop()
        before, self._state.pace = self._state.pace, pace
        try:
            yield
        finally:
            self._drop()
            self._state.pace = before

    def quote(self, *names: str) -> str:
        """Return the names as SQL identifiers, separated by commas."""
        return quoted(self.backend.quotation_mark, names)

    # -- statements ------------------------------------------------------------------------------

    def read(self, sql: str, parameters: Parameters = ()) -> Sequence[Row]:
        """Return all rows of a SELECT with ``?`` marks. Raises DatabaseUnavailable."""
        sql = self.backend.with_marks(sql)
        if self._state.pace is Pace.REQUEST and sql.endswith(" FOR UPDATE"):
            self.flush()  # a statement before it may wait for another row
            return self.row_waits.select(self._fetched, sql, parameters, self._limits.lock or 0.0)
        return self._fetched(sql, parameters)

    def read_in(self, sql: str, values: Sequence[Value], *more: Value) -> Iterator[Row]:
        """Yield the rows of a SELECT with ``IN ()``, which stands for the values.

        One statement per `IN_LIMIT` values. `more` are the parameters behind them.
        """
        for some in chunks(values):
            yield from self.read(with_marks_in(sql, some), (*some, *more))

    def _fetched(self, sql: str, parameters: Parameters) -> Sequence[Row]:
        return self._run(sql, parameters).rows

    def tables(self) -> set[str]:
        """Return the names of the tables."""
        return {name for (name,) in self.read(self.backend.tables)}

    def select(self, query: Select) -> Sequence[Row]:
        """Return all rows of a peewee query."""
        return self.read(*self._compiled(query))

    def change(self, query: Query) -> int:
        """Run a peewee INSERT, UPDATE or DELETE and return the number of rows met."""
        return self.write(*self._compiled(query))

    def upsert(
        self,
        table: str,
        row: Mapping[str, Value],
        key: Sequence[str],
        changed: Sequence[str],
        added: Sequence[str] = (),
    ) -> None:
        """Insert a row, or change the row that has the same unique `key`.

        That one takes the values of the columns `changed`, and adds those of `added` to its own. One statement: on
        MariaDB an INSERT that meets a row and the UPDATE after it deadlock with others of the kind.
        """
        new = {name: self.backend.new_value.format(column=self.quote(name)) for name in (*changed, *added)}
        sets = [f"{self.quote(name)} = {new[name]}" for name in changed]
        sets += [f"{self.quote(name)} = {table}.{self.quote(name)} + {new[name]}" for name in added]
        self.write(
            f"INSERT INTO {table} ({self.quote(*row)}) VALUES ({marks(row)})"
            f" {self.backend.on_conflict.format(key=self.quote(*key))} {', '.join(sets)}",
            [*row.values()],
        )

    def _compiled(self, query: Query) -> tuple[str, list[Value]]:
        sql, parameters = self.peewee.get_sql_context().sql(query).query()  # type: ignore[no-untyped-call]
        return sql, parameters

    def write(self, sql: str, parameters: Parameters = ()) -> int:
        """Change rows by SQL with ``?`` marks; return their number. In a transaction only."""
        self.check_open()
        return self._run(self.backend.with_marks(sql), parameters).rowcount

    def write_in(self, sql: str, values: Sequence[Value]) -> None:
        """Change rows by SQL with ``IN ()``, see `read_in`."""
        for some in chunks(values):
            self.write(with_marks_in(sql, some), some)

    def send(self, sql: str, parameters: Parameters = ()) -> Sent:
        """Run a statement with ``?`` marks, at the latest with the next one that answers.

        That one raises the errors of both.
        """
        self.check_open()
        state, sent = self._state, Sent(self.backend.with_marks(sql), parameters, self.flush)
        state.waiting.sent.append(sent)
        if self.backend.begin or (state.pace is Pace.REQUEST and sql.endswith(" FOR UPDATE")):
            self.flush()
        return sent

    def flush(self) -> None:
        """Run the statements that wait."""
        if self._state.waiting.sent:
            last = self._state.waiting.sent.pop()
            last.answer = self._run(*last.statement)

    def write_many(self, sql: str, rows: Sequence[Sequence[Value]]) -> None:
        """Run a statement with ``?`` marks once for each row. Only inside a transaction."""
        self.check_open()
        sql = self.backend.with_marks(sql)
        try:
            self._connection().run([(sql, row) for row in rows])
        except self._errors as error:
            raise self.translate_error(error) from error

    def check_open(self) -> None:
        """Raise RuntimeError outside a transaction."""
        if not self._state.open:
            raise RuntimeError("rows are only changed inside Store.transaction()")
        # SQLite may have rolled back by itself. It would then commit each further statement on its own.
        self._check_sound()

    def _check_sound(self) -> None:
        if self._state.failure is not None:
            raise RuntimeError("a statement of this transaction failed; nothing was kept") from self._state.failure

    def _run(self, sql: str, parameters: Parameters) -> FetchedRows:
        if self._state.waiting.begun:
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

    def _answered(self, sql: str, parameters: Parameters) -> FetchedRows:
        begun, was_begun = time.monotonic(), self._state.waiting.begun
        try:
            answer = self._execute(sql, parameters)
        except self._errors as error:
            lost = self._lost()
            is_silent = (lost or self.peewee.is_closed()) and time.monotonic() - begun >= self._limits.connect
            self._silent = time.monotonic() if is_silent else None
            if lost and sql == "COMMIT":
                raise self._failed(CommitUnanswered(reason=str(error))) from error
            if was_begun or not lost or is_silent:
                raise self.translate_error(error) from error
        else:
            self._silent = None
            return answer
        # The server went away between two uses: a new connection, and once more.
        self._drop()
        self._state.waiting.begun = was_begun
        try:
            return self._execute(sql, parameters)
        except self._errors as error:
            self._silent = time.monotonic() if time.monotonic() - begun >= self._limits.connect else None
            raise self.translate_error(error) from error

    @property
    def _limits(self) -> Limits:
        return limits(self._state.pace or self._pace, self._lease)

    def _execute(self, sql: str, parameters: Parameters) -> FetchedRows:
        in_transaction = self._state.open and not self.backend.begin
        return self._state.waiting.run(self._connection(), sql, parameters, in_transaction)

    def _connection(self) -> Connection:
        state = self._state
        if state.closer is None:
            if self.peewee.is_closed():
                self._connect()
            connection = self.backend.wrap(self.peewee.connection(), self._limits)  # type: ignore[no-untyped-call]
            state.closer = _Closer(connection, self._errors)
        return state.closer.connection

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

    def _silence(self) -> Exception:
        return self._failed(DatabaseUnavailable(reason="the server does not answer"))

    def _lost(self) -> bool:
        """Return whether the server has closed this thread's connection."""
        return not self.peewee.is_closed() and self._connection().is_lost

    def translate_error(self, error: Exception) -> Exception:
        """Return the store's error for a driver's, and mark the transaction as failed."""
        return self._failed(self.backend.translate_error(error))

    def _failed(self, error: Exception) -> Exception:
        """Let the transaction, if there is one, only be rolled back. Returns the error."""
        if isinstance(error, DatabaseUnavailable):
            self.listeners.database_unavailable()
        if self._state.open and self._state.failure is None:
            self._state.failure = error
            self._state.waiting.sent.clear()  # the server may not have begun: it would keep them
        return error

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
        check_may_wait()
        with self.backend.turn(self.listeners.database_unavailable):
            state.open = True
            state.memo, state.after_commit = {}, []
            last = state.before_commit
            try:
                self._begin()
                yield
                self._check_sound()
                if last is not None:
                    last()
                self._commit()
            except BaseException:
                self._roll_back()
                raise
            finally:
                state.open = False
                state.failure = None
                state.waiting.clear()
        state.before_commit = None
        self._make_durable()
        calls, state.after_commit = state.after_commit, []
        self.listeners.committed()
        for call in calls:
            call()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nothing else write to a SQLite file, without a transaction.

        Raises DatabaseUnavailable.
        """
        with self.backend.turn(self.listeners.database_unavailable):
            yield
        self._make_durable()

    def before_commit(self, call: Callable[[], None]) -> None:
        """Make a call at the end of this thread's next transaction that commits.

        A thread that must not wait has none.
        """
        if may_wait():
            self._state.before_commit = call

    def withdraw(self) -> bool:
        """Remove the call of `before_commit`.

        Returns False if a transaction has committed it.
        """
        pending, self._state.before_commit = self._state.before_commit is not None, None
        return pending

    def after_commit(self, call: Callable[[], None]) -> None:
        """Make a call after the commit of this thread's transaction. It must not raise."""
        self.check_open()
        self._state.after_commit.append(call)

    def _begin(self) -> None:
        """Begin a transaction; on a server the first statement does."""
        if self.backend.begin:
            self._run(self.backend.begin, ())
            self._state.waiting.begun = True

    def _commit(self) -> None:
        if not self._state.waiting.begun:
            self.flush()  # a lost connection is replaced only until then: a COMMIT is not repeated
        if self._state.waiting.begun:
            self._run("COMMIT", ())

    def _make_durable(self) -> None:
        """Wait for the disk, which other transactions need not wait for."""
        try:
            self.backend.make_durable(self)
        except CommitUnanswered:
            self.listeners.database_unavailable()
            raise

    def _roll_back(self) -> None:
        self._state.waiting.sent.clear()
        try:
            if self._state.waiting.begun:
                self._execute("ROLLBACK", ())
        except (*self._errors, MemoryError):
            # SQLite has rolled back by itself (disk or memory full), or the server is gone. A closed connection commits
            # nothing.
            self._drop()

    @property
    def transaction_memo(self) -> dict[str, object]:
        """Facts by text that last as long as this thread's transaction."""
        return self._state.memo if self._state.open else {}

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
        self._state.closer = None
        try:
            self.peewee.close()
        except self._errors:
            self.peewee.dispose()

    def renew(self) -> None:
        """Replace the parent's connections in a child process after a fork."""
        _INHERITED.extend(self._by_pace.values())
        self._by_pace = {pace: self.backend.connections(limits(pace, self._lease)) for pace in Pace}
        self._state = _ThreadState()
        self.backend.renew()
        self._probing = threading.Lock()
        self._connecting = threading.Lock()
        self.row_waits = RowWaits(self.row_waits.threads)
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
