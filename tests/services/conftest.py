"""Databases with a server, if reachable; `tests/databases.py` finds them."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heatlite.core.errors import DatabaseUnavailable, HTTPBadRequest
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.store import Store
from tests import brokers
from tests.brokers import EACH_BROKER, Broker
from tests.databases import EACH_SERVER, SERVERS, empty, whole

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / "unit" / "store"), str(TESTS / "migration")]
pytest.register_assert_rewrite(
    "store_behaviour", "sealing_behaviour", "growth_behaviour", "audit_behaviour", "migration_behaviour",
    "software_behaviour", "limit_behaviour",
)


def soon(schedule: Callable[[float], object]) -> float:
    """Call `schedule` with a time that is still ahead in it, and return that time."""
    for seconds in (1, 10, 60):
        when = time.time() + seconds
        try:
            schedule(when)
        except HTTPBadRequest:
            continue
        return when
    raise AssertionError("the machine stood still for a minute")


_made: dict[Dialect, tuple[str, ExitStack]] = {}
_stores: dict[str, Store] = {}
"""Databases and stores of this process. Features take the fixtures over: without this each makes its own."""


@pytest.fixture(scope="session", params=EACH_SERVER)
def server(request: pytest.FixtureRequest) -> str:
    """The URL of a database that the tests may do with as they like."""
    if request.param not in _made:
        found, ends = SERVERS[request.param], ExitStack()
        try:
            url = ends.enter_context(found.database(f"heatlite_test_{os.getpid()}"))
        except (DatabaseUnavailable, MissingLibrary) as error:
            pytest.skip(f"no {request.param} to test with ({found.variable} names one): {error}")
        request.config.add_cleanup(ends.close)
        _made[request.param] = url, ends
    return _made[request.param][0]


@pytest.fixture
def empty_url(server: str) -> str:
    """A database without tables."""
    drop_tables(server)
    return server


def drop_tables(url: str) -> None:
    database = Database(url)
    for table in database.tables():
        database.peewee.execute_sql(f"DROP TABLE {database.quote(table)}")
    database.close()


@pytest.fixture
def spoilt(empty_url: str) -> Iterator[None]:
    """Drops the tables of a test that leaves them damaged."""
    yield
    drop_tables(empty_url)


@pytest.fixture(scope="session")
def connected(server: str) -> Store:
    if server not in _stores:
        store = _stores[server] = whole(server, lease=600.0)  # a busy server may answer late
        next(ends for url, ends in _made.values() if url == server).callback(store.close)
    return _stores[server]


@pytest.fixture
def store(connected: Store) -> Store:
    """A database with empty tables."""
    connected.upgrade()
    empty(connected)
    return connected


@pytest.fixture
def url(store: Store) -> str:
    return store.database.url


@pytest.fixture(params=EACH_BROKER)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    """A broker, with queues that are this test's alone."""
    with ExitStack() as made:
        try:
            found = made.enter_context(brokers.broker(request.param))
        except brokers.NoBroker as error:
            pytest.skip(str(error))
        yield found
