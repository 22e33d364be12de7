"""The main job on database servers: leases and several engines at once."""

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import ActionImmutable, Conflict, DatabaseUnavailable, InvalidActionState
from heatlite.core.status import Signal, state
from heatlite.core.wire.locks import LockOptions
from heatlite.engine.state.requests import StackRequest, Timing
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.wiring import Embedded
from tests.databases import claim_one
from tests.services.conftest import soon
from tests.waiting import eventually

CALLER = Context("demo")


CALM = 60.0
"""Seconds of a lease where many wait for one row: a lock is waited for no longer than a quarter of it."""


def settings(url: str, lease: float = 2.0) -> Settings:
    return Settings(database=url, lease_seconds=lease)


def template(count: int, wait: float = 0.0) -> dict[str, Any]:
    """Slow resources where `wait` is given, each with a random string before it."""
    resources: dict[str, Any] = {}
    for number in range(count):
        resources[f"r{number}"] = {"type": "OS::Heat::RandomString", "properties": {"length": 12}}
        resources[f"t{number}"] = {
            "type": "OS::Heat::TestResource",
            "properties": {"value": {"get_attr": [f"r{number}", "value"]}, "wait_secs": wait},
        }
    return {"heat_template_version": "2021-04-16", "resources": resources}


def gated(count: int) -> dict[str, Any]:
    """The same, with a resource that waits for `let_go`."""
    condition = {"handle": {"get_resource": "handle"}, "timeout": 3600}
    gate = {
        "handle": {"type": "OS::Heat::WaitConditionHandle"},
        "gate": {"type": "OS::Heat::WaitCondition", "properties": condition},
    }
    return {**template(count), "resources": {**template(count)["resources"], **gate}}


def let_go(engine: Embedded, stack: StackRecord) -> None:
    """Signal the handle of a gated stack, once it is there."""
    eventually(lambda: [row.verb for row in engine.store.resources.by_name(stack.id, ["handle"])] == ["CREATE"])
    handle = engine.components.reader.resource(stack, "handle")
    engine.components.signals.signal(CALLER, stack, handle, None)


@pytest.fixture
def engine(url: str) -> Iterator[Embedded]:
    embedded = wiring.embedded(settings(url))
    yield embedded
    embedded.close()


@pytest.fixture
def calm(url: str) -> Iterator[Embedded]:
    embedded = wiring.embedded(settings(url, CALM))
    yield embedded
    embedded.close()


def is_suspended(store: Store, stack: StackRecord) -> bool:
    return [action.status for action in store.actions.live([stack.id])] == ["SUSPENDED"]


def settle(store: Store, stack_id: str, seconds: float = 240) -> StackRecord:
    def settled() -> StackRecord | None:
        with suppress(DatabaseUnavailable):  # a busy server may answer late
            stack = store.stacks.get(stack_id)
            assert stack is not None
            if stack.status != "IN_PROGRESS" and not store.actions.live([stack_id]):
                return stack
        return None

    return eventually(settled, f"{stack_id} comes to rest", seconds)


def reached(engine: Embedded, stack: StackRecord) -> str:
    after = settle(engine.store, stack.id)
    return state(after.verb, after.status)


def test_the_main_job(engine: Embedded) -> None:
    stack = engine.stacks.create(CALLER, StackRequest(name="s", template=template(20)))
    assert reached(engine, stack) == "CREATE_COMPLETE"
    before = {row.name: row.physical_id for row in engine.store.resources.of(stack.id)}

    engine.components.health.mark(CALLER, stack, "r3", True, "sick")
    engine.stacks.update(CALLER, stack, StackRequest(), existing=True)
    assert reached(engine, stack) == "UPDATE_COMPLETE"
    after = {row.name: row.physical_id for row in engine.store.resources.of(stack.id)}
    assert {name for name in after if after[name] != before[name]} == {"r3"}

    engine.components.maintenance.lock(CALLER, stack, LockOptions(reason="work"))
    assert reached(engine, stack) == "LOCK_COMPLETE"
    locked = engine.store.stacks.get(stack.id)
    assert locked is not None
    with pytest.raises(Conflict):
        engine.stacks.update(CALLER, locked, StackRequest(), existing=True)
    assert len(engine.store.suppressed.list(stack.id)) == 1
    engine.components.maintenance.unlock(CALLER, locked)
    assert reached(engine, stack) == "UNLOCK_COMPLETE"

    engine.stacks.delete(CALLER, stack)
    assert reached(engine, stack) == "DELETE_COMPLETE"
    assert engine.store.resources.of(stack.id) == []


