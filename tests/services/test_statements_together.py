"""Statements of one transaction that go to a server together."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from benchmarks.relay import Relay
from heatlite.core.errors import DatabaseUnavailable, Invalid
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.mariadb.connection import TOGETHER
from heatlite.store.errors import Duplicate
from tests.databases import EACH_SERVER
from tests.services.pairs import ADD, relayed, rows

OWN_NUMBER = {Dialect.POSTGRESQL: "SELECT pg_backend_pid()", Dialect.MARIADB: "SELECT CONNECTION_ID()"}
END = {Dialect.POSTGRESQL: "SELECT pg_terminate_backend(?, 10000)", Dialect.MARIADB: "KILL ?"}


@pytest.fixture(params=EACH_SERVER)
def relay(request: pytest.FixtureRequest) -> Iterator[Relay]:
    with relayed(request.param) as relay:
        yield relay


@pytest.fixture
def database(relay: Relay) -> Iterator[Database]:
    database = Database(relay.url)
    yield database
    database.close()


def test_statements_before_an_answer_take_one_round_trip(relay: Relay, database: Database) -> None:
    database.read("SELECT 1")
    before = relay.round_trips
    with database.transaction():
        added = [database.send(ADD, (number, "text", 0.5, True)) for number in range(3)]
        changed = database.send("UPDATE pair SET text = ? WHERE id > ?", ("other", 0))
        assert [*database.read("SELECT COUNT(*) FROM pair")] == [(3,)]
        assert [one.rowcount for one in added] == [1, 1, 1]
        assert changed.rowcount == 2
        database.send("DELETE FROM pair WHERE id = ?", (0,))
    assert relay.round_trips - before == 2
    assert rows(database) == [(1, "other", 0.5, True), (2, "other", 0.5, True)]


def test_an_answer_runs_what_waits(database: Database) -> None:
    with database.transaction():
        assert database.send(ADD, (1, None, 1e300, False)).rowcount == 1
        assert [*database.send("SELECT text, ratio, is_on FROM pair").rows()] == [(None, 1e300, False)]


def test_a_transaction_without_statements_takes_no_round_trip(relay: Relay, database: Database) -> None:
    database.read("SELECT 1")
    before = relay.round_trips
    with database.transaction():
        pass
    assert relay.round_trips == before


def test_the_next_answer_raises_an_error(database: Database) -> None:
    with pytest.raises(RuntimeError), database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
        database.send(ADD, (1, "again", 1.0, True))
        with pytest.raises(Duplicate):
            database.read("SELECT 1")
    assert rows(database) == []


def test_the_commit_raises_an_error(database: Database) -> None:
    with pytest.raises(Duplicate), database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
        database.send(ADD, (1, "again", 1.0, True))
    assert rows(database) == []
    with database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
    assert rows(database) == [(1, "one", 1.0, True)]


@pytest.mark.parametrize("text", ["\ud800", "x" * 21])
def test_a_value_that_the_server_cannot_hold(database: Database, text: str) -> None:
    with pytest.raises(Invalid), database.transaction():
        database.send(ADD, (1, text, 1.0, True))
    with database.transaction():
        database.send(ADD, (1, "held", 1.0, True))
    assert rows(database) == [(1, "held", 1.0, True)]


def test_a_value_that_is_never_sent_ends_the_transaction_all_the_same(database: Database) -> None:
    with pytest.raises(RuntimeError), database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
        with pytest.raises(Invalid):
            database.read("SELECT * FROM pair WHERE text = ?", ("\ud800",))
        database.read("SELECT 1")
    assert rows(database) == []


def test_a_lost_connection_is_replaced_at_the_first_statement(database: Database) -> None:
    ((number,),) = database.read(OWN_NUMBER[database.backend.dialect])
    _end(database.url, number)
    with database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
    assert rows(database) == [(1, "one", 1.0, True)]


def test_a_connection_lost_within_a_transaction_is_not(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable), database.transaction():
        database.send(ADD, (1, "one", 1.0, True))
        ((number,),) = database.read(OWN_NUMBER[database.backend.dialect])
        _end(database.url, number)
        database.send(ADD, (2, "two", 1.0, True))
    assert rows(database) == []


def _end(url: str, number: int) -> None:
    with closing(Database(url)) as other:
        other.read(END[other.backend.dialect], (number,))


def test_a_deadlock_ends_all_of_the_transaction(database: Database) -> None:
    """MariaDB rolls it back by itself, and skips the rest of the burst."""
    with database.transaction():
        for number in (1, 2):
            database.send(ADD, (number, "free", 1.0, True))
    met, errors = threading.Barrier(2), list[Exception]()

    def change(first: int, second: int, added: int) -> None:
        with closing(Database(database.url)) as own:
            try:
                with own.transaction():
                    own.write("UPDATE pair SET text = ? WHERE id = ?", ("held", first))
                    met.wait()
                    own.send("UPDATE pair SET text = ? WHERE id = ?", ("held", second))
                    own.send(ADD, (added, "after", 1.0, True))
                    own.read("SELECT 1")
            except DatabaseUnavailable as error:
                errors.append(error)

    threads = [threading.Thread(target=change, args=each) for each in ((1, 2, 10), (2, 1, 20))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(errors) == 1
    assert [*database.read("SELECT COUNT(*) FROM pair WHERE text = ?", ("after",))] == [(1,)]


def test_many_characters_take_several_round_trips(relay: Relay, database: Database) -> None:
    """A server refuses a larger packet than it is configured for."""
    # PostgreSQL has no limit for all parameters together.
    most = 8 if database.backend.dialect is Dialect.MARIADB else 2
    large = "x" * (TOGETHER // 2)
    database.read("SELECT 1")
    before = relay.round_trips
    with database.transaction():
        found = [database.send("SELECT LENGTH(REPLACE(?, 'y', 'z'))", (large,)) for _ in range(6)]
        database.read("SELECT 1")
    assert [[*one.rows()] for one in found] == [[(TOGETHER // 2,)]] * 6
    assert relay.round_trips - before <= most
