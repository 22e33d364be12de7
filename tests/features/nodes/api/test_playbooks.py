"""Playbooks over HTTP: kept, tried, run, approved, rejected, and seen as actions."""

import json
from collections.abc import Iterator

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.features.nodes import playbooks
from heatlite.features.nodes.states import NodeActionState
from heatlite.store.records import StackRecord
from tests.api.conftest import Heat, template, value
from tests.databases import sqlite
from tests.features.nodes.engine.played_agents import register, work
from tests.tables import few

S = NodeActionState
DOCUMENT = """\
node_playbook: 2026-11-21
description: Restart all
stages:
  - {name: restart, nodes: all, action: {kind: service.restart, args: {service: db}}}
"""


@pytest.fixture(scope="module")
def playbook_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path_factory.mktemp("playbooks"))))
    yield server
    server.close()


@pytest.fixture
def server(playbook_server: wiring.Embedded) -> wiring.Embedded:
    """A server for this file: tests of others leave rows that do not agree."""
    return playbook_server


@pytest.fixture(autouse=True)
def consistent(heat: Heat, server: wiring.Embedded) -> Iterator[None]:
    """Rows that agree with each other after each test.

    They are compared before what the test has left in progress is stopped.
    """
    yield
    assert server.store.inconsistencies(0.0, 0.0) == []


@pytest.fixture
def path(heat: Heat, server: wiring.Embedded) -> str:
    """A stack of two nodes."""
    path = heat.create(template(a=value(), b=value()))
    register(server, stack_at(server, path))
    return path


def stack_at(server: wiring.Embedded, path: str) -> StackRecord:
    stack = server.store.stacks.get(path.rpartition("/")[2])
    assert stack is not None
    return stack


@pytest.mark.slow
def test_they_are_kept(heat: Heat) -> None:
    for name in ("b", "a", "c"):
        made = heat.call("PUT", f"/node_playbooks/{name}", {"document": DOCUMENT}, code=201).json["node_playbook"]
        assert (made["name"], made["document"], made["updated_at"]) == (name, DOCUMENT, None)
        assert heat.get(made["links"][0]["href"].partition(heat.root)[2])["node_playbook"] == made
    changed = heat.call("PUT", "/node_playbooks/a", {"document": DOCUMENT + "\n"}, code=200).json["node_playbook"]
    assert changed["updated_at"] is not None
    page = heat.get("/node_playbooks?limit=2")
    assert [one["name"] for one in page["node_playbooks"]] == ["a", "b"]
    rest = heat.get(page["links"][0]["href"].partition(heat.root)[2])
    assert [one["name"] for one in rest["node_playbooks"]] == ["c"] and "links" not in rest
    assert heat.other.get("/node_playbooks") == {"node_playbooks": []}
    heat.call("DELETE", "/node_playbooks/a", code=204)
    heat.fault("GET", "/node_playbooks/a", code=404)
    heat.fault("DELETE", "/node_playbooks/a", code=404)


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("a", {"document": DOCUMENT.replace("kind", "sort")}, "stages[0].action: needs kind. (line 4, column"),
        ("a", {"document": "{"}, "Playbook not in valid format"),
        ("a", {"document": 1}, "document: must be text"),
        ("a", {}, "needs document"),
        ("-a", {"document": DOCUMENT}, "is no name for a playbook"),
    ],
)
def test_what_is_none_is_not_kept(heat: Heat, name: str, body: object, said: str) -> None:
    assert said in heat.fault("PUT", f"/node_playbooks/{name}", body)[1]
    assert heat.get("/node_playbooks") == {"node_playbooks": []}