def test_a_rollback(engine: Embedded) -> None:
    stack = engine.stacks.create(CALLER, StackRequest(name="s", template=template(1), disable_rollback=False))
    assert reached(engine, stack) == "CREATE_COMPLETE"
    wrong = template(2)
    wrong["resources"]["t1"]["properties"]["fail"] = True
    engine.stacks.update(CALLER, stack, StackRequest(template=wrong, disable_rollback=False), existing=False)
    assert reached(engine, stack) == "ROLLBACK_COMPLETE"
    assert {row.name for row in engine.store.resources.of(stack.id)} == {"r0", "t0"}


def test_of_many_updates_at_once_one_is_taken(calm: Embedded) -> None:
    stack = calm.stacks.create(CALLER, StackRequest(name="s", template=template(2)))
    assert reached(calm, stack) == "CREATE_COMPLETE"

    def update(number: int) -> str:
        try:
            calm.stacks.update(CALLER, stack, StackRequest(template=gated(number)), existing=False)
        except Conflict:
            return "refused"
        finally:
            calm.store.close()
        return "taken"

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(update, range(3, 11)))
    assert sorted(answers) == ["refused"] * 7 + ["taken"]
    let_go(calm, stack)
    assert reached(calm, stack) == "UPDATE_COMPLETE"


def test_of_many_requests_to_one_tree_one_is_taken(calm: Embedded) -> None:
    """Whichever of its stacks they are for, the root as well as those nested in it."""
    nested = {"type": "nested.yaml"}
    document: dict[str, Any] = {**template(0), "resources": {"a": nested, "b": nested, "c": nested}}
    files = {"nested.yaml": json.dumps(template(1))}
    root = calm.stacks.create(CALLER, StackRequest(name="s", template=document, files=files))
    assert reached(calm, root) == "CREATE_COMPLETE"
    stacks = [root, *calm.store.stacks.descendants(root)]

    def update(number: int) -> str:
        stack = stacks[number % len(stacks)]
        slow = gated(1)
        if stack is root:
            slow["resources"] |= document["resources"]
        try:
            calm.stacks.update(CALLER, stack, StackRequest(template=slow, files=files), existing=False)
        except Conflict:
            return "refused"
        finally:
            calm.store.close()
        return stack.name

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(update, range(8)))
    taken = [answer for answer in answers if answer != "refused"]
    assert taken == ["s"] or "s" not in taken and len(taken) == len(set(taken)) > 0, answers
    for stack in stacks:
        if stack.name in taken:
            let_go(calm, stack)
            assert reached(calm, stack) == "UPDATE_COMPLETE"


def run_for_ever(url: str) -> None:
    """An engine in a process of its own."""
    wiring.embedded(settings(url))
    signal.pause()


