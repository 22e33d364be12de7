"""Migrations on every database.

Test modules import these tests and add `empty_url`.
"""

import multiprocessing
from collections.abc import Callable, Collection, Iterator

import pytest
from playhouse.migrations import Runner
from playhouse.schema_diff import diff_models

from heatlite.store.admin import migrate
from heatlite.store.admin.runner import SeriesRunner
from heatlite.store.database.statements import Value
from heatlite.store.errors import SchemaMismatch
from heatlite.store.store import Store
from tests.databases import every_model, whole
from tests.example_feature.store import EXAMPLE, Report, ReportStore
from tests.processes import fresh

__all__: list[str] = ["database"]
"""Every test of this module, for `import *`."""


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


@pytest.fixture
def database(empty_url: str) -> Iterator[Store]:
    store = whole(empty_url)
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
    differences = diff_models(database.database.peewee, every_model())
    # Peewee does not compare indexes of expressions or of some rows; the test of definitions on SQLite does.
    special = {"resource_object", "resource_called", "resource_unwell", "event_rare_verb", "event_rare_status"}
    differences.drop_indexes[:] = [one for one in differences.drop_indexes if one.name not in special]
    assert not differences, str(differences)


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
    store = whole(url)
    results.put(store.upgrade())
    store.close()


@pytest.mark.slow
@everywhere
def test_of_four_processes_that_start_at_once_one_upgrades(empty_url: str) -> None:
    context = fresh("tests.migration.migration_behaviour")
    results: multiprocessing.Queue[list[str]] = context.Queue()
    workers = [context.Process(target=_upgrade, args=(empty_url, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    applied = [results.get(timeout=240) for _ in workers]
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    store = whole(empty_url)
    assert sorted(applied, key=len) == [[], [], [], names(store)]
    store.close()
    results.close()


ADOPTIONS = "0036_adoptions"


def before(store: Store, migration: str) -> None:
    """Make the tables what they were before a migration."""
    earlier = names(store)[: names(store).index(migration)]
    Runner(store.database.peewee, str(migrate.CORE.scripts)).up(earlier[-1])


def make_old(store: Store, applied: Collection[str]) -> None:
    """Make the tables of 0.1.0 with other names of applied migrations."""
    before(store, names(store)[1])
    change(store, "DELETE FROM schema_migration")
    for name in applied:
        change(store, "INSERT INTO schema_migration (name, applied) VALUES (?, '2026-11-22 18:00:00')", name)


def change(store: Store, sql: str, *values: Value) -> None:
    with store.transaction():
        store.database.write(sql, values)


@everywhere
def test_a_database_of_0_1_0_upgrades(database: Store, empty_url: str) -> None:
    """It has the names of the scripts that became one."""
    make_old(database, migrate.REPLACED)
    change(database, "INSERT INTO account_project (root_id, project_id) VALUES ('s', 'acme')")
    store = whole(empty_url)
    assert [one.name for one in store.migrations if one.applied] == [migrate.FIRST]
    assert store.upgrade() == names(store)[1:]
    assert {one.applied for one in store.status()} == {True}
    assert store.upgrade() == []
    assert list(store.database.read("SELECT project_id FROM account_project")) == [("acme",)]
    store.close()


@everywhere
def test_tables_older_than_0_1_0_are_refused_with_the_way_out(database: Store, empty_url: str) -> None:
    make_old(database, migrate.REPLACED - {"0019_stack_size"})
    for use in (database.upgrade, database.status, lambda: Store.open(empty_url)):
        with pytest.raises(SchemaMismatch, match=r"0018_takeovers\)\. Run .* of heatlite 0\.1\.0 first"):
            use()


@everywhere
def test_messages_go_from_names_to_rows(database: Store) -> None:
    """Of several rows with a name the first has the messages."""
    before(database, ADOPTIONS)
    long = "s" * 100
    columns = {
        "stack_id": "s", "name": "h", "type": "T", "mapped_type": "T", "verb": "CREATE", "status": "COMPLETE",
        "status_reason": "", "created_at": 1.0, "properties": "{}", "metadata": "{}", "data": "{}", "requires": "[]",
        "uses": "[]", "deletion_policy": "Delete", "description": "",
    }  # fmt: skip
    for row_id, name in (("1", "s-h-x"), ("2", "s-h-x"), ("3", f"{long}y"), ("4", f"{long}z")):
        values: dict[str, Value] = {**columns, "id": row_id, "physical_name": name}
        marks = ", ".join("?" * len(values))
        change(database, f"INSERT INTO resource ({', '.join(values)}) VALUES ({marks})", *values.values())
    for number, address in enumerate(("s-h-x", "s-h-x", f"{long}z", "an action")):
        sql = "INSERT INTO mail (address, digest, key, content, changed_at) VALUES (?, ?, ?, '1', 1.0)"
        sql = sql.replace(" key,", f" {database.database.quote('key')},")
        change(database, sql, address, str(number), "k")
    database.upgrade()
    found = database.database.read("SELECT address FROM mail ORDER BY digest")
    assert [address for (address,) in found] == ["1", "1", "4", "an action"]


@everywhere
def test_deletions_without_their_query_are_not_replayed(database: Store) -> None:
    """Without ``retain`` they would delete what was to stay."""
    before(database, "0042_suppressed_queries")
    rows = {("DELETE", ""): False, ("DELETE", "/snapshots/s"): True, ("PUT", ""): True, ("POST", "/actions"): True}
    texts = dict.fromkeys(("target", "requested_by", "detail", "root_id", "author", "effect"), "{}")
    for number, (method, path) in enumerate(rows, 1):
        values: dict[str, Value] = {
            **texts, "id": number, "stack_id": "s", "time": 1.0, "request": "x", "method": method, "path": path,
            "digest": str(number), "last_time": 1.0, "times": 1, "replayable": True, "size": 1,
        }  # fmt: skip
        marks = ", ".join("?" * len(values))
        change(database, f"INSERT INTO suppressed ({', '.join(values)}) VALUES ({marks})", *values.values())
    database.upgrade()
    found = database.database.read("SELECT replayable, query FROM suppressed ORDER BY id")
    assert [(bool(replayable), query) for replayable, query in found] == [(one, "") for one in rows.values()]


def report(store: Store) -> None:
    """Write a row of the example feature."""
    with store.transaction():
        store.database.change(Report.insert(id="r", stack_id="s", text="fine", author="ann"))


@everywhere
def test_a_feature_of_another_package_has_tables(database: Store, empty_url: str) -> None:
    """It comes to a database that is in use, and goes for a time."""
    database.upgrade()
    added = Store.open(empty_url, features=(ReportStore,))
    assert [one.name for one in added.migrations if not one.applied] == EXAMPLE
    assert added.upgrade() == EXAMPLE
    assert added.upgrade() == []
    report(added)
    off = Store.open(empty_url)
    assert [one.name for one in off.status() if one.name in EXAMPLE] == []
    assert off.upgrade() == []
    assert added.of(ReportStore).texts() == ["fine"]
    with added.transaction():
        added.stacks.remove(["s"])
    assert added.of(ReportStore).texts() == []
    off.close()
    added.close()


@everywhere
def test_the_next_migration_of_a_feature_is_applied_alone(database: Store, empty_url: str) -> None:
    database.upgrade()
    added = Store.open(empty_url, features=(ReportStore,))
    assert ReportStore.series is not None
    SeriesRunner(added.database.peewee, ReportStore.series).up(EXAMPLE[0])
    assert added.upgrade() == EXAMPLE[1:]
    report(added)
    added.close()


@everywhere
def test_a_newer_feature_leaves_the_database_to_those_without_it(database: Store, empty_url: str) -> None:
    database.upgrade()
    sql = "INSERT INTO schema_migration (name, applied) VALUES ('reports.9999_future', '2099-01-01 00:00:00')"
    change(database, sql)
    with pytest.raises(SchemaMismatch, match=r"not know reports\.9999_future.* the package of that feature"):
        Store.open(empty_url, features=(ReportStore,))
    Store.open(empty_url).close()
