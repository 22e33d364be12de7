"""A stack whose machines have agents, in a real engine."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.ids import new_id
from heatlite.features.nodes.agents import client
from heatlite.features.nodes.agents.registration import Registered
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.states import PENDING, NodeActionState, Requester, TransitionOrigin
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord, NodeTransitionRecord
from heatlite.features.nodes.store.store import NodeStore
from tests.engine.conftest import Engine, resource, template
from tests.features.nodes.tiny_agent import TinyAgent


class Site:
    """A stack with some machines, and the agent of each by the name of its resource."""

    def __init__(self, engine: Engine, names: Sequence[str] = ("a", "b")) -> None:
        self.engine = engine
        self.store = engine.store
        self.stack = engine.create(template(**{name: resource("OS::Heat::DeployedServer") for name in names}))
        self.agents = {name: TinyAgent() for name in names}
        for name in names:
            self.register(name)
        self.quiet()

    def close(self) -> None:
        for agent in self.agents.values():
            agent.close()

    def register(self, name: str, **more: Any) -> NodeRecord:
        agent = self.agents[name]
        given = Registered(agent.url, agent.secret, agent.instance, "1.0", agent.kinds)
        return self.engine.components.of(NodeOperations).nodes.register(
            self.engine.get(self.stack), self.engine.row(self.stack, name), replace(given, **more)
        )

    def node(self, name: str) -> NodeRecord:
        found = self.store.of(NodeStore).nodes.get(self.engine.row(self.stack, name).id)
        assert found is not None
        return found

    def ask(self, name: str, kind: str = "test/success", **more: Any) -> str:
        """A node action that is to be sent."""
        node, now = self.node(name), self.engine.clock.now()
        args = more.pop("args", {})
        digest = self.store.of(NodeStore).node_actions.digest(kind, args, node.id)
        action = NodeActionRecord(
            id=new_id(), project=node.project, stack_id=node.stack_id, root_id=node.root_id, node_id=node.id,
            node=node.name, kind=kind, args=args, digest=digest,
            state=NodeActionState.PENDING_SCHEDULE, requester=Requester.USER, requested_by="mia", created_at=now,
            updated_at=now,
        )  # fmt: skip
        action = replace(action, **more)
        line = NodeTransitionRecord(action.id, now, action.state, TransitionOrigin.SERVER, "mia")
        with self.store.transaction():
            self.store.stacks.lock(node.root_id)
            self.engine.components.of(NodeOperations).ledger.put([action], [line])
        return action.id

    def action(self, action_id: str) -> NodeActionRecord:
        found = self.store.of(NodeStore).node_actions.get(action_id)
        assert found is not None
        return found

    def state(self, action_id: str) -> str:
        return self.action(action_id).state

    def change(self, action_id: str, **more: Any) -> None:
        """The records of a use case."""
        with self.store.transaction():
            self.store.of(NodeStore).node_actions.save_many([replace(self.action(action_id), **more)])

    def history(self, action_id: str) -> list[str]:
        return [f"{line.origin} {line.state}" for line in self.store.of(NodeStore).node_actions.history(action_id)]

    @property
    def report(self) -> Any:
        found = self.store.of(NodeStore).orchestrations.get(self.stack.id)
        assert found is not None
        return found.report

    def quiet(self) -> None:
        """Wait until the action needs no worker and has none."""

        def rests() -> bool:
            found = self.store.of(NodeStore).orchestrations.get(self.stack.id)
            return found is None or (found.owner is None and found.due_at > self.engine.clock.now())

        self.engine.wait_for(rests)

    def orchestrate(self) -> Any:
        """One from begin to end; its report."""
        self.engine.components.of(NodeOperations).nodes.orchestrate(self.stack)
        self.quiet()
        return self.report if self.store.of(NodeStore).orchestrations.get(self.stack.id) else None


@pytest.fixture
def site(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(client, "SECONDS", 240.0)  # agents of a busy machine are late, not away
    site = Site(engine)
    yield site
    site.close()


__all__ = ["PENDING", "Site", "site"]
