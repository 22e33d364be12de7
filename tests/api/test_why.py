"""Reasons of a stack: each alone, and each pair; each way out is open."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.why.facts import FAILURES, NEEDS_REASON, OTHERS
from heatlite.store.records import ProtectionRecord
from tests.databases import sqlite
from tests.laws import FEW_EXAMPLES
from tests.tables import sampled
from tests.ways_out import is_complete, says_effect

from .conftest import template
from .why_states import NAMES, PAIRS, STATES, World, identifier

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "why.md"


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server without an engine: what a test writes stays."""
    server = wiring.api(Settings(database=sqlite(tmp_path_factory.mktemp("idle"))))
    yield server
    server.close()


class Undo(Exception):
    """Undoes what a test has written."""


HOSTILE = {name: f"--{name} it's \"é\"; `id` #?%2F&" for name in NAMES}
"""Names that a shell, a command line or a URL reads as something else."""


def world_of(server: wiring.Embedded, names: Sequence[str], called: Mapping[str, str] = {}) -> World:
    world = World(server, called)
    for name in names:
        with world.store.transaction():
            STATES[name].write(world)
    return world


def check(world: World, names: Sequence[str]) -> None:
    """Laws of the facts of a stack in some states."""
    found = world.why()
    facts = found["facts"]
    assert {one["code"] for one in facts} == set().union(*(STATES[name].codes for name in names))
    assert found["waits"] == any(one["blocks"] for one in facts)
    places = [place(one) for one in facts]
    assert places == sorted(places), [one["code"] for one in facts]
    for fact in facts:
        for number, way in enumerate(fact["way_out"]):
            assert way["after"] is None or 0 <= way["after"] < number
            assert way["command"] is None or is_complete(way["command"]) and says_effect(way["text"]), way
            assert way["path"] is not None or OF_API.match(way["command"] or "") is None, way
            if way["path"] is None:
                continue
            chain = [way]
            while chain[0]["after"] is not None:
                chain.insert(0, fact["way_out"][chain[0]["after"]])
            is_sure = all(map(is_immediate, chain[:-1]))
            refused = (400, 404, 405, 409) if is_sure else (400, 404, 405)
            assert sent(world, chain if is_sure else [way]) not in refused, (fact["code"], chain)


def place(fact: Any) -> int:
    if fact["blocks"]:
        return 0
    return 1 if fact["code"] in FAILURES else 2 if fact["code"] in (*OTHERS, "scheduled") else 0


OF_API = re.compile(
    r"heatlite (heal|undo|refresh|unlock|unprotect|retry|check|mark-healthy|down|lock-status|end-bake) "
    r"|heatlite (drift (show|revert)|approval|incident|node (approve|reject)|action signal|healing acknowledge) "
    r"|heatlite (schedule pause|expire) "
)
"""Commands of operations that the API has, and whose bodies need no definition."""


def is_immediate(way: Any) -> bool:
    """True for a step that is done with its answer.

    It shows what the next one would do, or lifts a protection.
    """
    return way["method"] == "GET" or "/preview" in (way["path"] or "") or "unprotect" in (way["body"] or {})


def sent(world: World, chain: Sequence[Any]) -> int:
    """Send the steps of a way out, and undo them. Returns the status of the last."""
    status = 0
    with pytest.raises(Undo), world.store.transaction():
        for way in chain:
            answer = world.heat.call(way["method"], way["path"], way["body"])
            status = answer.status_int
            if status >= 400:
                print(answer.text)
        raise Undo
    return status


@pytest.mark.parametrize("name", STATES)
def test_each_reason_alone(idle: wiring.Embedded, name: str) -> None:
    check(world_of(idle, [name]), [name])


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_names_that_are_no_words(idle: wiring.Embedded, name: str) -> None:
    """A name is one word of a command and no option; a path leads to its resource."""
    world = world_of(idle, [name], HOSTILE)
    check(world, [name])
    for way in (way for fact in world.why()["facts"] for way in fact["way_out"]):
        words = shlex.split(way["command"] or "")
        options = words[: words.index("--")] if "--" in words else words
        assert [one for one in words if "id" in one and one.startswith("--") and one not in HOSTILE.values()] == []
        assert [one for one in options if one in HOSTILE.values()] == [], way


@pytest.mark.parametrize(("one", "other"), sampled(PAIRS, 12))
def test_each_pair_of_reasons(idle: wiring.Embedded, one: str, other: str) -> None:
    check(world_of(idle, [one, other]), [one, other])


def test_each_code_of_the_reference_has_a_state() -> None:
    _, _, table = REFERENCE.read_text().partition("## Facts")
    rows = [line.split("|")[1] for line in table.partition("`blocks` of")[0].splitlines() if line.startswith("| `")]
    assert {code for row in rows for code in re.findall("`(.*?)`", row)} == set().union(
        *(state.codes for state in STATES.values())
    )


def test_a_stack_without_a_fault_has_no_facts(idle: wiring.Embedded) -> None:
    world = world_of(idle, [])
    assert world.why() == {"waits": False, "facts": [], "hidden": 0}


# -- random operations --------------------------------------------------------------------------------

LATER = "2099-01-01T00:00:00Z"
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "check": ("POST", "/actions", {"check": None}),
    "check later": ("POST", "/actions", {"check": {"not_before": LATER}}),
    "suspend": ("POST", "/actions", {"suspend": None}),
    "resume": ("POST", "/actions", {"resume": None}),
    "retry": ("POST", "/actions", {"retry": None}),
    "lock": ("POST", "/actions", {"lock": {"level": "stacks"}}),
    "unlock": ("POST", "/actions", {"unlock": None}),
    "protect": ("POST", "/actions", {"protect": None}),
    "unprotect": ("POST", "/actions", {"unprotect": None}),
    "mark": ("PATCH", "/resources/a", {"mark_unhealthy": True}),
    "mark healthy": ("PATCH", "/resources/a", {"mark_unhealthy": False}),
    "update": ("PATCH", "", {"tags": "x"}),
    "delete": ("DELETE", "", None),
}
SIGNALS = ("SUSPEND", "RESUME", "CANCEL")
ENGINE = ("begin", "end", "fail", "put off", "engine dies", "engine starts")


