"""Breakpoints: which hooks stop which work, what is told, and what ends the wait."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import InvalidBreakPointHook
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb, state
from heatlite.store.records import LockRecord, StackRecord
from tests.tables import few

from .conftest import START, Engine, param, ref, resource, template, thing


def hooks(**names: object) -> dict[str, Any]:
    """An environment with the hooks of each resource or pattern."""
    return {"resource_registry": {"resources": {name: {"hooks": listed} for name, listed in names.items()}}}


def at(engine: Engine, stack: StackRecord) -> dict[str, str]:
    """The resources that wait, by hook."""
    return {row.name: str(row.token["hook"]) for row in engine.rows(stack) if row.token and "hook" in row.token}


def reach(engine: Engine, stack: StackRecord, **where: str) -> None:
    """Until the resources wait there, and the action has let go of its thread."""
    engine.wait_for(lambda: at(engine, stack) == where and _parked(engine, stack))


def _parked(engine: Engine, stack: StackRecord) -> bool:
    found = [action.status for action in engine.store.actions.live([stack.id])]
    deletes = "pre-delete" in at(engine, stack).values()
    return found == [ActionStatus.WAITING_LIFECYCLE_COMPLETION if deletes else ActionStatus.WAITING]


def clear(engine: Engine, stack: StackRecord, name: str, hook: str) -> None:
    row = engine.components.reader.resource(stack, name)
    engine.components.signals.signal(engine.who, engine.get(stack), row, {"unset_hook": hook})


def reasons(engine: Engine, stack: StackRecord, name: str, since: int = 0) -> list[str]:
    """State and reason of each event of a resource."""
    return [
        f"{state(event.verb, event.status)}: {event.status_reason}"
        for event in engine.events(stack)[since:]
        if event.resource_name == name
    ]


PAIR = template(a=thing("a"), b=thing(ref("a")))


def test_before_a_create(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a="pre-create"))
        reach(engine, stack, a="pre-create")
        assert engine.states(stack) == {"a": "INIT_COMPLETE", "b": "INIT_COMPLETE"}
        clear(engine, stack, "a", "pre-create")
    assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"
    assert reasons(engine, stack, "a") == [
        "INIT_COMPLETE: CREATE paused until Hook pre-create is cleared",
        "INIT_COMPLETE: Hook pre-create is cleared",
        "CREATE_IN_PROGRESS: state changed",
        "CREATE_COMPLETE: state changed",
    ]


def test_behind_a_create_dependents_wait(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a="post-create"))
        reach(engine, stack, a="post-create")
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "INIT_COMPLETE"}
        clear(engine, stack, "a", "post-create")
    assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"
    assert reasons(engine, stack, "a")[1:] == [
        "CREATE_COMPLETE: state changed",
        "CREATE_COMPLETE: CREATE paused until Hook post-create is cleared",
        "CREATE_COMPLETE: Hook post-create is cleared",
    ]


def test_several_hooks_and_patterns(engine: Engine) -> None:
    with engine.clock.held():
        environment = hooks(**{"a": ["pre-create", "post-create"], "b*": "pre-create"})
        stack = engine.create(template(a=thing(), b1=thing(), b2=thing()), wait=False, environment=environment)
        reach(engine, stack, a="pre-create", b1="pre-create", b2="pre-create")
        clear(engine, stack, "a", "pre-create")
        reach(engine, stack, a="post-create", b1="pre-create", b2="pre-create")
        for name, hook in (("b2", "pre-create"), ("a", "post-create"), ("b1", "pre-create")):
            clear(engine, stack, name, hook)
    assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"


@pytest.mark.parametrize(
    ("after", "told"),
    few(
        [
            (thing("old"), []),
            (thing("new"), ["UPDATE_IN_PROGRESS: state changed", "UPDATE_COMPLETE: state changed"]),
            (
                thing("old", update_replace_value="x"),
                [
                    "CREATE_IN_PROGRESS: state changed",
                    "CREATE_COMPLETE: state changed",
                    "DELETE_IN_PROGRESS: state changed",
                    "DELETE_COMPLETE: state changed",
                ],
            ),
        ]
    ),
    ids=["nothing to do", "in place", "replaced"],
)
def test_before_an_update_whatever_comes_of_it(engine: Engine, after: dict[str, object], told: list[str]) -> None:
    """Resources replaced or made by an update pass the hooks of create and delete."""
    stack = engine.create(template(a=thing("old"), gone=thing()))
    since = engine.now_on(stack)
    every = ["pre-create", "post-create", "pre-delete", "post-delete"]
    with engine.clock.held():
        environment = hooks(**{"*": every, "a": "pre-update"})
        engine.put(stack, template(a=after, new=thing()), wait=False, environment=environment)
        reach(engine, stack, a="pre-update")
        assert engine.states(stack)["a"] == "CREATE_COMPLETE"
        clear(engine, stack, "a", "pre-update")
    assert state(*_state(engine.settle(stack))) == "UPDATE_COMPLETE"
    assert reasons(engine, stack, "a", since) == [
        "CREATE_COMPLETE: UPDATE paused until Hook pre-update is cleared",
        "CREATE_COMPLETE: Hook pre-update is cleared",
        *told,
    ]


def test_behind_an_update_in_place_only(engine: Engine) -> None:
    names = {"same": thing("old"), "changed": thing("old"), "replaced": thing("old")}
    stack = engine.create(template(**names))
    with engine.clock.held():
        after = {"same": thing("old"), "changed": thing("new"), "replaced": thing("old", update_replace_value="x")}
        engine.put(stack, template(**after), wait=False, environment=hooks(**{"*": "post-update"}))
        reach(engine, stack, changed="post-update")
        assert engine.states(stack)["changed"] == "UPDATE_COMPLETE"
        clear(engine, stack, "changed", "post-update")
    assert state(*_state(engine.settle(stack))) == "UPDATE_COMPLETE"


def test_around_a_delete(engine: Engine) -> None:
    """Resources behind a deletion can be released, unlike in Heat (decisions/0002)."""
    stack = engine.create(PAIR, environment=hooks(b=["pre-delete", "post-delete"]))
    since = engine.now_on(stack)
    with engine.clock.held():
        engine.delete(stack, wait=False)
        reach(engine, stack, b="pre-delete")
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CREATE_COMPLETE"}
        clear(engine, stack, "b", "pre-delete")
        reach(engine, stack, b="post-delete")
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "DELETE_COMPLETE"}
        clear(engine, stack, "b", "post-delete")
    assert state(*_state(engine.settle(stack))) == "DELETE_COMPLETE"
    assert engine.rows(stack) == []
    assert reasons(engine, stack, "b", since) == [
        "CREATE_COMPLETE: DELETE paused until Hook pre-delete is cleared",
        "CREATE_COMPLETE: Hook pre-delete is cleared",
        "DELETE_IN_PROGRESS: state changed",
        "DELETE_COMPLETE: state changed",
        "DELETE_COMPLETE: DELETE paused until Hook post-delete is cleared",
        "DELETE_COMPLETE: Hook post-delete is cleared",
    ]


def test_hooks_of_other_operations_stop_nothing(engine: Engine) -> None:
    stack = engine.create(PAIR, environment=hooks(**{"*": ["pre-update", "post-update", "pre-delete", "post-delete"]}))
    assert state(*_state(stack)) == "CREATE_COMPLETE"
    stack = engine.check(stack)
    stack = engine.put(stack, PAIR, environment=hooks(**{"*": ["pre-create", "post-create"]}))
    stack = engine.delete(stack)
    assert state(*_state(stack)) == "DELETE_COMPLETE"


def test_a_rollback_visits_the_hooks_of_the_definition_that_it_goes_back_to(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(template(a=thing("old")), wait=False, environment=hooks(a="pre-update"))
        engine.settle(stack)
        after = template(a=thing("new"), bad=thing(fail=True, depends_on="a"))
        engine.put(stack, after, wait=False, disable_rollback=False, environment=hooks(a="pre-update"))
        reach(engine, stack, a="pre-update")
        assert engine.get(stack).verb is Verb.UPDATE
        clear(engine, stack, "a", "pre-update")
        engine.wait_for(lambda: engine.get(stack).verb is Verb.ROLLBACK)
        reach(engine, stack, a="pre-update")
        clear(engine, stack, "a", "pre-update")
    assert state(*_state(engine.settle(stack))) == "ROLLBACK_COMPLETE"
    assert engine.value(stack, "a") == "old"


def test_a_rollback_to_a_definition_without_hooks_leaves_no_message(engine: Engine) -> None:
    stack = engine.create(template(a=thing("old")))
    with engine.clock.held():
        after = template(a=thing("new"), bad=thing(fail=True, depends_on="a"))
        engine.put(stack, after, wait=False, disable_rollback=False, environment=hooks(a="pre-update"))
        reach(engine, stack, a="pre-update")
        clear(engine, stack, "a", "pre-update")
    assert state(*_state(engine.settle(stack))) == "ROLLBACK_COMPLETE"
    assert engine.mail_count() == 0


@pytest.mark.parametrize("hook", few(["post-create", "pre-delete", "zz", None, ["pre-create"]]))
def test_only_the_hook_that_is_waited_at_can_be_cleared(engine: Engine, hook: Any) -> None:
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a=["pre-create", "post-create"]))
        reach(engine, stack, a="pre-create")
        since = engine.now_on(stack)
        with pytest.raises(InvalidBreakPointHook, match="is not set on resource a"):
            clear(engine, stack, "a", hook)
        with pytest.raises(InvalidBreakPointHook, match="is not set on resource b"):
            clear(engine, stack, "b", "pre-create")
        assert engine.now_on(stack) == since


@pytest.mark.slow
def test_a_hook_is_cleared_once(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a="pre-create"))
        reach(engine, stack, a="pre-create")
        engine.close()
        clear(engine, stack, "a", "pre-create")
        with pytest.raises(InvalidBreakPointHook, match="has been cleared already"):
            clear(engine, stack, "a", "pre-create")
        engine.store.close()
        engine.open()
    engine.settle(stack)
    with pytest.raises(InvalidBreakPointHook, match="is not set"):
        clear(engine, stack, "a", "pre-create")


def test_the_same_hook_stops_the_next_operation_again(engine: Engine) -> None:
    stack = engine.create(template(a=thing()), environment=hooks(a="pre-update"))
    for _ in range(2):
        with engine.clock.held():
            engine.patch(stack, wait=False)
            reach(engine, stack, a="pre-update")
            clear(engine, stack, "a", "pre-update")
        engine.settle(stack)


def _cancel(engine: Engine, stack: StackRecord) -> None:
    engine.stacks.cancel(engine.who, engine.get(stack), rollback=False)


def _timeout(engine: Engine, stack: StackRecord) -> None:
    engine.clock.pass_(120)


@pytest.mark.parametrize(
    ("end", "reason", "stack_reason"),
    few(
        [
            (_timeout, "Timed out", "Timed out"),
            (_cancel, "the operation was cancelled", "Stack CREATE cancelled"),
        ]
    ),
)
@pytest.mark.parametrize("hook", few(["pre-create", "post-create"]))
def test_what_ends_the_wait(
    engine: Engine, hook: str, end: Callable[[Engine, StackRecord], None], reason: str, stack_reason: str
) -> None:
    with engine.clock.held():
        stack = engine.create(template(a=thing()), wait=False, timeout_mins=2, environment=hooks(a=hook))
        reach(engine, stack, a=hook)
        before = engine.states(stack)["a"]
        engine.clock.pass_(100)
        assert engine.get(stack).status is Status.IN_PROGRESS
        end(engine, stack)
        engine.clock.pass_(1)
    stack = engine.settle(stack)
    assert (state(*_state(stack)), stack.status_reason) == ("CREATE_FAILED", stack_reason)
    assert engine.states(stack)["a"] == before
    assert reasons(engine, stack, "a")[-1] == f"{before}: CREATE aborted: {reason}"


def test_another_failure_ends_the_wait_at_once(engine: Engine) -> None:
    bad = thing(fail=True, wait_secs=5)
    stack = engine.create(template(a=thing(), bad=bad), environment=hooks(a="pre-create"))
    assert state(*_state(stack)) == "CREATE_FAILED"
    assert stack.status_reason == "Resource CREATE failed: ValueError: resources.bad: Test Resource failed bad"
    assert engine.clock.now() < START + 10
    assert reasons(engine, stack, "a")[-1] == "INIT_COMPLETE: CREATE aborted: another resource failed"


def test_a_delete_ends_the_wait(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a="post-create"))
        reach(engine, stack, a="post-create")
        engine.delete(stack, wait=False)
        engine.clock.pass_(1)
    assert state(*_state(engine.settle(stack))) == "DELETE_COMPLETE"
    assert engine.rows(stack) == []


def test_the_wait_behind_a_delete_ends_too_and_the_object_is_gone(engine: Engine) -> None:
    stack = engine.create(PAIR, timeout_mins=1, environment=hooks(b="post-delete"))
    with engine.clock.held():
        engine.delete(stack, wait=False)
        reach(engine, stack, b="post-delete")
        engine.clock.pass_(61)
    stack = engine.settle(stack)
    assert (state(*_state(stack)), stack.status_reason) == ("DELETE_FAILED", "Timed out")
    assert engine.states(stack) == {"a": "CREATE_COMPLETE"}
    stack = engine.delete(stack)
    assert state(*_state(stack)) == "DELETE_COMPLETE"


@pytest.mark.parametrize("hook", few(["pre-create", "post-create"]))
@pytest.mark.parametrize("down", few([False, True]), ids=["cleared afterwards", "cleared meanwhile"])
def test_the_wait_goes_on_in_another_process(engine: Engine, hook: str, down: bool) -> None:
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a=hook))
        reach(engine, stack, a=hook)
        engine.close()
        if down:
            clear(engine, stack, "a", hook)
            engine.store.close()
        engine.open()
        if not down:
            reach(engine, stack, a=hook)
            clear(engine, stack, "a", hook)
    assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"
    told = [reason.partition(": ")[2] for reason in reasons(engine, stack, "a") if "Hook" in reason]
    assert told == [f"CREATE paused until Hook {hook} is cleared", f"Hook {hook} is cleared"]


@pytest.mark.slow
def test_a_hook_that_was_cleared_does_not_stop_the_work_again_after_a_crash(engine: Engine) -> None:
    stack = engine.create(PAIR)
    with engine.clock.held():
        changed = template(a=thing("a"), b=thing("new", wait_secs=5), new=thing())
        engine.close()
        engine.put(stack, changed, wait=False, environment=hooks(**{"*": "pre-update"}))
        engine.store.close()
        engine.clock.pass_(1)  # what the action makes is younger than the action
        engine.open()
        reach(engine, stack, a="pre-update", b="pre-update")
        clear(engine, stack, "a", "pre-update")
        clear(engine, stack, "b", "pre-update")
        engine.begun(lambda: engine.states(stack)["b"] == "UPDATE_IN_PROGRESS")
        engine.clock.pass_(1)
        engine.close()
        engine.open()
        engine.begun(lambda: engine.get(stack).status is Status.IN_PROGRESS)
        assert at(engine, stack) == {}
    assert state(*_state(engine.settle(stack))) == "UPDATE_COMPLETE"


@pytest.mark.slow
def test_many_waits_hold_no_thread(place: Path, plugins: Path) -> None:
    engine = Engine(place, engine_slots=1)
    try:
        with engine.clock.held():
            names = {f"r{i}": resource("Test::Robust", value="v") for i in range(20)}
            stack = engine.create(
                template(**names, free=resource("Test::Robust")), wait=False, environment=hooks(**{"r*": "pre-create"})
            )
            reach(engine, stack, **dict.fromkeys(names, "pre-create"))
            assert engine.states(stack)["free"] == "CREATE_COMPLETE"
            for name in names:
                clear(engine, stack, name, "pre-create")
        assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"
    finally:
        engine.close()


def test_a_lock_does_not_keep_a_running_action_from_going_on(engine: Engine) -> None:
    """Signals that only deliver something pass (docs/reference/lock.md)."""
    outer = engine.lock(engine.create(template(), name="outer"))
    with engine.clock.held():
        stack = engine.create(PAIR, wait=False, environment=hooks(a="pre-create"))
        reach(engine, stack, a="pre-create")
        lock = LockRecord(LockLevel.STACKS, "mia", False, START)
        with engine.store.transaction():
            engine.store.stacks.save(replace(engine.get(stack), parent_id=outer.id, root_id=outer.id, lock=lock))
        clear(engine, stack, "a", "pre-create")
    assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"


def _state(stack: StackRecord) -> tuple[Verb, Status]:
    return stack.verb, stack.status


# -- within nested stacks ----------------------------------------------------------------------------


def test_within_a_nested_stack(engine: Engine) -> None:
    """A hook set by path stops that resource and all that waits for its stack."""
    hook: Any = {"resource_registry": {"resources": {"c": {"inner": {"hooks": "pre-create"}}}}}
    files = {"t.yaml": json.dumps(template(inner=thing("x"), beside=thing("y")))}
    with engine.clock.held():
        wanted = template(c=resource("t.yaml"), inner=thing(), after=thing(keys={"depends_on": "c"}))
        stack = engine.create(wanted, wait=False, files=files, environment=hook)
        engine.wait_for(lambda: engine.store.stacks.descendants(engine.get(stack)))
        (nested,) = engine.store.stacks.descendants(engine.get(stack))
        reach(engine, nested, inner="pre-create")
        engine.wait_for(lambda: engine.states(stack)["inner"] == "CREATE_COMPLETE")
        assert engine.states(nested) == {"inner": "INIT_COMPLETE", "beside": "CREATE_COMPLETE"}
        assert engine.states(stack)["after"] == "INIT_COMPLETE"
        with pytest.raises(InvalidBreakPointHook):
            clear(engine, stack, "inner", "pre-create")
        clear(engine, nested, "inner", "pre-create")
    assert state(*_state(engine.settle(stack))) == "CREATE_COMPLETE"
    assert reasons(engine, nested, "inner")[:2] == [
        "INIT_COMPLETE: CREATE paused until Hook pre-create is cleared",
        "INIT_COMPLETE: Hook pre-create is cleared",
    ]


@pytest.mark.slow
def test_within_a_group_of_nested_stacks(engine: Engine) -> None:
    hook: Any = {"resource_registry": {"resources": {"g": {"1": {"inner": {"hooks": ["pre-update"]}}}}}}
    files = {"t.yaml": json.dumps(template(parameters={"v": {"type": "string"}}, inner=thing(param("v"))))}

    def group(value: str) -> Any:
        member = {"type": "t.yaml", "properties": {"v": value}}
        return template(g=resource("OS::Heat::ResourceGroup", count=2, resource_def=member))

    stack = engine.create(group("a"), files=files, environment=hook)
    members = {found.parent_resource: found for found in engine.store.stacks.descendants(stack) if found.depth == 2}
    with engine.clock.held():
        engine.put(stack, group("b"), files=files, environment=hook, wait=False)
        reach(engine, members["1"], inner="pre-update")
        engine.wait_for(lambda: engine.value(members["0"], "inner") == "b")
        assert engine.value(members["1"], "inner") == "a"
        clear(engine, members["1"], "inner", "pre-update")
    assert state(*_state(engine.settle(stack))) == "UPDATE_COMPLETE"
    assert engine.value(members["1"], "inner") == "b"
