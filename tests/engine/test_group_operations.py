"""Operations on members of groups: sizes, leavers, records, later updates."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import (
    ActionConflict,
    ActionCooldown,
    HTTPBadRequest,
    InvalidValue,
    ResourceIsLocked,
    ResourceNotFound,
    StackLocked,
)
from heatlite.core.ids import new_id
from heatlite.core.json import dump, parse
from heatlite.core.status import ActionStatus, Cause, LockLevel, Verb
from heatlite.engine.operations.signals import IgnoredSignal
from heatlite.engine.state.group_requests import (
    Adjustment,
    Criteria,
    DeleteMembers,
    FollowTemplate,
    NewLimits,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
)
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, resource, template
from tests.engine.test_groups import group, nested, policy, scaling, signal, thing
from tests.resource_types import ALL_TYPES
from tests.tables import few

SERVER = {"ImageId": "i", "InstanceType": "t"}
SERVERS: dict[str, Any] = {"environment": {"resource_registry": {"AWS::EC2::Instance": "OS::Heat::None"}}}
"""Servers without a cloud."""


def numbered(size: int) -> dict[str, Any]:
    return {"g": group(size, thing("v"))}


def automatic(size: int) -> dict[str, Any]:
    return {"g": scaling(thing("v"), low=1, high=6, desired_capacity=size)}


def of_servers(kind: str, size: int) -> dict[str, Any]:
    """Return a group of servers from a launch configuration."""
    sizes = {"MinSize": 1, "MaxSize": 6, "DesiredCapacity": size}
    if kind == "OS::Heat::InstanceGroup":
        sizes = {"Size": size}
    made = resource(kind, AvailabilityZones=[], LaunchConfigurationName={"get_resource": "c"}, **sizes)
    return {"c": resource("AWS::AutoScaling::LaunchConfiguration", **SERVER), "g": made}


KINDS: dict[str, Any] = {
    "ResourceGroup": numbered,
    "AutoScalingGroup": automatic,
}
if "OS::Heat::InstanceGroup" in ALL_TYPES:
    KINDS["InstanceGroup"] = partial(of_servers, "OS::Heat::InstanceGroup")
    KINDS["CfnAutoScalingGroup"] = partial(of_servers, "AWS::AutoScaling::AutoScalingGroup")
"""Templates by a group's size."""
kinds = pytest.mark.parametrize("kind", few(KINDS))


def change(engine: Engine, stack: StackRecord, request: SizeRequest, wait: bool = True) -> ActionRecord:
    action = engine.components.groups.change(engine.who, engine.get(stack), "g", request)
    if not wait:
        return action
    engine.settle(nested(engine, stack))
    found = engine.store.actions.get(action.id)
    assert found is not None
    return found


def names(engine: Engine, stack: StackRecord) -> list[str]:
    """Return the names of the members, oldest first."""
    rows = engine.rows(nested(engine, stack))
    return [row.name for row in sorted(rows, key=lambda row: (row.created_at, len(row.name), row.name))]


@kinds
def test_scale_in_and_out(engine: Engine, kind: str) -> None:
    stack = engine.create(template(**KINDS[kind](3)), **SERVERS)
    before = engine.ids(nested(engine, stack))
    old = names(engine, stack)
    action = change(engine, stack, ScaleIn(1))
    assert (action.word, action.stack_id, action.cause) == (
        "GROUP_SCALE_IN", nested(engine, stack).id, Cause.REQUEST,
    )  # fmt: skip
    assert action.name == f"group_scale_in_{action.stack_id[-8:]}"
    assert parse(dump(action.inputs)) == {
        "scale_in": {"count": 1, "strict": True, "ignore_cooldown": False}
    }
    shown = parse(dump(action.data))
    objects = parse(dump(action.outputs))["removed"]
    assert shown == {
        "deletion": {
            "count": 1, "candidates": old[:1], "criteria": "OLDEST_FIRST", "grace_period": 0, "objects": objects,
        }
    }  # fmt: skip
    assert names(engine, stack) == old[1:]
    action = change(engine, stack, ScaleOut(2))
    outputs = parse(dump(action.outputs))
    assert outputs["size"] == {"before": 2, "after": 4}
    assert sorted(outputs["added"]) == sorted(set(names(engine, stack)) - set(old))  # type: ignore[arg-type]
    after = engine.ids(nested(engine, stack))
    assert {name: after[name] for name in old[1:]} == {name: before[name] for name in old[1:]}


