"""Reverts: laws 1.5 and 1.10, and the acceptance of drift, on the simulated cloud."""

import json
from collections.abc import Callable, Sequence

import pytest

from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.context import Context
from heatlite.core.errors import (
    DeletionProtected,
    InvalidStackState,
    PlanChanged,
    RepairSpreads,
    ResourceIsLocked,
    ResourceNotFound,
    StackLocked,
)
from heatlite.core.status import LockLevel, Status, Verb
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.drift.reverting import Reverting, RevertRequest
from heatlite.features.drift.states import DriftState
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import MEMBER, Engine, attr, resource, template, thing
from tests.features.drift.engine.test_drift import EVERYTHING, Outage, change_all, drift, final
from tests.types.conftest import Cloudy


def reverting(engine: Engine) -> Reverting:
    return Reverting(engine.store, engine.components.repairs)


def begin(engine: Engine, stack: StackRecord, *paths: str, digest: str | None = None) -> None:
    asked = RevertRequest(paths, digest)
    reverting(engine).revert(MEMBER, engine.get(stack), asked, {"revert_drift": {"resources": [*paths]}})


def revert(engine: Engine, stack: StackRecord, *paths: str, digest: str | None = None) -> StackRecord:
    begin(engine, stack, *paths, digest=digest)
    return engine.settle(stack)


def planned(engine: Engine, stack: StackRecord, *paths: str) -> ShownPlan:
    return reverting(engine).plan(engine.get(stack), RevertRequest(paths))


def changes(engine: Engine, stack: StackRecord, *paths: str) -> dict[str, str]:
    """Return what a plan does, by path."""
    return {"/".join(one.path): one.action for one in planned(engine, stack, *paths).resources if one.action != "keep"}


def outputs(engine: Engine, stack: StackRecord) -> ActionOutputs:
    """Of the last update."""
    action = engine.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None
    return action.outputs


def drifted(engine: Engine, stack: StackRecord, names: Sequence[str]) -> list[str]:
    records = {name: drift(engine, stack, name) for name in names}
    return [name for name, one in records.items() if one is not None and one.state is DriftState.DRIFTED]


def renamed(cloudy: Cloudy, stack: StackRecord, *names: str) -> StackRecord:
    """The stack after a check, once these networks have another name."""
    for name in names:
        cloudy.view().call("network.update_network", cloudy.row(stack, name).physical_id, name=f"not {name}")
    return cloudy.check(stack)


def nets(*names: str) -> dict[str, object]:
    return {name: resource("OS::Neutron::Net", name=name) for name in names}


@pytest.mark.slow
def test_everything_is_put_back(cloudy: Cloudy) -> None:
    """Law 1.5."""
    stack = cloudy.made(EVERYTHING)
    change_all(cloudy, stack)
    stack, before = cloudy.check(stack), cloudy.ids(stack)
    assert drifted(cloudy, stack, [*before]) == [*before]
    definition = stack.template_id, stack.environment
    stack = revert(cloudy, stack)
    assert (final(stack), cloudy.ids(stack)) == ("UPDATE_COMPLETE", before), cloudy.why(stack)
    assert (stack.template_id, stack.environment) == definition
    assert drifted(cloudy, stack, [*before]) == []
    assert sorted(outputs(cloudy, stack).reverted or ()) == sorted(before)
    stack = cloudy.check(stack)
    assert drifted(cloudy, stack, [*before]) == []
    with pytest.raises(InvalidStackState):
        begin(cloudy, stack)


@pytest.mark.slow
def test_one_of_two(cloudy: Cloudy) -> None:
    """Acceptance 7."""
    stack = renamed(cloudy, cloudy.made(nets("a", "b", "c")), "a", "b")
    assert changes(cloudy, stack, "a") == {"a": "update"}
    stack = revert(cloudy, stack, "a")
    assert [cloudy.thing(stack, name)["name"] for name in "abc"] == ["a", "not b", "c"]
    assert drifted(cloudy, stack, "abc") == ["b"]
    assert outputs(cloudy, stack).reverted == ("a",)
    for name, error in (("c", InvalidStackState), ("d", ResourceNotFound)):
        with pytest.raises(error):
            begin(cloudy, stack, name)
        with pytest.raises(error):
            planned(cloudy, stack, name)


@pytest.mark.slow
def test_of_a_nested_stack(cloudy: Cloudy) -> None:
    group = resource("OS::Heat::ResourceGroup", count=2, resource_def=resource("OS::Neutron::Net", name="n%index%"))
    stack = cloudy.made({"g": group, **nets("a")})
    (below,) = cloudy.store.stacks.descendants(stack)
    for name in "01":
        cloudy.view().call("network.update_network", cloudy.row(below, name).physical_id, name="other")
    stack = renamed(cloudy, stack, "a")
    stack = revert(cloudy, stack, "g/1")
    assert [cloudy.thing(cloudy.get(below), name)["name"] for name in "01"] == ["other", "n1"]
    assert outputs(cloudy, stack).reverted == ("g/1",)
    stack = revert(cloudy, stack, "g")
    assert cloudy.thing(cloudy.get(below), "0")["name"] == "n0"
    assert cloudy.thing(stack, "a")["name"] == "not a"
    with pytest.raises(InvalidStackState):
        begin(cloudy, cloudy.get(below))


