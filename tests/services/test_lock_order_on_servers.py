"""Rows of a tree are locked from its root downwards, so that none deadlock."""

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier, Event
from typing import Any

import pytest
from msgspec.structs import replace
from store_behaviour import a_resource, a_stack, an_action, an_event, insert, put, put_after

from heatlite import wiring
from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.execution.termination import Termination
from heatlite.engine.state.requests import StackRequest
from heatlite.features.nodes.agents.session import Turn
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters, Sent
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from tests.databases import claim_one

UNTIL_IT_WAITS = 1.0
"""Seconds after which another thread waits for the rows that the test holds."""


class Counting(Meter):
    """Counts what a database refused, a deadlock too."""

    def __init__(self) -> None:
        self.refused = 0

    def database_unavailable(self) -> None:
        self.refused += 1


@pytest.fixture
def meter(store: Store) -> Counting:
    meter = Counting()
    store.listen(replace(store.listeners, database_unavailable=meter.database_unavailable))
    return meter


def elsewhere(store: Store, work: Callable[[], None]) -> Callable[[], None]:
    """The same for another thread, with a connection of its own."""

    def run() -> None:
        work()
        store.close()

    return run


def test_rows_of_one_tree_with_the_same_large_values(store: Store, meter: Counting) -> None:
    """In each order, written by workers at the same time."""
    root = a_stack()
    nested = [a_stack(f"nested-{number}", parent_id=root.id, root_id=root.id) for number in range(2)]
    insert(store, root, *nested)
    turns = 10
    values = [[f"{turn}.{number}" + "x" * 5000 for number in range(6)] for turn in range(turns)]
    begins = Barrier(2)

    def write(stack: StackRecord, order: int) -> None:
        for turn in range(turns):
            rows = [
                a_resource(f"r{turn}-{number}", stack_id=stack.id, properties={"user_data": value})
                for number, value in enumerate(values[turn][::order])
            ]
            begins.wait(240)
            with store.transaction():
                store.resources.insert_many(rows)

    with ThreadPoolExecutor(2) as pool:
        works = [partial(write, stack, order) for stack, order in zip(nested, (1, -1), strict=True)]
        for done in [pool.submit(elsewhere(store, work)) for work in works]:
            done.result()
    assert meter.refused == 0


def test_a_forced_delete_ends_whom_it_waits_for(store: Store, meter: Counting) -> None:
    """While a nested stack's action ends by itself."""
    stack = a_stack(verb=Verb.DELETE, status=Status.IN_PROGRESS)
    nested = a_stack("nested", parent_id=stack.id, root_id=stack.id)
    holder = an_action(stack.id)
    child = an_action(nested.id, root_id=stack.id, parent_id=holder.id)
    insert(store, stack, nested)
    put(store, holder, child)
    assert claim_one(store, "one", time.time(), 60.0, holder.id) is not None
    ending = claim_one(store, "one", time.time(), 60.0, child.id)
    assert ending is not None
    delete = an_action(stack.id, verb=Verb.DELETE, inputs=ActionInputs(force=True), deadline=time.time() - 1)
    put_after(store, delete, holder)
    endings = Termination(store, Clock())
    with ThreadPoolExecutor(1) as pool:
        with store.transaction():
            store.claims.lock_parent(ending)
            done = pool.submit(elsewhere(store, endings.time_out))
            time.sleep(UNTIL_IT_WAITS)
            store.claims.renew(ending, time.time(), 60.0)
            store.moves.finish(ending, ActionStatus.SUCCEEDED, "", time.time())
        done.result()
    assert meter.refused == 0
    ended = {action.id: action.status for action in store.actions.ended([holder.id, child.id])}
    assert ended == {holder.id: ActionStatus.CANCELLED, child.id: ActionStatus.SUCCEEDED}


