"""Statements of one transaction that go to PostgreSQL together."""

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from benchmarks.relay import CHUNK, Relay
from heatlite.core.errors import DatabaseUnavailable, Invalid
from heatlite.store.actions.services import Services
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.postgresql.connection import PREPARED, USES
from heatlite.store.errors import Duplicate
from tests.services.pairs import ADD, relayed, rows

pytestmark = pytest.mark.postgresql


@pytest.fixture
def relay() -> Iterator[Relay]:
    with relayed(Dialect.POSTGRESQL) as relay:
        yield relay


@pytest.fixture
def database(relay: Relay) -> Iterator[Database]:
    database = Database(relay.url)
    yield database
    database.close()


def test_a_text_with_nul_ends_the_transaction(database: Database) -> None:
    """PostgreSQL alone takes none. The driver notices it before anything is sent."""
    with pytest.raises(Invalid), database.transaction():
        database.send(ADD, (1, "a\0b", 1.0, True))
    with pytest.raises(RuntimeError), database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
        with pytest.raises(Invalid):
            database.read("SELECT * FROM pair WHERE text = ?", ("a\0b",))
        database.read("SELECT 1")
    assert rows(database) == []


def test_large_statements(database: Database) -> None:
    """Larger than the buffers of both ends."""
    large = "x" * 5_000_000
    with database.transaction():
        for number in range(3):
            database.send(ADD, (number, "text", 1.0, True))
            assert database.send("SELECT CAST(? AS text)", (large,)).rows() == [(large,)]
        answers = [database.send("SELECT CAST(? AS text)", (large,)) for _ in range(3)]
    assert [one.rows() for one in answers] == [[(large,)]] * 3


class Freezer(Relay):
    """A relay whose clients or server freeze.

    Clients send no more than a number of bytes, or take no answer; the server takes no request. The connections stay
    open, as the system of a frozen process keeps them.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.left: int | None = None
        """Bytes that clients may still send; None: no limit."""
        self.answers = self.requests = True
        """False: no more are passed on."""
        self.held: list[socket.socket] = []

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection(self._server)
        self.held += [client, server]
        threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()
        self._pump(client, server, True)

    def _pump(self, source: socket.socket, sink: socket.socket, is_client: bool) -> None:
        with suppress(OSError):  # closed
            while data := source.recv(CHUNK):
                if not (self.requests if is_client else self.answers):
                    return
                if is_client and self.left is not None:
                    data, self.left = data[: self.left], max(0, self.left - len(data))
                sink.sendall(data)


@pytest.mark.parametrize("freezes", ["sends", "takes"])
def test_the_locks_of_a_client_that_freezes_in_a_burst_are_released(relay: Relay, freezes: str) -> None:
    """It was stopped after a part of its burst, or before it took the whole answer."""
    with Freezer(relay.url) as freezer, closing(Database(relay.url, 1.0)) as other, ExitStack() as held:
        with other.transaction():
            other.send(ADD, (1, "one", 1.0, True))

        def freeze() -> None:
            with closing(Database(freezer.url, 1.0)) as database:
                database.read("SELECT 1")
                with pytest.raises(DatabaseUnavailable), database.transaction():
                    database.send("UPDATE pair SET text = ? WHERE id = ?", ("frozen", 1))
                    if freezes == "sends":
                        freezer.left = 100_000
                        database.read("SELECT length(CAST(? AS text))", ("x" * 1_000_000,))
                    else:
                        freezer.answers = False
                        database.read("SELECT repeat('x', 50000000)")

        thread = threading.Thread(target=freeze)
        thread.start()
        thread.join()
        for one in freezer.held:
            held.enter_context(closing(one))
        end = time.monotonic() + 240
        while time.monotonic() < end:
            with suppress(DatabaseUnavailable), other.transaction():
                other.write("UPDATE pair SET text = ? WHERE id = ?", ("next", 1))
                break
            Services(other).end_frozen_clients(1.0)
        assert rows(other) == [(1, "next", 1.0, True)]


def test_a_server_that_freezes_in_a_burst_is_given_up(relay: Relay) -> None:
    with Freezer(relay.url) as freezer, closing(Database(freezer.url, 1.0)) as database, ExitStack() as held:
        database.use_request_limits()
        database.read("SELECT 1")
        freezer.requests = False
        with pytest.raises(DatabaseUnavailable), database.transaction():
            database.send(ADD, (1, "one", 1.0, True))
            database.read("SELECT length(CAST(? AS text))", ("x" * 50_000_000,))
        for one in freezer.held:
            held.enter_context(closing(one))


def test_a_transaction_that_a_silent_server_refuses_is_over(relay: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the server answers again a moment later."""
    monkeypatch.setattr("heatlite.store.database.database.SILENT_SECONDS", 600.0)
    with Freezer(relay.url) as freezer, closing(Database(freezer.url, 1.0)) as database, ExitStack() as held:
        database.use_request_limits()
        database.read("SELECT 1")
        freezer.requests = False
        with pytest.raises(DatabaseUnavailable, match="has not answered"):
            database.read("SELECT 1")
        freezer.requests = True
        with pytest.raises(RuntimeError, match="nothing was kept"), database.transaction():
            database.send(ADD, (1, "one", 1.0, True))
            with pytest.raises(DatabaseUnavailable, match="does not answer"):
                database.flush()
            assert database._silent is not None
            database._silent -= 600.0
            database.read("SELECT 1")
        assert rows(database) == []
        for one in freezer.held:
            held.enter_context(closing(one))


