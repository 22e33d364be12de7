"""Nodes in a real store, without agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.engine.nodes.ledger import Ledger
from heatlite.engine.nodes.requests import NodeRequest, NodeRequests
from heatlite.store.node_records import NodeActionRecord
from heatlite.store.records import StackRecord
from tests.api.conftest import Heat, registered, template, value
from tests.databases import sqlite


class Site:
    """A server, a stack in it with two nodes, and who asks for work on them."""

    def __init__(self, server: wiring.Embedded) -> None:
        self.heat = Heat(server.app)
        self.store = server.store
        self.requests: NodeRequests = server.rooms.node_requests
        self.ledger = Ledger(server.store, Clock())
        self.path = self.heat.create(template(a=value(), b=value()))
        self.caller = Context("demo", "mia")
        self.nodes = {name: registered(self.store, self.stack, name) for name in ("a", "b")}

    @property
    def stack(self) -> StackRecord:
        found = self.store.stacks.get(self.path.rpartition("/")[2])
        assert found is not None
        return found

    def ask(self, node: str = "a", kind: str = "test/success", **more: object) -> NodeActionRecord:
        """A new node action."""
        request = NodeRequest(node, kind, **{"args": {}, **more})  # type: ignore[arg-type]
        return self.requests.create(self.caller, self.stack, request)[0]

    def now(self, action: NodeActionRecord) -> NodeActionRecord:
        """A node action as it stands."""
        found = self.store.node_actions.get(action.id)
        assert found is not None
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[wiring.Embedded]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path)))
    yield server
    server.close()


@pytest.fixture
def site(server: wiring.Embedded) -> Site:
    return Site(server)
