"""Revisions and undos by request."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.api.conftest import Heat, Town, template, value
from tests.waiting import eventually

FAILS = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
SECRET = "tr0ub4dor-and-3"


def parts(*names: str) -> dict[str, object]:
    return template(**{name: value(name) for name in names})


def put(heat: Heat, path: str, body: object, expect: str = "UPDATE_COMPLETE") -> None:
    heat.call("PUT", path, body, 202)
    heat.settle(path, expect)


def undo(heat: Heat, path: str, expect: str = "UPDATE_COMPLETE", **options: Any) -> None:
    answer = heat.call("POST", f"{path}/actions", {"undo": options}, 200)
    assert answer.json is None
    assert answer.location.endswith(f"/actions/{heat.get(f'{path}/revisions')['revisions'][0]['action_id']}")
    heat.settle(path, expect)


def revisions(heat: Heat, path: str) -> list[dict[str, Any]]:
    """The revisions of a stack, oldest first, once its last action has ended."""

    def found() -> Sequence[dict[str, Any]] | None:
        listed = heat.get(f"{path}/revisions")["revisions"]
        return None if any(one["result"] is None for one in listed) else listed

    return [*reversed(eventually(found, "the last action has ended"))]


def shown(heat: Heat, path: str, number: int) -> Any:
    return heat.get(f"{path}/revisions/{number}")["revision"]


def numbers(heat: Heat, path: str) -> list[tuple[int, str, int | None]]:
    return [(one["number"], one["result"], one["undo_of"]) for one in revisions(heat, path)]


def test_undo_of_an_undo(heat: Heat) -> None:
    """F1, F3: an undo makes a revision and rewrites none; two of them lead back."""
    path = heat.create(parts("a"), tags="one")
    put(heat, path, {"template": parts("a", "b"), "tags": "two", "timeout_mins": 9, "disable_rollback": False})
    put(heat, path, {"template": parts("a", "c")})
    before = [shown(heat, path, number) for number in (1, 2, 3)]
    undo(heat, path)
    assert shown(heat, path, 4)["template"] == parts("a", "b")
    stack = heat.get(path)["stack"]
    assert (stack["tags"], stack["timeout_mins"], stack["disable_rollback"]) == (["two"], 9, False)
    undo(heat, path)
    assert heat.get(f"{path}/template") == parts("a", "c")
    ended = "SUCCEEDED"
    assert numbers(heat, path) == [(1, ended, None), (2, ended, None), (3, ended, None), (4, ended, 2), (5, ended, 3)]
    assert [shown(heat, path, number) for number in (1, 2, 3)] == before
    action = heat.get(f"/actions/{revisions(heat, path)[-1]['action_id']}")["action"]
    assert (action["action"], action["inputs"]) == ("STACK_UPDATE", {"undo": {"to": 3}})
    undo(heat, path, to=1)
    assert heat.get(f"{path}/template") == parts("a")
    assert heat.get(path)["stack"]["tags"] == ["one"]


def test_plan_equals_that_of_the_update(heat: Heat) -> None:
    """F2, with the digest that binds the undo."""
    path = heat.create(parts("a", "b"))
    put(heat, path, {"template": parts("b", "c")})
    plan = heat.call("PATCH", f"{path}/preview?plan=true", {"undo": {}}, 200).json["plan"]
    other = heat.call("PUT", f"{path}/preview?plan=true", {"template": parts("a", "b")}, 200).json
    assert plan["to"] == 1
    assert plan["digest"] == other["plan"]["digest"]
    assert {one["path"][0]: one["action"] for one in plan["resources"]}["a"] == "create"
    put(heat, path, {"template": parts("b", "d")})
    assert heat.fault("POST", f"{path}/actions", {"undo": {"to": 1, "plan_digest": plan["digest"]}}, 409)[0] == (
        "PlanChanged"
    )
    undo(heat, path, to=1, plan_digest=heat.call(
        "PATCH", f"{path}/preview?plan=true", {"undo": {"to": 1}}, 200
    ).json["plan"]["digest"])
    assert revisions(heat, path)[-1]["plan_digest"] is not None


def test_way_back_after_a_failure(heat: Heat) -> None:
    """Acceptance 2: the definition that was COMPLETE, also after a rollback."""
    path = heat.create(parts("a"))
    put(heat, path, {"template": template(a=value("a"), bad=FAILS)}, "UPDATE_FAILED")
    assert [one["result"] for one in revisions(heat, path)] == ["SUCCEEDED", "FAILED"]
    undo(heat, path)
    assert heat.get(f"{path}/template") == parts("a")
    put(heat, path, {"template": template(bad=FAILS), "disable_rollback": False}, "ROLLBACK_COMPLETE")
    assert heat.get(f"{path}/template") == parts("a")
    plan = heat.call("PATCH", f"{path}/preview?plan=true", {"undo": {}}, 200).json["plan"]
    assert {one["action"] for one in plan["resources"]} == {"keep"}


def test_retry_reaches_the_definition(heat: Heat) -> None:
    path = heat.create(template(a=FAILS))
    assert numbers(heat, path) == [(1, "FAILED", None)]
    assert heat.fault("POST", f"{path}/actions", {"undo": {}}, 409)[0] == "NothingToUndo"


@pytest.mark.parametrize("number", ["x", "1.5", "-1", "99999999999"])
def test_numbers(heat: Heat, number: str) -> None:
    path = heat.create(parts("a"))
    assert heat.fault("GET", f"{path}/revisions/{number}", code=400)
    assert heat.fault("GET", f"{path}/revisions/1/diff?with={number}", code=400)


@pytest.mark.parametrize("options", [{"to": "1"}, {"to": 1.5}, {"to": True}, {"too": 1}, {"plan_digest": 1}, []])
def test_refused_bodies(heat: Heat, options: object) -> None:
    """Z2, and `to` that is no whole number."""
    path = heat.create(parts("a"))
    heat.fault("POST", f"{path}/actions", {"undo": options}, 400)
    heat.fault("PATCH", f"{path}/preview?plan=true", {"undo": options}, 400)


def test_missing_revisions(heat: Heat) -> None:
    """F4: 404 with those that there are; none to go to: 409."""
    path = heat.create(parts("a"))
    name, text = heat.fault("POST", f"{path}/actions", {"undo": {}}, 409)
    assert (name, "nothing to go back to" in text) == ("NothingToUndo", True)
    put(heat, path, {"template": parts("b")})
    for number in (0, 3, -1, 10**30):
        name, text = heat.fault("POST", f"{path}/actions", {"undo": {"to": number}}, 404)
        assert (name, text.endswith("There are: 1, 2.")) == ("RevisionNotFound", True)
    heat.fault("GET", f"{path}/revisions/3", code=404)
    heat.fault("GET", f"{path}/revisions/1/diff", code=404)
    assert heat.get(f"{path}/revisions/2/diff")["changes"] == heat.get(f"{path}/revisions/1/diff?with=2")["changes"]
    assert heat.get(f"{path}/revisions/2/diff?with=2")["changes"] == []


def test_under_a_lock(heat: Heat) -> None:
    """Acceptance 6: refused, and replayed after the lock."""
    path = heat.create(parts("a"))
    put(heat, path, {"template": parts("b")})
    heat.call("POST", f"{path}/actions", {"lock": {}}, 200)
    heat.settle(path)
    assert heat.fault("POST", f"{path}/actions", {"undo": {}}, 409)[0] == "StackLocked"
    assert len(revisions(heat, path)) == 2
    (entry,) = heat.get(f"{path}/lock")["suppressed"]
    heat.call("POST", f"{path}/actions", {"unlock": {}}, 200)
    heat.settle(path)
    assert heat.call("POST", f"{path}/lock/suppressed/{entry['id']}/replay", code=200).json is None
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"{path}/template") == parts("a")


def hiding(**resources: object) -> dict[str, object]:
    parameter = {"type": "string", "hidden": True, "default": "the-default"}
    return {**template(**resources), "parameters": {"secret": parameter, "n": {"type": "string", "default": "one"}}}


def test_hidden_parameter(heat: Heat) -> None:
    """Acceptance 3, Z4: kept, masked, undone without being typed."""
    made = hiding(a=value({"get_param": "secret"}))
    path = heat.create(made, parameters={"secret": SECRET})
    put(heat, path, {"template": made, "parameters": {"secret": "another-one", "n": "two"}})
    put(heat, path, {"template": made})
    for number in (1, 2, 3):
        text = heat.call("GET", f"{path}/revisions/{number}", code=200).text
        assert not any(one in text for one in (SECRET, "another-one", "the-default"))
    assert shown(heat, path, 1)["environment"]["parameters"] == {"secret": "******"}
    found = heat.call("GET", f"{path}/revisions/2/diff?with=1", code=200)
    assert found.json["changes"] == [
        {"place": "environment.parameters.secret", "old": "******", "new": "******"},
        {"place": "environment.parameters.n", "old": None, "new": "two"},
    ]
    undo(heat, path, to=1)
    resource = heat.get(f"{path}/resources/a")["resource"]
    assert resource["attributes"]["value"] == "******"
    put(heat, path, {"template": {**made, "outputs": {"o": {"value": {"get_param": "secret"}}}},
                     "parameters": {"secret": SECRET}})
    undo(heat, path)
    assert not any(SECRET in heat.call("GET", f"{path}{one}").text for one in ("/revisions", "/events", "/template"))


def test_content_and_differences(heat: Heat) -> None:
    child = '{"heat_template_version": "2021-04-16", "resources": {}}'
    first = {**parts("a"), "parameters": {"n": {"type": "string", "default": "1"}}}
    second = {**template(a=value("other"), c={"type": "c.yaml"}), "parameters": first["parameters"]}
    path = heat.create(first, parameters={"n": "2"})
    environment = {"parameter_defaults": {"x": "y"}}
    put(heat, path, {"template": second, "files": {"c.yaml": child}, "environment": environment, "tags": "t"})
    found = shown(heat, path, 2)
    assert (found["template"], found["files"]) == (second, {"c.yaml": child})
    assert found["environment"]["parameter_defaults"] == {"x": "y"}
    changes = {one["place"]: (one["old"], one["new"]) for one in heat.get(f"{path}/revisions/2/diff")["changes"]}
    assert changes == {
        "resources.a.properties.value": ("a", "other"),
        "resources.c": (None, {"type": "c.yaml"}),
        "environment.parameters.n": ("2", None),
        "environment.parameter_defaults.x": (None, "y"),
        "files.c.yaml": (None, child),
        "tags": ([], ["t"]),
    }


def test_nested_stacks_have_none(heat: Heat) -> None:
    """Z6: 400 with the root's name."""
    child = '{"heat_template_version": "2021-04-16", "resources": {}}'
    path = heat.create(template(c={"type": "c.yaml"}), files={"c.yaml": child})
    nested = heat.get(f"{path}/resources/c")["resource"]["physical_resource_id"]
    location = heat.call("GET", f"/stacks/{nested}", code=302).location
    below = location[location.index("/stacks/"):]
    for method, rest, body in (
        ("GET", "/revisions", None), ("POST", "/actions", {"undo": {}}), ("PATCH", "/preview?plan=true", {"undo": {}})
    ):
        assert heat.fault(method, f"{below}{rest}", body, 400)[1].endswith("Name its root, s.")