def test_a_node_has_an_event_while_an_action_on_its_stack_ends(store: Store, meter: Counting) -> None:
    """The stack is locked before the orchestration by both."""
    root = a_stack()
    nested = a_stack("nested", parent_id=root.id, root_id=root.id)
    insert(store, root, nested)
    put(store, an_action(nested.id, root_id=root.id))
    now = time.time()
    ending = claim_one(store, "one", now, 60.0)
    assert ending is not None
    with store.transaction():
        store.of(NodeStore).orchestrations.nudge(root.id, now)
        (due,) = store.of(NodeStore).orchestrations.due(now)
        claimed = store.of(NodeStore).orchestrations.claim(due, "two", now, 60.0)
    assert claimed is not None
    unused: Any = None
    turn = Turn(store, Clock(), Settings(""), unused, unused, claimed, Event())

    def tell() -> None:
        with turn.writing():
            store.events.append_many([an_event("node", stack_id=nested.id)])

    with ThreadPoolExecutor(1) as pool:
        with store.transaction():
            store.claims.renew(ending, now, 60.0)
            done = pool.submit(elsewhere(store, tell))
            time.sleep(UNTIL_IT_WAITS)
            store.moves.finish(ending, ActionStatus.SUCCEEDED, "", now)
        done.result()
    assert meter.refused == 0
    assert [event.resource_name for event in store.events.after(nested.id, 0, 9)] == ["node"]


def slow(**resources: object) -> dict[str, Any]:
    waits = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "wait_secs": -1}}
    return {"heat_template_version": "2021-04-16", "resources": {"own": waits, **resources}}


def test_a_nested_stack_is_set_aside(url: str) -> None:
    """While the holder of the root goes on downwards."""
    files = {"in.yaml": json.dumps(slow(deeper={"type": "deeper.yaml"})), "deeper.yaml": json.dumps(slow())}
    engine = wiring.embedded(Settings(database=url))
    store = engine.store
    meter = Counting()
    store.listen(replace(store.listeners, database_unavailable=meter.database_unavailable))
    end = time.monotonic() + 240

    def tree() -> list[ActionStatus]:
        assert time.monotonic() < end
        time.sleep(0.02)
        return [action.status for action in store.actions.live([below.id for below in store.stacks.descendants(root)])]

    def ask() -> None:
        with store.transaction():
            store.controls.suspend(middle, time.time())

    try:
        document = {**slow(), "resources": {"middle": {"type": "in.yaml"}}}
        root = engine.stacks.create(Context("demo"), StackRequest(name="s", template=document, files=files))
        while tree() != ["RUNNING", "RUNNING"]:
            pass
        (middle,) = store.actions.children(store.actions.live([root.id])[0].id)
        with ThreadPoolExecutor(1) as pool, store.transaction():
            store.stacks.lock(root.id)
            pool.submit(elsewhere(store, ask)).result()
            time.sleep(UNTIL_IT_WAITS)
            store.stacks.lock(middle.stack_id)
        while tree() != ["SUSPENDED", "SUSPENDED"]:
            pass
        assert meter.refused == 0
    finally:
        engine.close()


def test_a_change_of_one_action_finds_it_by_its_id(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another index, as MariaDB may choose, would lock in another order."""
    stacks = [a_stack(f"s{number}") for number in range(4)]
    insert(store, *stacks)
    put(store, *(an_action(stack.id) for stack in stacks))
    mine = claim_one(store, "one", time.time(), 60.0)
    assert mine is not None
    (ready, *_) = (one for one in store.actions.live([stack.id for stack in stacks]) if one.id != mine.id)
    changes: list[tuple[str, Parameters]] = []
    write, send = Database.write, Database.send

    def written(database: Database, sql: str, parameters: Parameters = ()) -> int:
        changes.append((sql, parameters))
        return write(database, sql, parameters)

    def sent(database: Database, sql: str, parameters: Parameters = ()) -> Sent:
        changes.append((sql, parameters))
        return send(database, sql, parameters)

    with store.transaction():
        monkeypatch.setattr(Database, "write", written)
        monkeypatch.setattr(Database, "send", sent)
        store.claims.heartbeat("one", [mine.id], time.time() + 60.0)
        store.claims.heartbeat_one("one", mine.id, time.time() + 60.0)
        store.claims.renew(mine, time.time(), 60.0)
        store.controls.suspend(mine, time.time())
        store.controls.suspend(ready, time.time())
        suspended = store.actions.get(ready.id)
        assert suspended is not None
        assert store.moves.end_if_unmoved(suspended, ActionStatus.CANCELLED, "", time.time())
        monkeypatch.undo()
        of_actions = [(sql, parameters) for sql, parameters in changes if sql.startswith("UPDATE action ")]
        plans = {sql: str(store.database.read(f"EXPLAIN {sql}", parameters)) for sql, parameters in of_actions}
    assert len(plans) == 6
    if store.database.backend.dialect is Dialect.MARIADB:
        assert {sql: plan for sql, plan in plans.items() if "'action_status_seq', '" in plan} == {}
