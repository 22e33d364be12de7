"""Faults between an engine's threads and its database leave no stack stuck."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.status import ActionStatus, Control, Verb, state
from heatlite.engine.planning import planner
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import StackRecord
from heatlite.store.secrets.cipher import PREFIX
from tests.tables import few

from .conftest import Engine, resource, template, thing
from .test_hooks import clear, hooks, reach
from .test_nested import PAIR, SLOW, actions, text, tree_states, waiting_at

pytestmark = pytest.mark.database

FAILS = text(template(a=thing(fail=True)))


def stack_state(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def away_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    """Fail the first call of `name` for lack of the database; count its calls."""
    calls: list[int] = []
    real: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise DatabaseUnavailable(reason="away")
        return real(*args, **more)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_an_action_given_back_in_the_middle_begins_anew(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = away_once(monkeypatch, planner, "plan_deletions")
    stack = engine.create(template(a=thing(), c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    assert stack_state(stack) == "CREATE_COMPLETE"
    assert len(calls) > 1


@pytest.mark.parametrize(("room", "name"), few([("actions", "ended"), ("moves", "park")]))
def test_a_walk_outlasts_a_database_that_is_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, room: str, name: str
) -> None:
    calls = away_once(monkeypatch, getattr(engine.server.store, room), name)
    stack = engine.create(template(c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    assert stack_state(stack) == "CREATE_COMPLETE"
    assert len(calls) > 1
    assert engine.told(stack).count("c CREATE_IN_PROGRESS") == 1


def test_a_resource_does_not_fail_because_the_database_is_away(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = away_once(monkeypatch, engine.server.store.resources, "count_in_tree")
    stack = engine.create(template(c=resource("pair.yaml")), files={"pair.yaml": PAIR})
    assert stack_state(stack) == "CREATE_COMPLETE"
    assert len(calls) > 1


def test_an_action_whose_stack_cannot_be_read_is_given_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another engine may have the key. It is not counted as a failure."""
    worker = engine.server.worker
    assert worker is not None
    real, calls = worker._new_execution, list[int]()

    def attempt(*given: Any) -> Any:
        calls.append(1)
        if len(calls) <= 12:
            raise UnreadableSecret(keys="encryption_keys")
        return real(*given)

    monkeypatch.setattr(worker, "_new_execution", attempt)
    stack = engine.create(template(a=thing()))
    assert stack_state(stack) == "CREATE_COMPLETE"
    action = engine.store.actions.last(stack.id, Verb.CREATE)
    assert action is not None and action.retries == 0
    assert sum("cannot be decrypted" in line.reason for line in engine.store.actions.history(action.id)) == 12


@pytest.mark.parametrize("operation", few(["update", "delete"]))
def test_a_nested_stack_that_cannot_be_read_fails_the_operation(engine: Engine, operation: str) -> None:
    """The worker lacks the key."""

    def definition(value: str) -> dict[str, object]:
        waits = {"update": 60, "delete": 60}
        nested = resource("pair.yaml", v=value, depends_on="a")
        after = thing(depends_on="c", action_wait_secs=waits)
        return template(a=thing(value, action_wait_secs=waits), c=nested, b=after)

    files = {"pair.yaml": PAIR}
    stack = engine.create(definition("old"), files=files)
    with engine.clock.held():
        if operation == "update":
            engine.put(stack, definition("new"), wait=False, files=files)
        else:
            engine.delete(stack, wait=False)
        engine.begun(lambda: f"{operation.upper()}_IN_PROGRESS" in engine.states(stack).values())
        damaged = (f"{PREFIX}damaged", engine.row(stack, "c").physical_id)
        with engine.store.transaction():
            engine.store.database.write("UPDATE stack SET environment = ? WHERE id = ?", damaged)
        engine.by_hand = True
    stack = engine.settle(stack)
    assert stack_state(stack) == f"{operation.upper()}_FAILED"
    assert "A stored secret cannot be decrypted" in stack.status_reason