def test_a_locked_stack(cloudy: Cloudy) -> None:
    stack = renamed(cloudy, cloudy.made(nets("a")), "a")
    stack = cloudy.lock(stack, LockLevel.STACKS)
    with pytest.raises(StackLocked):
        begin(cloudy, stack)
    assert [one.request for one in cloudy.store.suppressed.list(stack.id)] == ["revert_drift"]
    assert cloudy.thing(stack, "a")["name"] == "not a"


@pytest.mark.slow
def test_a_locked_nested_stack(engine: Engine) -> None:
    child = json.dumps(template(x=thing(live_value="w")))
    stack = engine.create(template(a=thing(live_value="w"), n={"type": "child.yaml"}), files={"child.yaml": child})
    stack = engine.check(stack)
    (below,) = engine.store.stacks.descendants(stack)
    engine.lock(below, LockLevel.STACKS)
    with pytest.raises(StackLocked, match=f"Stack {below.name} is under maintenance"):
        begin(engine, stack)
    assert [one.request for one in engine.store.suppressed.list(stack.id)] == ["revert_drift"]
    stack = revert(engine, stack, "a")
    assert outputs(engine, stack).reverted == ("a",)
    engine.unlock(below)
    stack = revert(engine, stack)
    assert outputs(engine, stack).reverted == ("n/x",)


def test_hidden_values(cloudy: Cloudy) -> None:
    """Law 1.8."""
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}}
    stack = cloudy.create(template(parameters=hidden, net=resource("OS::Neutron::Net", name={"get_param": "p"})))
    cloudy.view().call("network.update_network", cloudy.row(stack, "net").physical_id, name="swordfish")
    stack = cloudy.check(stack)
    plan = planned(cloudy, stack)
    stack = revert(cloudy, stack)
    told = f"{plan} {outputs(cloudy, stack)} {cloudy.store.actions.last(stack.id, Verb.UPDATE)} {cloudy.events(stack)}"
    assert not any(secret in told for secret in ("swordfish", "hunter2"))
    assert cloudy.thing(stack, "net")["name"] == "hunter2"


def test_a_busy_stack(engine: Engine) -> None:
    stack = engine.create(template(a=thing(live_value="w")))
    with engine.clock.held():
        engine.patch(stack, wait=False, template=template(a=thing("x", wait_secs=10)))
        engine.begun(lambda: engine.states(stack)["a"] == "UPDATE_IN_PROGRESS")
        with pytest.raises(ResourceIsLocked):
            begin(engine, stack)
    engine.settle(stack)


def test_what_would_be_replaced(engine: Engine) -> None:
    """Law 1.10: what is unhealthy takes another object."""
    stack = engine.check(engine.create(template(a=thing(live_value="w"), b=thing(live_value="w"))))
    engine.put_row(stack, "a", Verb.CHECK, Status.FAILED, "marked")
    before = engine.ids(stack), engine.get(stack)
    for digest in (None, planned(engine, stack, "a").digest):
        with pytest.raises(RepairSpreads):
            begin(engine, stack, "a", digest=digest)
    assert (engine.ids(stack), engine.get(stack)) == before
    # Without a name, what is unhealthy is left out.
    assert changes(engine, stack) == {"b": "update"}


def test_what_the_type_cannot_put_back(cloudy: Cloudy) -> None:
    stack = cloudy.made({"vol": resource("OS::Cinder::Volume", size=1), **nets("a")})
    cloudy.view().call("block_storage.extend_volume", cloudy.row(stack, "vol").physical_id, 2)
    cloudy.clock.pass_(60)
    stack = renamed(cloudy, stack, "a")
    before = cloudy.get(stack)
    with pytest.raises(RepairSpreads, match="vol: a volume cannot shrink: it has 2 GiB, and size is 1"):
        begin(cloudy, stack)
    assert cloudy.get(stack) == before
    assert drifted(cloudy, revert(cloudy, stack, "a"), ["a", "vol"]) == ["vol"]


def test_an_object_that_is_gone(cloudy: Cloudy) -> None:
    stack = renamed(cloudy, cloudy.made(nets("a", "b")), "a", "b")
    cloudy.view().call("network.delete_network", cloudy.row(stack, "a").physical_id)
    before = cloudy.ids(stack)
    with pytest.raises(RepairSpreads):
        begin(cloudy, stack)
    assert cloudy.ids(stack) == before
    assert cloudy.thing(stack, "b")["name"] == "not b"
    cloudy.components.protection.protect(MEMBER, cloudy.get(stack), "a", None)
    with pytest.raises(DeletionProtected):
        begin(cloudy, stack)
    cloudy.components.protection.unprotect(MEMBER, cloudy.get(stack), "a", None)


