"""Connections to PostgreSQL."""

import math
import select
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import peewee
import psycopg
from msgspec import Struct
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, error_message
from psycopg.pq.abc import PGresult

from heatlite.store.database.limits import Limits
from heatlite.store.database.statements import FetchedRows, Row, Statement, Value

PROBES = 3
"""Number of unanswered keepalives after which the other machine counts as gone."""
PREPARED = 200
"""Number of prepared statements of a connection, at most."""
USES = 1
"""Number of uses after which a statement is prepared. Each thread of a worker has a connection of its own."""

_OIDS = (0, 16, 23, 20, 701)
"""Types of parameters, by code. 0: the server derives the type, that of a text, from its place."""
_DERIVED, _BOOLEAN, _INTEGER, _BIGINT, _DOUBLE = range(len(_OIDS))
_SMALL = 2**31


class Connection:
    """Runs several statements in one round trip.

    It fails after `silence` seconds without an answer; None: never.
    The server's own limits do not help if the server is frozen or the network is cut. psycopg has no such limit.

    `run` is a pipeline of its own: that of psycopg sends each statement by itself, and a Flush after its last Sync.
    The Flush would end the server's limit for idle transactions, so that a frozen client kept its locks.
    """

    def __init__(self, connection: psycopg.Connection[Any], silence: float | None) -> None:
        self._connection, self.silence = connection, silence
        self._server = connection.pgconn
        self._uses: OrderedDict[_Key, int] = OrderedDict()
        self._names: OrderedDict[_Key, bytes] = OrderedDict()
        """Names of prepared statements, the least recently used first."""
        self._made = 0
        self._transformer = Transformer(connection)
        self._readable, self._any = select.poll(), select.poll()
        self._readable.register(self._server.socket, select.POLLIN)
        self._any.register(self._server.socket, select.POLLIN | select.POLLOUT)

    def run(self, statements: Sequence[Statement]) -> list[FetchedRows]:
        """Run statements in one round trip, with one Sync at the end.

        After an error the server skips the rest. Raises the first error.
        """
        given = [_encoded(sql, values) for sql, values in statements]  # may fail, so before the pipeline
        made: dict[_Key, bytes] = {}
        changes: list[_Change | None] = []
        server = self._server
        try:
            server.enter_pipeline_mode()
            for key, values in given:
                self._send(key, values, made, changes)
            server.pipeline_sync()
            results = self._communicate()
            server.exit_pipeline_mode()
        except psycopg.Error as error:
            self.close()
            if isinstance(error, psycopg.OperationalError):
                raise
            raise psycopg.OperationalError(str(error)) from error
        except BaseException:
            self.close()  # it has answers that nothing awaits
            raise
        answered = []
        for result, change in zip(results, changes, strict=True):
            if change is None:
                answered.append(result)
            elif change.is_made == (result.status == ExecStatus.COMMAND_OK):
                self._names[change.key] = change.name  # a rollback keeps it
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise _error(result)
        return [self._fetched(result) for result in answered]

    def _fetched(self, result: PGresult) -> FetchedRows:
        rows: Sequence[Row] = ()
        if result.status == ExecStatus.TUPLES_OK:
            self._transformer.set_pgresult(result)
            rows = self._transformer.load_rows(0, result.ntuples, tuple)
        return FetchedRows(result.command_tuples or 0, rows)

    def _send(
        self, key: "_Key", values: Sequence[bytes | None], made: dict["_Key", bytes], changes: list["_Change | None"]
    ) -> None:
        """Add a statement to the pipeline.

        `changes` gets for each result the change of the prepared statements; None: the result is an answer. `made` gets
        the statements to be prepared.
        """
        text, codes = key
        name = self._names.get(key)
        if name is not None:
            self._names.move_to_end(key)
        elif key in made:
            name = made[key]
        elif self._is_due(key):
            if len(self._names) + len(made) >= PREPARED and self._names:
                oldest, gone = self._names.popitem(last=False)
                self._server.send_query_params(b"DEALLOCATE " + gone, None)
                changes.append(_Change(oldest, gone, is_made=False))
            self._made += 1
            name = made[key] = b"heatlite_%d" % self._made
            self._server.send_prepare(name, text, [_OIDS[code] for code in codes])
            changes.append(_Change(key, name, is_made=True))
        if name is None:
            self._server.send_query_params(text, values, [_OIDS[code] for code in codes])
        else:
            self._server.send_query_prepared(name, values)
        changes.append(None)

    def _communicate(self) -> list[PGresult]:
        """Send all that waits, and return the results up to the Sync."""
        server = self._server
        while server.flush():
            self._await(self._any)
            server.consume_input()
        results: list[PGresult] = []
        while True:
            while server.is_busy():
                self._await(self._readable)
                server.consume_input()
            result = server.get_result()
            if result is None:  # the end of one statement's
                if server.status == ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection is lost")
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)

    def _await(self, traffic: select.poll) -> None:
        """Wait for traffic, without the wake-ups of psycopg.

        Raises OperationalError after the silence limit.
        """
        if not traffic.poll(None if self.silence is None else self.silence * 1000):
            raise psycopg.OperationalError(f"the server has not answered for {self.silence:g} s")

    @property
    def is_lost(self) -> bool:
        """True once the connection is closed."""
        return self._connection.closed

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _is_due(self, key: "_Key") -> bool:
        """Count a use. Returns True if the statement is to be prepared."""
        if key[0] in _CONTROL:
            return False
        count = self._uses.pop(key, 0) + 1
        if count > USES:
            return True
        self._uses[key] = count
        if len(self._uses) > PREPARED:
            self._uses.popitem(last=False)
        return False


