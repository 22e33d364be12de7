"""Restricted updates: selected resources get new objects; nothing else changes."""

import json
from collections.abc import Mapping

import pytest

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.errors import (
    DeletionProtected,
    NotSupported,
    PlanChanged,
    RepairSpreads,
    ResourceIsLocked,
    ResourceNotFound,
    StackLocked,
    StackValidationFailed,
)
from heatlite.core.status import Cause, LockLevel, Status, Verb
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, attr, ref, resource, template, thing
from tests.engine.test_groups import group, members, nested, outcome, policy, scaling, signal
from tests.tables import few

REPLACE = RepairStep.REPLACE


def begin(engine: Engine, stack: StackRecord, *paths: str, digest: str | None = None) -> StackRecord:
    """Begin a repair of the resources at the paths."""
    engine.components.repairs.begin(engine.who, engine.get(stack), selection(*paths), plan_digest=digest)
    return engine.get(stack)


def heal(engine: Engine, stack: StackRecord, *paths: str, digest: str | None = None) -> StackRecord:
    return engine.settle(begin(engine, stack, *paths, digest=digest))


def selection(*paths: str) -> Selection:
    return Selection(dict.fromkeys(paths, REPLACE))


def renewed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Return the names that have another row now."""
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_only_the_selected_resource_gets_a_new_object(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), b=thing(), c=thing()))
    engine.mark(stack, "a", reason="it smells")
    engine.mark(stack, "b")
    before, definition = engine.ids(stack), (stack.template_id, stack.environment)
    stack = heal(engine, stack, "a")
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert renewed(before, engine.ids(stack)) == {"a"}
    assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CHECK_FAILED", "c": "CREATE_COMPLETE"}
    assert (stack.template_id, stack.environment) == definition
    action = engine.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None
    assert (action.cause, action.inputs.heal) == (Cause.REPAIR, selection("a"))


def test_a_user_update_replaces_the_rest(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), b=thing()))
    engine.mark(stack, "a")
    engine.mark(stack, "b")
    stack = heal(engine, stack, "a")
    before = engine.ids(stack)
    stack = engine.patch(stack)
    assert renewed(before, engine.ids(stack)) == {"b"}


def test_readers_follow_in_place(engine: Engine) -> None:
    reader, far = thing({"list_join": [",", [ref("a")]]}), thing(attr("b", "output"))
    stack = engine.create(template(a=resource("OS::Heat::RandomString"), b=reader, c=far, d=thing()))
    mark, before, was = engine.now_on(stack), engine.ids(stack), engine.value(stack, "b")
    stack = heal(engine, stack, "a")
    assert renewed(before, engine.ids(stack)) == {"a"}
    told = {line.split()[0] for line in engine.told(stack, mark)}
    assert "d" not in told
    assert engine.value(stack, "b") != was
    assert engine.value(stack, "c") == engine.value(stack, "b")


def test_a_member_of_a_scaled_group(engine: Engine) -> None:
    scaled = scaling(thing("v"), low=1, desired_capacity=3)
    stack = engine.create(template(g=scaled, up=policy(2), lb=thing()))
    signal(engine, stack, "up")
    inner = nested(engine, stack)
    before = engine.ids(inner)
    assert len(before) == 5
    name = sorted(before)[2]
    engine.mark(inner, name)
    stack = heal(engine, stack, f"g/{name}")
    assert renewed(before, engine.ids(inner)) == {name}
    assert set(engine.states(inner).values()) == {"CREATE_COMPLETE"}
    assert outcome(engine.get(inner)) == "UPDATE_COMPLETE"


@pytest.mark.parametrize(
    "one", few([group(3, thing()), scaling(thing(), desired_capacity=3)]), ids=["numbered", "scaling"]
)
def test_siblings_get_no_action(engine: Engine, one: object) -> None:
    stack = engine.create(template(g=one, other=one))
    other, inner = nested(engine, stack, "other"), nested(engine, stack)
    name = sorted(engine.ids(inner))[1]
    stack = heal(engine, stack, f"g/{name}")
    assert engine.get(other) == other
    assert len(members(engine, stack)) == 3


@pytest.mark.slow
def test_deep_in_a_tree(engine: Engine) -> None:
    """A member's mark in a template in a group in a group."""
    files = {"pair.yaml": json.dumps(template(x=thing("v"), y=thing(attr("x", "output"))))}
    inner = group(2, {"type": "pair.yaml"})
    stack = engine.create(template(g=group(2, inner)), files=files)
    g = nested(engine, stack)
    level = nested(engine, g, "1")
    pair, sibling = nested(engine, level, "0"), nested(engine, level, "1")
    other = nested(engine, g, "0")
    before = engine.ids(pair)
    stack = heal(engine, stack, "g/1/0/x")
    assert renewed(before, engine.ids(pair)) == {"x"}
    assert [engine.get(one) for one in (sibling, other)] == [sibling, other]
    assert engine.get(pair).template_id == pair.template_id


