"""Runs that wait for unhealthy nodes only (law G7), or skip them."""

from collections.abc import Callable

import pytest

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.errors import ActionInProgress, HeatliteError, ResourceIsLocked
from heatlite.core.json import dump, parse
from heatlite.core.status import ActionStatus, LockLevel, Signal
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord
from tests.engine.conftest import ADMIN, Engine, template, thing
from tests.features.nodes.engine.played_agents import register, work
from tests.features.nodes.nodes_of_a_stack import Site, site  # noqa: F401 - a fixture
from tests.tables import few

S = NodeActionState


def begun(site: Site, *names: str, **stage: object) -> str:  # noqa: F811
    """A run that is approved; its id."""
    stages = [{"name": "restart", "nodes": {"names": [*names]}, "action": {"kind": "test/success"}, **stage}]
    request = RunRequest(document={"node_playbook": "2026-11-21", "stages": stages}, approval="granted")
    return site.engine.components.of(NodeOperations).playbooks.run(ADMIN, site.stack, request)


def run(site: Site, run_id: str) -> ActionRecord:  # noqa: F811
    found = site.store.actions.get(run_id)
    assert found is not None
    return found


def finish(site: Site, run_id: str) -> ActionRecord:  # noqa: F811
    """Agents do all that they are sent."""
    for _ in range(10):
        site.orchestrate()
        for one in site.store.of(NodeStore).node_actions.of_run(run_id):
            if site.agents[one.node].has(one.id) == "NEW":
                site.agents[one.node].move(one.id, "DONE")
        if run(site, run_id).status is not ActionStatus.WAITING:
            break
    assert site.store.inconsistencies(site.engine.clock.now(), 0.0) == []
    return run(site, run_id)


def update(site: Site) -> None:  # noqa: F811
    document = site.store.templates.get(site.engine.get(site.stack).template_id).document
    site.engine.put(site.stack, {**document, "description": "new"})


def heal(site: Site) -> None:  # noqa: F811
    of = site.engine
    of.components.repairs.request(ADMIN, of.get(site.stack), Selection({"b": RepairStep.REPLACE}), "/actions", {})
    of.settle(site.stack)


