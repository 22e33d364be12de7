"""Migrations on every database.

Test modules import these tests and add `empty_url`.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterator

import pytest
from playhouse.migrations import Runner
from playhouse.schema_diff import diff_models

from heatlite.store.admin import migrate
from heatlite.store.database.statements import Value
from heatlite.store.errors import SchemaMismatch
from heatlite.store.secrets.cipher import Cipher, new_key
from heatlite.store.store import Store
from heatlite.store.tables import MODELS
from tests.databases import claim_one
from tests.processes import fresh

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
    store = Store.open(url)
    results.put(store.upgrade())
    store.close()


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
    store = Store.open(empty_url)
    assert sorted(applied, key=len) == [[], [], [], names(store)]
    store.close()
    results.close()


ACTIONS = "0007_actions"
SECRETS = "0008_secrets"
ADOPTIONS = "0036_adoptions"


def before(store: Store, migration: str) -> None:
    """Make the tables what they were before a migration."""
    earlier = names(store)[: names(store).index(migration)]
    Runner(store.database.peewee, str(migrate.SCRIPTS)).up(earlier[-1])


def change(store: Store, sql: str, *values: Value) -> None:
    with store.transaction():
        store.database.write(sql, values)


def put_old(store: Store, stack_id: str, status: str, **columns: Value) -> str:
    """An action and its stack before schedules, dependencies and histories existed."""
    action_id = f"action of {stack_id}"
    live = status in ("READY", "WAITING", "RUNNING")
    values: dict[str, Value] = {
        "id": action_id, "stack_id": stack_id, "root_id": stack_id, "project": "acme", "verb": "CHECK",
        "status": status, "requested_by": "ann", "created_at": 1.0, "inputs": "{}", "status_reason": "",
        "attempt": 1, "exclusive_key": stack_id if live else None, "urgent": False, "open_children": 0,
        **columns,
    }  # fmt: skip
    change(store, f"INSERT INTO action ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", *values.values())
    return action_id


@everywhere
def test_actions_of_before_are_as_those_of_now(database: Store) -> None:
    before(database, ACTIONS)
    for status in ("SUCCEEDED", "FAILED", "CANCELLED"):
        # Whoever ended them once left his name.
        put_old(database, status, status, owner="engine", finished_at=2.0)
    put_old(database, "given back", "READY", owner="engine")
    put_old(database, "runs", "RUNNING", owner="engine", lease_until=1e10, started_at=1.0)
    holder = put_old(database, "going", "RUNNING", owner="engine", lease_until=1e10, started_at=1.0)
    put_old(database, "waits", "WAITING", waits_for=holder)
    database.upgrade()
    found = {f"{one.rule}: {one.id}" for one in database.inconsistencies(3.0, 0.0)}
    assert {text for text in found if not text.startswith("an action has a stack")} == set()
    claimed = claim_one(database, "one", 5.0, 1.0)
    assert claimed is not None
    assert claimed.stack_id == "given back"


def put_old_stack(store: Store, stack_id: str, template_id: str, root_id: str | None = None) -> None:
    """A stack as it was before anything was encrypted."""
    values: dict[str, Value] = {
        "id": stack_id, "name": stack_id, "project": "acme", "username": "ann", "template_id": template_id,
        "environment": "{}", "verb": "CREATE", "status": "COMPLETE", "status_reason": "", "created_at": 1.0,
        "root_id": root_id, "disable_rollback": True, "tags": "", "depth": 0,
    }  # fmt: skip
    change(store, f"INSERT INTO stack ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", *values.values())


@everywhere
def test_what_is_hidden_was_so_before(database: Store) -> None:
    before(database, SECRETS)
    for template_id, document, files in (
        ("hot", '{"parameters":{"p":{"hidden":true}}}', "{}"),
        ("cfn", '{"Parameters":{"P":{"NoEcho":true}}}', "{}"),
        ("file", "{}", '{"a.yaml":"parameters: {p: {hidden: true}}"}'),
        ("plain", "{}", "{}"),
    ):
        change(database, "INSERT INTO template (id, document, files) VALUES (?, ?, ?)", template_id, document, files)
        put_old_stack(database, template_id, template_id)
    put_old_stack(database, "root", "plain")
    put_old_stack(database, "child", "hot", "root")
    put_old_stack(database, "sister", "plain", "root")
    database.upgrade()
    stacks = ("hot", "cfn", "file", "plain", "root", "child", "sister")
    found = {stack_id: stack.sealed for stack_id in stacks if (stack := database.stacks.get(stack_id))}
    assert found == {stack_id: stack_id != "plain" for stack_id in stacks}


@everywhere
def test_what_callers_prove_themselves_with_changes_its_form(database: Store) -> None:
    before(database, ACTIONS)
    kept = Cipher([new_key()], "").encrypt({"token": "sesame"})
    old = json.dumps({"v": "fernet1", "d": kept.removeprefix("fernet1:")})
    action_id = put_old(database, "s", "READY")
    before(database, SECRETS)
    change(database, "UPDATE action SET secrets = ?", old)
    database.upgrade()
    found = database.actions.get(action_id)
    assert found is not None
    assert found.secrets == kept


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
