"""Lifecycle hooks: waits before a deletion, and their ends (docs/decisions/0010)."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.errors import InvalidLifecycleActionToken
from heatlite.core.status import ActionStatus, LockLevel, Signal, Status, Verb, state
from heatlite.engine.state.hooks import lifecycle_token, waits_at
from heatlite.store.records import LockRecord, StackRecord
from tests.tables import few

from .conftest import ADMIN, START, Engine, ref, resource, template, thing
from .test_hooks import clear, hooks, reasons
from .test_signals import signal

WAITS = ActionStatus.WAITING_LIFECYCLE_COMPLETION


def hooked(timeout: float = 300, group: str = "g", **more: object) -> dict[str, Any]:
    """An environment in which each member of a group waits."""
    members = {"*": {"lifecycle_hook": {"timeout": timeout}}}
    return {"resource_registry": {"resources": {group: members, **more}}}


def group(size: int = 3, member: object = None, **more: object) -> dict[str, Any]:
    """A group that a signal makes smaller by one."""
    definition = thing("m") if member is None else member
    policy = {"adjustment_type": "change_in_capacity", "scaling_adjustment": -1, "cooldown": 0}
    return template(
        g=resource(
            "OS::Heat::AutoScalingGroup",
            resource=definition,
            min_size=0,
            max_size=5,
            desired_capacity=size,
        ),
        down=resource("OS::Heat::ScalingPolicy", auto_scaling_group_id=ref("g"), **policy),
        **more,
    )


def members(engine: Engine, stack: StackRecord) -> StackRecord:
    """The stack of the group's members."""
    (found,) = [one for one in engine.store.stacks.descendants(stack) if one.parent_resource == "g"]
    return found


def waiting(engine: Engine, stack: StackRecord) -> dict[str, str]:
    """The tokens of what waits, by name."""
    rows = [row for row in engine.rows(stack) if waits_at(row) == "pre-delete"]
    return {row.name: lifecycle_token(row) or "" for row in rows}


def status_of(engine: Engine, stack: StackRecord) -> list[ActionStatus]:
    return [action.status for action in engine.store.actions.live([stack.id])]


def reach(engine: Engine, nested: StackRecord, count: int = 1) -> list[str]:
    """Wait until so many members wait and the action is parked; their tokens."""
    engine.wait_for(lambda: len(waiting(engine, nested)) == count and status_of(engine, nested) == [WAITS])
    return list(waiting(engine, nested).values())


def complete(engine: Engine, stack: StackRecord, token: str) -> None:
    engine.components.signals.complete_lifecycle(engine.get(stack), token)


def result(engine: Engine, stack: StackRecord) -> str:
    stack = engine.settle(stack)
    return state(stack.verb, stack.status)


# -- what waits ----------------------------------------------------------------------------------------


def test_a_member_that_a_signal_removes_waits(engine: Engine) -> None:
    stack = engine.create(group(), environment=hooked())
    nested = members(engine, stack)
    since = engine.now_on(nested)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        (name,) = waiting(engine, nested)
        assert engine.states(nested)[name] == "CREATE_COMPLETE"
        (action,) = engine.store.actions.live([nested.id])
        assert engine.store.actions.history(action.id)[-1].reason == f"at hooks: pre-delete of {name}"
        complete(engine, stack, token)
        assert result(engine, nested) == "UPDATE_COMPLETE"
    assert len(engine.rows(nested)) == 2
    assert reasons(engine, nested, name, since) == [
        "CREATE_COMPLETE: DELETE paused until Hook pre-delete is cleared",
        "CREATE_COMPLETE: Hook pre-delete is cleared",
        "DELETE_IN_PROGRESS: state changed",
        "DELETE_COMPLETE: state changed",
    ]


def test_each_member_that_an_update_removes_waits_for_itself(engine: Engine) -> None:
    stack = engine.create(group(3), environment=hooked())
    nested = members(engine, stack)
    with engine.clock.held():
        engine.put(stack, group(1), environment=hooked(), wait=False)
        first, second = reach(engine, nested, 2)
        assert status_of(engine, stack) == [ActionStatus.WAITING]
        complete(engine, nested, second)
        assert reach(engine, nested, 1) == [first]
        assert len(engine.rows(nested)) == 2
        complete(engine, nested, first)
        assert result(engine, stack) == "UPDATE_COMPLETE"
    assert len(engine.rows(nested)) == 1


def test_the_old_object_of_a_replaced_member_waits_once_the_new_one_is_there(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked())
    nested = members(engine, stack)
    (old,) = engine.rows(nested)
    with engine.clock.held():
        replaced = thing("m", update_replace_value="x")
        engine.put(stack, group(1, replaced), environment=hooked(), wait=False)
        (token,) = reach(engine, nested)
        assert [(row.id == old.id, row.status) for row in engine.rows(nested)] == [
            (True, Status.COMPLETE),
            (False, Status.COMPLETE),
        ]
        complete(engine, stack, token)
        assert result(engine, stack) == "UPDATE_COMPLETE"
    assert [row.id == old.id for row in engine.rows(nested)] == [False]