@pytest.mark.slow
@kinds
def test_the_next_update_keeps_the_size(engine: Engine, kind: str) -> None:
    stack = engine.create(template(**KINDS[kind](3)), **SERVERS)
    change(engine, stack, ScaleIn(1))
    kept = engine.ids(nested(engine, stack))
    stack = engine.patch(stack)
    assert engine.ids(nested(engine, stack)) == kept
    stack = engine.put(stack, template(**KINDS[kind](4)), **SERVERS)
    assert len(names(engine, stack)) == 4
    assert kept.items() <= engine.ids(nested(engine, stack)).items()
    assert "size" not in engine.row(stack, "g").data
    change(engine, stack, ResizeRequest(Adjustment.EXACT_CAPACITY, 6))
    stack = engine.patch(stack)
    assert len(names(engine, stack)) == 6
    change(engine, stack, FollowTemplate(True))
    assert len(names(engine, stack)) == 4
    assert len(names(engine, engine.patch(stack))) == 4


def test_a_signal_does_not_change_the_remembered_size(engine: Engine) -> None:
    stack = engine.create(template(**automatic(3), up=policy(1)))
    change(engine, stack, ResizeRequest(Adjustment.EXACT_CAPACITY, 4))
    signal(engine, stack, "up")
    assert len(names(engine, stack)) == 5
    assert len(names(engine, engine.patch(stack))) == 4


@kinds
def test_limits_of_the_template_bind_a_remembered_size(engine: Engine, kind: str) -> None:
    stack = engine.create(template(**KINDS[kind](3)), **SERVERS)
    change(engine, stack, ScaleOut(2))
    is_limited = kind.endswith("AutoScalingGroup")
    if kind == "AutoScalingGroup":
        stack = engine.put(stack, template(g=scaling(thing("v"), low=1, high=4, desired_capacity=3)))
        assert len(names(engine, stack)) == 4
    with pytest.raises(InvalidValue):
        change(engine, stack, ScaleIn(6))
    change(engine, stack, ScaleIn(6, strict=False))
    assert len(names(engine, stack)) == (1 if is_limited else 0)


@pytest.mark.slow
def test_limits_that_an_operation_has_set(engine: Engine) -> None:
    """They hold against signals and operations, until the template has others."""
    stack = engine.create(template(**automatic(3), up=policy(1)))
    change(engine, stack, ResizeRequest(Adjustment.EXACT_CAPACITY, 3, max_size=3))
    signal(engine, stack, "up")
    assert len(names(engine, stack)) == 3
    with pytest.raises(InvalidValue, match="its limits are 1 and 3"):
        change(engine, stack, ScaleOut(1))
    stack = engine.patch(stack)
    signal(engine, stack, "up")
    assert len(names(engine, stack)) == 3
    change(engine, stack, NewLimits(max_size=2))
    assert len(names(engine, stack)) == 2
    change(engine, stack, NewLimits(min_size=5, max_size=8))
    assert len(names(engine, stack)) == 5
    change(engine, stack, ResizeRequest(Adjustment.EXACT_CAPACITY, 9, strict=False))
    assert len(names(engine, stack)) == 8
    change(engine, stack, FollowTemplate(True))
    assert len(names(engine, stack)) == 3
    assert "limits" not in engine.row(stack, "g").data
    change(engine, stack, NewLimits(max_size=3))
    stack = engine.put(stack, template(g=scaling(thing("v"), low=1, high=7, desired_capacity=3), up=policy(1)))
    assert "limits" not in engine.row(stack, "g").data
    signal(engine, stack, "up")
    assert len(names(engine, stack)) == 4


@kinds
def test_delete_members(engine: Engine, kind: str) -> None:
    stack = engine.create(template(**KINDS[kind](3)), **SERVERS)
    old = names(engine, stack)
    physical = engine.row(nested(engine, stack), old[1]).physical_id or ""
    change(engine, stack, DeleteMembers((physical,)))
    assert names(engine, stack) == [old[0], old[2]]
    assert names(engine, engine.patch(stack)) == [old[0], old[2]]
    change(engine, stack, DeleteMembers((old[0],), reduce=False))
    left = names(engine, stack)
    assert len(left) == 2
    assert not {old[0], old[1]} & set(left)
    assert names(engine, engine.patch(stack)) == left


@pytest.mark.slow
def test_a_failed_member_leaves_first(engine: Engine) -> None:
    stack = engine.create(template(**automatic(3)))
    youngest = names(engine, stack)[-1]
    engine.mark(nested(engine, stack), youngest)
    action = change(engine, stack, ScaleIn(1, Criteria.OLDEST_FIRST))
    assert action.data.deletion is not None
    assert action.data.deletion.names == (youngest,)