def test_a_slow_backup_is_not_ended(relay: Relay) -> None:
    """It is a COPY that waits for its program to take more, for longer than a lease."""
    with closing(Database(relay.url, 1.0)) as database:
        copy = "COPY (SELECT repeat('x', 1000) FROM generate_series(1, 50000)) TO STDOUT"
        words = ["psql", relay.url, "-qAt", "-c", copy]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as backup:
            assert backup.stdout is not None
            assert backup.stdout.readline().startswith(b"xxx")
            waits = (
                "SELECT COUNT(*) FROM pg_stat_activity WHERE query LIKE 'COPY (%' AND wait_event = 'ClientWrite'"
                " AND state_change < clock_timestamp() - interval '1 second'"
            )
            end = time.monotonic() + 240
            while database.read(waits) != [(1,)]:
                assert time.monotonic() < end
                time.sleep(0.05)
            Services(database).end_frozen_clients(1.0)
            assert database.read(waits) == [(1,)]
            assert len(backup.stdout.readlines()) == 49_999
        assert backup.returncode == 0


def _end(url: str, number: int) -> None:
    other = Database(url)
    other.read("SELECT pg_terminate_backend(?, 10000)", (number,))
    other.close()


def test_prepared_statements_are_bounded(database: Database) -> None:
    for _ in range(USES + 2):
        with database.transaction():
            for number in range(PREPARED // 2 + 1):
                database.send(f"SELECT {number} + CAST(? AS integer)", (1,))
    with database.transaction():
        ((before,),) = database.read("SELECT COUNT(*) FROM pg_prepared_statements")
    assert PREPARED // 2 < before <= PREPARED
    with database.transaction():
        for _ in range(USES + 2):
            sent = [database.send(f"SELECT {number} - CAST(? AS integer)", (1,)) for number in range(PREPARED // 2 + 1)]
        assert [one.rows() for one in sent] == [[(number - 1,)] for number in range(PREPARED // 2 + 1)]
        ((after,),) = database.read("SELECT COUNT(*) FROM pg_prepared_statements")
    assert after <= PREPARED


def prepared(database: Database, text: str = "") -> int:
    counted = "SELECT COUNT(*) FROM pg_prepared_statements WHERE statement LIKE ?"
    ((number,),) = database.read(counted, (f"%{text}%",))
    return int(number)


def use(database: Database, text: str, times: int) -> None:
    for _ in range(times):
        with database.transaction():
            database.send(text, (1,))


def test_a_failed_burst_keeps_the_statement_that_it_has_prepared(database: Database) -> None:
    text = "SELECT 77 + CAST(? AS integer)"
    use(database, text, USES)
    with pytest.raises(Duplicate), database.transaction():
        database.send(text, (1,))
        database.send(ADD, (1, "one", 1.0, True))
        database.send(ADD, (1, "again", 1.0, True))
    assert prepared(database, "77") == 1
    use(database, text, 2 * USES)
    assert prepared(database, "77") == 1


def test_a_failed_burst_keeps_the_statement_that_it_was_to_remove(database: Database) -> None:
    def text(number: int) -> str:
        return f"SELECT {number} + CAST(? AS integer)"

    for number in range(PREPARED):
        use(database, text(number), USES + 1)
    assert prepared(database) == PREPARED
    use(database, text(PREPARED), USES)
    with pytest.raises(Duplicate), database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
        database.send(ADD, (1, "again", 1.0, True))
        database.send(text(PREPARED), (1,))
    use(database, text(PREPARED), 2 * USES)
    assert prepared(database) == PREPARED


def test_a_rollback_is_never_prepared(database: Database) -> None:
    """It must run in a failed transaction, where no other statement may go with it."""
    for _ in range(2 * USES):
        with pytest.raises(Duplicate), database.transaction():
            database.send(ADD, (1, "one", 1.0, True))
            database.send(ADD, (1, "again", 1.0, True))
    assert prepared(database, "ROLLBACK") == 0


@pytest.mark.parametrize("statement", ["DROP TABLE IF EXISTS nothing", "BEGIN; ROLLBACK"])
def test_statements_of_the_driver_leave_prepared_ones(database: Database, statement: str) -> None:
    def read() -> None:
        with database.transaction():
            assert database.read("SELECT COUNT(*) FROM pair WHERE id > ?", (0,)) == [(0,)]

    for _ in range(USES + 2):
        read()
        database.peewee.execute_sql("SELECT id FROM pair WHERE id > %s", (0,))
    for sql in statement.split("; "):
        database.peewee.execute_sql(sql)
    database.peewee.execute_sql("SELECT 1")  # the driver tidies up before its next statement
    read()