def test_another_engine_takes_over_from_a_killed_one(url: str, store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    first = context.Process(target=run_for_ever, args=(url,))
    first.start()
    reader = wiring.reader(settings(url))
    stack = reader.stacks.create(CALLER, StackRequest(name="s", template=template(5, wait=1.0)))
    eventually(lambda: [row for row in store.resources.of(stack.id) if row.status == "IN_PROGRESS"])
    os.kill(first.pid or 0, signal.SIGKILL)
    first.join()
    second = wiring.embedded(settings(url))
    try:
        assert reached(second, stack) == "CREATE_COMPLETE"
        assert len(second.store.resources.of(stack.id)) == 10
        made = [action.attempt for action in [claim_one(second.store, "nobody", time.time(), 1.0)] if action]
        assert made == [], "nothing is left to claim"
    finally:
        second.close()
        reader.close()


def test_many_signals_at_once(calm: Embedded) -> None:
    """Requests are anonymous; each is counted, and the waiting one goes on."""
    handle = {"type": "OS::Heat::WaitConditionHandle"}
    properties = {"handle": {"get_resource": "handle"}, "timeout": 600, "count": 24}
    condition = {"type": "OS::Heat::WaitCondition", "properties": properties}
    made = {"heat_template_version": "2021-04-16", "resources": {"handle": handle, "ready": condition}}
    stack = calm.stacks.create(CALLER, StackRequest(name="signals", template=made))

    def signal(_: int) -> None:
        calm.components.signals.signal(CALLER, stack, calm.components.reader.resource(stack, "handle"), None)

    eventually(lambda: [row.verb for row in calm.store.resources.by_name(stack.id, ["handle"])] == ["CREATE"])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(signal, range(24)))
    assert reached(calm, stack) == "CREATE_COMPLETE"
    (row,) = calm.store.resources.by_name(stack.id, ["handle"])
    assert sorted(calm.store.messages.read(row.id), key=int) == [str(number) for number in range(1, 25)]


def grove(value: str, members: int) -> dict[str, Any]:
    """Trees of two levels and a group; either engine may claim a nested stack."""
    branches = {f"b{number}": {"type": "outer.yaml", "properties": {"value": value}} for number in range(8)}
    member = {"type": "inner.yaml", "properties": {"value": "m%index%"}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": members, "resource_def": member}}
    return {"heat_template_version": "2021-04-16", "resources": {**branches, "group": group}}


def test_two_engines_share_a_tree(url: str, engine: Embedded) -> None:
    given = {"heat_template_version": "2021-04-16", "parameters": {"value": {"type": "string"}}}
    passed_on = {"value": {"get_param": "value"}}
    slow = {"type": "OS::Heat::TestResource", "properties": {**passed_on, "wait_secs": 0.02}}
    inner = {**given, "resources": {"a": slow, "b": {"type": "OS::Heat::Value", "properties": passed_on}}}
    outer = {**given, "resources": {"inner": {"type": "inner.yaml", "properties": passed_on}}}
    files = {"inner.yaml": json.dumps(inner), "outer.yaml": json.dumps(outer)}
    other = wiring.embedded(settings(url))
    store = engine.store
    try:
        stack = engine.stacks.create(CALLER, StackRequest(name="grove", template=grove("one", 5), files=files))
        assert state("CREATE", "COMPLETE") == state(*_reached(store, stack.id))
        assert len(store.stacks.descendants(stack)) == 8 * 2 + 1 + 5
        for one, (value, members) in zip((other, engine, other), (("two", 7), ("two", 2), ("three", 4)), strict=True):
            now = store.stacks.get(stack.id)
            assert now is not None
            one.stacks.update(CALLER, now, StackRequest(template=grove(value, members), files=files), existing=False)
            assert state("UPDATE", "COMPLETE") == state(*_reached(store, stack.id))
            nested = store.stacks.descendants(stack)
            assert len(nested) == 8 * 2 + 1 + members
            assert {state(below.verb, below.status) for below in nested} <= {"UPDATE_COMPLETE", "CREATE_COMPLETE"}
        now = store.stacks.get(stack.id)
        assert now is not None
        other.stacks.delete(CALLER, now)
        assert state("DELETE", "COMPLETE") == state(*_reached(store, stack.id))
        assert store.stacks.descendants(stack) == []
    finally:
        other.close()


def _reached(store: Store, stack_id: str) -> tuple[str, str]:
    stack = settle(store, stack_id)
    return stack.verb, stack.status


NESTED = {"in.yaml": json.dumps(template(2, wait=0.3))}


def tell(engine: Embedded, stack: StackRecord, asked: Signal, force: bool = False) -> None:
    for action in engine.store.actions.live([stack.id]):
        with suppress(ActionImmutable, InvalidActionState):
            engine.components.controls.signal(CALLER, action, asked, force)


def test_a_signal_is_heard_whichever_engine_it_was_given_to(url: str) -> None:
    """One engine works, the other takes signals; either may continue."""
    engines = [wiring.embedded(settings(url)) for _ in range(2)]
    try:
        slow = gated(3)
        for giver in engines:
            stack = giver.stacks.create(CALLER, StackRequest(name=f"s{engines.index(giver)}", template=slow))
            for other in engines:
                tell(other, stack, Signal.SUSPEND)
                eventually(partial(is_suspended, giver.store, stack))
                tell(giver, stack, Signal.RESUME)
            let_go(giver, stack)
            assert reached(giver, stack) == "CREATE_COMPLETE"
    finally:
        for engine in engines:
            engine.close()


def test_many_signals_to_one_tree_do_not_block_each_other(url: str) -> None:
    """Requests, workers and signals take the rows of a tree from its root downwards."""
    engines = [wiring.embedded(settings(url, CALM)) for _ in range(2)]
    document = {
        "heat_template_version": "2021-04-16",
        "resources": {f"n{number}": {"type": "in.yaml"} for number in range(4)},
    }
    try:
        stack = engines[0].stacks.create(CALLER, StackRequest(name="s", template=document, files=NESTED))

        def hammer(number: int) -> None:
            engine = engines[number % 2]
            for turn in range(6):
                found = engine.store.stacks.get(stack.id)
                assert found is not None
                for one in (found, *engine.store.stacks.descendants(found)):
                    tell(engine, one, Signal.RESUME if turn % 2 else Signal.SUSPEND)

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(hammer, number) for number in range(4)]:
                done.result()
        end = time.monotonic() + 240
        while engines[0].store.actions.live([stack.id]):
            assert time.monotonic() < end, "it does not end"
            tell(engines[0], stack, Signal.RESUME)
            time.sleep(0.1)
        assert reached(engines[0], stack) == "CREATE_COMPLETE"
        engines[1].stacks.update(CALLER, engines[1].store.stacks.get(stack.id) or stack, StackRequest(), existing=True)
        tell(engines[0], stack, Signal.CANCEL, force=True)
        engines[1].stacks.delete(CALLER, engines[1].store.stacks.get(stack.id) or stack)
        assert reached(engines[1], stack) == "DELETE_COMPLETE"
    finally:
        for engine in engines:
            engine.close()


