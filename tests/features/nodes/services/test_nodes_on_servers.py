"""Nodes on database servers: engines and stack actions compete for one tree."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from store_behaviour import a_stack, at_once, insert

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.ids import new_id
from heatlite.engine.state.requests import StackRequest
from heatlite.features.nodes.agents.registration import Registered
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.states import NodeActionState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord, OrchestrationRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.errors import Fenced
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.wiring import Embedded
from tests.engine.conftest import ADMIN
from tests.features.nodes.tiny_agent import TinyAgent
from tests.waiting import eventually

pytestmark = pytest.mark.slow
PATIENCE = 240


def test_one_of_many_claims_a_tree_and_who_loses_it_writes_nothing(store: Store) -> None:
    stack = a_stack()
    insert(store, stack)
    trees = store.of(NodeStore).orchestrations
    with store.transaction():
        trees.nudge(stack.id, 1.0)
    (due,) = trees.due(1.0)

    def claim(number: int) -> OrchestrationRecord | None:
        with store.transaction():
            return trees.claim(due, f"engine {number}", 1.0, 10.0)

    claimed = [one for one in at_once(store, 8, claim) if one is not None]
    (mine,) = claimed
    assert isinstance(mine, OrchestrationRecord)
    assert trees.due(5.0) == []
    (again,) = trees.due(20.0)
    with store.transaction():
        other = trees.claim(again, "another", 20.0, 10.0)
    assert other is not None
    for late in (trees.renew, lambda one, *_: trees.finish(one, 21.0, 22.0, {})):
        with pytest.raises(Fenced), store.transaction():
            late(mine, 21.0, 10.0)
    with store.transaction():
        trees.nudge(stack.id, 21.0)  # meanwhile
        trees.finish(other, 22.0, 80.0, {"nodes": 0})
    found = trees.get(stack.id)
    assert found is not None
    assert (found.due_at, found.owner, found.report) == (22.0, None, {"nodes": 0})


class Site:
    """Two engines at one database, and a stack with one machine."""

    def __init__(self, url: str) -> None:
        settings = Settings(database=url, lease_seconds=600.0)  # no engine ends; one may be slow
        self.engines: list[Embedded] = [wiring.embedded(settings), wiring.embedded(settings)]
        self.store = self.engines[0].store
        self.agent = TinyAgent()
        self.stack = self.engines[0].stacks.create(Context("demo"), StackRequest(name="s", template=self.template("1")))
        self.rest()
        given = Registered(self.agent.url, self.agent.secret, self.agent.instance, "1", self.agent.kinds)
        (row,) = [row for row in self.store.resources.of(self.stack.id) if row.name == "a"]
        self.node = self.engines[0].components.of(NodeOperations).nodes.register(self.now(), row, given)
        eventually(lambda: self.agent.asked)

    def close(self) -> None:
        for engine in self.engines:
            engine.close()
        self.agent.close()

    @staticmethod
    def template(value: str) -> dict[str, Any]:
        thing = {"type": "OS::Heat::TestResource", "properties": {"value": value, "wait_secs": 0.05}}
        resources = {"a": {"type": "OS::Heat::DeployedServer"}, "b": thing}
        return {"heat_template_version": "2021-04-16", "resources": resources}

    def now(self) -> StackRecord:
        found = self.store.stacks.get(self.stack.id)
        assert found is not None
        return found

    def rest(self) -> None:
        eventually(lambda: not self.store.actions.live([self.stack.id]))

    def ask(self) -> str:
        node, now = self.node, time.time()
        action = NodeActionRecord(
            id=new_id(), project=node.project, stack_id=node.stack_id, root_id=node.root_id, node_id=node.id,
            node=node.name, kind="test/success", args={}, digest="", state=NodeActionState.PENDING_SCHEDULE,
            requester=Requester.USER, requested_by="mia", created_at=now, updated_at=now,
        )  # fmt: skip
        with self.store.transaction():
            self.store.stacks.lock(node.root_id)
            self.engines[0].components.of(NodeOperations).ledger.put([action], [])
            self.store.of(NodeStore).orchestrations.nudge(node.root_id, now)
        return action.id

    def action(self, action_id: str) -> NodeActionRecord:
        found = self.store.of(NodeStore).node_actions.get(action_id)
        assert found is not None
        return found


@pytest.fixture
def site(url: str) -> Iterator[Site]:
    site = Site(url)
    yield site
    site.close()


def test_a_run_that_waits_for_an_unhealthy_node_lets_others_pass(site: Site) -> None:
    """Law G7, with two engines: it goes on after them, once."""
    core = site.engines[0].components
    stages = [{"name": "s", "nodes": "all", "action": {"kind": "test/success"}}]
    request = RunRequest(document={"node_playbook": "2026-11-21", "stages": stages}, approval="granted")
    core.health.mark(ADMIN, site.now(), "a", unhealthy=True, reason=None)
    run_id = core.of(NodeOperations).playbooks.run(ADMIN, site.now(), request)
    live = site.store.actions.live([site.stack.id])
    assert [one.id for one in live] == [run_id] and site.store.actions.holding(live) == []
    site.engines[1].stacks.check(ADMIN, site.now())
    eventually(lambda: len(site.store.actions.live([site.stack.id])) == 1)
    core.health.mark(ADMIN, site.now(), "a", unhealthy=False, reason=None)
    (work,) = site.store.of(NodeStore).node_actions.of_run(run_id)
    eventually(lambda: site.agent.has(work.id) == "NEW")
    site.agent.move(work.id, "DONE")
    core.of(NodeOperations).nodes.orchestrate(site.now())
    site.rest()
    run = site.store.actions.get(run_id)
    assert run is not None and run.status == "SUCCEEDED"
    assert site.store.inconsistencies(time.time(), 60.0) == []


def test_two_engines_send_everything_once(site: Site) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def slowly(*_: str) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        time.sleep(0.002)
        with lock:
            inside -= 1

    site.agent.misbehaves = slowly
    actions = []
    for number in range(20):
        actions.append(site.ask())
        engine = site.engines[number % 2]
        engine.components.of(NodeOperations).nodes.orchestrate(site.now())
        engine.works["nodes"].wake()
    eventually(lambda: len(site.agent.actions) == 20)
    assert most == 1
    assert list(site.agent.actions) == actions
    assert site.agent.asked.count(("POST", "/v1/actions")) == 20
    for action in actions:
        site.agent.move(action, "DONE")
    site.engines[1].components.of(NodeOperations).nodes.orchestrate(site.now())
    eventually(lambda: {site.action(action).state for action in actions} == {"DONE"})


def test_what_is_sent_is_waited_for_or_is_sent_afterwards(site: Site) -> None:
    """The permission to send and an incoming stack action are serialized."""
    for number in range(8):
        _meet(site, str(number), 0.003 * number)
    assert site.now().status == "COMPLETE"
    assert site.store.inconsistencies(time.time(), 5.0) == []


def _meet(site: Site, value: str, pause: float) -> None:
    action, caller = site.ask(), Context("demo")
    time.sleep(pause)
    request = StackRequest(template=site.template(value))
    site.engines[1].stacks.update(caller, site.now(), request, existing=False)
    (update,) = caller.queued
    depends = [one.depended for one in site.store.dependencies.of(update)]
    if depends:
        assert depends == [action]
        eventually(lambda: site.agent.has(action))
        waits = site.store.actions.get(update)
        assert waits is not None and waits.started_at is None
        site.agent.move(action, "DONE")
        site.engines[0].components.of(NodeOperations).nodes.orchestrate(site.now())
    site.rest()
    eventually(lambda: site.agent.has(action))
    if not depends:
        ended = site.store.actions.get(update)
        assert ended is not None and ended.finished_at is not None
        assert (site.action(action).sent_at or 0.0) >= ended.finished_at - 0.05
        site.agent.move(action, "DONE")
        site.engines[0].components.of(NodeOperations).nodes.orchestrate(site.now())
    eventually(lambda: site.action(action).state == "DONE")