@pytest.mark.slow
def test_grace_period(engine: Engine) -> None:
    stack = engine.create(template(**automatic(3)))
    with engine.clock.held():
        change(engine, stack, ScaleIn(1, grace_period=60), wait=False)
        assert len(names(engine, stack)) == 3
        assert engine.get(nested(engine, stack)).verb is Verb.UPDATE
        engine.clock.pass_(61)
    engine.settle(nested(engine, stack))
    assert len(names(engine, stack)) == 2


@pytest.mark.slow
def test_cooldown_is_shared_with_signals(engine: Engine) -> None:
    one = {"g": scaling(thing("v"), low=1, high=9, desired_capacity=3, cooldown=100), "up": policy(1)}
    stack = engine.create(template(**one))
    engine.clock.pass_(1000)
    with engine.clock.held():
        signal(engine, stack, "up")
        with pytest.raises(ActionCooldown) as refused:
            change(engine, stack, ScaleOut(1))
        assert refused.value.retry_after == 100
        change(engine, stack, ResizeRequest(Adjustment.CHANGE_IN_CAPACITY, 1))
        change(engine, stack, ScaleIn(1, ignore_cooldown=True))
        engine.clock.pass_(101)
        change(engine, stack, ScaleIn(1))
        signal(engine, stack, "up")
        assert len(names(engine, stack)) == 3


def test_groups_scale_side_by_side(engine: Engine) -> None:
    slow = resource("OS::Heat::TestResource", value="v", action_wait_secs={"delete": 60})
    stack = engine.create(template(g=group(2, slow), h=group(2, slow)))
    with engine.clock.held():
        change(engine, stack, ScaleIn(1), wait=False)
        engine.components.groups.change(engine.who, stack, "h", ScaleIn(1))
        with pytest.raises((ResourceIsLocked, ActionConflict)):
            change(engine, stack, ScaleIn(1), wait=False)
        with pytest.raises((ResourceIsLocked, ActionConflict)):
            engine.components.groups.replace_members(engine.who, stack, "g", ["1"])
    for name in ("g", "h"):
        engine.settle(nested(engine, stack, name))


def test_locks(engine: Engine) -> None:
    stack = engine.create(template(**numbered(2)))
    engine.lock(stack, LockLevel.STACKS)
    groups = engine.components.groups
    with pytest.raises(StackLocked):
        change(engine, stack, ScaleIn(1))
    with pytest.raises(StackLocked):
        groups.replace_members(engine.who, stack, "g", ["1"])
    assert [entry.request for entry in engine.store.suppressed.list(stack.id)] == ["scale_in", "heal"]


def test_what_is_no_group(engine: Engine) -> None:
    stack = engine.create(template(a=thing("v"), **numbered(1)))
    groups = engine.components.groups
    with pytest.raises(HTTPBadRequest, match="is no group"):
        groups.change(engine.who, stack, "a", ScaleIn(1))
    with pytest.raises(ResourceNotFound):
        groups.change(engine.who, stack, "x", ScaleIn(1))


@kinds
def test_replace_members(engine: Engine, kind: str) -> None:
    stack = engine.create(template(**KINDS[kind](3)), **SERVERS)
    inner = nested(engine, stack)
    old, before = names(engine, stack), engine.ids(inner)
    objects = {row.name: row.physical_id for row in engine.rows(inner)}
    action = engine.components.groups.replace_members(engine.who, stack, "g", [old[1]])
    engine.settle(stack)
    after = engine.ids(inner)
    assert {name for name in old if before[name] != after[name]} == {old[1]}
    ended = engine.store.actions.get(action.id)
    assert ended is not None
    replaced = parse(dump(ended.outputs))["replaced"]
    assert replaced == {f"g/{old[1]}": [objects[old[1]], engine.row(inner, old[1]).physical_id]}
    assert (ended.word, ended.stack_id) == ("STACK_UPDATE", stack.id)


def test_recover(engine: Engine) -> None:
    stack = engine.create(template(a=thing("v"), **numbered(3)))
    groups, inner = engine.components.groups, nested(engine, stack)
    with pytest.raises(InvalidValue, match="nothing to recover"):
        groups.recover(engine.who, stack, "g", RepairStep.REPLACE, {})
    engine.mark(inner, "1")
    before = engine.ids(inner)
    groups.recover(engine.who, stack, "g", RepairStep.REPLACE, {})
    engine.settle(stack)
    after = engine.ids(inner)
    assert {name for name in before if before[name] != after[name]} == {"1"}
    before = engine.ids(stack)
    groups.recover(engine.who, engine.get(stack), "a", RepairStep.REPLACE, {})
    engine.settle(stack)
    assert engine.ids(stack)["a"] != before["a"]


