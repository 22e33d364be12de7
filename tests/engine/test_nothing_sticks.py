"""A stack can be retried from its failure, and deleted in any case."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import InvalidStackState
from heatlite.core.status import Status, Verb, state
from heatlite.store.records import StackRecord
from tests.tables import few, sampled

from .conftest import Engine, param, ref, resource, template, thing

STUCK = resource("Test::Odd", value="v", raise_in="handle_delete")


def stack_state(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def force(engine: Engine, stack: StackRecord) -> StackRecord:
    engine.stacks.delete(engine.who, engine.get(stack), force=True)
    return engine.settle(stack)


def retry(engine: Engine, stack: StackRecord) -> StackRecord:
    engine.stacks.retry(engine.who, engine.get(stack))
    return engine.settle(stack)


# -- deletion ----------------------------------------------------------------------------------------


def test_what_cannot_be_deleted_is_left_behind_and_listed(engine: Engine) -> None:
    stack = engine.create(template(a=STUCK, b=thing(ref("a")), c=thing(keys={"deletion_policy": "Retain"})))
    stuck, kept = engine.row(stack, "a").physical_id, engine.row(stack, "c").physical_id
    assert stack_state(engine.delete(stack)) == "DELETE_FAILED"
    since = engine.now_on(stack)
    stack = force(engine, stack)
    assert stack_state(stack) == "DELETE_COMPLETE"
    assert stack.deleted_at is not None
    begin, _, left = stack.status_reason.partition(" Left behind: ")
    assert begin == "Stack DELETE completed successfully."
    assert set(left.split("; ")) == {f"a (Test::Odd, {stuck})", f"c (OS::Heat::TestResource, {kept})"}
    assert engine.rows(stack) == []
    assert engine.told(stack, since) == [
        "s DELETE_IN_PROGRESS", "a DELETE_IN_PROGRESS", "a DELETE_FAILED", "s DELETE_COMPLETE",
    ]  # fmt: skip


def test_a_failure_stops_no_other_deletion(engine: Engine) -> None:
    users = {f"u{i}": resource("Test::Odd", value=ref("a"), raise_in="handle_delete") for i in range(3)}
    stack = engine.create(template(a=thing(), **users))
    stack = force(engine, stack)
    assert stack_state(stack) == "DELETE_COMPLETE"
    assert stack.status_reason.count("(Test::Odd") == 3
    assert "TestResource" not in stack.status_reason


def test_an_ordinary_deletion_lists_what_is_retained(engine: Engine) -> None:
    stack = engine.create(template(a=thing(keys={"deletion_policy": "Retain"}), b=thing()))
    kept = engine.row(stack, "a").physical_id
    stack = engine.delete(stack)
    assert stack.status_reason == (
        f"Stack DELETE completed successfully. Left behind: a (OS::Heat::TestResource, {kept})"
    )
    assert engine.rows(stack) == []


def test_what_is_retained_is_listed_by_the_deletion_that_succeeds(engine: Engine) -> None:
    stack = engine.create(template(a=STUCK, c=thing(depends_on="a", keys={"deletion_policy": "Retain"})))
    stack = engine.delete(stack)
    assert stack_state(stack) == "DELETE_FAILED"
    since = engine.now_on(stack)
    stack = force(engine, stack)
    assert "c (OS::Heat::TestResource" in stack.status_reason
    assert [told for told in engine.told(stack, since) if told.startswith("c ")] == []


@pytest.mark.slow
def test_a_deletion_that_never_ends_is_given_up(engine: Engine) -> None:
    """Also one that was asked for without force and goes on still."""
    endless = thing(action_wait_secs={"delete": -1})
    stack = engine.create(template(a=endless, b=thing(ref("a"))))
    with engine.clock.held():
        engine.delete(stack, wait=False)
        engine.begun(lambda: engine.states(stack) == {"a": "DELETE_IN_PROGRESS"})
        engine.stacks.delete(engine.who, engine.get(stack))
        engine.stacks.delete(engine.who, engine.get(stack), force=True)
        engine.stacks.delete(engine.who, engine.get(stack), force=True)  # asks for nothing more
        engine.wait_for(lambda: [bool(action.started_at) for action in engine.store.actions.live([stack.id])] == [True])
        began = engine.clock.now()
    stack = engine.settle(stack)
    assert stack_state(stack) == "DELETE_COMPLETE"
    assert "a (OS::Heat::TestResource" in stack.status_reason
    assert engine.clock.now() - began < 300


def test_hooks_do_not_hold_a_forced_deletion(engine: Engine) -> None:
    hooks: Any = {"resource_registry": {"resources": {"a": {"hooks": ["pre-delete", "post-delete"]}}}}
    stack = force(engine, engine.create(template(a=thing()), environment=hooks))
    assert (stack_state(stack), stack.status_reason) == ("DELETE_COMPLETE", "Stack DELETE completed successfully")


def test_within_nested_stacks_too(engine: Engine) -> None:
    inner = {"t.yaml": '{"heat_template_version": "2021-04-16", "resources": {"x": {"type": "Test::Odd",'
             ' "properties": {"value": "v", "raise_in": "handle_delete"}}}}'}  # fmt: skip
    stack = engine.create(template(n=resource("t.yaml"), b=thing()), files=inner)
    (child,) = engine.store.stacks.descendants(stack)
    stuck = engine.row(child, "x").physical_id
    assert stack_state(engine.delete(stack)) == "DELETE_FAILED"
    stack = force(engine, stack)
    assert stack_state(stack) == "DELETE_COMPLETE"
    assert stack.status_reason == f"Stack DELETE completed successfully. Left behind: n.x (Test::Odd, {stuck})"
    assert stack_state(engine.get(child)) == "DELETE_COMPLETE"


def test_it_survives_a_restart(engine: Engine) -> None:
    stack = engine.create(template(a=STUCK, b=thing(ref("a"), action_wait_secs={"delete": 100}), c=STUCK))
    with engine.clock.held():
        engine.stacks.delete(engine.who, engine.get(stack), force=True)
        engine.begun(lambda: engine.states(stack).get("c") == "DELETE_FAILED")
        engine.close()
        engine.open()
    stack = engine.settle(stack)
    assert stack_state(stack) == "DELETE_COMPLETE"
    assert stack.status_reason.count("(Test::Odd") == 2


# -- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", few(["x" * 10_000_000, "\x00\udcff" * 100, b"\xff\x00".decode("latin-1")]), ids=len)
def test_whatever_an_error_says(engine: Engine, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise RuntimeError(said)

    engine.create(template(), name="warm")
    monkeypatch.setattr(engine.components.types.get("Test::Robust"), "handle_create", fail)
    stack = engine.create(template(a=resource("Test::Robust")))
    assert stack_state(stack) == "CREATE_FAILED"
    assert len(stack.status_reason) < 11_000
    assert stack_state(engine.delete(stack)) == "DELETE_COMPLETE"


def test_an_error_that_cannot_say_what_it_is(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    def fail(self: object) -> None:
        raise Mute

    monkeypatch.setattr(engine.components.types.get("Test::Robust"), "handle_create", fail)
    stack = engine.create(template(a=resource("Test::Robust")))
    assert stack.status_reason == "Resource CREATE failed: Mute: resources.a: (an error without a text)"


# -- another try -------------------------------------------------------------------------------------


def failing(value: str = "v", **more: Any) -> Any:
    """`bad` fails as its parameter says, after `good`."""
    bad = resource("Test::Suspicious", value=value, fail=param("fail"), depends_on="good")
    return template(parameters={"fail": {"type": "boolean", "default": False}}, good=thing(value), bad=bad, **more)


def mended(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on what failed succeeds, with the same template."""
    monkeypatch.setattr(engine.components.types.get("Test::Suspicious"), "_fail_if_told", lambda self: None)