def test_who_may(town: Town) -> None:
    member, reader = town["member"], town["reader"]
    path = member.create(parts("a"))
    put(member, path, {"template": parts("b")})
    assert len(reader.get(f"{path}/revisions")["revisions"]) == 2
    reader.call("GET", f"{path}/revisions/1", code=200)
    reader.fault("POST", f"{path}/actions", {"undo": {}}, 403)
    town["heat_stack_user"].call("GET", f"{path}/revisions", code=403)
    undo(member, path)
    assert [one["by"] for one in revisions(reader, path)] == ["member"] * 3


@pytest.mark.slow
def test_audit_row(own_heat: Heat) -> None:
    """Z7: a row with stack, action and digest."""
    path = own_heat.create(parts("a"))
    put(own_heat, path, {"template": parts("b")})
    digest = own_heat.call("PATCH", f"{path}/preview?plan=true", {"undo": {}}, 200).json["plan"]["digest"]
    undo(own_heat, path, plan_digest=digest)
    row = own_heat.get("/audit?operation=actions:undo")["audit"][0]
    last = revisions(own_heat, path)[-1]
    assert (row["action_id"], row["plan_digest"], row["stack_name"]) == (last["action_id"], digest, "s")


def test_the_way_out_of_a_failed_update(heat: Heat) -> None:
    """G4: `why` says the command."""
    path = heat.create(parts("a"))
    put(heat, path, {"template": template(a=value("a"), bad=FAILS)}, "UPDATE_FAILED")
    undone = [way for way in ways_of(heat, path) if way["command"] == "heatlite undo s"]
    assert undone
    undo(heat, path)
    assert heat.get(f"{path}/template") == parts("a")
    assert not any(way["command"] == "heatlite undo t" for way in ways_of(heat, heat.create(template(a=FAILS), "t")))


