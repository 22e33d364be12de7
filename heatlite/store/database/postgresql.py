"""PostgreSQL behind psycopg: connections with time limits. Imported where the database is one."""

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
"""Keepalives without an answer after which the other machine is gone."""


class Connection(psycopg.Connection[Any]):
    """A connection that is given up after `silence` seconds without a word of the server; None: never.

    The server's own limits do not help where the server is frozen, or the network is cut. psycopg has none.
    """

    silence: float | None = None

    def wait(self, gen: PQGen[Answer], *args: Any, **named: Any) -> Answer:
        """As psycopg. Raises OperationalError after too long a silence, and closes the connection."""
        if self.silence is None:
            return super().wait(gen, *args, **named)
        try:
            return super().wait(_heard(gen, self.silence), *args, **named)
        except _Silence as error:
            self.close()
            raise psycopg.OperationalError(f"the server has not answered for {self.silence:g} s") from error


class _Silence(Exception):
    """The server has not answered in time."""


def _heard(gen: PQGen[Answer], seconds: float) -> Generator[Any, Any, Answer]:
    """The same generator, which raises _Silence unless the server says or takes something every so many seconds.

    psycopg resumes a generator every tenth of a second, with 0 where nothing has come.
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
    """As peewee's, with our connections. `silence` is one of its parameters."""

    psycopg3_adapter = _Adapter


def parameters(limits: Limits, given: dict[str, Any]) -> dict[str, Any]:
    """What a connection with these limits is opened with. What is `given` in the URL counts more.

    The server is told the same about the client's machine: it holds the locks of a client that is gone.
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