@pytest.mark.slow
def test_leases_are_renewed_although_the_clock_was_set_back(engine: Engine) -> None:
    """Others would take over what it claims since."""
    with engine.clock.held():
        stack = engine.create(template(a=thing(wait_secs=60)), wait=False)

        def lease() -> float:
            (action,) = engine.store.actions.live([stack.id])
            return action.lease_until or 0.0

        engine.begun(lambda: engine.states(stack).get("a") == "CREATE_IN_PROGRESS")
        before = lease()
        engine.clock.pass_(-3600.0)
        engine.wait_for(lambda: lease() == before - 3600.0)
        engine.clock.pass_(3600.0)
    assert stack_state(engine.settle(stack)) == "CREATE_COMPLETE"


def test_who_stops_lets_those_in_that_it_waits_for(plugins: Path, place: Path) -> None:
    """The only slot is the parent's, and its other nested stack has not begun."""
    engine = Engine(place, engine_slots=1)
    try:
        files = {"fails.yaml": FAILS, "pair.yaml": PAIR}
        stack = engine.create(template(a=resource("fails.yaml"), b=resource("pair.yaml")), files=files)
        assert stack_state(stack) == "CREATE_FAILED"
        assert tree_states(engine, stack) == {"CREATE_FAILED", "CREATE_COMPLETE"}
    finally:
        engine.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("control", "ends"), few([("CANCEL_ROLLBACK", "ROLLBACK_COMPLETE"), ("CANCEL", "UPDATE_FAILED")])
)
def test_a_cancel_that_another_process_hears_of_first(engine: Engine, control: str, ends: str) -> None:
    """It has none of the walk in memory, and a nested stack is at work."""
    files = {"c.yaml": SLOW}
    stack = engine.create(template(c=resource("c.yaml", v="one")), files=files)
    with engine.clock.held():
        stack = engine.put(stack, template(c=resource("c.yaml", v="two")), wait=False, files=files)
        engine.begun(lambda: waiting_at(engine, 1))
        engine.close()
        (action,) = engine.store.actions.live([stack.id])
        with engine.store.transaction():
            assert engine.store.controls.signal(action.id, Control(control), engine.clock.now())
        engine.open()
    stack = engine.settle(stack)
    assert stack_state(stack) == ends
    assert actions(engine, ActionStatus.RUNNING) == actions(engine, ActionStatus.READY) == 0
    if control == "CANCEL_ROLLBACK":
        (nested,) = engine.store.stacks.descendants(stack)
        assert engine.value(nested, "a") == "one"


def test_nobody_waits_with_something_to_write(engine: Engine) -> None:
    """A quick one lives between two commits; then only the wait at its hook is left."""
    stack = engine.create(template(a=resource("Test::Prompt")), wait=False, environment=hooks(a="post-create"))
    reach(engine, stack, a="post-create")
    clear(engine, stack, "a", "post-create")
    assert stack_state(engine.settle(stack)) == "CREATE_COMPLETE"


@pytest.mark.slow
def test_a_rollback_has_its_own_time_in_another_process_too(engine: Engine) -> None:
    """The time of the update is over; that is why it is rolled back."""
    slow = thing("one", action_wait_secs={"update": 50})
    stack = engine.create(template(a=slow), disable_rollback=False, timeout_mins=1)
    with engine.clock.held():
        never = resource("Test::Endless", verb="create", depends_on="a")
        stack = engine.put(stack, template(a=thing("two"), b=never), wait=False, disable_rollback=False)
        engine.begun(lambda: engine.states(stack).get("b") == "CREATE_IN_PROGRESS")
        engine.clock.pass_(61)
        engine.begun(lambda: engine.get(stack).verb is Verb.ROLLBACK and engine.states(stack)["a"].endswith("PROGRESS"))
        engine.close()
        engine.open()
    assert stack_state(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert engine.value(stack, "a") == "one"


def test_after_a_fault_of_ours_nothing_is_at_work_below(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with engine.clock.held():
        own = thing(wait_secs=5)
        stack = engine.create(template(a=own, c=resource("c.yaml")), wait=False, files={"c.yaml": SLOW})
        engine.begun(lambda: actions(engine, ActionStatus.RUNNING) == 2)
        monkeypatch.setattr(engine.server.store.actions, "ended", fail)
        engine.clock.pass_(5)
        stack = engine.settle(stack)
        assert (stack_state(stack), "Internal error" in stack.status_reason) == ("CREATE_FAILED", True)
        engine.wait_for(lambda: actions(engine, ActionStatus.RUNNING) == 0)
        assert tree_states(engine, stack) == {"CREATE_FAILED"}
