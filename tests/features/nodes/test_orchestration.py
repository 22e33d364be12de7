"""Orchestrations, with agents over real connections."""

import json
import threading
import time
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import StackLocked
from heatlite.core.runtime.timer import Timer
from heatlite.core.status import ActionStatus, LockLevel, Signal, Status, Verb, state
from heatlite.features.nodes.agents import client
from heatlite.features.nodes.agents.deployments import Deployments
from heatlite.features.nodes.agents.orchestrator import Orchestrator
from heatlite.features.nodes.agents.push import UNHEALTHY
from heatlite.features.nodes.agents.registration import Registered
from heatlite.features.nodes.api import views as node_views
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.states import NodeState
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord
from tests.engine.conftest import ADMIN, Engine, engine, place, plugins, resource, template  # noqa: F401  # fixtures
from tests.features.nodes.nodes_of_a_stack import Site, site  # noqa: F401
from tests.features.nodes.tiny_agent import TinyAgent
from tests.tables import few


@pytest.mark.slow
def test_what_is_wanted_is_done_in_order_and_heard_of(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    first, second, other = site.ask("a", args={"n": 1}), site.ask("a"), site.ask("b")
    report = site.orchestrate()
    assert report == {
        "nodes": 2, "up": 2, "unreachable": 0, "sent": 3, "cancelled": 0, "held_by": [], "errors": {}
    }  # fmt: skip
    assert list(agent.actions) == [first, second]
    assert agent.actions[first]["action"]["requester"] == "user: mia"
    assert site.state(first) == "PENDING_SCHEDULE"
    assert site.action(first).sent_at is not None
    agent.move(first, "RUNNING")
    agent.move(first, "DONE", outputs={"deploy_stdout": "hello"})
    strange = agent.put("test/loop", args={"by": "hand"})
    site.orchestrate()
    assert [site.state(one) for one in (first, second, other)] == ["DONE", "NEW", "NEW"]
    assert site.action(first).outputs == {"deploy_stdout": "hello"}
    assert site.history(first) == ["server PENDING_SCHEDULE", "agent NEW", "agent RUNNING", "agent DONE"]
    adopted = site.action(strange)
    assert (adopted.requester, adopted.requested_by, adopted.node, adopted.args) == (
        "agent", "somebody", "a", {"by": "hand"},
    )  # fmt: skip


@pytest.mark.slow
def test_who_has_nothing_to_say_costs_one_request_and_no_write(site: Site) -> None:  # noqa: F811
    before, asked = site.node("a"), len(site.agents["a"].asked)
    assert (before.state, before.kinds) == (NodeState.UP, site.agents["a"].kinds)
    site.engine.clock.pass_(100)  # it is due again by itself
    site.engine.wait_for(lambda: len(site.agents["a"].asked) == asked + 1)
    site.quiet()
    assert site.node("a") == before
    strange = site.agents["a"].put()  # and the event that tells of it is lost
    site.engine.clock.pass_(100)
    site.engine.wait_for(lambda: site.store.of(NodeStore).node_actions.get(strange) is not None)


GARBAGE: dict[str, tuple[int, bytes, str | None]] = {
    "no JSON": (200, b"<html>", None),
    "another form": (200, b'{"instance": "x", "revision": "7", "unchanged": true}', None),
    "no object": (200, b"[]", None),
    "deep": (200, b'{"instance": "x", "revision": 1, "unchanged": true, "x": %s}' % (b"[" * 300 + b"]" * 300), None),
    "half a surrogate": (200, b'{"instance": "\\ud800", "revision": 1, "unchanged": true}', None),
    "too much": (200, b" " * (5 * 2**20), None),
    "not signed": (200, b"{}", ""),
    "signed by another": (200, b"{}", "0" * 64),
    "a fault": (503, b'{"error": "OutOfOrder", "message": "disk full"}', None),
    "no fault": (500, b"oops", None),
}


@pytest.mark.slow
def test_an_agent_that_answers_garbage_harms_nobody(site: Site) -> None:  # noqa: F811
    agent, told = site.agents["a"], site.agents["b"]
    running = site.ask("a")
    site.orchestrate()
    agent.move(running, "RUNNING")
    site.orchestrate()
    for name, answer in GARBAGE.items():
        agent.misbehaves = lambda *_, answer=answer: answer
        mine, waits = site.ask("b"), site.ask("a")
        report = site.orchestrate()
        assert list(report["errors"]) == ["a"], name
        assert site.node("a").state is NodeState.UNREACHABLE
        assert site.node("a").reason == report["errors"]["a"]
        assert site.state(running) == "RUNNING"
        assert told.has(mine) == "NEW"
        agent.misbehaves = lambda *_: None
        site.orchestrate()
        assert site.node("a").state is NodeState.UP
        assert agent.has(waits) == "NEW"


def test_an_agent_that_always_has_more_to_tell_and_tells_nothing_new_is_left_alone(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    agent.put()
    told = {"revision": agent.revision, "kinds": agent.kinds, "known": [*agent.actions], "actions": [], "more": True}
    said = json.dumps({"instance": agent.instance, **told}).encode()
    agent.misbehaves = lambda *_: (200, said, None)
    site.orchestrate()
    assert site.node("a").state is NodeState.UP


def test_an_agent_without_its_secret_is_not_believed(site: Site) -> None:  # noqa: F811
    action = site.ask("a")
    site.agents["a"].secret = "another" * 6
    assert "(401)" in site.orchestrate()["errors"]["a"]
    assert site.agents["a"].actions == {}
    site.register("a")
    site.orchestrate()
    assert site.agents["a"].has(action) == "NEW"


@pytest.mark.slow
def test_an_agent_that_is_away_loses_nothing(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    running, waits = site.ask("a"), site.ask("b")
    site.orchestrate()
    agent.move(running, "RUNNING")
    site.orchestrate()
    agent.close()
    for _ in range(2):
        assert "nothing listens" in site.orchestrate()["errors"]["a"]
    assert (site.state(running), site.state(waits)) == ("RUNNING", "NEW")
    site.agents["a"] = back = TinyAgent()
    back.instance, back.revision, back.actions = agent.instance, agent.revision, agent.actions
    back.move(running, "DONE")
    site.register("a")
    site.quiet()
    assert site.state(running) == "DONE"


@pytest.mark.slow
def test_a_wiped_disk_loses_what_was_there_and_nothing_else(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    lost, kept = site.ask("a"), site.ask("b")
    site.orchestrate()
    site.orchestrate()
    approved = site.ask("a")
    agent.wipe()
    site.orchestrate()
    assert (site.state(lost), site.state(kept)) == ("LOST", "NEW")
    assert [site.action(one).finished_at is not None for one in (lost, kept)] == [True, False]
    assert site.history(lost)[-1] == "server LOST"
    assert agent.has(approved) == "NEW"


@pytest.mark.slow
def test_what_is_sent_twice_runs_once_and_an_agent_wins(site: Site) -> None:  # noqa: F811
    """A server killed between push and record sends the same again."""
    agent = site.agents["a"]
    again, other = site.ask("a"), site.ask("a", approved_by="max", approved_at=1.0)
    asked = site.action(other)
    agent.put("test/success", again)
    agent.put("test/loop", other, args={"mine": True})
    agent.misbehaves = lambda method, _: None if method == "POST" else (
        200, b'{"instance": "%s", "revision": 0, "known": [], "kinds": [], "actions": []}' % agent.instance.encode(),
        None,
    )  # fmt: skip
    site.orchestrate()
    assert ("POST", "/v1/actions") in agent.asked
    agent.misbehaves = lambda *_: None
    report = site.orchestrate()
    assert report["errors"] == {}
    assert len(agent.actions) == 2
    assert site.state(again) == "NEW"
    found = site.action(other)
    assert (found.kind, found.args, found.state) == ("test/loop", {"mine": True}, "NEW")
    assert site.history(other) == ["server PENDING_SCHEDULE", "server NEW", "agent NEW"]
    said = site.store.of(NodeStore).node_actions.history(other)[1].reason
    assert "the agent wins" in said
    assert said.index(found.digest) < said.index(asked.digest), "what it is now, and what somebody approved"
    assert (asked.approved_by, found.approved_by) == ("max", None)


@pytest.mark.slow
def test_what_cannot_be_sent_is_given_up_after_some_attempts(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    agent.refuses = {
        "reboot": (400, "UnknownKind"), "script": (503, "OutOfOrder"), "full": (429, "QueueFull")
    }  # fmt: skip
    never, bad, behind = site.ask("a", "reboot"), site.ask("a", "script"), site.ask("a")
    for attempt in range(1, 11):
        site.engine.clock.pass_(61)
        site.orchestrate()
        assert (site.state(bad), site.action(bad).attempts) == ("PENDING_SCHEDULE", attempt)
        assert agent.actions == {}
        assert (site.state(never), site.action(never).attempts) == ("FAILED", 1), "a refusal is no error of sending"
    assert "UnknownKind" in site.action(never).error
    late = site.ask("a", "script", attempts=10, sent_at=1.0)
    agent.put("script", late)  # it was the answer that was lost
    site.orchestrate()
    assert (site.state(bad), site.state(late)) == ("FAILED", "NEW")
    assert agent.has(behind) == "NEW"
    assert site.action(bad).error.startswith("Sent 10 times in vain: the agent answers 503 OutOfOrder")
    assert site.action(bad).finished_at is not None
    patient = site.ask("b", "full")
    site.agents["b"].refuses = agent.refuses
    site.orchestrate()
    assert agent.has(behind) == "NEW"
    assert site.action(patient).attempts == 0


@pytest.mark.slow
def test_a_busy_neighbour_uses_up_no_attempts(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    agent.refuses = {"script": (503, "OutOfOrder")}
    action = site.ask("a", "script")
    with site.engine.clock.held():
        for _ in range(12):
            site.orchestrate()
            assert (site.state(action), site.action(action).attempts) == ("PENDING_SCHEDULE", 1)
        agent.refuses = {}
        site.orchestrate()
        assert agent.has(action) == "NEW", "it is tried again meanwhile"


@pytest.mark.slow
def test_an_agent_gets_no_more_than_it_keeps_after_their_end(site: Site) -> None:  # noqa: F811
    """All may end before the next poll, which finds the last 100 only."""
    agent = site.agents["a"]
    before, asked = agent.put("test/loop"), [site.ask("a") for _ in range(120)]
    site.orchestrate()
    assert list(agent.actions) == [before, *asked[:99]]
    for done in asked[:30]:
        agent.move(done, "DONE")
    site.orchestrate()
    assert list(agent.actions) == [before, *asked]


@pytest.mark.slow
def test_what_an_agent_has_forgotten_after_its_end_is_lost(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    agent.refuses = {"script": (409, "ActionExists")}
    forgotten, behind = site.ask("a", "script"), site.ask("a")
    assert site.orchestrate()["errors"] == {"a": "the agent answers 409 ActionExists"}
    assert site.state(forgotten) == "PENDING_SCHEDULE", "the next poll may tell of it"
    assert agent.has(behind) == "NEW", "the others are sent"
    site.orchestrate()
    assert site.state(forgotten) == "LOST"
    assert "ActionExists" in site.action(forgotten).error


@pytest.mark.slow
def test_what_is_to_be_cancelled_is_passed_on(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    there, never = site.ask("a"), site.ask("a", sent_at=1.0, cancel_asked=True)
    site.orchestrate()
    assert site.state(never) == "CANCELLED"
    assert agent.has(never) is None
    site.change(there, cancel_asked=True)
    site.orchestrate()
    site.orchestrate()
    assert site.state(there) == "CANCELLED"


def shown(site: Site, name: str) -> dict[str, Any]:  # noqa: F811
    """State and reason of a node as the API shows them."""
    found = node_views.node(site.node(name), {}, site.store.of(NodeStore).orchestrations.get(site.stack.id))
    return {key: found[key] for key in ("state", "reason")}


@pytest.mark.slow
def test_an_unhealthy_node_gets_no_work_and_is_still_heard(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    done = site.ask("a")
    site.orchestrate()
    agent.move(done, "DONE")
    site.engine.put_row(site.stack, "a", Verb.CHECK, Status.FAILED)
    waits = site.ask("a")
    assert "CHECK_FAILED" in site.orchestrate()["errors"]["a"]
    assert (site.state(done), agent.has(waits)) == ("DONE", None)
    assert shown(site, "a") == {"state": "UP", "reason": UNHEALTHY}
    site.engine.put_row(site.stack, "a", Verb.CHECK, Status.COMPLETE)
    site.orchestrate()
    assert agent.has(waits) == "NEW"
    assert shown(site, "a") == {"state": "UP", "reason": ""}


@pytest.mark.slow
def test_a_run_that_waits_for_an_unhealthy_node_goes_on_once_it_is_marked_healthy(site: Site) -> None:  # noqa: F811
    """The lock and the run permit that: else neither could ever end."""
    of = site.engine
    of.mark(site.stack, "a")
    of.lock(site.stack, LockLevel.STACKS)
    action = {"kind": "test/success"}
    stages = [{"name": "restart", "nodes": {"names": ["a", "b"]}, "action": action}]
    request = RunRequest(document={"node_playbook": "2026-11-21", "stages": stages}, approval="granted")
    run_id = of.components.of(NodeOperations).playbooks.run(ADMIN, site.stack, request)

    def run() -> ActionRecord:
        found = of.store.actions.get(run_id)
        assert found is not None
        return found

    site.orchestrate()
    first, second = of.store.of(NodeStore).node_actions.of_run(run_id)
    assert site.agents["a"].has(first.id) is None
    assert of.components.reasons.of_actions(ADMIN, [run()]) == {run_id: f"a: {UNHEALTHY}"}
    with pytest.raises(StackLocked):
        of.mark(site.stack, "b")
    of.mark(site.stack, "a", unhealthy=False)
    site.orchestrate()
    assert (site.agents["a"].has(first.id), run().status_reason) == ("NEW", "")
    site.agents["a"].move(first.id, "DONE")
    site.orchestrate()
    site.orchestrate()
    site.agents["b"].move(second.id, "DONE")
    site.orchestrate()
    assert run().status is ActionStatus.SUCCEEDED
    assert of.unlock(site.stack).lock is None
    assert state(of.row(site.stack, "a").verb, of.row(site.stack, "a").status) == "CHECK_COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("is_kept", few([True, False]))
def test_a_run_that_ended_while_nodes_were_off_sends_nothing_later(site: Site, is_kept: bool) -> None:  # noqa: F811
    of = site.engine
    of.mark(site.stack, "a")
    stages = [{"name": "restart", "nodes": {"names": ["a", "b"]}, "action": {"kind": "test/success"}}]
    request = RunRequest(document={"node_playbook": "2026-11-21", "stages": stages}, approval="granted")
    run_id = of.components.of(NodeOperations).playbooks.run(ADMIN, site.stack, request)
    site.orchestrate()
    steps, listeners = of.store.of(NodeStore).node_actions.of_run(run_id), of.store.listeners
    assert [one.turn for one in steps] == [True, False]
    of.store.listen(replace(listeners, action_moves=lambda *_: None))
    run = of.store.actions.get(run_id)
    assert run is not None
    of.components.controls.signal(ADMIN, run, Signal.CANCEL)
    if not is_kept:
        with of.store.transaction():
            of.store.actions.remove([run_id])
    of.store.listen(listeners)
    of.mark(site.stack, "a", unhealthy=False)
    site.orchestrate()
    site.orchestrate()
    assert [site.agents[name].actions for name in "ab"] == [{}, {}]
    assert [site.state(one.id) for one in steps] == ["CANCELLED", "CANCELLED"]


@pytest.mark.slow
def test_who_replaces_a_sick_machine_waits_for_nothing_that_it_never_got(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    agent.misbehaves = lambda method, _: (200, b"{}", "") if method == "POST" else None
    lost = site.ask("a")
    assert "not signed" in site.orchestrate()["errors"]["a"]
    assert site.action(lost).sent_at is not None, "nobody knows"
    site.engine.mark(site.stack, "a")
    site.engine.put(site.stack, site.store.templates.get(site.stack.template_id).document, wait=False)
    (update,) = site.store.actions.live([site.stack.id])
    assert [one.depended for one in site.store.dependencies.of(update.id)] == [lost]
    site.orchestrate()
    site.engine.settle(site.stack)
    site.engine.wait_for(lambda: site.state(lost) == "CANCELLED")
    assert agent.has(lost) is None
    left = site.store.of(NodeStore).nodes.of_root(site.stack.id)
    assert [node.name for node in left] == ["b"], "the new machine must register"


@pytest.mark.slow
def test_a_stack_action_keeps_work_back_and_its_end_lets_it_go(site: Site) -> None:  # noqa: F811
    document: Any = site.store.templates.get(site.stack.template_id).document
    document["resources"]["slow"] = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "wait_secs": 30}}
    with site.engine.clock.held():
        site.engine.put(site.stack, document, wait=False)
        site.engine.begun(lambda: site.engine.states(site.stack).get("slow") == "CREATE_IN_PROGRESS")
        held = site.ask("a")
        report = site.orchestrate()
        assert len(report["held_by"]) == 1
        assert site.action(held).sent_at is None
    site.engine.settle(site.stack)
    site.engine.wait_for(lambda: site.agents["a"].has(held) == "NEW")


@pytest.mark.slow
def test_nodes_go_with_their_resources_and_who_is_away_holds_nobody(site: Site) -> None:  # noqa: F811
    agent = site.agents["a"]
    there, waits = site.ask("a"), site.ask("b", sent_at=None, turn=False)
    site.orchestrate()
    site.orchestrate()
    assert (site.state(there), agent.has(there)) == ("NEW", "NEW")
    document: Any = site.store.templates.get(site.stack.template_id).document
    del document["resources"]["a"]
    site.engine.put(site.stack, document, wait=False)
    site.orchestrate()
    (update,) = site.store.actions.live([site.stack.id])
    assert (update.status, update.started_at) == ("WAITING", None), "for what the agent has"
    agent.close()
    site.orchestrate()
    site.engine.settle(site.stack)
    site.engine.wait_for(lambda: site.state(there) == "LOST")
    assert [node.name for node in site.store.of(NodeStore).nodes.of_root(site.stack.id)] == ["b"]
    site.engine.delete(site.stack)
    site.engine.wait_for(lambda: site.store.of(NodeStore).orchestrations.get(site.stack.id) is None)
    assert site.state(waits) == "CANCELLED"
    assert site.store.of(NodeStore).nodes.of_root(site.stack.id) == []
    assert site.store.of(NodeStore).node_actions.open_of_root(site.stack.id) == []


def test_an_agent_speaks_for_nothing_but_its_own(site: Site) -> None:  # noqa: F811
    """Actions of other nodes and of stacks do not count."""
    other = site.ask("b")
    (created,) = site.store.action_list.find("demo", f"stack_create_{site.stack.id[-8:]}", 2)
    for one in (other, created.id):
        site.agents["a"].put(action_id=one, state="DONE")
    own = site.agents["a"].put()
    report = site.orchestrate()
    assert report["errors"]["a"] == f"tells of actions that are not its own, which is ignored: {created.id}, {other}"
    assert site.store.of(NodeStore).node_actions.get(created.id) is None
    assert (site.action(other).node, site.state(other), site.state(own)) == ("b", "PENDING_SCHEDULE", "NEW")


@pytest.mark.slow
def test_what_databases_cannot_keep_is_replaced(site: Site) -> None:  # noqa: F811
    odd = "a\0b\\u0000\\\0\u2028\U0001f600"  # a NUL, its escape as the text of a script, a backslash and a NUL
    action = site.agents["a"].put(outputs={"o": odd, odd: [odd]}, error=odd, state="FAILED", args={odd: odd})
    site.orchestrate()
    kept = odd.replace("\0", "\ufffd")
    found = site.action(action)
    assert (found.error, found.outputs, found.args) == (kept, {"o": kept, kept: [kept]}, {kept: kept})


def test_nodes_of_nested_stacks_are_looked_after_together(engine: Engine) -> None:  # noqa: F811
    group = resource("OS::Heat::ResourceGroup", count=1, resource_def={"type": "OS::Heat::DeployedServer"})
    stack = engine.create(template(one=group, two=group))
    agents_of: list[TinyAgent] = []
    try:
        nested = engine.store.stacks.descendants(stack)
        for below in nested:
            agent = TinyAgent()
            agents_of.append(agent)
            given = Registered(agent.url, "x" * 32, agent.instance, "1", agent.kinds)  # with a foreign secret
            engine.components.of(NodeOperations).nodes.register(below, engine.row(below, "0"), given)

        def told() -> Any:
            found = engine.store.of(NodeStore).orchestrations.get(stack.id)
            return found is not None and found.owner is None and found.report

        engine.wait_for(lambda: (report := told()) and report["unreachable"] == 2)
        nodes = engine.store.of(NodeStore).nodes.of_root(stack.id)
        assert set(told()["errors"]) == {f"0 ({node.id})" for node in nodes}
        assert len(engine.components.of(NodeOperations).nodes.listing(stack).nodes) == 2
        assert [len(engine.components.of(NodeOperations).nodes.listing(below).nodes) for below in nested] == [1, 1]
    finally:
        for agent in agents_of:
            agent.close()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["abandon", "force"])
def test_nothing_stays_open_of_a_stack_that_is_gone(site: Site, how: str) -> None:  # noqa: F811
    running, waits, unapproved = site.ask("a"), site.ask("b", turn=False), site.ask("a", state="PENDING_APPROVE")
    site.agents["b"].close()
    unconfirmed = site.ask("b", sent_at=1.0)
    site.orchestrate()
    site.orchestrate()
    assert site.state(running) == "NEW"
    if how == "abandon":
        site.engine.components.exports.abandon(site.engine.who, site.engine.get(site.stack))
    else:
        site.engine.stacks.delete(ADMIN, site.engine.get(site.stack), force=True)
    site.engine.settle(site.stack)
    site.engine.wait_for(lambda: site.store.of(NodeStore).orchestrations.get(site.stack.id) is None)
    every = (running, waits, unapproved, unconfirmed)
    assert [site.state(one) for one in every] == ["LOST", "CANCELLED", "CANCELLED", "LOST"]
    assert None not in [site.action(one).finished_at for one in every]
    assert site.store.of(NodeStore).nodes.of_root(site.stack.id) == []
    assert site.agents["a"].has(unapproved) is None


def test_an_agent_that_never_answers_keeps_nobody_waiting(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(client, "SECONDS", 0.5)
    silent, gone = threading.Event(), threading.Event()

    def never(*_: str) -> None:
        silent.set()
        gone.wait(240)

    site.agents["a"].misbehaves = never
    action = site.ask("b")

    def sent() -> bool:
        site.orchestrate()  # once more if the machine is so busy that the other agent was late, too
        return site.agents["b"].has(action) == "NEW"

    try:
        site.engine.wait_for(sent)
    finally:
        gone.set()
    assert silent.is_set()
    assert "within 0.5 s" in site.node("a").reason


@pytest.mark.slow
def test_of_two_that_look_after_nodes_one_does(site: Site) -> None:  # noqa: F811
    """Requests are asked once and actions sent once, however often both run."""
    components, store, clock = site.engine.components, site.store, site.engine.clock
    made = components.of(NodeOperations)
    deployments = Deployments(store, clock, made.ledger, components.signals)
    timer = Timer(clock, store.close)
    other = Orchestrator(store, clock, site.engine.settings, made.agents, made.ledger, deployments, timer)
    other.start()
    at_once, most, lock = 0, 0, threading.Lock()

    def slowly(*_: str) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.005)
        with lock:
            at_once -= 1

    agent = site.agents["a"]
    agent.misbehaves = slowly
    try:
        actions = []
        for _ in range(10):
            actions.append(site.ask("a"))
            other.wake()
            site.orchestrate()
    finally:
        other.stop()
        timer.stop()
    assert most == 1
    assert list(agent.actions) == actions
    assert agent.asked.count(("POST", "/v1/actions")) == 10


@pytest.mark.slow
def test_who_has_lost_the_tree_writes_nothing(site: Site, caplog: pytest.LogCaptureFixture) -> None:  # noqa: F811
    """Its lease expires during a wait for an agent; another engine claims the tree."""
    agent, store, now = site.agents["a"], site.store, site.engine.clock.now()
    told = agent.put()
    stolen = []

    def steal(*_: str) -> None:
        if not stolen:
            with store.transaction():
                store.of(NodeStore).orchestrations.expire_all()
                record = store.of(NodeStore).orchestrations.get(site.stack.id)
                assert record is not None
                stolen.append(store.of(NodeStore).orchestrations.claim(record, "thief", now, 1e9))
        store.close()

    agent.misbehaves = steal
    site.engine.components.of(NodeOperations).nodes.orchestrate(site.stack)
    site.engine.wait_for(lambda: stolen)
    (thief,) = stolen
    site.engine.wait_for(lambda: "another engine looks after them by now" in caplog.text)
    assert store.of(NodeStore).node_actions.get(told) is None
    with store.transaction():
        store.of(NodeStore).orchestrations.finish(thief, now, now, {})
    site.engine.wait_for(lambda: store.of(NodeStore).node_actions.get(told) is not None)


@pytest.mark.slow
def test_a_clock_that_is_an_hour_off_changes_nothing(site: Site) -> None:  # noqa: F811
    site.agents["a"].skew, site.agents["b"].skew = 3600, -3600
    actions = {name: site.ask(name) for name in site.agents}
    site.orchestrate()
    for name, action in actions.items():
        site.agents[name].move(action, "DONE")
    site.orchestrate()
    finished = {name: site.action(action).finished_at for name, action in actions.items()}
    assert {site.state(action) for action in actions.values()} == {"DONE"}
    assert finished["a"] == pytest.approx(time.time() + 3600, abs=600)
    assert finished["b"] == pytest.approx(time.time() - 3600, abs=600)


@pytest.mark.slow
def test_a_busy_tree_rests_as_long_as_it_took(site: Site) -> None:  # noqa: F811
    begun: list[float] = []

    def slowly(*_: str) -> None:
        begun.append(time.monotonic())
        # There is always somebody who has something to tell.
        site.engine.components.of(NodeOperations).nodes.orchestrate(site.stack)
        site.store.close()
        time.sleep(0.1)

    site.agents["a"].misbehaves = slowly
    site.engine.components.of(NodeOperations).nodes.orchestrate(site.stack)
    site.engine.wait_for(lambda: len(begun) > 3)
    site.agents["a"].misbehaves = lambda *_: None
    assert all(after - before > 0.19 for before, after in pairwise(begun[:4]))