@FEW_EXAMPLES
@given(steps=st.lists(st.sampled_from([*REQUESTS, *SIGNALS, *ENGINE, *ENGINE]), min_size=4, max_size=14))
def test_what_waits_has_a_reason_at_each_step(idle: wiring.Embedded, steps: Sequence[str]) -> None:
    world = world_of(idle, [])
    for step in steps:
        if world.stack.deleted_at is not None or world.stack.verb is Verb.DELETE:
            break
        take(world, step)
        found = world.why()
        first: dict[str, str] = {}
        for fact in found["facts"]:
            for action in fact["blocks"]:
                first.setdefault(action, fact["text"])
        actions = world.heat.get(f"/actions?target={world.id}")["actions"]
        opened = [one for one in actions if one["status"] not in ("SUCCEEDED", "FAILED", "CANCELLED")]
        for one in opened:
            if one["status"] in NEEDS_REASON:
                assert one["status_reason"] and one["status_reason"] == first[one["id"]], step
        if not found["facts"]:
            assert not found["waits"] and not opened, step


def take(world: World, step: str) -> None:
    """Make a request, or do what an engine would do."""
    if step in REQUESTS:
        method, path, body = REQUESTS[step]
        assert world.heat.call(method, world.path + path, body).status_int < 500
        return
    live = world.store.actions.live([world.id])
    if step in SIGNALS:
        for action in live:
            world.heat.call("POST", f"/actions/{action.id}", {"signal": step})
        return
    with world.store.transaction():
        if step.startswith("engine"):
            world.engine(is_up=step == "engine starts")
        for action in live:
            advance(world, action, step)


def advance(world: World, action: Any, step: str) -> None:
    """Do a step of an engine on an action."""
    store, now, status = world.store, world.now, action.status
    if step == "begin" and status is ActionStatus.READY:
        store.actions._actions.move(action, ActionStatus.RUNNING, now, owner="e", lease_until=now, started_at=now)
    elif step == "put off" and status is ActionStatus.RUNNING:
        store.moves.requeue(action, "a conflict", now, now + 60)
    elif step in ("end", "fail") and status in (ActionStatus.READY, ActionStatus.RUNNING):
        after = Status.COMPLETE if step == "end" else Status.FAILED
        lock = None if action.verb is Verb.UNLOCK and step == "end" else world.stack.lock
        if action.verb in (Verb.CHECK, Verb.SUSPEND, Verb.RESUME, Verb.LOCK, Verb.UNLOCK, Verb.UPDATE, Verb.CREATE):
            store.stacks.save(replace(world.stack, verb=action.verb, status=after, lock=lock))
        store.moves.end(action, ActionStatus.SUCCEEDED if step == "end" else ActionStatus.FAILED, step, now)


# -- the same everywhere --------------------------------------------------------------------------------


def test_facts_that_a_caller_may_not_read_are_counted(idle: wiring.Embedded) -> None:
    world = world_of(idle, ["incident_held", "drift"])
    reasons = idle.components.reasons
    found = reasons.of_stack(Context(world.heat.project, may=lambda rule: rule != "health:show"), world.stack)
    assert ([one.code for one in found.facts], found.hidden) == (["drift"], 1)


def test_a_retained_stack_has_facts_of_its_own(idle: wiring.Embedded) -> None:
    """The stack that it was nested in is gone."""
    world = world_of(idle, [])
    gone = replace(
        world.stack, id=identifier(), name="s-gone", parent_id=world.id, root_id=world.id, parent_resource="a", depth=1,
        deleted_at=world.now,
    )
    left = replace(gone, id=identifier(), name="s-left", parent_id=gone.id, depth=2, deleted_at=None)
    held = ProtectionRecord("mia", world.now)
    row = replace(world.row("a"), id=identifier(), stack_id=left.id, protection=held, physical_id="x")
    with world.store.transaction():
        world.store.stacks.insert_many([gone, left])
        world.store.resources.insert_many([row])
    assert world.why()["facts"] == []
    (fact,) = world.heat.get(f"/stacks/s-left/{left.id}/why")["facts"]
    assert (fact["code"], fact["path"]) == ("protected", "a")


def test_a_leftover_names_the_stack_that_holds_it(idle: wiring.Embedded) -> None:
    world, port = world_of(idle, ["leftover"]), identifier()
    other = world.heat.create(template(p={"type": "OS::Heat::RandomString"}), name="shop", wait=False)
    row = replace(world.row("a"), id=identifier(), stack_id=other.rpartition("/")[2], name="p", physical_id=port)
    with world.store.transaction():
        world.store.resources.insert_many([row])
        held = replace(world.row("c"), status_reason=f"in use by port {port}, request {identifier()}")
        world.store.resources.save_many([held])
    (fact,) = world.why()["facts"]
    assert fact["text"].endswith(f"is still there; {port} belongs to p of stack shop")


def test_the_number_of_statements_does_not_grow(idle: wiring.Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for names in (["incident_held", "unapproved_work", "drift", "scheduled"], ["incident_held", "storm", "protected"]):
        world = world_of(idle, names)
        counts.append(statements(world, monkeypatch))
    assert max(counts) <= 26


def statements(world: World, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of reads of one answer."""
    count = 0
    read = world.store.database.read

    def counted(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(world.store.database, "read", counted)
        world.why()
    return count
