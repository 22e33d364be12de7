"""Node actions over HTTP: lists, bodies, what is hidden."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.states import NodeActionState, TransitionOrigin
from heatlite.features.nodes.store.records import NodeTransitionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.store import Store
from tests.api.conftest import Heat, new_project, template, value
from tests.features.nodes.registered_nodes import registered
from tests.tables import few


class Shared:
    """A project with a tree of two stacks, each with a node; and another stack."""

    def __init__(self, server: wiring.Embedded) -> None:
        self.heat, self.store = new_project(server), server.store
        inner = json.dumps(template(b=value()))
        files = {"inner.yaml": inner}
        self.path = self.heat.create(template(a=value(), n={"type": "inner.yaml"}), "outer", files=files)
        self.other = self.heat.create(template(c=value()), "other")
        outer = self.store.stacks.get(self.path.rpartition("/")[2])
        other = self.store.stacks.get(self.other.rpartition("/")[2])
        assert outer is not None
        assert other is not None
        (child,) = self.store.stacks.descendants(outer)
        self.ids = {"outer": outer.id, "inner": child.id, "other": other.id}
        for stack, name in ((outer, "a"), (child, "b"), (other, "c")):
            registered(self.store, stack, name)
        asks = [("a", "script"), ("b", "script"), ("a", "test/loop"), ("c", "script"), ("b", "test/success")]
        self.actions = [self.ask(node, kind) for node, kind in asks]
        self.heat.call("POST", f"/node_actions/{self.actions[0]['id']}/approve", code=200)
        self.heat.call("POST", f"/node_actions/{self.actions[1]['id']}/reject", code=200)

    def ask(self, node: str, kind: str) -> Any:
        path = self.other if node == "c" else self.path
        body = {"node": node, "kind": kind}
        return self.heat.call("POST", f"{path}/node_actions", body, code=201).json["node_action"]

    def listed(self, query: str = "", path: str = "") -> list[int]:
        """The numbers of the node actions of all pages."""
        out: list[Any] = []
        page = self.heat.get(f"{path}/node_actions{query}")
        while True:
            out += page["node_actions"]
            if "links" not in page:
                break
            (link,) = page["links"]
            assert link["rel"] == "next"
            page = self.heat.get(link["href"].partition(self.heat.root)[2])
        numbers = {action["id"]: number for number, action in enumerate(self.actions)}
        return [numbers[one["id"]] for one in out]


@pytest.fixture(scope="module")
def shared(shared_server: wiring.Embedded) -> Shared:
    return Shared(shared_server)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "found"),
    few(
        [
            ("", [4, 3, 2, 1, 0]),
            ("?sort=created_at", [0, 1, 2, 3, 4]),
            ("?node=a,c", [3, 2, 0]),
            ("?node=a&node=b&kind=script", [1, 0]),
            ("?state=PENDING_SCHEDULE,CANCELLED", [1, 0]),
            ("?requester=user&sort=node:desc,created_at:asc", [3, 1, 4, 0, 2]),
            ("?requester=agent", []),
            ("?run=x", []),
            ("?sort=state:desc,kind&limit=2", [0, 3, 2, 4, 1]),
            ("?limit=1", [4, 3, 2, 1, 0]),
            ("?stack={inner}", [4, 1]),
            ("?stack={outer},{other}", [3, 2, 0]),
        ]
    ),
)
def test_a_list_has_what_is_asked_for_in_its_order(shared: Shared, query: str, found: list[int]) -> None:
    assert shared.listed(query.format(**shared.ids)) == found


@pytest.mark.slow
def test_a_stack_lists_its_tree_and_a_node_is_known_by_its_id(shared: Shared) -> None:
    assert shared.listed(path=shared.path) == [4, 2, 1, 0]
    assert shared.listed("?limit=1&kind=script", shared.path) == [1, 0]
    assert shared.listed(f"?node={shared.actions[1]['node_id']}") == [4, 1]
    (listed,) = shared.heat.get("/node_actions?limit=1&sort=created_at")["node_actions"]
    shown = shared.heat.get(f"/node_actions/{listed['id']}")["node_action"]
    assert shown.keys() - listed.keys() == {"args", "digest", "progress", "outputs", "depended_by", "history"}
    assert {key: shown[key] for key in listed} == listed


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("?colour=red", "Unknown query key colour"),
        ("?state=OPEN", "Unknown state OPEN; there are: PENDING_APPROVE"),
        ("?requester=mia", "Unknown requester mia"),
        ("?sort=args", "Unknown sort key args"),
        ("?limit=-1", "non-negative"),
        ("?marker=x", "marker must be the id of a node action"),
        ("?kind=", "kind has no value"),
    ],
)
def test_what_cannot_be_asked_of_a_list_is_said(shared: Shared, query: str, text: str) -> None:
    assert text in shared.heat.fault("GET", f"/node_actions{query}")[1]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (None, "needs a JSON object"),
        ([], "needs a JSON object"),
        ({"kind": "script"}, "The body: needs node."),
        ({"node": "a", "kind": 1}, "kind: must be text"),
        ({"node": "a", "kind": "script", "args": []}, "args: must be an object or null"),
        ({"node": "a", "kind": "script", "approval": "yes"}, "approval: must be one of: granted, required"),
        ({"node": "a", "kind": "script", "id": "x"}, "id: must be a UUID, not x"),
        ({"node": "a", "kind": "script", "state": "DONE"}, "unknown key state"),
        ({"node": "a", "kind": "k" * 256}, "kind: may have at most 255 characters"),
        ({"node": "a", "kind": "reboot"}, "has no reboot; it has: script, test/loop, test/success"),
    ],
)
def test_what_cannot_be_asked_for_is_said(shared: Shared, body: object, text: str) -> None:
    assert text in shared.heat.fault("POST", f"{shared.path}/node_actions", body)[1]
    assert len(shared.listed()) == 5


def test_what_cannot_be_decided_is_said(shared: Shared) -> None:
    path = f"/node_actions/{shared.actions[2]['id']}"
    heat = shared.heat
    assert "digest: must be text or null" in heat.fault("POST", f"{path}/approve", {"digest": 1})[1]
    assert "unknown key digest" in heat.fault("POST", f"{path}/cancel", {"digest": "x"})[1]
    kind, text = heat.fault("POST", f"{path}/reject", {"digest": "x"}, code=409)
    assert (kind, shared.actions[2]["digest"] in text) == ("NodeActionChanged", True)
    for method, below in (("GET", ""), ("POST", "/approve"), ("POST", "/reject"), ("POST", "/cancel")):
        assert heat.fault(method, f"/node_actions/x{below}", code=404)[0] == "EntityNotFound"
    assert heat.fault("POST", f"{shared.path}/node_actions", {"node": "c", "kind": "script"}, code=404)


def test_a_deleted_stack_has_none(heat: Heat) -> None:
    path = heat.create(template(a=value()))
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    for method, body in (("GET", None), ("POST", {"node": "a", "kind": "script"})):
        assert heat.fault(method, f"{path}/node_actions", body, code=404)[0] == "EntityNotFound"


@pytest.mark.slow
def test_nobody_reads_what_is_hidden(
    own_heat: Heat, own_store: Store, own_server: wiring.Embedded, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Hidden parameters and secret names appear in no answer, event or log line."""
    made = template(a=value()) | {"parameters": {"key": {"type": "string", "hidden": True}}}
    path = own_heat.create(made, parameters={"key": "opensesame"})
    stack = own_store.stacks.get(path.rpartition("/")[2])
    assert stack is not None
    registered(own_store, stack, "a")
    inputs = [{"name": "db_password", "value": "hunter2222"}, {"name": "size", "value": "large"}]
    args = {"config": "login opensesame", "inputs": inputs, "api_key": ["keykeykey"]}
    answer = own_heat.call("POST", f"{path}/node_actions", {"node": "a", "kind": "script", "args": args}, code=201)
    shown = answer.json["node_action"]
    masked = [{"name": "db_password", "value": "******"}, {"name": "size", "value": "large"}]
    assert shown["args"] == {"config": "login ******", "inputs": masked, "api_key": "******"}
    action = own_store.of(NodeStore).node_actions.get(shown["id"])
    assert action is not None
    assert action.args == args, "its agent is told"
    own_heat.call("POST", f"/node_actions/{action.id}/approve", {"digest": shown["digest"]}, code=200)
    error = "opensesame, hunter2222 and keykeykey were refused"
    outputs: Any = {"deploy_stdout": "trying hunter2222", "root_secret": "swordfish", "said": "swordfish"}
    for state in (NodeActionState.RUNNING, NodeActionState.FAILED):
        (action,) = own_store.of(NodeStore).node_actions.existing([action.id])
        action = replace(action, state=state, error=error, outputs=outputs)
        line = NodeTransitionRecord(action.id, 1.0, state, TransitionOrigin.AGENT, None, error)
        with own_store.transaction():
            own_server.components.of(NodeOperations).ledger.record([action], [], {action.id: [line]})
    refused = own_heat.call("POST", f"/node_actions/{action.id}/cancel", code=400)
    shown = own_heat.get(f"/node_actions/{action.id}")
    assert shown["node_action"]["outputs"] == {
        "deploy_stdout": "trying ******", "root_secret": "******", "said": "******",
    }  # fmt: skip
    assert shown["node_action"]["history"][-1]["reason"] == "******, ****** and ****** were refused"
    lists = [own_heat.get("/node_actions"), own_heat.get(f"{path}/events")]
    told = [shown, refused.json, answer.json, *lists, caplog.text]
    for secret in ("opensesame", "hunter2222", "keykeykey", "swordfish"):
        assert secret not in json.dumps(told)
    raw = (tmp_path / "heat.db").read_bytes() + (tmp_path / "heat.db-wal").read_bytes()
    assert b"hunter2222" not in raw