_Key: TypeAlias = tuple[bytes, bytes]
"""Text of a statement and the codes of its parameters' types."""
_CONTROL = frozenset({b"BEGIN", b"COMMIT", b"ROLLBACK"})


class _Change(Struct, frozen=True):
    """A prepared statement that is made, or else removed."""

    key: _Key
    name: bytes
    is_made: bool


@lru_cache(2048)
def _numbered(sql: str) -> bytes:
    """Return SQL with numbered parameters in place of the marks of psycopg."""
    first, *rest = sql.split("%s")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))
    return numbered.replace("%%", "%").encode()


_KINDS = ((type(None), _DERIVED), (str, _DERIVED), (bool, _BOOLEAN), (float, _DOUBLE), (int, _INTEGER))


class _Codes(dict[type, int]):
    """Type of a value → code of the parameter's type."""

    def __missing__(self, kind: type) -> int:
        self[kind] = code = next(code for parent, code in _KINDS if issubclass(kind, parent))
        return code


_CODES = _Codes()
_TEXTS: tuple[Callable[[Any], bytes | None], ...] = (
    lambda text: None if text is None else text.encode(),
    lambda is_true: b"t" if is_true else b"f",
    lambda number: b"%d" % number,
    lambda number: b"%d" % number,
    lambda number: repr(number).encode(),
)
"""Functions that write a value as the server reads it, by code."""


def _encoded(sql: str, values: Sequence[Value]) -> tuple[_Key, list[bytes | None]]:
    # Of each value, so in few steps: a stack of ten has 500.
    codes = bytes(map(_CODES.__getitem__, map(type, values)))
    texts = [
        value.encode() if type(value) is str else _TEXTS[code](value)
        for value, code in zip(values, codes, strict=True)
    ]
    if b"\0" in b"".join(filter(None, texts)):
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    if _INTEGER in codes:
        codes = bytes(_BIGINT if _is_big(code, value) else code for code, value in zip(codes, values, strict=True))
    return (_numbered(sql), codes), texts


def _is_big(code: int, value: Value) -> bool:
    return code == _INTEGER and not -_SMALL <= int(value or 0) < _SMALL


def _error(result: PGresult) -> psycopg.Error:
    """Return the exception of a failed statement."""
    state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    try:
        kind = psycopg.errors.lookup(state)
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(error_message(result))


def connections(limits: Limits, given: dict[str, Any]) -> peewee.Database:
    """Return connections with these limits; parameters in the URL override them."""
    return peewee.PostgresqlDatabase(
        given.pop("database"),
        prefer_psycopg3=True,
        field_types={"LONGTEXT": "TEXT"},
        **_parameters(limits, given),
    )


def _parameters(limits: Limits, given: dict[str, Any]) -> dict[str, Any]:
    """Return connection parameters for the limits.

    The server gets the same limits for the client's machine, because it
    keeps the locks of a dead client.
    """
    idle, interval = (max(1, int(limits.peer / part)) for part in (3, 5))
    milliseconds = {
        "lock_timeout": limits.lock,
        "statement_timeout": limits.statement,
        "idle_in_transaction_session_timeout": limits.idle,
        "tcp_user_timeout": limits.peer,
    }
    session = {name: int((seconds or 0) * 1000) for name, seconds in milliseconds.items()}
    session |= {"tcp_keepalives_idle": idle, "tcp_keepalives_interval": interval, "tcp_keepalives_count": PROBES}
    options = " ".join(f"-c {name}={value}" for name, value in session.items())
    return {
        "connect_timeout": math.ceil(limits.connect),
        "keepalives_idle": idle,
        "keepalives_interval": interval,
        "keepalives_count": PROBES,
        "tcp_user_timeout": int(limits.peer * 1000),
        "fallback_application_name": "heatlite",
        # psycopg prepares nothing: after a ROLLBACK or DROP it would deallocate the statements of `run` as well.
        "prepare_threshold": None,
        **given,
        "options": f"{options} {given.get('options', '')}".strip(),
    }