def test_what_reads_it_follows(engine: Engine) -> None:
    follower = thing(attr("a", "output"))
    stack = engine.check(engine.create(template(a=thing("v", live_value="w"), b=follower, c=thing("x"))))
    before = engine.ids(stack)
    assert changes(engine, stack) == {"a": "update", "b": "update"}
    stack = revert(engine, stack)
    assert (final(stack), engine.ids(stack)) == ("UPDATE_COMPLETE", before)
    assert outputs(engine, stack).reverted == ("a",)


def test_a_plan_binds(cloudy: Cloudy) -> None:
    stack = renamed(cloudy, cloudy.made(nets("a", "b")), "a")
    digest = planned(cloudy, stack).digest
    cloudy.view().call("network.update_network", cloudy.row(stack, "a").physical_id, name="again another")
    with pytest.raises(PlanChanged):
        begin(cloudy, stack, digest=digest)
    stack = revert(cloudy, stack, digest=planned(cloudy, stack).digest)
    assert cloudy.thing(stack, "a")["name"] == "a"


def test_what_is_gone_meanwhile_is_not_replaced(cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 1.10: the object goes between the request and the update."""
    stack = renamed(cloudy, cloudy.made(nets("a")), "a")
    before, key = cloudy.ids(stack), cloudy.row(stack, "a").physical_id
    enqueue = cloudy.components.admission.enqueue_action

    def gone(context: Context, action: ActionRecord) -> None:
        cloudy.view().call("network.delete_network", key)
        enqueue(context, action)

    monkeypatch.setattr(cloudy.components.admission, "enqueue_action", gone)
    stack = revert(cloudy, stack)
    assert (final(stack), cloudy.ids(stack)) == ("UPDATE_FAILED", before)
    assert "takes another object" in stack.status_reason


def test_what_an_earlier_attempt_has_begun(cloudy: Cloudy) -> None:
    """A kill between the row's state and the call: the next attempt looks again."""
    stack = renamed(cloudy, cloudy.made(nets("a")), "a")
    cloudy.put_row(stack, "a", Verb.UPDATE, Status.IN_PROGRESS)
    stack = revert(cloudy, stack, "a")
    assert cloudy.thing(stack, "a")["name"] == "a"
    assert drifted(cloudy, stack, "a") == []


def test_a_retry(troubled: Callable[..., Cloudy]) -> None:
    """A resource that could not be put back still differs."""
    cloudy = troubled(faults=[{"verb": "network.update_network", "number": 2, "raises": "refused"}])
    stack = revert(cloudy, renamed(cloudy, cloudy.made(nets("a")), "a"))
    assert (final(stack), outputs(cloudy, stack).reverted) == ("UPDATE_FAILED", ())
    assert drifted(cloudy, stack, "a") == ["a"]
    cloudy.stacks.retry(MEMBER, stack)
    stack = cloudy.settle(stack)
    assert (final(stack), cloudy.thing(stack, "a")["name"]) == ("UPDATE_COMPLETE", "a"), cloudy.why(stack)
    assert drifted(cloudy, stack, "a") == []


def test_what_is_ignored(cloudy: Cloudy) -> None:
    net = resource("OS::Neutron::Net", name="a", tags=["x"], keys={"update_policy": {"ignore_drift": ["/tags"]}})
    stack = cloudy.made({"a": net})
    key = cloudy.row(stack, "a").physical_id
    cloudy.view().call("network.set_tags", "network", key, ["y"])
    stack = renamed(cloudy, stack, "a")
    stack = revert(cloudy, stack)
    assert (cloudy.thing(stack, "a")["name"], cloudy.thing(stack, "a")["tags"]) == ("a", ["y"])


@pytest.mark.database
def test_on_each_kind_of_database(engine: Engine) -> None:
    stack = engine.check(engine.create(template(a=thing(live_value="w"), b=thing(live_value="w"), c=thing(attr("a")))))
    stack = revert(engine, stack, "b")
    assert outputs(engine, stack).reverted == ("b",)
    stack = revert(engine, stack)
    assert outputs(engine, stack).reverted == ("a",)


@pytest.mark.slow
def test_an_object_that_cannot_be_read(cloudy: Cloudy) -> None:
    """It is unknown: left out, or refused where it is named."""
    both = {**nets("net"), "vol": resource("OS::Cinder::Volume", size=1, name="vol")}
    stack = renamed(cloudy, cloudy.made(both), "net")
    with Outage(cloudy):
        for paths in ((), ("net",)):
            with pytest.raises(InvalidStackState, match="could not be read: net: "):
                begin(cloudy, stack, *paths)
            with pytest.raises(InvalidStackState, match="could not be read: net: "):
                planned(cloudy, stack, *paths)
    cloudy.view().call("block_storage.update_volume", cloudy.row(stack, "vol").physical_id, name="other")
    stack = cloudy.check(stack)
    with Outage(cloudy):
        assert changes(cloudy, stack) == {"vol": "update"}
        with pytest.raises(InvalidStackState, match="could not be read: net: "):
            begin(cloudy, stack, "net", "vol")
        stack = revert(cloudy, stack)
    assert (final(stack), cloudy.thing(stack, "vol")["name"]) == ("UPDATE_COMPLETE", "vol")
    assert drifted(cloudy, stack, ["net", "vol"]) == ["net"]