def ways_of(heat: Heat, path: str) -> list[dict[str, Any]]:
    return [way for fact in heat.get(f"{path}/why")["facts"] for way in fact["way_out"]]


@pytest.mark.slow
def test_an_undo_that_waits_for_an_approval(own_heat: Heat) -> None:
    """F1: an approval is asked as for any update, and what was kept is the undo."""
    heat = own_heat
    path = heat.create(parts("a"), tags="one")
    put(heat, path, {"template": parts("a", "b"), "tags": "two", "timeout_mins": 9, "disable_rollback": False})
    policy = {"change_policy": "2026-11-28", "approve": "removals"}
    heat.call("PUT", f"{path}/change_policy", policy, 200)
    refused = heat.call("POST", f"{path}/actions", {"undo": {}}, 409).json
    assert refused["error"]["type"] == "ApprovalRequired"
    heat.call("POST", f"{path}/actions?approval=wait", {"undo": {}}, 202)
    (waiting,) = [one for one in heat.get("/approvals")["approvals"] if one["state"] == "PENDING"]
    assert [one["number"] for one in revisions(heat, path)] == [1, 2]
    heat.call("POST", f"/approvals/{waiting['id']}/approve", {"digest": waiting["digest"]}, 202)
    eventually(lambda: len(heat.get(f"{path}/revisions")["revisions"]) == 3, "the undo has begun")
    stack = heat.settle(path, "UPDATE_COMPLETE")
    assert (stack["tags"], stack["timeout_mins"], stack["disable_rollback"]) == (["one"], None, True)
    assert (heat.get(f"{path}/template"), revisions(heat, path)[-1]["undo_of"]) == (parts("a"), 1)


