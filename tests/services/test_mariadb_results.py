"""Results of MariaDB, read by our connections and by PyMySQL itself."""

import secrets
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.database import Database
from heatlite.store.database.driver import Dialect
from heatlite.store.database.mariadb import Connection
from tests.databases import SERVERS

LENGTHS = (0, 1, 250, 251, 252, 65_535, 65_536, 17_000_000)
SELECTS = (
    "SELECT 1, -1, 4294967296, 1.5, 1e300, CAST('1.25' AS DECIMAL(10, 2)), NULL, TRUE",
    "SELECT 'tëxt', CAST('blob' AS BINARY), '', CAST('2026-11-26' AS DATE), CAST('01:02:03' AS TIME)",
    "SELECT CAST('2026-11-26 01:02:03' AS DATETIME), JSON_OBJECT('a', 'ë')",
    "SELECT 1 FROM DUAL WHERE 1 = 0",
    "SELECT 'a' UNION ALL SELECT NULL UNION ALL SELECT 'b'",
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with SERVERS[Dialect.MARIADB].database(f"heatlite_results_{secrets.token_hex(4)}") as url:
        yield url


@pytest.fixture
def both(url: str) -> Iterator[tuple[Connection, Any]]:
    """One of ours, and one of PyMySQL."""
    database = Database(url)
    database.peewee.connect()
    with closing(pymysql.connect(database=database.peewee.database, **database.peewee.connect_params)) as theirs:
        yield database.peewee.connection(), theirs
    database.close()


def answer(connection: Any, sql: str) -> tuple[object, ...]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall(), cursor.description, cursor.rowcount


@pytest.mark.parametrize("sql", SELECTS)
def test_rows_are_those_of_the_driver(both: tuple[Connection, Any], sql: str) -> None:
    ours, theirs = both
    assert isinstance(ours, Connection)
    for _ in range(2):  # descriptions of columns are kept
        assert answer(ours, sql) == answer(theirs, sql)


@pytest.mark.parametrize("length", LENGTHS)
def test_texts_of_all_lengths(both: tuple[Connection, Any], length: int) -> None:
    ours, _ = both
    with ours.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        ((most,),) = cursor.fetchall()
        cursor.execute(f"SELECT REPEAT('x', {length}), 'after'")
        assert cursor.fetchall() == (("x" * length if length < most else None, "after"),)


def test_columns_of_one_name_and_different_types(both: tuple[Connection, Any]) -> None:
    ours, _ = both
    for sql, value in (("SELECT 1 AS one", 1), ("SELECT '1' AS one", "1"), ("SELECT 1.5e0 AS one", 1.5)):
        assert answer(ours, sql)[0] == ((value,),)


def test_an_error_leaves_the_connection_usable(both: tuple[Connection, Any]) -> None:
    ours, _ = both
    with pytest.raises(pymysql.ProgrammingError, match="nothing"):
        answer(ours, "SELECT * FROM nothing")
    assert answer(ours, "SELECT 1")[0] == ((1,),)


@pytest.mark.parametrize("last", [1, 253])
def test_an_answer_that_is_read_in_part_is_no_part_of_the_next_one(url: str, last: int) -> None:
    """After 253 rows the next packet has the number of a first one.

    That number is one byte.
    """

    def number(text: str) -> int:
        if text == str(last):
            raise MemoryError
        return int(text)

    with closing(Database(url)) as database:
        database.read("SELECT 1")
        connection = database.peewee.connection()
        connection.decoders = {**connection.decoders, FIELD_TYPE.LONGLONG: number}
        with pytest.raises(MemoryError):
            database.read("SELECT seq FROM seq_1_to_300")
        assert not connection.open
        assert [*database.read("SELECT 'next'")] == [("next",)]


def test_a_lost_connection_is_told(url: str) -> None:
    database, other = Database(url), Database(url)
    with pytest.raises(DatabaseUnavailable), database.transaction():
        ((number,),) = database.read("SELECT CONNECTION_ID()")
        other.peewee.execute_sql(f"KILL {number}")
        database.read("SELECT 1")
    other.close()
    database.close()
