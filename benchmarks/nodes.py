"""Orchestrations of a stack with 1000 nodes, and as many bare signed requests.

One sends an action to each node, one reads the results, and in one there is nothing to say.
"""

import http.client
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from benchmarks.cases import Bench
from benchmarks.ports import free_port
from benchmarks.simulated_agents import KINDS, SECRET
from heatlite import wiring
from heatlite.agent import signature
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.ids import new_id
from heatlite.core.json import Json
from heatlite.engine.state.requests import StackRequest
from heatlite.features.nodes.agents.orchestrator import MAX_REST
from heatlite.features.nodes.agents.registration import Registered
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.states import NodeActionState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import StackRecord

COUNT = 1000
CONNECTIONS = 50
PATIENCE = 120


class Commits:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0

    def committed(self) -> None:
        self.count += 1


class Fleet:
    """A server in this process, and agents in another."""

    def __init__(self, bench: Bench, port: int) -> None:
        self.port = port
        self.server = wiring.embedded(Settings(database=f"sqlite:///{bench.new_folder() / 'heat.db'}"))
        self.store = self.server.store
        self.commits = Commits()
        database = self.store.database
        told = database.listeners.committed

        def committed() -> None:
            told()
            self.commits.committed()

        database.listeners = replace(database.listeners, committed=committed)
        names = [f"n{number}" for number in range(COUNT)]
        resources = {name: {"type": "OS::Heat::DeployedServer"} for name in names}
        document: Json = {"heat_template_version": "2021-04-16", "resources": resources}
        made = self.server.stacks.create(Context("demo"), StackRequest(name="s", template=document))
        self._until(lambda: not self.store.actions.live([made.id]))
        found = self.store.stacks.get(made.id)
        assert found is not None
        self.stack: StackRecord = found
        for number, row in enumerate(self.store.resources.of(self.stack.id)):
            given = Registered(f"http://127.0.0.1:{port}/{number}", SECRET, "", "1", tuple(KINDS))
            self.server.components.of(NodeOperations).nodes.register(self.stack, row, given)
        self._quiet()

    def _until(self, what: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE
        while not what():
            assert time.monotonic() < end, "it does not get there"
            time.sleep(0.002)

    def _quiet(self) -> None:
        def rests() -> bool:
            found = self.store.of(NodeStore).orchestrations.get(self.stack.id)
            return found is not None and found.owner is None and found.due_at > time.time()

        self._until(rests)

    def ask(self) -> None:
        """An action for each node."""
        now = time.time()
        actions = [
            NodeActionRecord(
                id=new_id(), project=node.project, stack_id=node.stack_id, root_id=node.root_id, node_id=node.id,
                node=node.name, kind=KINDS[0], args={}, digest="", state=NodeActionState.PENDING_SCHEDULE,
                requester=Requester.USER, requested_by="mia", created_at=now, updated_at=now,
            )
            for node in self.store.of(NodeStore).nodes.of_root(self.stack.id)
        ]  # fmt: skip
        with self.store.transaction():
            self.server.components.of(NodeOperations).ledger.put(actions, [])

    def orchestrate(self) -> tuple[float, int]:
        """Seconds and commits of one from begin to end, the claim and the end included."""
        time.sleep(MAX_REST)  # for as long it may leave the tree alone after the one before
        self.server.components.of(NodeOperations).nodes.orchestrate(self.stack)
        before = self.commits.count
        began = time.perf_counter()
        self._quiet()
        return time.perf_counter() - began, self.commits.count - before

    def states(self) -> set[str]:
        """States of the actions."""
        return {str(state) for (state,) in self.store.database.read("SELECT DISTINCT state FROM node_action")}


def floor(port: int) -> float:
    """Seconds for bare signed requests, each on its own connection and thread."""

    def ask(number: int) -> None:
        path, nonce = f"/{number}/v1/changes?instance=agent-{number}&revision=0", signature.new_nonce()
        headers = {
            signature.NONCE: nonce,
            signature.SIGNATURE: signature.of_request(SECRET, "GET", path, nonce, b""),
        }
        connected = http.client.HTTPConnection("127.0.0.1", port)
        connected.request("GET", path, headers=headers)
        response = connected.getresponse()
        body = response.read()
        right = signature.of_answer(SECRET, response.status, nonce, body)
        assert signature.is_right(response.getheader(signature.SIGNATURE), right)
        connected.close()

    began = time.perf_counter()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(ask, number) for number in range(COUNT)]:
            done.result()
    return time.perf_counter() - began


def nodes(bench: Bench) -> None:
    """1000 agents in one process."""
    bench.say(f"orchestrations of {COUNT} nodes")
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.simulated_agents", str(port), str(COUNT)]
    with subprocess.Popen(command) as process:
        try:
            _wait(port)
            fleet = Fleet(bench, port)
            try:
                for _ in range(bench.repeat):
                    _measure(bench, fleet)
            finally:
                fleet.server.close()
        finally:
            process.kill()


def _measure(bench: Bench, fleet: Fleet) -> None:
    bench.add("nodes_floor", floor(fleet.port))
    fleet.ask()
    for name in ("send", "hear", "idle"):
        seconds, commits = fleet.orchestrate()
        bench.add(f"nodes_{name}", seconds)
        bench.add(f"nodes_{name}_commits", commits)
    assert fleet.states() == {"DONE"}, fleet.states()


def _wait(port: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            http.client.HTTPConnection("127.0.0.1", port).connect()
            return
        except OSError:
            assert time.monotonic() < end, "the agents do not start"
            time.sleep(0.02)