def test_what_is_deleted_before_its_replacement_waits_before_that(engine: Engine) -> None:
    environment: Any = {
        "resource_registry": {
            "resources": {"a": {"lifecycle_hook": {"timeout": 300}, "replacement": {"order": "delete_first"}}}
        }
    }
    stack = engine.create(template(a=thing("v"), b=thing(ref("a"))), environment=environment)
    before = engine.ids(stack)
    with engine.clock.held():
        after = template(a=thing("v", update_replace_value="x"), b=thing(ref("a")))
        engine.put(stack, after, environment=environment, wait=False)
        (token,) = reach(engine, stack)
        assert engine.ids(stack) == before
        complete(engine, stack, token)
        assert result(engine, stack) == "UPDATE_COMPLETE"
    assert engine.ids(stack)["a"] != before["a"]


def test_a_member_that_is_not_well_goes_at_once(engine: Engine) -> None:
    stack = engine.create(group(2), environment=hooked())
    nested = members(engine, stack)
    sick = engine.rows(nested)[0]
    engine.mark(nested, sick.name)
    assert state(*_state(engine.put(stack, group(2), environment=hooked()))) == "UPDATE_COMPLETE"
    assert sick.physical_id not in {row.physical_id for row in engine.rows(nested)}


def test_the_deletion_of_the_stack_asks_nobody(engine: Engine) -> None:
    stack = engine.create(group(2), environment=hooked())
    assert state(*_state(engine.delete(stack))) == "DELETE_COMPLETE"
    assert engine.clock.now() < START + 300


def test_a_breakpoint_before_the_deletion_is_the_same_wait(engine: Engine) -> None:
    stack = engine.create(template(a=thing()), environment=hooks(a="pre-delete"))
    with engine.clock.held():
        engine.delete(stack, wait=False)
        (token,) = reach(engine, stack)
        engine.clock.pass_(3000)  # it has no time but the operation's
        assert reach(engine, stack) == [token]
        complete(engine, stack, token)
        assert result(engine, stack) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_members_that_are_stacks_wait_whole(engine: Engine) -> None:
    files = {"t.yaml": json.dumps(template(inner=thing("x")))}
    wanted = {"size": 2, "member": resource("t.yaml")}
    stack = engine.create(group(**wanted), files=files, environment=hooked())  # type: ignore[arg-type]
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        (name,) = waiting(engine, nested)
        member = engine.store.stacks.get(engine.row(nested, name).physical_id or "")
        assert member is not None and engine.states(member) == {"inner": "CREATE_COMPLETE"}
        complete(engine, stack, token)
        assert result(engine, nested) == "UPDATE_COMPLETE"
    assert state(*_state(engine.get(member))) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_somebody_who_is_waited_for_shows_whatever_else_is_waited_for(engine: Engine) -> None:
    """The status asks for an answer while another member's stack is at work."""
    files = {"t.yaml": json.dumps(template(inner=thing("x", action_wait_secs={"delete": 60})))}
    first = group(2, resource("t.yaml"))
    stack = engine.create(first, files=files, environment=hooked())
    nested = members(engine, stack)
    with engine.clock.held():
        engine.put(stack, group(0, resource("t.yaml")), files=files, environment=hooked(), wait=False)
        one, other = reach(engine, nested, 2)
        complete(engine, stack, one)
        engine.wait_for(lambda: "DELETE_IN_PROGRESS" in engine.states(nested).values())
        assert reach(engine, nested) == [other]
        complete(engine, stack, other)
    assert result(engine, stack) == "UPDATE_COMPLETE"
    assert engine.rows(nested) == []


def test_a_rollback_lets_what_it_removes_wait(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked())
    nested = members(engine, stack)
    with engine.clock.held():
        bad = thing(fail=True, depends_on="g")
        engine.put(stack, group(2, bad=bad), environment=hooked(), disable_rollback=False, wait=False)
        (token,) = reach(engine, nested)
        assert engine.get(stack).verb is Verb.ROLLBACK
        complete(engine, stack, token)
        assert result(engine, stack) == "ROLLBACK_COMPLETE"
    assert len(engine.rows(nested)) == 1