def stood_still(seconds: float, gap: float) -> bool:
    """Wait; return True if this process stood still for `gap` seconds meanwhile."""
    end, last, longest = time.monotonic() + seconds, time.monotonic(), 0.0
    while last < end:
        time.sleep(0.02)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest > gap


def test_who_waits_for_a_row_keeps_what_he_has(url: str) -> None:
    """Leases are renewed while the loop of due work waits for others."""
    engines = [wiring.embedded(settings(url)) for _ in range(2)]
    store = engines[0].store
    try:
        other = engines[0].stacks.create(CALLER, StackRequest(name="other", template=template(0)))
        settle(store, other.id)
        stack = engines[0].stacks.create(CALLER, StackRequest(name="s", template=gated(1)))
        eventually(lambda: len(store.actions.running()) == 1)
        soon(lambda when: engines[0].stacks.check(CALLER, other, Timing(not_before=when)))
        # A store with the longest limits: the engines' own would end a transaction that is idle for a lease.
        with closing(Store.open(url)) as patient, patient.transaction():
            patient.stacks.lock(other.id)  # so nobody lets the check in
            for _ in range(10):
                (before,) = store.actions.live([stack.id])
                if not stood_still(2.5 * settings(url).lease_seconds, settings(url).lease_seconds / 2):
                    break
        (action,) = store.actions.live([stack.id])
        assert action.attempt == before.attempt
    finally:
        for engine in engines:
            engine.close()