def test_a_create_goes_on_where_it_failed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = engine.create(failing(after=thing(ref("bad"))), parameters={"fail": True})
    assert stack_state(stack) == "CREATE_FAILED"
    good, since = engine.row(stack, "good"), engine.now_on(stack)
    mended(engine, monkeypatch)
    stack = retry(engine, stack)
    assert stack_state(stack) == "CREATE_COMPLETE"
    assert engine.row(stack, "good") == good
    told = engine.told(stack, since)
    assert told[0] == "s CREATE_IN_PROGRESS"
    assert told[-1] == "s CREATE_COMPLETE"
    assert not [line for line in told if line.startswith("good ")]
    assert engine.states(stack)["after"] == "CREATE_COMPLETE"


@pytest.mark.slow
def test_an_update_goes_on_where_it_failed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update covers the resources not reached yet and leaves the finished ones."""
    handle = resource("OS::Heat::UpdateWaitConditionHandle")
    stack = engine.create(failing("old", handle=handle, late=thing("old", depends_on="bad")))
    engine.clock.pass_(1)
    after = failing("new", handle=handle, late=thing("new", depends_on="bad"))
    after["resources"]["bad"]["depends_on"] = ["good", "handle"]
    engine.close()
    engine.put(stack, after, wait=False, parameters={"fail": True})
    engine.store.close()
    engine.clock.pass_(1)
    engine.open()
    stack = engine.settle(stack)
    assert stack_state(stack) == "UPDATE_FAILED"
    assert engine.value(stack, "late") == "old"
    done = {row.id: row for row in engine.rows(stack) if row.updated_at == engine.clock.now() and row.name != "bad"}
    assert {row.name for row in done.values()} == {"good", "handle"}
    mended(engine, monkeypatch)
    engine.clock.pass_(1)
    stack = retry(engine, stack)
    assert stack_state(stack) == "UPDATE_COMPLETE"
    assert {row.id: row for row in engine.rows(stack) if row.name in ("good", "handle")} == done
    assert (engine.value(stack, "late"), engine.value(stack, "bad")) == ("new", "new")


@pytest.mark.parametrize("marked", few([False, True]))
def test_a_nested_stack_that_was_done_is_kept_unless_something_within_was_marked_since(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, marked: bool
) -> None:
    files = {
        "inner.yaml": json.dumps(template(a=thing())),
        "outer.yaml": json.dumps(template(i=resource("inner.yaml"), b=thing("b"))),
    }
    made = failing()
    made["resources"]["good"] = resource("outer.yaml")
    stack = engine.create(made, parameters={"fail": True}, files=files)
    outer, inner = engine.store.stacks.descendants(stack)
    ids, since = {**engine.ids(outer), **engine.ids(inner)}, engine.now_on(inner)
    if marked:
        engine.mark(inner, "a")
    mended(engine, monkeypatch)
    stack = retry(engine, stack)
    assert stack_state(stack) == "CREATE_COMPLETE"
    after = {**engine.ids(outer), **engine.ids(inner)}
    assert {name for name in ids if ids[name] != after[name]} == ({"a"} if marked else set())
    assert engine.states(inner) == {"a": "CREATE_COMPLETE"}
    assert marked or engine.told(inner, since) == []


def test_it_may_fail_again_and_be_tried_again(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = engine.create(failing(), parameters={"fail": True})
    good = engine.row(stack, "good")
    assert stack_state(retry(engine, stack)) == "CREATE_FAILED"
    mended(engine, monkeypatch)
    assert stack_state(retry(engine, stack)) == "CREATE_COMPLETE"
    assert engine.row(stack, "good") == good


def test_it_may_roll_back(engine: Engine) -> None:
    stack = engine.create(failing(), parameters={"fail": True})
    with engine.store.transaction():
        engine.store.stacks.save(replace(engine.get(stack), disable_rollback=False))
    stack = retry(engine, stack)
    assert stack_state(stack) == "ROLLBACK_COMPLETE"
    assert engine.rows(stack) == []


@pytest.mark.parametrize(
    "verb",
    sampled([verb for verb in Verb if verb is not Verb.LOCK and verb is not Verb.UNLOCK], 6, pytest.mark.thorough),
)
@pytest.mark.parametrize("status", few([Status.COMPLETE, Status.FAILED]))
def test_there_may_be_nothing_to_try_again(engine: Engine, verb: Verb, status: Status) -> None:
    if status is Status.FAILED and verb in (Verb.CREATE, Verb.UPDATE):
        return
    stack = engine.create(template(a=thing()))
    engine.put_stack(stack, verb, status)
    since = engine.now_on(stack)
    with pytest.raises(InvalidStackState, match="no failed create or update"):
        engine.stacks.retry(engine.who, engine.get(stack))
    assert engine.now_on(stack) == since
