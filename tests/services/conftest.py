"""Databases with a server, where one is reachable.

HEATLITE_TEST_POSTGRES_URL and HEATLITE_TEST_MYSQL_URL name a database of a server, by a user who may make others;
without them a server on loopback is tried. Each process of the tests makes a database of its own there, which goes
when they end.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database import Database
from heatlite.store.errors import MissingDriver
from heatlite.store.store import Store
from heatlite.store.tables import MODELS

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS / "unit" / "store"), str(TESTS / "migration")]
pytest.register_assert_rewrite("store_behaviour", "migration_behaviour")

SERVERS = {
    "PostgreSQL": ("HEATLITE_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "MariaDB": ("HEATLITE_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/mysql"),
}


@pytest.fixture(scope="session", params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database that the tests may do with as they like."""
    variable, loopback = SERVERS[request.param]
    given = os.environ.get(variable, loopback)
    name = f"heatlite_test_{os.getpid()}"
    try:
        database = Database(given)
        database.read("SELECT 1")
    except (DatabaseUnavailable, MissingDriver) as error:
        pytest.skip(f"no {request.param} to test with ({variable} names one): {error}")
    database.peewee.execute_sql(f"CREATE DATABASE {name}")
    yield given.rpartition("/")[0] + "/" + name
    force = " WITH (FORCE)" if request.param == "PostgreSQL" else ""
    database.peewee.execute_sql(f"DROP DATABASE {name}{force}")
    database.close()


@pytest.fixture
def empty_url(server: str) -> str:
    """A database without tables."""
    database = Database(server)
    for table in [model._meta.table_name for model in MODELS] + ["schema_migration"]:
        database.peewee.execute_sql(f"DROP TABLE IF EXISTS {database.quote(table)}")
    database.close()
    return server


@pytest.fixture(scope="session")
def connected(server: str) -> Iterator[Store]:
    store = Store.open(server)
    yield store
    store.close()


@pytest.fixture
def store(connected: Store) -> Store:
    """A database with empty tables."""
    connected.upgrade()
    with connected.transaction():
        for model in MODELS:
            connected.database.change(model.delete())
    return connected


@pytest.fixture
def url(store: Store) -> str:
    return store.database.url