@pytest.mark.slow
def test_many_are_counted(engine: Engine) -> None:
    names = [f"r{i:02}" for i in range(12)]
    blocks = {"r*": {"lifecycle_hook": {"timeout": 5}}}
    environment: Any = {"resource_registry": {"resources": blocks}}
    stack = engine.create(template(**{name: thing() for name in names}), environment=environment)
    with engine.clock.held():
        engine.put(stack, template(), environment=environment, wait=False)
        reach(engine, stack, 12)
        (action,) = engine.store.actions.live([stack.id])
        reason = engine.store.actions.history(action.id)[-1].reason
        assert reason.count("pre-delete of r") == 10
        assert reason.endswith(" and 2 more")
        engine.clock.pass_(5)
        assert result(engine, stack) == "UPDATE_COMPLETE"


# -- what ends the wait --------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_time_of_a_hook_is_over(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked(300))
    nested = members(engine, stack)
    (row,) = engine.rows(nested)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        engine.clock.pass_(299)
        assert reach(engine, nested) == [token]
        engine.clock.pass_(1)
        with pytest.raises(InvalidLifecycleActionToken):
            complete(engine, stack, token)
        assert result(engine, nested) == "UPDATE_COMPLETE"
    assert engine.rows(nested) == []
    assert reasons(engine, nested, row.name)[-3:] == [
        "CREATE_COMPLETE: Hook pre-delete is cleared: its time is over",
        "DELETE_IN_PROGRESS: state changed",
        "DELETE_COMPLETE: state changed",
    ]


@pytest.mark.slow
def test_each_wait_has_its_own_time(engine: Engine) -> None:
    environment: Any = {
        "resource_registry": {
            "resources": {"a": {"lifecycle_hook": {"timeout": 10}}, "b": {"lifecycle_hook": {"timeout": 20}}}
        }
    }
    stack = engine.create(template(a=thing(), b=thing()), environment=environment)
    with engine.clock.held():
        engine.put(stack, template(), environment=environment, wait=False)
        reach(engine, stack, 2)
        engine.clock.pass_(10)
        engine.wait_for(lambda: list(engine.states(stack)) == ["b"])
        reach(engine, stack)
        engine.clock.pass_(10)
        assert result(engine, stack) == "UPDATE_COMPLETE"
    assert engine.rows(stack) == []


def test_unsetting_the_hook_is_the_same_as_completing(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked())
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        (name,) = waiting(engine, nested)
        clear(engine, nested, name, "pre-delete")
        assert result(engine, nested) == "UPDATE_COMPLETE"
        with pytest.raises(InvalidLifecycleActionToken, match="Nothing in stack"):
            complete(engine, stack, token)
    assert engine.rows(nested) == []


def _cancel(engine: Engine, nested: StackRecord) -> None:
    engine.stacks.cancel(engine.who, engine.get(nested), rollback=False)


def _let_time_pass(engine: Engine, nested: StackRecord) -> None:
    engine.clock.pass_(3600)


@pytest.mark.parametrize(
    ("end", "reason"),
    few([(_cancel, "Stack UPDATE cancelled"), (_let_time_pass, "Timed out")]),
    ids=["cancelled", "the operation's time is up"],
)
def test_an_operation_that_ends_leaves_the_member(
    engine: Engine, end: Callable[[Engine, StackRecord], None], reason: str
) -> None:
    stack = engine.create(group(1), environment=hooked(7200))
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        end(engine, nested)
        assert result(engine, nested) == "UPDATE_FAILED"
        with pytest.raises(InvalidLifecycleActionToken):
            complete(engine, stack, token)
    assert engine.get(nested).status_reason == reason
    assert list(engine.states(nested).values()) == ["CREATE_COMPLETE"]


def test_a_deletion_does_not_wait_for_the_hook(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked())
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        assert result(engine, engine.delete(stack, wait=False)) == "DELETE_COMPLETE"
        with pytest.raises(InvalidLifecycleActionToken):
            complete(engine, nested, token)
    assert engine.rows(nested) == []


@pytest.mark.slow
@pytest.mark.parametrize("hook", few(["pre-update", "pre-delete"]))
def test_a_deletion_does_not_take_over_a_wait_of_what_was_ended_by_force(engine: Engine, hook: str) -> None:
    if hook == "pre-update":
        environment, after = hooks(a=hook), template(a=thing("new"))
    else:
        blocks = {"a": {"lifecycle_hook": {"timeout": 600}}}
        environment, after = {"resource_registry": {"resources": blocks}}, template()
    stack = engine.create(template(a=thing("old")), environment=environment)
    with engine.clock.held():
        engine.put(stack, after, environment=environment, wait=False)
        engine.wait_for(lambda: waits_at(engine.row(stack, "a")) == hook)
        engine.close()
        engine.delete(stack, wait=False)
        update, _ = engine.store.actions.live([stack.id])
        engine.components.controls.signal(ADMIN, update, Signal.CANCEL, force=True)
        engine.store.close()
        engine.open()
        assert result(engine, stack) == "DELETE_COMPLETE"


