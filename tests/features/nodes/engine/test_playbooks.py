"""Runs of playbooks: from the request to the end, and what gets in their way."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionImmutable,
    Conflict,
    Forbidden,
    HTTPBadRequest,
    InvalidActionState,
    NotSupported,
    ResourceIsLocked,
)
from heatlite.core.json import dump, parse
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, LockLevel, Signal, state
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.states import NodeActionState, PlaybookChanged
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import ADMIN, MEMBER, Engine, template, thing
from tests.features.nodes.engine.played_agents import register, sendable, tell, work
from tests.tables import few

S = NodeActionState
OTHER = Context("demo", user="tom", roles=frozenset({"member", "reader"}))


def stage(name: str = "restart", nodes: object = "all", **more: object) -> dict[str, object]:
    return {"name": name, "nodes": nodes, "action": {"kind": "service.restart", "args": {"service": "db"}}, **more}


def document(*stages: object) -> Any:
    return {"node_playbook": "2026-11-21", "stages": [*stages] or [stage()]}


@pytest.fixture
def stack(engine: Engine) -> StackRecord:
    """Three machines, each with an agent."""
    stack = engine.create(template(a=thing(keys={"metadata": {"role": "db"}}), b=thing("w"), c=thing("v")))
    register(engine.front, stack)
    return stack


def put(engine: Engine, stack: StackRecord, *stages: object, **more: Any) -> ActionRecord:
    """A run that waits for approval, or not."""
    request = RunRequest(document=document(*stages), **more)
    run_id = engine.components.of(NodeOperations).playbooks.run(MEMBER, stack, request)
    return again(engine, run_id)


def digest_of(run: ActionRecord) -> str:
    return run.inputs.digest


def again(engine: Engine, run: ActionRecord | str) -> ActionRecord:
    found = engine.store.actions.get(run if isinstance(run, str) else run.id)
    assert found is not None
    return found


def approved(engine: Engine, stack: StackRecord, *stages: object, **more: Any) -> ActionRecord:
    return engine.components.of(NodeOperations).playbooks.approve(OTHER, put(engine, stack, *stages, **more))


def signal(engine: Engine, run: ActionRecord, wanted: Signal) -> ActionRecord:
    return engine.components.controls.signal(MEMBER, again(engine, run), wanted)


def states(engine: Engine, run: ActionRecord) -> list[str]:
    return [f"{one.node} {one.state}" for one in engine.store.of(NodeStore).node_actions.of_run(run.id)]


def only(found: list[NodeActionRecord]) -> NodeActionRecord:
    (one,) = found
    return one


@pytest.mark.slow
@pytest.mark.parametrize("level", few(LockLevel))
def test_maintenance(engine: Engine, stack: StackRecord, level: LockLevel) -> None:
    stack = engine.lock(stack, level)
    since = engine.now_on(stack)
    run = put(engine, stack, stage("drain"), stage("restart", {"names": ["c", "a"]}, at_once="all"))
    assert (run.status, run.deadline) == (ActionStatus.INIT, None)
    assert states(engine, run) == [f"{name} PENDING_APPROVE" for name in "abcca"]
    assert sendable(engine.front, stack) == []
    before = engine.clock.now()
    run = engine.components.of(NodeOperations).playbooks.approve(OTHER, run, digest_of(run))
    assert (run.status, run.pending) == (ActionStatus.WAITING, 1)
    assert run.deadline is not None and run.started_at is not None and run.deadline >= before + 3600
    assert {one.approved_by for one in engine.store.of(NodeStore).node_actions.of_run(run.id)} == {"tom"}
    looked_after = engine.store.of(NodeStore).orchestrations.get(stack.id)
    assert looked_after is not None and looked_after.nudges > 0
    for refused in (engine.unlock, engine.lock):
        with pytest.raises(ResourceIsLocked, match=run.id):
            refused(stack)
    assert work(engine.front, stack) == ["a", "b", "c", "c a"]
    run = again(engine, run)
    assert (run.status, run.status_reason) == (ActionStatus.SUCCEEDED, "All stages are done")
    assert parse(dump(run.outputs)) == {
        "result": "OK",
        "stages": [{"name": "drain", "states": {"DONE": 3}}, {"name": "restart", "states": {"DONE": 2}}],
        "failed": [],
    }
    assert [line for line in engine.told(stack, since) if line.startswith(f"{stack.name} PLAYBOOK")] == [
        f"{stack.name} PLAYBOOK_IN_PROGRESS",
        f"{stack.name} PLAYBOOK_COMPLETE",
    ]
    after = engine.get(stack)
    assert after == stack
    after = engine.unlock(stack)
    assert engine.store.actions.live([stack.id]) == []


def test_a_failure_stops_it(engine: Engine, stack: StackRecord) -> None:
    run = approved(engine, stack, stage(at_once=2), stage("test"))
    first, second = sendable(engine.front, stack)
    tell(engine.front, second, S.RUNNING)
    tell(engine.front, first, S.FAILED)
    cancelled = ["c CANCELLED", "a CANCELLED", "b CANCELLED", "c CANCELLED"]
    assert states(engine, run) == ["a FAILED", "b RUNNING", *cancelled]
    assert again(engine, run).status is ActionStatus.WAITING, "what runs runs to its end"
    assert not [one for one in engine.store.of(NodeStore).node_actions.of_run(run.id) if one.cancel_asked]
    tell(engine.front, second, S.DONE)
    run = again(engine, run)
    assert run.status is ActionStatus.FAILED
    assert parse(dump(run.outputs))["failed"] == [{"id": first.id, "stage": "restart", "node": "a", "state": "FAILED"}]
    assert run.outputs.error == "Stage restart: service.restart on node a is FAILED"
    assert engine.get(stack) == stack


@pytest.mark.slow
def test_what_it_keeps_out(engine: Engine, stack: StackRecord) -> None:
    run = approved(engine, stack)
    with pytest.raises(ResourceIsLocked, match=f"PLAYBOOK.*{run.id}"):
        engine.put(stack, template(a=thing("new")))
    for one in (engine.check, engine.suspend, engine.lock):
        with pytest.raises(ResourceIsLocked, match=run.id):
            one(stack)
    with pytest.raises(NotSupported):
        engine.cancel(stack, rollback=True)
    second = put(engine, stack)
    with pytest.raises(ResourceIsLocked, match=run.id):
        engine.components.of(NodeOperations).playbooks.approve(OTHER, second)
    with pytest.raises(ResourceIsLocked, match=run.id):
        put(engine, stack, approval="granted")
    assert again(engine, second).status is ActionStatus.INIT
    assert work(engine.front, stack) == ["a", "b", "c"]
    engine.components.of(NodeOperations).playbooks.approve(OTHER, second)
    assert work(engine.front, stack) == ["a", "b", "c"]
    assert again(engine, second).status is ActionStatus.SUCCEEDED


@pytest.mark.slow
def test_what_keeps_it_out(engine: Engine, stack: StackRecord) -> None:
    run = put(engine, stack)
    engine.put(stack, template(a=thing(keys={"metadata": {"role": "db"}}), b=thing("w"), c=thing("new")))
    with engine.clock.held():
        engine.put(stack, template(a=thing(), b=thing("w"), c=thing("v", wait_secs=5)), wait=False)
        with pytest.raises(Conflict):
            engine.components.of(NodeOperations).playbooks.approve(OTHER, run)
    engine.settle(stack)
    assert again(engine, run).status is ActionStatus.INIT
    assert states(engine, run) == ["a PENDING_APPROVE", "b PENDING_APPROVE", "c PENDING_APPROVE"]
    engine.components.of(NodeOperations).playbooks.approve(OTHER, run)
    assert work(engine.front, stack) == ["a", "b", "c"]


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_delete_passes_it(engine: Engine, stack: StackRecord, is_approved: bool) -> None:
    run = put(engine, stack)
    if is_approved:
        engine.components.of(NodeOperations).playbooks.approve(OTHER, run)
        tell(engine.front, only(sendable(engine.front, stack)), S.RUNNING)
    stack = engine.delete(stack)
    assert state(stack.verb, stack.status) == "DELETE_COMPLETE"
    run = again(engine, run)
    assert (run.status, run.status_reason) == (ActionStatus.CANCELLED, "the stack is deleted")
    first, *others = states(engine, run)
    assert first in (("a RUNNING", "a LOST") if is_approved else ("a CANCELLED",))
    assert others == ["b CANCELLED", "c CANCELLED"]
    asked = [one.cancel_asked for one in engine.store.of(NodeStore).node_actions.of_run(run.id)]
    assert asked == [is_approved, False, False]


def test_it_is_cancelled_at_once(engine: Engine, stack: StackRecord) -> None:
    run = approved(engine, stack, stage(at_once=2))
    sent, _ = sendable(engine.front, stack)
    tell(engine.front, sent, S.RUNNING)
    run = signal(engine, run, Signal.CANCEL)
    assert run.status is ActionStatus.CANCELLED
    assert states(engine, run) == ["a RUNNING", "b CANCELLED", "c CANCELLED"]
    assert [one.cancel_asked for one in engine.store.of(NodeStore).node_actions.of_run(run.id)] == [True, False, False]
    lines = engine.store.of(NodeStore).node_actions.history(sent.id)
    assert len([line for line in lines if line.reason == run.status_reason]) == 1
    assert engine.get(stack) == stack
    engine.check(stack)
    tell(engine.front, sent, S.CANCELLED)
    assert again(engine, run).finished_at == run.finished_at
    with pytest.raises(ActionImmutable):
        signal(engine, run, Signal.CANCEL)


def test_it_rests(engine: Engine, stack: StackRecord) -> None:
    run = approved(engine, stack, stage(at_once=2))
    first, held = sendable(engine.front, stack)
    tell(engine.front, first, S.RUNNING)
    run = signal(engine, run, Signal.SUSPEND)
    assert run.status is ActionStatus.SUSPENDED
    tell(engine.front, first, S.DONE)
    assert sendable(engine.front, stack) == []
    deadline = run.deadline or 0.0
    engine.clock.pass_(100)
    run = signal(engine, run, Signal.RESUME)
    assert run.status is ActionStatus.WAITING
    assert (run.deadline or 0.0) >= deadline + 100
    assert sendable(engine.front, stack)[0].id == held.id
    assert work(engine.front, stack) == ["b c"]
    assert again(engine, run).status is ActionStatus.SUCCEEDED


def test_with_nothing_left_it_ends_while_it_rests(engine: Engine, stack: StackRecord) -> None:
    run = approved(engine, stack, stage(nodes={"names": ["a"]}))
    one = only(sendable(engine.front, stack))
    tell(engine.front, one, S.RUNNING)
    signal(engine, run, Signal.SUSPEND)
    tell(engine.front, one, S.DONE)
    assert again(engine, run).status is ActionStatus.SUCCEEDED


@pytest.mark.slow
def test_its_time_is_up(engine: Engine, stack: StackRecord) -> None:
    run = approved(engine, stack, timeout=60)
    tell(engine.front, only(sendable(engine.front, stack)), S.RUNNING)
    engine.clock.pass_(61)
    engine.wait_for(lambda: again(engine, run).status is ActionStatus.FAILED)
    assert parse(dump(again(engine, run).outputs)) == {"result": "TIMEOUT", "error": "Timed out"}
    assert states(engine, run) == ["a RUNNING", "b CANCELLED", "c CANCELLED"]
    assert engine.get(stack) == stack


def test_it_is_rejected(engine: Engine, stack: StackRecord) -> None:
    run = put(engine, stack)
    with pytest.raises(InvalidActionState, match="it is not approved yet"):
        signal(engine, run, Signal.SUSPEND)
    since = engine.now_on(stack)
    run = engine.components.of(NodeOperations).playbooks.reject(OTHER, run)
    assert (run.status, run.status_reason) == (ActionStatus.CANCELLED, "Rejected by tom")
    assert states(engine, run) == ["a CANCELLED", "b CANCELLED", "c CANCELLED"]
    assert not [line for line in engine.told(stack, since) if line.startswith(stack.name)]
    playbooks = engine.components.of(NodeOperations).playbooks
    for again_ in (playbooks.approve, playbooks.reject):
        with pytest.raises(InvalidActionState, match="CANCELLED"):
            again_(OTHER, run)


def test_what_is_cancelled_alone_stops_it(engine: Engine, stack: StackRecord) -> None:
    run = put(engine, stack)
    tell(engine.front, engine.store.of(NodeStore).node_actions.of_run(run.id)[1], S.CANCELLED)
    assert again(engine, run).status is ActionStatus.CANCELLED
    run = approved(engine, stack)
    tell(engine.front, engine.store.of(NodeStore).node_actions.of_run(run.id)[2], S.CANCELLED)
    run = again(engine, run)
    assert (run.status, parse(dump(run.outputs))["failed"]) == (ActionStatus.FAILED, [])
    assert run.status_reason == "Stage restart: service.restart on node c is CANCELLED"


def test_approval_is_for_what_was_read(engine: Engine, stack: StackRecord) -> None:
    run = put(engine, stack)
    plan = engine.components.of(NodeOperations).playbooks.plan(stack, RunRequest(document=document(stage())))
    assert plan.digest == digest_of(run)
    other = engine.components.of(NodeOperations).playbooks.plan(stack, RunRequest(document=document(stage(at_once=2))))
    with pytest.raises(PlaybookChanged):
        engine.components.of(NodeOperations).playbooks.approve(OTHER, run, other.digest)
    assert again(engine, run).status is ActionStatus.INIT


@pytest.mark.slow
def test_nobody_approves_his_own(engine: Engine, stack: StackRecord) -> None:
    engine.close()
    engine.settings = replace(engine.settings, of_features=(NodeSettings(node_approval_by_another=True),))
    engine.open()
    with pytest.raises(Forbidden, match='leave out "approval"'):
        put(engine, stack, approval="granted")
    assert engine.store.queue.count_scheduled(stack.id) == 0
    run = put(engine, stack)
    with pytest.raises(Forbidden):
        engine.components.of(NodeOperations).playbooks.approve(MEMBER, run)
    engine.components.of(NodeOperations).playbooks.approve(OTHER, run)
    assert work(engine.front, stack) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("nodes", "chosen"),
    few(
        [
            ("all", "abc"),
            ({"names": ["c", "a"]}, "ca"),
            ({"attribute": {"name": ["metadata", "role"], "equals": "db"}}, "a"),
            ({"attribute": {"name": "output", "equals": "v"}}, "ac"),
        ]
    ),
)
def test_which_nodes(engine: Engine, stack: StackRecord, nodes: object, chosen: str) -> None:
    before = engine.store.database.read("SELECT COUNT(*) FROM node_action")
    request = RunRequest(document=json.dumps(document(stage(nodes=nodes))))
    plan = engine.components.of(NodeOperations).playbooks.plan(stack, request)
    assert "".join(node.name for node in plan.stages[0].nodes) == chosen
    assert engine.store.database.read("SELECT COUNT(*) FROM node_action") == before, "nothing is written"


@pytest.mark.parametrize(
    ("wrong", "message"),
    few(
        [
            (stage(nodes={"names": ["x"]}), "Stage restart: the stack has no node x; it has: a, b, c."),
            (stage(nodes={"attribute": {"name": "output", "equals": 1}}), "no node of stack s is chosen"),
            (stage(action={"kind": "dance"}), "the agent of node a knows no dance; it knows script, service.restart."),
        ]
    ),
)
def test_what_cannot_be_run(engine: Engine, stack: StackRecord, wrong: object, message: str) -> None:
    with pytest.raises(HTTPBadRequest, match=message):
        put(engine, stack, stage("good"), wrong)
    assert engine.store.queue.count_scheduled(stack.id) == 0
    assert engine.store.of(NodeStore).node_actions.open_of_root(stack.id) == []


@pytest.mark.slow
def test_nodes_of_nested_stacks(engine: Engine, stack: StackRecord) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": thing()}}
    other = engine.create(template(g=group, h=group), name="t")
    below = engine.store.stacks.descendants(other)
    for one in below:
        register(engine.front, one)
    with pytest.raises(HTTPBadRequest, match="0 means several nodes"):
        put(engine, other, stage(nodes={"names": ["0"]}))
    with pytest.raises(HTTPBadRequest, match="the stack at its root"):
        put(engine, below[0])
    chosen = next(one for one in engine.store.of(NodeStore).nodes.of_root(other.id) if one.name == "0")
    run = approved(engine, other, stage(nodes={"names": [chosen.id]}), stage("all"))
    assert work(engine.front, other) == ["0", "0", "1", "0", "1"]
    assert again(engine, run).status is ActionStatus.SUCCEEDED


@pytest.mark.slow
def test_a_restart_in_between(engine: Engine, stack: StackRecord) -> None:
    waiting, run = put(engine, stack), approved(engine, stack)
    tell(engine.front, only(sendable(engine.front, stack)), S.DONE)
    engine.close()
    engine.open()
    assert work(engine.front, stack) == ["b", "c"]
    assert again(engine, run).status is ActionStatus.SUCCEEDED
    assert again(engine, waiting).status is ActionStatus.INIT


def test_under_an_administrators_lock(engine: Engine, stack: StackRecord) -> None:
    engine.who = ADMIN
    stack = engine.lock(stack)
    run = put(engine, stack)
    with pytest.raises(Forbidden):
        engine.components.of(NodeOperations).playbooks.approve(OTHER, run)
    engine.components.of(NodeOperations).playbooks.approve(ADMIN, run)
    with pytest.raises(Forbidden):
        signal(engine, run, Signal.CANCEL)
    assert work(engine.front, stack) == ["a", "b", "c"]
    engine.unlock(stack)


def test_with_a_stack_that_is_given_away_it_goes(engine: Engine, stack: StackRecord) -> None:
    run = put(engine, stack)
    engine.components.exports.abandon(MEMBER, stack)
    stack = engine.settle(stack)
    assert stack.deleted_at is not None
    assert again(engine, run).status is ActionStatus.CANCELLED
    assert states(engine, run) == ["a CANCELLED", "b CANCELLED", "c CANCELLED"]


@pytest.mark.slow
@pytest.mark.parametrize("is_approved", few([False, True]))
def test_a_node_that_goes_takes_the_run_with_it(engine: Engine, stack: StackRecord, is_approved: bool) -> None:
    run = put(engine, stack)
    engine.put(stack, template(a=thing(keys={"metadata": {"role": "db"}}), c=thing("v")))
    if is_approved:  # before anybody has seen that it is gone
        engine.components.of(NodeOperations).playbooks.approve(OTHER, run)
    with engine.store.transaction():
        engine.store.of(NodeStore).orchestrations.expire_all()  # somebody looks after the nodes again
    engine.wait_for(lambda: again(engine, run).status in ENDED_ACTIONS)
    run = again(engine, run)
    assert run.status is (ActionStatus.FAILED if is_approved else ActionStatus.CANCELLED)
    assert run.status_reason == "Stage restart: service.restart on node b is CANCELLED"
    assert states(engine, run) == ["a CANCELLED", "b CANCELLED", "c CANCELLED"]
