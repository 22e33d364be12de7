"""Statements of a stack read a number of rows independent of other stacks."""

import json
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import length_hint
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.status import ENDED_ACTIONS
from heatlite.engine.execution.sweep import Sweep
from heatlite.engine.state.requests import StackRequest
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store
from heatlite.wiring import Embedded

MEMBER = Context("demo", user="mia", roles=frozenset({"member", "reader"}))
INNER = """
heat_template_version: 2021-04-16
resources:
  a: {type: OS::Heat::Value, properties: {value: x}}
  b: {type: OS::Heat::RandomString}
"""
VALUES: dict[str, Any] = {
    "heat_template_version": "2021-04-16",
    "resources": {name: {"type": "OS::Heat::Value", "properties": {"value": name}} for name in ("v", "w")},
}


def template(count: int) -> dict[str, Any]:
    """Return a template with a group of `count` nested stacks and two flat resources."""
    member = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": {"type": "inner.yaml"}}}
    value = {"type": "OS::Heat::Value", "properties": {"value": "v"}}
    return {"heat_template_version": "2021-04-16", "resources": {"g": member, "v": value, "w": value}}


@dataclass
class Statements:
    """Records each SELECT on a database, except of the sweep."""

    database: Database | None = None
    thread: int | None = None
    """The only thread to record."""
    seen: dict[str, Parameters] = field(default_factory=dict)
    is_open: bool = False

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Record from now on while `is_open`."""
        def recording(call: Callable[[Database, str, Parameters], Any]) -> Callable[..., Any]:
            def recorded(database: Database, sql: str, parameters: Parameters = ()) -> Any:
                is_meant = database is self.database and self.thread in (None, threading.get_ident())
                if self.is_open and is_meant and not sweeping.get() and sql.startswith("SELECT"):
                    self.seen.setdefault(sql, tuple(parameters))
                return call(database, sql, parameters)

            return recorded

        sweeping = ContextVar("sweeping", default=False)
        poll = Sweep.poll

        def swept(sweep: Sweep) -> float:
            token = sweeping.set(True)
            try:
                return poll(sweep)
            finally:
                sweeping.reset(token)

        patch.setattr(Sweep, "poll", swept)
        patch.setattr(Database, "read", recording(Database.read))
        patch.setattr(Database, "send", recording(Database.send))


def wait(engine: Embedded) -> None:
    """Wait until each action has ended."""
    ended = ", ".join(f"'{status}'" for status in ENDED_ACTIONS)
    until = time.monotonic() + 240
    while engine.store.database.read(f"SELECT 1 FROM action WHERE status NOT IN ({ended}) LIMIT 1"):
        assert time.monotonic() < until, "an action does not end"
        time.sleep(0.01)


def live(engine: Embedded, stack: StackRecord) -> StackRecord:
    """Return the stack's row as it is now."""
    found = engine.store.stacks.get(stack.id)
    assert found is not None
    return found


def life(engine: Embedded, statements: Statements) -> None:
    """Record the statements of the whole life of a stack with nested ones."""
    files = {"inner.yaml": INNER}

    def ended(operation: Callable[[], object]) -> None:
        statements.is_open = True
        operation()
        wait(engine)
        statements.is_open = False

    made: list[StackRecord] = []
    ended(
        lambda: made.append(engine.stacks.create(MEMBER, StackRequest(name="one", template=template(2), files=files)))
    )
    (stack,) = made
    for count in (3, 3):
        request = StackRequest(template=template(count), files=files)
        ended(partial(engine.stacks.update, MEMBER, live(engine, stack), request, existing=False))
    ended(lambda: engine.components.health.mark(MEMBER, live(engine, stack), "v", True, "disk"))
    ended(lambda: engine.stacks.check(MEMBER, live(engine, stack)))
    statements.is_open = True
    engine.store.resources.objects_of_project("demo", ["11111111-1111", "x" * 5000])
    statements.is_open = False
    ended(lambda: engine.stacks.delete(MEMBER, live(engine, stack)))


def analyze(store: Store) -> None:
    """Have a server count its rows now.

    By itself it does so later, and plans with old counts until then.
    """
    database = store.database
    if database.backend.dialect is Dialect.POSTGRESQL:
        database.peewee.execute_sql("ANALYZE")
    elif database.backend.dialect is Dialect.MARIADB:
        tables = database.quote(*database.peewee.get_tables())
        database.peewee.execute_sql(f"ANALYZE TABLE {tables}").fetchall()


def copied(store: Store, table: str, given: list[dict[str, Any]]) -> None:
    """Insert copies of a table's first row with other values in some columns."""
    database = store.database
    columns = tuple(column.name for column in database.peewee.get_columns(table))
    (source,) = database.read(f"SELECT {database.quote(*columns)} FROM {database.quote(table)} LIMIT 1")
    blank = dict(zip(columns, source, strict=True))
    marks = ", ".join("?" for _ in columns)
    sql = f"INSERT INTO {database.quote(table)} ({database.quote(*columns)}) VALUES ({marks})"
    rows = [[one.get(column, blank[column]) for column in columns] for one in given]
    with store.transaction():
        database.write_many(sql, rows)


def others(store: Store, count: int) -> None:
    """Add `count` trees of other projects, each with two stacks of eight resources."""
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
    copied(store, "stack", stacks)
    copied(store, "resource", resources)


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


