"""Deletions that leave objects in the cloud, and their plans (laws D9–D11)."""

from collections.abc import Sequence
from typing import Any

import pytest

from heatlite.core.actions.payloads import RETAINED, RetainedObject
from heatlite.core.errors import ActionConflict, DeletionProtected, HTTPBadRequest, PlanChanged, StackLocked
from heatlite.core.status import Status, Verb
from heatlite.engine.state.requests import ShownPlan
from heatlite.store.records import StackRecord

from .conftest import Engine, ref, resource, template, thing
from .test_selection import parts

GROUP = resource("OS::Heat::ResourceGroup", count=2, resource_def=thing("m"))
THREE = template(
    net=thing("n"),
    port=thing(ref("net")),
    web=thing(ref("port")),
    user=thing(ref("web")),
    db=thing("d"),
    group=GROUP,
    kept=thing("k", keys={"deletion_policy": "Retain"}),
)


def plan_of(engine: Engine, stack: StackRecord, *retain: str) -> ShownPlan:
    return engine.stacks.preview_deletion(engine.who, engine.get(stack), retain)


def delete(engine: Engine, stack: StackRecord, retain: Sequence[str], **more: Any) -> StackRecord:
    engine.stacks.delete(engine.who, engine.get(stack), retain=retain, **more)
    return engine.settle(stack)


def test_the_plan_has_the_whole_tree_in_order(engine: Engine) -> None:
    stack = engine.create(THREE)
    plan = plan_of(engine, stack)
    told = {"/".join(one.path): one.action for one in plan.resources}
    gone = ("user", "web", "port", "net", "db", "group", "group/0", "group/1")
    assert told == {**dict.fromkeys(gone, "delete"), "kept": "keep"} and parts(plan) == {}
    order = [*told]
    assert [order.index(name) for name in ("user", "web", "port", "net")] == sorted(
        order.index(name) for name in ("user", "web", "port", "net")
    )
    assert plan_of(engine, stack).digest == plan.digest != plan_of(engine, stack, "db").digest


def test_an_object_stays_with_everything_it_requires(engine: Engine) -> None:
    stack = engine.create(THREE)
    rows = {row.name: row for row in engine.rows(stack)}
    plan = plan_of(engine, stack, "web")
    assert parts(plan) == {"web": "named", "port": "pulled_in", "net": "pulled_in"}
    assert {one.path[0]: one.cause for one in plan.resources}["port"] == "web requires it"
    mark = engine.now_on(stack)
    stack = delete(engine, stack, ["web"], plan_digest=plan.digest)
    assert (stack.verb, stack.status) == (Verb.DELETE, Status.COMPLETE) and engine.rows(stack) == []
    action = engine.store.actions.last(stack.id, Verb.DELETE)
    assert action is not None and action.inputs.retain == ("web",)
    expected = {name: rows[name].physical_id for name in ("web", "port", "net")}
    assert {one.path: one.physical_id for one in action.outputs.retained or ()} == expected
    for name, physical_id in expected.items():
        assert f"{name} (OS::Heat::TestResource, {physical_id})" in stack.status_reason
    assert "db (" not in stack.status_reason and "kept (" in stack.status_reason
    assert "user DELETE_COMPLETE" in engine.told(stack, mark)
    stays = [one.resource_name for one in engine.events(stack)[mark:] if one.status_reason == RETAINED]
    assert sorted(stays) == sorted(expected)


@pytest.mark.parametrize(
    ("retain", "message"),
    [
        (["web", "no", "web/x"], "retain: no: there is no such resource"),
        (["no", "gone/0"], "no, gone/0"),
        (["group/0"], "what is nested cannot be retained"),
        (["group"], "a nested stack can only be retained by its deletion policy"),
    ],
    ids=str,
)
def test_what_cannot_stay_is_refused(engine: Engine, retain: list[str], message: str) -> None:
    stack = engine.create(THREE)
    mark = engine.now_on(stack)
    with pytest.raises(HTTPBadRequest, match=message):
        plan_of(engine, stack, *retain)
    with pytest.raises(HTTPBadRequest, match=message):
        engine.stacks.delete(engine.who, engine.get(stack), retain=retain)
    assert engine.now_on(stack) == mark and engine.get(stack).verb is Verb.CREATE


def test_what_requires_a_nested_stack_cannot_stay(engine: Engine) -> None:
    stack = engine.create(template(group=GROUP, web=thing("w", depends_on="group")))
    with pytest.raises(HTTPBadRequest, match="group: a nested stack"):
        plan_of(engine, stack, "web")


def test_another_plan_is_refused(engine: Engine) -> None:
    stack = engine.create(THREE)
    with pytest.raises(PlanChanged):
        engine.stacks.delete(engine.who, stack, retain=["db"], plan_digest=plan_of(engine, stack).digest)
    with pytest.raises(PlanChanged):
        engine.stacks.delete(engine.who, stack, plan_digest=plan_of(engine, stack, "db").digest)
    assert engine.get(stack).verb is Verb.CREATE


def test_a_refusal_comes_with_the_plan(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), b=thing()))
    engine.components.protection.protect(engine.who, stack, "a", None)
    with pytest.raises(DeletionProtected):
        plan_of(engine, stack, "a")
    engine.components.protection.unprotect(engine.who, stack, "a", None)
    engine.lock(stack)
    with pytest.raises(StackLocked):
        plan_of(engine, stack)
    engine.unlock(stack)
    assert parts(plan_of(engine, stack, "a")) == {"a": "named"}


@pytest.mark.slow
def test_a_later_deletion_keeps_what_the_first_one_has_retained(engine: Engine) -> None:
    never = thing(action_wait_secs={"delete": -1})
    stack = engine.create(template(a=thing("a"), b=thing("b"), bad=never), timeout_mins=1)
    (a,) = [row for row in engine.rows(stack) if row.name == "a"]
    stack = delete(engine, stack, ["a"])
    assert (stack.verb, stack.status) == (Verb.DELETE, Status.FAILED)
    assert {one.path: one.action for one in plan_of(engine, stack).resources}[("a",)] == "keep"
    engine.stacks.delete(engine.who, engine.get(stack), force=True)
    stack = engine.settle(stack)
    assert stack.status is Status.COMPLETE and f"a ({a.type}, {a.physical_id})" in stack.status_reason
    action = engine.store.actions.last(stack.id, Verb.DELETE)
    assert action is not None
    assert action.outputs.retained == (RetainedObject("a", a.type, a.physical_id or ""),)


def test_a_running_deletion_or_update_is_not_changed(engine: Engine) -> None:
    slow = {"update": 5, "delete": 5}
    stack = engine.create(template(a=thing("a"), b=thing("b", action_wait_secs=slow)))
    with engine.clock.held():
        engine.put(stack, template(a=thing("2"), b=thing("2", action_wait_secs=slow)), wait=False)
        engine.begun(lambda: engine.row(stack, "b").token)
        with pytest.raises(ActionConflict):
            engine.stacks.delete(engine.who, engine.get(stack), retain=["a"])
    engine.settle(stack)
    with engine.clock.held():
        engine.stacks.delete(engine.who, engine.get(stack))
        engine.begun(lambda: engine.row(stack, "b").token)
        with pytest.raises(ActionConflict):
            engine.stacks.delete(engine.who, engine.get(stack), retain=["a"])
    engine.settle(stack)
