"""PostgreSQL connections with time limits. Imported only for such a database."""

import math
import time
from collections.abc import Generator
from typing import Any, TypeVar

import peewee
import psycopg
from psycopg.abc import PQGen

from heatlite.store.database.limits import Limits

Answer = TypeVar("Answer")

PROBES = 3
"""Number of unanswered keepalives after which the other machine counts as gone."""


class Connection(psycopg.Connection[Any]):
    """A connection that fails after `silence` seconds without an answer; None: never.

    The server's own limits do not help if the server is frozen or the network is cut. psycopg has no such limit.
    """

    silence: float | None = None

    def wait(self, gen: PQGen[Answer], *args: Any, **named: Any) -> Answer:
        """Wait as psycopg does.

        After the silence limit, close the connection and raise OperationalError.
        """
        if self.silence is None:
            return super().wait(gen, *args, **named)
        try:
            return super().wait(_heard(gen, self.silence), *args, **named)
        except _Silence as error:
            self.close()
            raise psycopg.OperationalError(f"the server has not answered for {self.silence:g} s") from error


class _Silence(Exception):
    """The server did not answer in time."""


def _heard(gen: PQGen[Answer], seconds: float) -> Generator[Any, Any, Answer]:
    """Wrap a generator to raise _Silence after so many seconds without traffic.

    psycopg resumes a generator every tenth of a second, with 0 if there was no traffic.
    """
    try:
        wanted = next(gen)
        end = time.monotonic() + seconds
        while True:
            ready = yield wanted
            if ready:
                end = time.monotonic() + seconds
            elif time.monotonic() >= end:
                raise _Silence
            wanted = gen.send(ready)
    except StopIteration as ended:
        answer: Answer = ended.value
        return answer


class _Adapter(peewee.Psycopg3Adapter):
    def connect(self, db: peewee.Database, silence: float | None = None, **params: Any) -> Connection:
        connection = Connection.connect(dbname=db.database, **params)
        connection.silence = silence
        return connection


class Postgres(peewee.PostgresqlDatabase):
    """peewee's PostgreSQL database with a `silence` parameter for its connections."""

    psycopg3_adapter = _Adapter


def parameters(limits: Limits, given: dict[str, Any]) -> dict[str, Any]:
    """Return connection parameters for the limits.

    Parameters `given` in the URL override them. The server gets the same limits for the client's machine, because it
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
        "silence": limits.silence,
        "connect_timeout": math.ceil(limits.connect),
        "keepalives_idle": idle,
        "keepalives_interval": interval,
        "keepalives_count": PROBES,
        "tcp_user_timeout": int(limits.peer * 1000),
        **given,
        "options": f"{options} {given.get('options', '')}".strip(),
    }