STEPS_PER_ROW = 5
"""Steps of SQLite's virtual machine for a row that a statement reads and leaves out."""


def sqlite_rows(store: Store, statements: Statements) -> dict[str, int]:
    """Return the most rows that SQLite can have read, by its count of steps.

    A whole table that is counted in one step is found by the plan.
    """
    found = {}
    connection = store.database.peewee.connection()
    for sql, parameters in statements.seen.items():
        left = repeat(0, sys.maxsize)
        connection.set_progress_handler(left.__next__, 1)
        store.database.read(sql, parameters)
        connection.set_progress_handler(None, 0)
        found[sql] = (sys.maxsize - length_hint(left)) // STEPS_PER_ROW
        for row in store.database.read(f"EXPLAIN QUERY PLAN {sql}", parameters):
            scanned = re.match(r"SCAN (\w+)", str(row[3]))
            if scanned and scanned[1] in store.database.peewee.get_tables():
                found[sql] += int(str(store.database.read(f"SELECT COUNT(*) FROM {scanned[1]}")[0][0]))
    return found


READ = {Dialect.POSTGRESQL: postgresql_rows, Dialect.MARIADB: mariadb_rows, Dialect.SQLITE: sqlite_rows}


@pytest.mark.slow
def test_no_statement_reads_rows_of_other_stacks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements()
    statements.install(monkeypatch)
    with closing(wiring.embedded(Settings(database=url))) as engine:
        statements.database = engine.store.database
        engine.stacks.create(MEMBER, StackRequest(name="pattern", template=template(1), files={"inner.yaml": INNER}))
        wait(engine)
        others(engine.store, 2000)
        analyze(engine.store)
        life(engine, statements)
        assert len(statements.seen) > 20
        read = READ[engine.store.database.backend.dialect](engine.store, statements)
    assert {sql: rows for sql, rows in read.items() if rows > 500} == {}


def test_one_resource_of_a_large_stack_reads_no_other_row(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements()
    statements.install(monkeypatch)
    with closing(wiring.embedded(Settings(database=url))) as engine:
        statements.database = engine.store.database
        stack = engine.stacks.create(MEMBER, StackRequest(name="one", template=VALUES))
        wait(engine)
        resources = [{"id": f"{number:036}", "stack_id": stack.id, "name": f"r{number}"} for number in range(2000)]
        copied(engine.store, "resource", resources)
        analyze(engine.store)
        statements.is_open = True
        reader, found = engine.components.reader, live(engine, stack)
        row = reader.resource(found, "v")
        reader.required_by(found, row.name)
        reader.attributes(MEMBER, found, row, ())
        engine.components.health.mark(MEMBER, found, "w", True, "disk")
        statements.is_open = False
        read = READ[engine.store.database.backend.dialect](engine.store, statements)
    assert len(read) > 3
    assert {sql: rows for sql, rows in read.items() if rows > 200} == {}


def test_a_filter_without_a_match_reads_no_other_event(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements(thread=threading.get_ident())
    statements.install(monkeypatch)
    filters: list[dict[str, Any]] = [
        {"resource_name": ("x",)},
        {"resource_name": ("x", "y"), "resource_status": ("COMPLETE",)},
        {"resource_status": ("FAILED",)},
        {"resource_action": ("SUSPEND", "RESUME")},
        {"resource_action": ("SUSPEND",), "resource_status": ("COMPLETE",)},
    ]
    with closing(wiring.embedded(Settings(database=url))) as engine:
        statements.database = engine.store.database
        stack = engine.stacks.create(MEMBER, StackRequest(name="one", template=VALUES))
        wait(engine)
        first = engine.store.events.head() + 1  # servers do not begin at 1 again
        copied(engine.store, "event", [{"id": first + number, "stack_id": stack.id} for number in range(2000)])
        analyze(engine.store)
        statements.is_open = True
        for given in filters:
            for limit in (None, 100):
                query = EventQuery(limit=limit, marker=str(first + 500), **given)
                assert engine.store.events.list(stack.id, query) == []
                assert engine.store.events.list(stack.id, replace(query, sort_keys=("event_time",))) == []
            assert engine.store.events.after(stack.id, first, 100, EventQuery(**given)) == []
        statements.is_open = False
        read = READ[engine.store.database.backend.dialect](engine.store, statements)
    assert len(read) > len(filters) * 3
    assert {sql: rows for sql, rows in read.items() if rows > 50} == {}


def test_retention_counts_the_events_of_grown_stacks_only(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statements = Statements(thread=threading.get_ident())
    statements.install(monkeypatch)
    with closing(wiring.embedded(Settings(database=url))) as engine:
        statements.database = engine.store.database
        stack = engine.stacks.create(MEMBER, StackRequest(name="one", template=VALUES))
        wait(engine)
        events = engine.store.events
        first = events.head() + 1
        copied(engine.store, "event", [{"id": first + n, "stack_id": f"other-{n % 100}"} for n in range(5000)])
        head = events.head()
        copied(engine.store, "event", [{"id": head + 1 + n, "stack_id": stack.id} for n in range(5)])
        analyze(engine.store)
        statements.is_open = True
        assert len(events.over_limit(5, 100, head)) == 6
        statements.is_open = False
        read = READ[engine.store.database.backend.dialect](engine.store, statements)
    assert len(read) == 4
    assert {sql: rows for sql, rows in read.items() if rows > 100} == {}
