"""Results of MariaDB: several of one round trip, and those that are read in part."""

import secrets
from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from tests.databases import SERVERS

pytestmark = pytest.mark.mariadb


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with SERVERS[Dialect.MARIADB].database(f"heatlite_results_{secrets.token_hex(4)}") as url:
        yield url


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with closing(Database(url)) as database:
        yield database


@pytest.mark.parametrize("length", [0, 250, 65_536, 17_000_000])
def test_texts_of_all_lengths(database: Database, length: int) -> None:
    ((most,),) = database.read("SELECT @@max_allowed_packet")
    found = database.read("SELECT REPEAT('x', ?), 'after'", (length,))
    assert [*found] == [("x" * length if length < most else None, "after")]


def test_an_error_leaves_the_connection_usable(database: Database) -> None:
    connection = database.peewee.connection()
    with pytest.raises(pymysql.ProgrammingError, match="nothing"):
        database.read("SELECT * FROM nothing")
    assert [*database.read("SELECT 1")] == [(1,)]
    assert database.peewee.connection() is connection


@pytest.mark.parametrize("interruption", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("last", [1, 253])
def test_an_answer_that_is_read_in_part_is_no_part_of_the_next_one(
    database: Database, last: int, interruption: type[BaseException]
) -> None:
    """After 253 rows the next packet has the number of a first one.

    That number is one byte.
    """

    def number(text: str) -> int:
        if text == str(last):
            raise interruption
        return int(text)

    connection = database.peewee.connection()
    connection.decoders = {**connection.decoders, FIELD_TYPE.LONGLONG: number}
    with pytest.raises(interruption):
        database.read("SELECT seq FROM seq_1_to_300")
    assert not connection.open
    assert [*database.read("SELECT 'next'")] == [("next",)]


def test_answers_of_a_transaction_that_are_read_in_part(database: Database) -> None:
    def number(text: str) -> int:
        raise KeyboardInterrupt

    connection = database.peewee.connection()
    connection.decoders = {**connection.decoders, FIELD_TYPE.LONGLONG: number}
    with pytest.raises(KeyboardInterrupt), database.transaction():
        database.send("SELECT seq FROM seq_1_to_300")
        database.send("SELECT 'second'")
        database.read("SELECT 'third'")
    assert [*database.read("SELECT 'next'")] == [("next",)]


def test_a_lost_connection_is_told(url: str) -> None:
    database, other = Database(url), Database(url)
    with pytest.raises(DatabaseUnavailable), database.transaction():
        ((number,),) = database.read("SELECT CONNECTION_ID()")
        other.peewee.execute_sql(f"KILL {number}")
        database.read("SELECT 1")
    other.close()
    database.close()