PASSING: dict[str, Callable[[Site], object]] = {
    "update": update,
    "heal": heal,
    "check": lambda place: place.engine.check(place.stack),
    "suspend": lambda place: (place.engine.suspend(place.stack), place.engine.resume(place.stack)),
    "lock": lambda place: (place.engine.lock(place.stack), place.engine.unlock(place.stack)),
    "mark another": lambda place: place.engine.mark(place.stack, "b"),
    "approve another": lambda place: finish(place, begun(place, "b")),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", few(PASSING))
def test_what_passes_a_run_that_waits_for_an_unhealthy_node(site: Site, what: str) -> None:  # noqa: F811
    of = site.engine
    of.mark(site.stack, "a")
    first = begun(site, "a")
    PASSING[what](site)
    assert site.store.inconsistencies(of.clock.now(), 0.0) == []
    for name in "ab":
        of.mark(site.stack, name, unhealthy=False)
    if what == "update":  # the mark has replaced the machine, with its node
        of.wait_for(lambda: run(site, first).status is ActionStatus.FAILED)
    else:
        assert finish(site, first).status is ActionStatus.SUCCEEDED
    assert of.store.actions.live([site.stack.id]) == []


@pytest.mark.slow
@pytest.mark.parametrize("what", few(PASSING))
def test_what_a_run_keeps_out_while_anything_may_be_sent(site: Site, what: str) -> None:  # noqa: F811
    site.engine.mark(site.stack, "a")
    first = begun(site, "a", "b", at_once=2)  # b may be sent, even if it has not been
    with pytest.raises((ResourceIsLocked, ActionInProgress)):
        PASSING[what](site)
    site.orchestrate()
    with pytest.raises((ResourceIsLocked, ActionInProgress)):
        PASSING[what](site)
    (work,) = [one for one in site.store.of(NodeStore).node_actions.of_run(first) if one.node == "b"]
    site.agents["b"].move(work.id, "DONE")
    site.orchestrate()
    PASSING[what](site)


@pytest.mark.slow
def test_under_a_lock_one_node_marked_the_run_ends_after_unlock_and_mark_healthy(site: Site) -> None:  # noqa: F811
    of = site.engine
    of.mark(site.stack, "a")
    of.lock(site.stack, LockLevel.STACKS)
    first = begun(site, "a", "b")
    site.orchestrate()
    assert "CHECK_FAILED" in of.components.reasons.of_actions(ADMIN, [run(site, first)])[first]
    assert of.unlock(site.stack).lock is None
    of.mark(site.stack, "a", unhealthy=False)
    assert finish(site, first).status is ActionStatus.SUCCEEDED


@pytest.mark.slow
def test_a_run_that_others_have_passed_waits_for_them(site: Site) -> None:  # noqa: F811
    """Also after a restart, and if the others are runs."""
    of = site.engine
    of.mark(site.stack, "a")
    first = begun(site, "a")
    second = begun(site, "b")
    of.mark(site.stack, "a", unhealthy=False)
    of.close()
    of.open()
    site.store = of.store
    site.orchestrate()
    assert site.agents["a"].actions == {}
    assert second in run(site, first).status_reason
    assert finish(site, second).status is ActionStatus.SUCCEEDED
    assert finish(site, first).status is ActionStatus.SUCCEEDED
    assert run(site, first).status_reason == "All stages are done"


@pytest.mark.slow
@pytest.mark.parametrize("ends", few([Signal.CANCEL, Signal.SUSPEND, "time", "delete"]))
def test_a_run_that_was_passed_ends_as_others_do(site: Site, ends: object) -> None:  # noqa: F811
    of = site.engine
    of.mark(site.stack, "a")
    first = begun(site, "a")
    of.mark(site.stack, "b")
    if isinstance(ends, Signal):
        of.components.controls.signal(ADMIN, run(site, first), ends)
    elif ends == "time":
        of.clock.pass_(4000)
    else:
        of.delete(site.stack)
    if ends is Signal.SUSPEND:
        update(site)
        of.components.controls.signal(ADMIN, run(site, first), Signal.RESUME)
    of.wait_for(lambda: run(site, first).status in (ActionStatus.CANCELLED, ActionStatus.FAILED))
    assert of.store.actions.live([site.stack.id]) == []


@pytest.mark.slow
def test_a_node_that_was_marked_after_all_gets_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """A mark passes a run that was set aside.

    The orchestration has seen the node healthy.
    """
    of = site.engine
    of.mark(site.stack, "a")
    first = begun(site, "a")
    of.mark(site.stack, "b")
    resources, seen = type(of.store.resources), []
    states = resources.states

    def outdated(self: object, ids: list[str]) -> object:
        seen.append(ids)
        found = states(of.store.resources, ids)
        if len(seen) <= 2 and not of.store.database.in_transaction:
            return {key: (verb, of.get(site.stack).status) for key, (verb, _) in found.items()}
        return found

    monkeypatch.setattr(resources, "states", outdated)
    site.orchestrate()
    assert site.agents["a"].actions == {} and seen
    assert run(site, first).status is ActionStatus.WAITING


@pytest.mark.slow
def test_unhealthy_nodes_are_skipped(site: Site) -> None:  # noqa: F811
    of = site.engine
    of.mark(site.stack, "a")
    first = begun(site, "a", "b", unhealthy="skip")
    with pytest.raises(HeatliteError):
        update(site)
    ended = finish(site, first)
    assert ended.status is ActionStatus.FAILED
    assert ended.status_reason == "All stages are done, without unhealthy nodes: a"
    (skipped,) = parse(dump(ended.outputs))["skipped"]
    assert (skipped["node"], skipped["stage"], skipped["state"]) == ("a", "restart", "CANCELLED")
    assert parse(dump(ended.outputs))["stages"] == [{"name": "restart", "states": {"DONE": 1, "CANCELLED": 1}}]
    assert site.agents["a"].actions == {}


@pytest.mark.slow
def test_many_unhealthy_nodes_are_skipped_at_once(engine: Engine) -> None:
    stack = engine.create(template(**{f"n{number}": thing() for number in range(300)}))
    register(engine.front, stack)
    for number in range(299):
        engine.mark(stack, f"n{number}")
    stages = [{"name": "s", "nodes": "all", "action": {"kind": "script"}, "unhealthy": "skip"}]
    request = RunRequest(document={"node_playbook": "2026-11-21", "stages": stages}, approval="granted")
    run_id = engine.components.of(NodeOperations).playbooks.run(ADMIN, stack, request)
    assert work(engine.front, stack) == ["n299"]
    found = engine.store.actions.get(run_id)
    assert found is not None and found.outputs.skipped is not None and len(found.outputs.skipped) == 299


