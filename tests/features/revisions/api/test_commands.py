"""`heatlite history` and `heatlite undo`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Heat, template, value
from tests.api.test_commands import Here, Typed, nobody  # noqa: F401
from tests.features.revisions.api.test_revisions import hiding, put, revisions


@pytest.fixture
def here(heat: Heat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.chdir(tmp_path)
    return Here(heat)


def rows(here: Here, capsys: pytest.CaptureFixture[str], line: str) -> Any:
    capsys.readouterr()
    assert here(f"{line} -f json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_history_and_undo(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(template(a=value("one")))
    put(heat, path, {"template": template(a=value("two"))})
    heat.call("POST", f"{path}/actions", {"check": None}, 200)
    heat.settle(path)
    assert [one["revision"] for one in rows(here, capsys, "history s")] == [None, 2, 1]
    assert here("history s") == 0
    assert "revision" in capsys.readouterr().out.splitlines()[0]
    changed = {"place": "resources.a.properties.value", "old": "one", "new": "two"}
    for given in ("", " 2", " 1 2", " 2 1"):
        assert rows(here, capsys, f"history s --diff{given}") == [changed]
    assert here("history s --diff") == 0
    assert capsys.readouterr().out == "~ resources.a.properties.value: one → two\n"
    assert here("history s --diff 2 2") == 0
    assert capsys.readouterr().out == "The revisions are equal.\n"
    assert (here("history s --diff x"), here("history s --diff 1 2 3"), here("history s --diff 9")) == (2, 2, 1)
    capsys.readouterr()
    assert here("undo s") == 2, "a change needs a question or --yes"
    assert here("undo s --yes") == 0
    assert "UPDATE_COMPLETE" in "".join(capsys.readouterr())
    assert heat.get(f"{path}/template") == template(a=value("one"))
    assert here("undo s --to 2 -y -f json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["stack_status"] == "UPDATE_COMPLETE"
    assert [one["undo_of"] for one in revisions(heat, path)] == [None, None, 1, 2]
    assert here("undo s --to 9 -y") == 1
    assert "There are: 1, 2, 3, 4." in capsys.readouterr().err


def test_the_plan_is_shown_and_binds(
    heat: Heat, here: Here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = heat.create(template(a=value("one")))
    put(heat, path, {"template": template(a=value("two"))})
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    assert here("undo s") == 0
    said = capsys.readouterr().out
    assert said.startswith("Back to revision 1:\n~ a  (OS::Heat::Value)")
    assert revisions(heat, path)[-1]["plan_digest"]


def test_hidden_values(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(hiding(a=value("x")), parameters={"secret": "tr0ub4dor-and-3"})
    put(heat, path, {"template": hiding(a=value("x")), "parameters": {"secret": "another-one"}})
    assert here("history s --diff") == 0
    assert capsys.readouterr().out == "~ environment.parameters.secret: ****** → ******\n"


def test_nested_stacks_have_no_numbers(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    child = json.dumps(template(x=value()))
    path = heat.create(template(c={"type": "c.yaml"}), files={"c.yaml": child})
    nested = heat.get(f"{path}/resources/c")["resource"]["physical_resource_id"]
    assert "revision" not in rows(here, capsys, f"history {nested}")[0]


@pytest.mark.slow
def test_an_undo_waits_for_its_approval(own_heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here = own_heat, Here(own_heat)
    path = heat.create(template(a=value("one"), b=value("b")))
    put(heat, path, {"template": template(a=value("one"), c=value("c"))})
    policy = {"change_policy": "2026-11-28", "approve": "removals"}
    heat.call("PUT", f"{path}/change_policy", policy, 200)
    assert here("undo s -y") == 0
    said = capsys.readouterr()
    assert "It begins once it is approved." in said.out
    assert heat.get("/approvals")["approvals"][0]["state"] == "PENDING"
    assert heat.get(f"{path}/template") == template(a=value("one"), c=value("c"))


def test_an_undo_with_a_guard(
    heat: Heat, here: Here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: the plan shows the guard, and the undo has it."""
    path = heat.create(template(a=value("one")))
    put(heat, path, {"template": template(a=value("two"))})
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    assert here("undo s --bake 10m --alert labels.severity=critical") == 1
    said = capsys.readouterr().out
    assert "\nguard  10m, alerts: labels.severity=critical\n" in said and "\nnot taken back, made again: a\n" in said
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    assert here("undo s --bake 0 --unknown pass") == 0
    action = heat.get(f"/actions/{revisions(heat, path)[-1]['action_id']}")["action"]
    undone = action["inputs"]["undo"]
    assert (undone["to"], undone["guard"]) == (1, {"bake": 0, "unknown": "pass"})
    assert action["outputs"]["guard"] == {"result": "unknown"}
    assert here("undo s --alert labels.severity=critical -y") == 2