def test_locks_on_and_off_the_path(engine: Engine) -> None:
    stack = engine.create(template(g=group(1, thing()), other=group(1, thing())))
    engine.lock(nested(engine, stack, "other"), LockLevel.STACKS)
    stack = heal(engine, stack, "g/0")
    assert outcome(stack) == "UPDATE_COMPLETE"
    engine.lock(nested(engine, stack), LockLevel.STACKS)
    mark = engine.now_on(stack)
    with pytest.raises(StackLocked):
        begin(engine, stack, "g/0")
    assert engine.told(stack, mark) == []


def test_a_repair_that_spreads_needs_approval(engine: Engine) -> None:
    fixed = thing(update_replace_value=attr("a", "value"))
    stack = engine.create(template(a=resource("OS::Heat::RandomString"), b=fixed, c=thing()))
    before = engine.ids(stack)
    plan = engine.components.repairs.plan(stack, selection("a"))
    assert plan.spreads == ("b",)
    with pytest.raises(RepairSpreads):
        begin(engine, stack, "a")
    with pytest.raises(PlanChanged):
        begin(engine, stack, "a", digest="0")
    stack = heal(engine, stack, "a", digest=plan.shown.digest)
    assert renewed(before, engine.ids(stack)) == {"a", "b"}


def test_a_missing_resource(engine: Engine) -> None:
    stack = engine.create(template(g=group(1, thing())))
    for path in ("x", "g/1", "g/0/x"):
        with pytest.raises(ResourceNotFound):
            begin(engine, stack, path)


def test_a_protected_resource(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), b=thing()))
    engine.components.protection.protect(engine.who, stack, "a", None)
    with pytest.raises(DeletionProtected):
        begin(engine, stack, "a")
    heal(engine, stack, "b")


def test_a_restricted_resource(engine: Engine) -> None:
    environment = {"resource_registry": {"resources": {"a": {"restricted_actions": "replace"}}}}
    stack = engine.create(template(a=thing()), environment=environment)
    with pytest.raises(StackValidationFailed):
        begin(engine, stack, "a")


@pytest.mark.parametrize("rollback", few([True, False]))
def test_a_failed_repair_is_not_rolled_back_and_can_be_retried(engine: Engine, rollback: bool) -> None:
    stack = engine.create(template(a=thing(action_wait_secs={"create": 60}), b=thing()), disable_rollback=False)
    engine.mark(stack, "b")
    before = engine.ids(stack)
    with engine.clock.held():
        begin(engine, stack, "a")
        engine.begun(lambda: len(engine.rows(stack)) == 3)
        stack = engine.cancel(stack, rollback)
    assert outcome(stack) == "UPDATE_FAILED"
    engine.stacks.retry(engine.who, stack)
    stack = engine.settle(stack)
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert renewed(before, engine.ids(stack)) == {"a"}
    assert engine.states(stack)["b"] == "CHECK_FAILED"


def test_a_busy_tree(engine: Engine) -> None:
    with engine.clock.held():
        slow = resource("OS::Heat::TestResource", value="v", action_wait_secs={"create": 60})
        stack = engine.create(template(a=slow), wait=False)
        engine.begun(lambda: engine.rows(stack))
        with pytest.raises(ResourceIsLocked):
            begin(engine, stack, "a")
    engine.settle(stack)


def phoenix(**properties: object) -> object:
    return resource("Test::Phoenix", **properties)


def test_a_reboot_keeps_object_and_definition(engine: Engine) -> None:
    stack = engine.create(template(p=phoenix(value="v"), r=thing(attr("p", "rebuilt")), q=thing()))
    engine.mark(stack, "p")
    before, since = engine.row(stack, "p"), engine.now_on(stack)
    ids = engine.ids(stack)
    engine.components.repairs.begin(engine.who, engine.get(stack), Selection({"p": RepairStep.REBOOT}))
    stack = engine.settle(stack)
    after = engine.row(stack, "p")
    assert engine.ids(stack) == ids
    assert (after.physical_id, after.properties) == (before.physical_id, before.properties)
    assert after.data == {"rebuilt": 0, "rebooted": 1}
    told = [line for line in engine.told(stack, since) if not line.startswith("r ")]
    assert told == ["s UPDATE_IN_PROGRESS", "p UPDATE_IN_PROGRESS", "p UPDATE_COMPLETE", "s UPDATE_COMPLETE"]


@pytest.mark.slow
def test_a_reboot_that_was_cut_off_goes_on(engine: Engine) -> None:
    stack = engine.create(template(p=phoenix(seconds=100)))
    with engine.clock.held():
        engine.components.repairs.begin(engine.who, stack, Selection({"p": RepairStep.REBOOT}))
        engine.begun(lambda: engine.row(stack, "p").data.get("rebooted") == 1)
        engine.close()
        engine.open()
    stack = engine.settle(stack)
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert engine.row(stack, "p").data == {"rebuilt": 0, "rebooted": 1}


def test_what_cannot_be_rebooted(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), p=phoenix()))
    for name in ("a", "p"):
        if name == "p":
            engine.put_row(stack, "p", Verb.CREATE, Status.FAILED)
        with pytest.raises(NotSupported, match=f"no such step: {name}"):
            engine.components.repairs.begin(engine.who, stack, Selection({name: RepairStep.REBOOT}))
