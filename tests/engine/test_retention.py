"""Retention deletes temporary rows, a few at a time."""

import json
from pathlib import Path

import pytest

from heatlite.store.records import ServiceRecord, StackRecord
from heatlite.store.stacks.templates import TEMPLATE_GRACE
from heatlite.store.writes.large_values import LARGE

from .conftest import START, Engine, template, thing

pytestmark = pytest.mark.database

DAY = 86_400.0


def test_the_newest_events_are_kept(plugins: Path, place: Path) -> None:
    engine = Engine(place, max_events_per_stack=5)
    stack, other = engine.create(template(a=thing(), b=thing())), engine.create(template(a=thing()), name="other")
    told = engine.told(stack)
    engine.clock.pass_(60)
    engine.wait_for(lambda: len(engine.events(stack)) == 5)
    assert [f"{e.resource_name} {e.verb}_{e.status}" for e in engine.events(stack)] == told[-5:]
    assert len(engine.events(other)) == 4
    engine.close()


@pytest.mark.slow
def test_old_events_and_stacks_deleted_long_ago_go(plugins: Path, place: Path) -> None:
    engine = Engine(place, event_days=40, deleted_stack_days=10)
    kept, gone = engine.create(template(a=thing())), engine.create(template(a=thing()), name="gone")
    engine.delete(gone)
    engine.clock.pass_(START + 9 * DAY - engine.clock.now())
    engine.delete(engine.create(template(a=thing()), name="later"))
    assert len(engine.events(gone)) == 8
    engine.clock.pass_(2 * DAY)
    engine.wait_for(lambda: engine.store.stacks.get(gone.id) is None)
    assert engine.events(gone) == []
    assert len(engine.events(kept)) == 4
    assert left_over(engine) == (0, 0), "of actions that would have been kept for longer"
    later = engine.store.stacks.by_name("demo", "later")
    assert later is None  # its name is free, as before
    engine.patch(kept)
    newest = engine.events(kept)[4:]
    engine.clock.pass_(30 * DAY)
    engine.wait_for(lambda: engine.events(kept) == newest)
    assert len(newest) == 2
    engine.close()


@pytest.mark.slow
def test_a_deleted_stack_stays_as_long_as_one_that_was_nested_in_it(plugins: Path, place: Path) -> None:
    """The retained stack has its large values there."""
    engine = Engine(place, deleted_stack_days=10)
    large, middle = "x" * 2 * LARGE, {"type": "i.yaml", "deletion_policy": "Retain"}
    stack = engine.create(template(middle=middle), files={"i.yaml": json.dumps(template(a=thing(large)))})
    (inner,) = engine.store.stacks.descendants(stack)
    engine.delete(stack)
    other = engine.create(template(a=thing()), name="other")
    engine.delete(other)
    engine.clock.pass_(11 * DAY)
    engine.wait_for(lambda: engine.store.stacks.get(other.id) is None)
    assert engine.row(engine.get(inner), "a").properties["value"] == large
    assert [one.id for one in engine.store.stacks.ancestors(inner)] == [stack.id]
    assert engine.store.inconsistencies(engine.clock.now(), 0.0) == []
    engine.delete(inner)
    engine.clock.pass_(11 * DAY)
    engine.wait_for(lambda: engine.store.stacks.get(inner.id) is None)
    engine.clock.pass_(DAY)
    engine.wait_for(lambda: engine.store.stacks.get(stack.id) is None)
    engine.wait_for(lambda: engine.store.inconsistencies(engine.clock.now(), 0.0) == [])  # its templates go
    engine.close()


def actions_of(engine: Engine, stack: StackRecord) -> list[str]:
    """The verbs of a stack's actions, oldest first."""
    rows = engine.store.database.read(f"SELECT verb FROM action WHERE stack_id = '{stack.id}' ORDER BY seq")
    return [verb for (verb,) in rows]


def left_over(engine: Engine) -> tuple[int, int]:
    """Knowledge of unknown actions."""
    known = "NOT IN (SELECT id FROM action)"
    counts = (
        engine.store.database.read(f"SELECT COUNT(*) FROM {table} WHERE {column} {known}")
        for table, column in (("transition", "action_id"), ("dependency", "dependent"))
    )
    (moves,), (dependencies,) = (rows[0] for rows in counts)
    return moves, dependencies