def test_check_of_a_part(engine: Engine) -> None:
    stack = engine.create(template(a=thing("v"), b=thing("v"), **numbered(2)))
    groups = engine.components.groups
    groups.check(engine.who, stack, "a")
    stack = engine.settle(stack)
    assert engine.states(stack) == {
        "a": "CHECK_COMPLETE", "b": "CREATE_COMPLETE", "g": "CREATE_COMPLETE",
    }  # fmt: skip
    groups.check(engine.who, stack, "g")
    inner = engine.settle(nested(engine, stack))
    assert set(engine.states(inner).values()) == {"CHECK_COMPLETE"}


@pytest.mark.slow
def test_ignored_signals_are_counted_by_minute(engine: Engine) -> None:
    one = {"g": scaling(thing("v"), low=1, high=9, desired_capacity=3, cooldown=1000), "up": policy(1)}
    stack = engine.create(template(**one))
    signals, row = engine.components.signals, engine.row(stack, "up")

    def told() -> list[str]:
        return [event.status_reason for event in engine.events(stack) if event.verb == "SIGNAL"]

    with engine.clock.held():
        engine.clock.pass_(60 - engine.clock.now() % 60)
        for _ in range(100):
            ignored = signals.signal(engine.who, stack, row, None)
            assert ignored is not None
            assert ignored.reason == "cooldown"
        assert told() == ["Signal ignored: cooldown"]
        engine.clock.pass_(60)
        signals.signal(engine.who, stack, row, None)
        assert told()[1:] == ["Signal ignored: cooldown, and 99 more since the last such event"]
        with pytest.raises(ActionCooldown) as refused:
            signals.signal(engine.who, stack, row, None, fail_fast=True)
        assert refused.value.retry_after == ignored.retry_after - 60 if ignored.retry_after else 0
        assert signals.signal(engine.who, stack, row, {"current": "ok"}) == IgnoredSignal("not_alarm")
    engine.lock(stack, LockLevel.STACKS)
    assert signals.signal(engine.who, stack, row, None) == IgnoredSignal("locked")


def test_a_signal_that_scales_is_recorded(engine: Engine) -> None:
    stack = engine.create(template(**automatic(3), up=policy(1)))
    signal(engine, stack, "up")
    action = engine.store.actions.last(nested(engine, stack).id, Verb.UPDATE)
    assert action is not None
    assert parse(dump(action.inputs)) == {"signal": {"policy": "up", "kind": "change_in_capacity", "number": 1}}
    assert action.word == "STACK_UPDATE"


REQUESTS: dict[str, SizeRequest] = {
    "resize": ResizeRequest(Adjustment.CHANGE_IN_CAPACITY, 1),
    "follow_template": FollowTemplate(True),
    "scale_out": ScaleOut(1),
    "scale_in": ScaleIn(1),
    "delete_members": DeleteMembers(("MEMBER",)),
}
TOO_FAR: dict[str, SizeRequest] = {
    "resize": ResizeRequest(Adjustment.EXACT_CAPACITY, -1),
    "scale_out": ScaleOut(20_000),
    "scale_in": ScaleIn(20),
    "delete_members": DeleteMembers(("nobody",)),
}


def asked(engine: Engine, stack: StackRecord, verb: str, group: str = "g") -> ActionRecord:
    """Ask for an operation with a body that is in order."""
    groups, stack = engine.components.groups, engine.get(stack)
    member = next(iter(names(engine, stack)))
    if verb == "replace_members":
        return groups.replace_members(engine.who, stack, group, [member])
    if verb == "recover":
        return groups.recover(engine.who, stack, group, RepairStep.REPLACE, {})
    if verb == "check":
        return groups.check(engine.who, stack, group)
    request = DeleteMembers((member,)) if verb == "delete_members" else REQUESTS[verb]
    return groups.change(engine.who, stack, group, request)


VERBS = (*REQUESTS, "replace_members", "recover", "check")
FREELY = frozenset({"check"})
"""Operations that a maintenance lock allows."""