@pytest.mark.slow
def test_a_run(heat: Heat, server: wiring.Embedded, path: str) -> None:
    heat.call("PUT", "/node_playbooks/restart", {"document": DOCUMENT}, code=201)
    runs = f"{path}/node_playbook_runs"
    plan = heat.call("POST", runs, {"playbook": "restart", "dry_run": True}, code=200).json
    assert [(one["name"], one["kind"], one["at_once"]) for one in plan["stages"]] == [("restart", "service.restart", 1)]
    assert [node["name"] for node in plan["stages"][0]["nodes"]] == ["a", "b"]
    assert heat.get("/node_actions") == {"node_actions": []}

    answer = heat.call("POST", runs, {"playbook": "restart", "timeout": 900}, code=202)
    run = answer.json["action"]
    assert answer.location.endswith(f"{heat.root}/actions/{run['id']}")
    assert heat.get(f"/actions/{run['id']}")["action"] == run
    assert (run["action"], run["status"], run["timeout"]) == ("STACK_PLAYBOOK", "INIT", 900)
    stages = [{"name": "restart", "at_once": 1, "nodes": 2}]
    assert run["inputs"] == {"playbook": "restart", "digest": plan["digest"], "stages": stages}
    listed = heat.get(f"/node_actions?run={run['id']}&sort=created_at:asc")["node_actions"]
    assert [(one["node"], one["state"], one["stage"]) for one in listed] == [
        ("a", "PENDING_APPROVE", 0),
        ("b", "PENDING_APPROVE", 0),
    ]
    one = f"/node_playbook_runs/{run['id']}"
    assert "is part of" in heat.fault("POST", f"/node_actions/{listed[0]['id']}/approve")[1]
    assert heat.fault("POST", f"{one}/approve", {"digest": "x"}, code=409)[0] == "PlaybookChanged"
    heat.other.fault("POST", f"{one}/approve", code=404)
    approved = heat.call("POST", f"{one}/approve", {"digest": plan["digest"]}, code=200).json["action"]
    assert approved["status"] == "WAITING"
    assert heat.fault("POST", f"{one}/approve", code=409)[0] == "InvalidActionState"
    assert run["id"] in heat.fault("PATCH", path, {}, code=409)[1]
    heat.call("POST", f"/actions/{run['id']}", {"signal": "SUSPEND"}, code=202)
    assert "SUSPENDED" in heat.fault("PATCH", path, {}, code=409)[1]
    heat.call("POST", f"/actions/{run['id']}", {"signal": "RESUME"}, code=202)
    assert work(server, stack_at(server, path)) == ["a", "b"]
    ended = heat.get(f"/actions/{run['id']}")["action"]
    assert (ended["status"], ended["outputs"]["stages"][0]["states"]) == ("SUCCEEDED", {"DONE": 2})
    assert heat.get("/actions?action=STACK_PLAYBOOK&status=SUCCEEDED")["actions"] == [ended]
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"


def test_granted_and_rejected(heat: Heat, server: wiring.Embedded, path: str) -> None:
    runs = f"{path}/node_playbook_runs"
    asked = heat.call("POST", runs, {"document": DOCUMENT}, code=202).json["action"]
    granted = heat.call("POST", runs, {"document": DOCUMENT, "approval": "granted"}, code=202).json["action"]
    assert granted["status"] == "WAITING"
    assert heat.fault("POST", runs, {"document": DOCUMENT, "approval": "granted"}, code=409)[0] == "ResourceIsLocked"
    rejected = heat.call("POST", f"/node_playbook_runs/{asked['id']}/reject", code=200).json["action"]
    assert (rejected["status"], rejected["outputs"]["error"]) == ("CANCELLED", "Rejected by anonymous")
    heat.call("POST", f"/actions/{granted['id']}", {"signal": "CANCEL"}, code=202)
    states = [one["state"] for one in heat.get("/node_actions")["node_actions"]]
    assert states == ["CANCELLED"] * 4


@pytest.mark.parametrize(
    ("body", "code", "said"),
    few(
        [
            ({}, 400, "either the name of a playbook"),
            ({"playbook": "x", "document": DOCUMENT}, 400, "either the name of a playbook"),
            ({"playbook": "nothing"}, 404, "The Playbook (nothing) could not be found"),
            ({"document": json.loads("{}")}, 400, "needs node_playbook, stages"),
            ({"document": DOCUMENT, "approval": "yes"}, 400, "approval: must be one of: granted, required"),
            ({"document": DOCUMENT, "timeout": -1}, 400, "timeout: must be at least 0"),
            ({"document": DOCUMENT, "when": 1}, 400, "unknown key when"),
            ({"document": DOCUMENT.replace("nodes: all", "nodes: {names: [x]}")}, 400, "the stack has no node x"),
        ]
    ),
)
def test_what_is_no_run(heat: Heat, path: str, body: object, code: int, said: str) -> None:
    assert said in heat.fault("POST", f"{path}/node_playbook_runs", body, code)[1]
    assert heat.get("/actions?action=STACK_PLAYBOOK") == {"actions": []}


def test_other_actions_are_no_runs(heat: Heat, path: str) -> None:
    (action,) = heat.get("/actions")["actions"]
    for asked in ("approve", "reject"):
        heat.fault("POST", f"/node_playbook_runs/{action['id']}/{asked}", code=404)


def test_a_project_has_a_limited_number(heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playbooks, "MAX_PLAYBOOKS", 2)
    for name in ("a", "b"):
        heat.call("PUT", f"/node_playbooks/{name}", {"document": DOCUMENT}, code=201)
    kind, text = heat.fault("PUT", "/node_playbooks/c", {"document": DOCUMENT})
    assert (kind, "has 2 playbooks" in text) == ("RequestLimitExceeded", True)
    heat.fault("GET", "/node_playbooks/c", code=404)
    heat.call("PUT", "/node_playbooks/b", {"document": DOCUMENT + "\n"}, code=200)
    heat.other.call("PUT", "/node_playbooks/c", {"document": DOCUMENT}, code=201)
