"""A server whose setting `features` leaves nodes out."""

from pathlib import Path

from webtest import TestApp

from heatlite import wiring
from heatlite.administration import open_store
from heatlite.core.config import Settings
from heatlite.features.nodes.states import NodeActionState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.large_values import LARGE
from tests.databases import sqlite


def test_it_has_no_route_work_or_store_of_nodes(tmp_path: Path) -> None:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), features=("healing",)))
    try:
        for path in ("node_actions", "node_playbooks"):
            answer = TestApp(server.app).get(f"/v1/demo/{path}", status=404)
            assert "nodes" in answer.json["error"]["message"], "it says which feature is off"
        assert server.works == {}
        assert not any(isinstance(one, NodeStore) for one in server.store.features)
    finally:
        server.close()


def test_the_large_values_of_node_actions_stay(tmp_path: Path) -> None:
    """The server does not read the rows that refer to them."""
    url, args = sqlite(tmp_path), {"config": "x" * LARGE}
    action = NodeActionRecord(
        "a", "acme", "s", "s", "n", "n", "script", args, "", NodeActionState.DONE, Requester.USER, "mia", 1.0, 1.0
    )
    store = open_store(Settings(database=url))
    with store.transaction():
        store.of(NodeStore).node_actions.insert_many([action])
    store.close()
    for features, owners in ((("healing",), []), (None, ["acme"])):
        store = open_store(Settings(database=url, features=features))
        assert store.project_values.unchecked(1e12, 10) == owners
        store.close()