@pytest.mark.slow
@kinds
def test_each_refusal_of_each_operation_changes_nothing(engine: Engine, kind: str) -> None:
    """Limits, unknown and repeated members, no group, a lock, a live action."""
    stack = engine.create(template(a=thing("v"), **KINDS[kind](3)), **SERVERS)
    inner, groups = nested(engine, stack), engine.components.groups
    known = names(engine, stack)[0]
    before = (engine.rows(inner), engine.row(stack, "g"), engine.get(inner))
    for request in (*TOO_FAR.values(), DeleteMembers((known, known))):
        with pytest.raises(InvalidValue):
            change(engine, stack, request)
    for members in (["nobody"], [known, known]):
        with pytest.raises(InvalidValue):
            groups.replace_members(engine.who, stack, "g", members)
    with pytest.raises(InvalidValue, match="nothing to recover"):
        asked(engine, stack, "recover")
    for verb in VERBS:
        with pytest.raises(ResourceNotFound):
            asked(engine, stack, verb, "x")
        if verb in REQUESTS:
            with pytest.raises(HTTPBadRequest, match="is no group"):
                asked(engine, stack, verb, "a")
    assert (engine.rows(inner), engine.row(stack, "g"), engine.get(inner)) == before
    engine.mark(inner, known)
    before = (engine.rows(inner), engine.row(stack, "g"), engine.get(inner))
    for target in (inner, stack):
        engine.lock(target, LockLevel.STACKS)
        for verb in VERBS:
            if verb not in FREELY:
                with pytest.raises(StackLocked):
                    asked(engine, stack, verb)
        engine.unlock(target)
    before = (engine.rows(inner), engine.row(stack, "g"), engine.get(inner))
    for status, error in ((ActionStatus.RUNNING, ResourceIsLocked), (ActionStatus.WAITING, ActionConflict)):
        for target in (inner, stack):
            with live_action(engine, target, status):
                for verb in VERBS:
                    with pytest.raises(error):
                        asked(engine, stack, verb)
    assert (engine.rows(inner), engine.row(stack, "g"), engine.get(inner)) == before


@contextmanager
def live_action(engine: Engine, stack: StackRecord, status: ActionStatus) -> Iterator[None]:
    """Add a check of the stack that no worker here runs: another's, or a waiting one."""
    now = engine.clock.now()
    begun = status is ActionStatus.RUNNING
    action = ActionRecord(
        new_id(), stack.id, stack.root_id or stack.id, "demo", Verb.CHECK, status, "ann", now,
        pending=int(not begun), owner="another" if begun else None, lease_until=now + 1e9 if begun else None,
        started_at=now if begun else None,
    )  # fmt: skip
    with engine.store.transaction():
        engine.store.queue.enqueue(action)
    yield
    with engine.store.transaction():
        engine.store.actions.remove([action.id])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("AutoScalingGroup")])
def test_a_cooldown_refuses_what_scales_by_steps(engine: Engine, kind: str) -> None:
    """It refuses neither a size that is set nor named members."""
    made = KINDS[kind](3)
    made["g"]["properties"]["Cooldown" if kind.startswith("Cfn") else "cooldown"] = 100
    stack = engine.create(template(**made), **SERVERS)
    with engine.clock.held():
        engine.clock.pass_(1000)
        change(engine, stack, ScaleOut(1))
        for verb in ("scale_out", "scale_in"):
            with pytest.raises(ActionCooldown) as refused:
                asked(engine, stack, verb)
            assert refused.value.retry_after == 100
        assert len(names(engine, stack)) == 4
        change(engine, stack, ResizeRequest(Adjustment.CHANGE_IN_CAPACITY, 1))
        change(engine, stack, DeleteMembers((names(engine, stack)[0],)))
        assert len(names(engine, stack)) == 4


@pytest.mark.parametrize("criteria", few([Criteria.RANDOM, Criteria.YOUNGEST_FIRST]))
def test_a_takeover_decides_nothing_anew(engine: Engine, criteria: Criteria) -> None:
    slow = resource("OS::Heat::TestResource", value="v", action_wait_secs={"delete": 60})
    stack = engine.create(template(g=group(5, slow)))
    with engine.clock.held():
        action = change(engine, stack, ScaleIn(2, criteria), wait=False)
        before = engine.store.actions.get(action.id)
        assert before is not None
        engine.begun(lambda: "DELETE_IN_PROGRESS" in engine.states(nested(engine, stack)).values())
        engine.end()
        engine.open()
    engine.settle(nested(engine, stack))
    after = engine.store.actions.get(action.id)
    assert after is not None
    assert after.data == replace(before.data, stopping=None)
    assert after.data.deletion is not None
    assert not set(after.data.deletion.names) & set(names(engine, stack))
    assert parse(dump(after.outputs))["size"] == {"before": 5, "after": 3}
