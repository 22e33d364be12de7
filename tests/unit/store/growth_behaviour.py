"""Statements of one stack's life read a number of rows that does not depend on the other stacks of the database."""

import json
import re
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.status import ENDED_ACTIONS
from heatlite.engine.state.requests import Request
from heatlite.store.database.database import Database, Dialect, Parameters
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.wiring import Embedded

MEMBER = Context("demo", user="mia", roles=frozenset({"member", "reader"}))
INNER = """
heat_template_version: 2021-04-16
resources:
  a: {type: OS::Heat::Value, properties: {value: x}}
  b: {type: OS::Heat::RandomString}
"""


def template(count: int) -> dict[str, Any]:
    """Return a template with a group of `count` nested stacks and two flat resources."""
    member = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": {"type": "inner.yaml"}}}
    value = {"type": "OS::Heat::Value", "properties": {"value": "v"}}
    return {"heat_template_version": "2021-04-16", "resources": {"g": member, "v": value, "w": value}}


@dataclass
class Statements:
    """Records each SELECT of the process that begins in other threads than the sweep."""

    seen: dict[str, Parameters] = field(default_factory=dict)
    is_open: bool = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Record from now on while `is_open`."""
        read = Database.read

        def recorded(database: Database, sql: str, parameters: Parameters = ()) -> Any:
            if self.is_open and threading.current_thread().name != "sweep" and sql.startswith("SELECT"):
                self.seen.setdefault(sql, tuple(parameters))
            return read(database, sql, parameters)

        patch.setattr(Database, "read", recorded)


def wait(engine: Embedded) -> None:
    """Wait until each action has ended."""
    ended = ", ".join(f"'{status}'" for status in ENDED_ACTIONS)
    until = time.monotonic() + 60
    while engine.store.database.read(f"SELECT 1 FROM action WHERE status NOT IN ({ended}) LIMIT 1"):
        assert time.monotonic() < until, "an action does not end"
        time.sleep(0.01)


def live(engine: Embedded, stack: StackRecord) -> StackRecord:
    """Return the stack's row as it is now."""
    found = engine.store.stacks.get(stack.id)
    assert found is not None
    return found


def life(engine: Embedded, statements: Statements) -> None:
    """Create, update, mark, check, lock and delete one stack with nested ones, and record the statements."""
    files = {"inner.yaml": INNER}

    def ended(operation: Callable[[], object]) -> None:
        statements.is_open = True
        operation()
        wait(engine)
        statements.is_open = False

    made: list[StackRecord] = []
    ended(lambda: made.append(engine.stacks.create(MEMBER, Request(name="one", template=template(2), files=files))))
    (stack,) = made
    for count in (3, 3):
        request = Request(template=template(count), files=files)
        ended(partial(engine.stacks.update, MEMBER, live(engine, stack), request, existing=False))
    ended(lambda: engine.components.health.mark(MEMBER, live(engine, stack), "v", True, "disk"))
    ended(lambda: engine.stacks.check(MEMBER, live(engine, stack)))
    statements.is_open = True
    engine.store.resources.objects_of_project("demo", ["11111111-1111", "x" * 5000])
    statements.is_open = False
    ended(lambda: engine.stacks.delete(MEMBER, live(engine, stack)))


def others(store: Store, count: int) -> None:
    """Add `count` trees of other projects: a root and a nested stack with eight resources each."""
    database = store.database

    def copied(table: str, given: list[dict[str, Any]]) -> None:
        columns = tuple(column.name for column in database.peewee.get_columns(table))
        (source,) = database.read(f"SELECT {database.quote(*columns)} FROM {database.quote(table)} LIMIT 1")
        blank = dict(zip(columns, source, strict=True))
        marks = ", ".join("?" for _ in columns)
        sql = f"INSERT INTO {database.quote(table)} ({database.quote(*columns)}) VALUES ({marks})"
        rows = [[one.get(column, blank[column]) for column in columns] for one in given]
        with store.transaction():
            database.write_many(sql, rows)

    stacks: list[dict[str, Any]] = []
    resources: list[dict[str, Any]] = []
    for number in range(count):
        root, inner = f"root-{number:030}", f"nest-{number:030}"
        project = f"project-{number % 50}"
        common = {"project": project, "deleted_at": None}
        nests = {"parent_id": root, "root_id": root, "live_name": None}
        stacks.append({"id": root, "name": f"o{number}", "live_name": f"o{number}", **common, "root_id": None})
        stacks.append({"id": inner, "name": f"i{number}", **common, **nests})
        for stack in (root, inner):
            resources += [{"id": f"{stack[:4]}{number:027}-{n}", "stack_id": stack, "name": f"r{n}"} for n in range(8)]
    copied("stack", stacks)
    copied("resource", resources)


def postgresql_rows(store: Store, statements: Statements) -> dict[str, int]:
    """Return the rows that the server says it reads for each statement."""

    def read(node: dict[str, Any]) -> int:
        own = 0
        if "Relation Name" in node:
            removed = sum(int(n) for key, n in node.items() if key.startswith("Rows Removed by"))
            own = (int(node["Actual Rows"]) + removed) * int(node["Actual Loops"])
        return own + sum(read(child) for child in node.get("Plans", ()))

    found = {}
    for sql, parameters in statements.seen.items():
        explained = sql.replace(" FOR UPDATE SKIP LOCKED", "").replace(" FOR UPDATE", "")
        ((plan,),) = store.database.read(f"EXPLAIN (ANALYZE, FORMAT JSON) {explained}", parameters)
        (top,) = plan if isinstance(plan, list) else json.loads(plan)
        found[sql] = read(top["Plan"])
    return found


def mariadb_rows(store: Store, statements: Statements) -> dict[str, int]:
    """Return the rows that the server's handlers read for each statement."""
    found = {}
    for sql, parameters in statements.seen.items():
        store.database.read("SELECT 1")
        store.database.peewee.execute_sql("FLUSH STATUS")
        store.database.read(sql.replace("%s", "?"), parameters)
        counters = store.database.read("SHOW SESSION STATUS LIKE 'Handler_read%%'")
        found[sql] = sum(int(str(count)) for _, count in counters)
    return found


def sqlite_rows(store: Store, statements: Statements) -> dict[str, int]:
    """Return 0 for each statement that finds its rows by an index, else the number of rows in the table."""
    found = {}
    for sql, parameters in statements.seen.items():
        found[sql] = 0
        for row in store.database.read(f"EXPLAIN QUERY PLAN {sql}", parameters):
            scanned = re.match(r"SCAN (\w+)(?!.*INDEX)", str(row[3]))
            if scanned and scanned[1] in store.database.peewee.get_tables():
                found[sql] += int(str(store.database.read(f"SELECT COUNT(*) FROM {scanned[1]}")[0][0]))
    return found


READ = {Dialect.POSTGRESQL: postgresql_rows, Dialect.MARIADB: mariadb_rows, Dialect.SQLITE: sqlite_rows}


def test_no_statement_reads_rows_of_other_stacks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements()
    statements.install(monkeypatch)
    with closing(wiring.embedded(Settings(database=url))) as engine:
        engine.stacks.create(MEMBER, Request(name="pattern", template=template(1), files={"inner.yaml": INNER}))
        wait(engine)
        others(engine.store, 2000)
        if engine.store.database.dialect is Dialect.POSTGRESQL:
            engine.store.database.peewee.execute_sql("ANALYZE")
        life(engine, statements)
        assert len(statements.seen) > 20
        read = READ[engine.store.database.dialect](engine.store, statements)
    assert {sql: rows for sql, rows in read.items() if rows > 500} == {}
