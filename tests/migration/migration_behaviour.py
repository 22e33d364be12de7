"""What migrations do on every database. Test modules take these tests over; they bring `empty_url`."""

import multiprocessing
from collections.abc import Callable, Iterator

import pytest
from playhouse.schema_diff import diff_models

from heatlite.store import migrate
from heatlite.store.errors import SchemaMismatch
from heatlite.store.store import Store
from heatlite.store.tables import MODELS

__all__: list[str] = ["database"]
"""Every test of this module, for `import *`."""


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


@pytest.fixture
def database(empty_url: str) -> Iterator[Store]:
    store = Store.open(empty_url)
    yield store
    store.close()


def names(store: Store) -> list[str]:
    return [migration.name for migration in store.status()]


@everywhere
def test_upgrade_makes_the_tables_that_the_models_describe(database: Store) -> None:
    assert [migration.applied for migration in database.status()] == [False] * len(names(database))
    assert database.upgrade() == names(database)
    assert [migration.applied for migration in database.status()] == [True] * len(names(database))
    assert database.upgrade() == []
    differences = diff_models(database.database.peewee, MODELS)
    assert not differences, str(differences)


@everywhere
def test_downgrade_takes_back_what_upgrade_made(database: Store) -> None:
    applied = database.upgrade()
    for name in reversed(applied):
        assert migrate.downgrade(database.database) == [name]
    assert set(database.database.peewee.get_tables()) <= {"schema_migration"}
    assert database.upgrade() == applied


@everywhere
def test_a_newer_database_is_left_alone(database: Store, empty_url: str) -> None:
    database.upgrade()
    database.database.peewee.execute_sql(
        "INSERT INTO schema_migration (name, applied) VALUES ('9999_from_the_future', '2099-01-01 00:00:00')"
    )
    with pytest.raises(SchemaMismatch, match="9999_from_the_future"):
        Store.open(empty_url)
    with pytest.raises(SchemaMismatch, match="9999_from_the_future"):
        database.upgrade()


def _upgrade(url: str, results: "multiprocessing.Queue[list[str]]") -> None:
    store = Store.open(url)
    results.put(store.upgrade())
    store.close()


@everywhere
def test_of_four_processes_that_start_at_once_one_upgrades(empty_url: str) -> None:
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[list[str]] = context.Queue()
    workers = [context.Process(target=_upgrade, args=(empty_url, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    applied = [results.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    store = Store.open(empty_url)
    assert sorted(applied, key=len) == [[], [], [], names(store)]
    store.close()
    results.close()
