"""Nodes in a real store, without agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.cli.main import run
from heatlite.cli.transport import ApiTransport, WSGITransport
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.feature import Feature, installed
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.requests import NodeRequest, NodeRequests
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import StackRecord
from tests.api.conftest import new_project, template, value
from tests.databases import sqlite
from tests.features.nodes.registered_nodes import registered


class Site:
    """A project, a stack in it with two nodes, and who asks for work on them."""

    def __init__(self, server: wiring.Embedded) -> None:
        self.server = server
        self.heat = new_project(server)
        self.store = server.store
        self.requests: NodeRequests = server.components.of(NodeOperations).requests
        self.ledger = server.components.of(NodeOperations).ledger
        self.path = self.heat.create(template(a=value(), b=value()))
        self.caller = Context(self.heat.project, "mia")
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
        found = self.store.of(NodeStore).node_actions.get(action.id)
        assert found is not None
        return found


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server that the tests of a process share."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path_factory.mktemp("nodes"))))
    yield server
    server.close()


@pytest.fixture
def site(server: wiring.Embedded) -> Site:
    return Site(server)


class Here:
    """A program whose server is in this process."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def features(self) -> list[Feature]:
        return installed()

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        return WSGITransport(self.site.heat.wsgi)

    def __call__(self, line: str, *more: str) -> int:
        return run(["node", *line.split(), *more, "--project", self.site.heat.project], self)  # type: ignore[arg-type]


@pytest.fixture
def node(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HEATLITE_ENDPOINT", raising=False)
    return Here(site)