@pytest.mark.slow
def test_the_newest_actions_are_kept_and_those_of_the_last_days(plugins: Path, place: Path) -> None:
    engine = Engine(place, max_actions_per_stack=3, action_days=5)
    stack, other = engine.create(template(a=thing())), engine.create(template(a=thing()), name="other")
    for _ in range(4):
        engine.check(stack)
    engine.patch(stack)
    assert len(actions_of(engine, stack)) == 6
    engine.clock.pass_(60)
    engine.wait_for(lambda: actions_of(engine, stack) == ["CHECK", "CHECK", "UPDATE"])
    assert actions_of(engine, other) == ["CREATE"]
    engine.clock.pass_(6 * DAY)
    engine.wait_for(lambda: actions_of(engine, stack) + actions_of(engine, other) == [])
    assert left_over(engine) == (0, 0)
    engine.close()


@pytest.mark.slow
def test_what_has_not_ended_is_kept_with_what_was_derived_from_it(plugins: Path, place: Path) -> None:
    engine = Engine(place, max_actions_per_stack=1, action_days=1)
    slow, quick = {"resources": {"a": thing(wait_secs=4 * DAY)}}, {"resources": {"a": thing()}}
    files = {f"{name}.yaml": json.dumps(template() | body) for name, body in (("slow", slow), ("quick", quick))}
    nested = template(slow={"type": "slow.yaml"}, quick={"type": "quick.yaml"})
    with engine.clock.held():
        stack = engine.create(nested, files=files, timeout_mins=60 * 24 * 60, wait=False)
        engine.begun(lambda: engine.states(stack).get("quick") == "CREATE_COMPLETE")
        engine.clock.pass_(3 * DAY)
        engine.wait_for(lambda: any(service.updated_at > START + 2 * DAY for service in engine.store.services.list()))
        engine.clock.pass_(60)
        engine.begun(lambda: True)
        assert len(engine.store.database.read("SELECT id FROM action")) == 3
    assert engine.settle(stack).status == "COMPLETE"
    engine.close()


def test_an_engine_that_was_killed_is_forgotten_after_a_day(engine: Engine) -> None:
    with engine.store.transaction():
        engine.store.services.heartbeat(ServiceRecord("gone", "host", "heat-engine", START, START))
    engine.clock.pass_(DAY + 61)
    engine.wait_for(lambda: "gone" not in [service.id for service in engine.store.services.list()])
    engine.wait_for(engine.store.services.list)  # the living one has reported


@pytest.mark.slow
def test_templates_go_with_the_last_stack_that_refers_to_them(engine: Engine) -> None:
    """Templates in the store are those in use, whatever the number of updates."""

    def templates() -> int:
        return len(engine.store.database.read("SELECT id FROM template"))

    def version(number: int) -> tuple[object, dict[str, str]]:
        files = {"in.yaml": json.dumps(template(a=thing(str(number))))}
        return template(own=thing(str(number)), nested={"type": "in.yaml"}), files

    document, files = version(0)
    stack = engine.create(document, files=files)
    for number in range(1, 100):
        document, files = version(number)
        engine.put(stack, document, files=files)
    assert templates() == 200
    for _ in range(2):  # noted as unused, then deleted
        engine.clock.pass_(2 * TEMPLATE_GRACE)
        engine.wait_for(lambda: not engine.store.templates.unreferenced(1))
    engine.wait_for(lambda: templates() == 21)  # 20 revisions have theirs, and the nested stack has one
    assert engine.check(stack).status == "COMPLETE"
    document, files = version(1)
    assert engine.put(stack, document, files=files).status == "COMPLETE"
    engine.delete(stack)
    engine.clock.pass_(91 * DAY)
    engine.wait_for(lambda: engine.store.stacks.get(stack.id) is None)
    engine.clock.pass_(2 * TEMPLATE_GRACE)
    engine.wait_for(lambda: not engine.store.templates.unreferenced(1))
    engine.clock.pass_(2 * TEMPLATE_GRACE)
    engine.wait_for(lambda: templates() == 0)