def test_an_undo_with_a_guard(heat: Heat) -> None:
    """F1: a guard is checked, kept and shown as of any update."""
    path = heat.create(parts("a"))
    put(heat, path, {"template": parts("b")})
    for wrong in (True, {"bake": -1}, {"bakes": 1}, "x"):
        heat.fault("POST", f"{path}/actions", {"undo": {"guard": wrong}}, 400)
    plan = heat.call("PATCH", f"{path}/preview?plan=true", {"undo": {"guard": {"bake": 60}}}, 200).json["plan"]
    assert plan["guard"]["bake"] == 60
    guard = {"bake": 0, "unknown": "pass"}
    undo(heat, path, guard=guard)
    action = heat.get(f"/actions/{revisions(heat, path)[-1]['action_id']}")["action"]
    assert action["inputs"] == {"undo": {"to": 1, "guard": guard}}


def test_protection_holds(heat: Heat) -> None:
    """F1: what refuses an update refuses an undo, and nothing is begun."""
    path = heat.create(parts("a"))
    put(heat, path, {"template": parts("b")})
    heat.call("POST", f"{path}/actions", {"protect": {"resource": "b"}}, 200)
    assert heat.fault("POST", f"{path}/actions", {"undo": {}}, 409)[0] == "DeletionProtected"
    heat.call("POST", f"{path}/actions", {"unprotect": {"resource": "b"}}, 200)
    assert [one["number"] for one in revisions(heat, path)] == [1, 2]
    undo(heat, path)


@pytest.mark.slow
def test_rules_hold(own_heat: Heat) -> None:
    """F1, as above."""
    pytest.importorskip("cel_expr_python", reason="cel-expr-python is not installed: pip install -e '.[rules]'")
    heat = own_heat
    path = heat.create(parts("a"))
    put(heat, path, {"template": parts("b")})
    rule = {"name": "r", "for": "resource", "when": "true", "then": "deny", "message": "not here"}
    heat.call("PUT", "/change_policy", {"change_policy": "2026-11-28", "rules": [rule]}, 200)
    assert heat.call("POST", f"{path}/actions", {"undo": {}}, 403).json["error"]["type"] == "RuleDenied"
    assert [one["number"] for one in revisions(heat, path)] == [1, 2]
    heat.call("DELETE", "/change_policy", code=204)
    undo(heat, path)