# -- tokens --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_token_is_of_one_wait_in_one_tree_and_used_once(engine: Engine) -> None:
    stack = engine.create(group(2), environment=hooked())
    other = engine.create(group(1), name="other", environment=hooked())
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        for wrong, where in ((token, other), ("", stack), ("0" * 32, stack)):
            with pytest.raises(InvalidLifecycleActionToken, match="Nothing in stack"):
                complete(engine, where, wrong)
        engine.close()
        complete(engine, stack, token)
        with pytest.raises(InvalidLifecycleActionToken, match="has already continued"):
            complete(engine, stack, token)
        engine.store.close()
        engine.open()
        assert result(engine, nested) == "UPDATE_COMPLETE"
        signal(engine, stack, "down")
        assert reach(engine, nested) != [token]
        complete(engine, stack, reach(engine, nested)[0])
        assert result(engine, nested) == "UPDATE_COMPLETE"


def test_a_lock_does_not_keep_anybody_from_completing(engine: Engine) -> None:
    """Only what runs waits at a hook, and what runs a lock lets run."""
    environment: Any = {"resource_registry": {"resources": {"inner": hooked()["resource_registry"]["resources"]}}}
    files = {"t.yaml": json.dumps(group(1))}
    outer = engine.create(template(inner=resource("t.yaml")), files=files, environment=environment)
    (stack,) = [one for one in engine.store.stacks.descendants(outer) if one.depth == 1]
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        engine.put_stack(outer, Verb.LOCK, Status.COMPLETE, LockRecord(LockLevel.STACKS, "mia", False, START))
        complete(engine, outer, token)
        assert result(engine, nested) == "UPDATE_COMPLETE"


# -- processes and suspension ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_time_goes_on_while_no_process_is_there(engine: Engine) -> None:
    stack = engine.create(group(2), environment=hooked(300))
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        tokens = reach(engine, nested)
        engine.clock.pass_(200)
        engine.close()
        engine.open()
        assert reach(engine, nested) == tokens
        engine.close()
        engine.clock.pass_(100)
        engine.open()
        assert result(engine, nested) == "UPDATE_COMPLETE"
    assert len(engine.rows(nested)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("order", few(["create_first", "delete_first"]))
def test_a_replacement_goes_on_in_another_process(engine: Engine, order: str) -> None:
    """Also where another hook has been passed before, which has the step begun anew."""
    block = {"lifecycle_hook": {"timeout": 300}, "replacement": {"order": order}, "hooks": "pre-update"}
    environment: Any = {"resource_registry": {"resources": {"a": block}}}
    stack = engine.create(template(a=thing("v"), b=thing(ref("a"))), environment=environment)
    before = engine.ids(stack)
    with engine.clock.held():
        after = template(a=thing("v", update_replace_value="x"), b=thing(ref("a")))
        engine.put(stack, after, environment=environment, wait=False)
        engine.wait_for(lambda: waits_at(engine.row(stack, "a")) == "pre-update")
        clear(engine, stack, "a", "pre-update")
        (token,) = reach(engine, stack)
        engine.close()
        engine.open()
        assert reach(engine, stack) == [token]
        complete(engine, stack, token)
        assert result(engine, stack) == "UPDATE_COMPLETE"
    assert len(engine.rows(stack)) == 2
    assert engine.ids(stack)["a"] != before["a"]
    assert engine.value(stack, "b") == engine.row(stack, "a").physical_name


def test_a_suspended_action_deletes_nothing_until_it_is_resumed(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked(300))
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        reach(engine, nested)
        (action,) = engine.store.actions.live([nested.id])
        engine.components.controls.signal(engine.who, action, Signal.SUSPEND)
        engine.clock.pass_(400)
        assert engine.store.moves.wake_parked(engine.clock.now()) == 0
        assert status_of(engine, nested) == [ActionStatus.SUSPENDED]
        assert len(engine.rows(nested)) == 1
        engine.components.controls.signal(engine.who, action, Signal.RESUME)
        assert result(engine, nested) == "UPDATE_COMPLETE"
    assert engine.rows(nested) == []


def test_what_was_completed_while_suspended_goes_on_when_resumed(engine: Engine) -> None:
    stack = engine.create(group(1), environment=hooked(300))
    nested = members(engine, stack)
    with engine.clock.held():
        signal(engine, stack, "down")
        (token,) = reach(engine, nested)
        (action,) = engine.store.actions.live([nested.id])
        engine.components.controls.signal(engine.who, action, Signal.SUSPEND)
        complete(engine, stack, token)
        assert status_of(engine, nested) == [ActionStatus.SUSPENDED]
        engine.components.controls.signal(engine.who, action, Signal.RESUME)
        assert result(engine, nested) == "UPDATE_COMPLETE"
    assert engine.rows(nested) == []


def _state(stack: StackRecord) -> tuple[Any, Any]:
    return stack.verb, stack.status
