"""Guards by request: what is shown, why it waits, and an alert by HTTP."""

from typing import Any

import pytest

from tests.api.conftest import Heat, Town, template, value
from tests.waiting import eventually

FIRST = {"type": "OS::Heat::TestResource", "properties": {"value": "one", "update_replace": True}}
SECOND = {"type": "OS::Heat::TestResource", "properties": {"value": "two", "update_replace": True}}
HOUR = 3600


def begun(heat: Heat, name: str, **guard: object) -> str:
    """The path of a stack with an update that bakes."""
    path = heat.create(template(a=FIRST, v=value("x")), name)
    body = {"template": template(a=SECOND, v=value("y")), "guard": {"bake": HOUR, **guard}}
    heat.call("PUT", path, body, 202)
    eventually(lambda: action(heat, path)["status"] == "WAITING", "it bakes")
    assert heat.get(path)["stack"]["guard"]["phase"] == "bake"
    return path


def action(heat: Heat, path: str) -> dict[str, Any]:
    found: dict[str, Any] = heat.get(f"/actions?target={path.rpartition('/')[2]}&action=STACK_UPDATE")["actions"][0]
    return found


def report(heat: Heat, key: str, resource: str, status: str = "unhealthy") -> None:
    one = {"key": key, "status": status, "stack": "guarded", "resource": resource, "reason": "slow"}
    heat.call("POST", "/health/generic", {"reports": [one]}, 200)


@pytest.mark.slow
def test_an_alert_takes_an_update_back(heat: Heat) -> None:
    """C1: the report's transaction writes the control and `data.guard.fired`."""
    path = begun(heat, "guarded")
    before = heat.get(path)["stack"]
    assert (before["guard"]["heard"], before["guard"]["fired"]) == ([], None)
    assert before["stack_status_reason"] == f"Baking until {before['guard']['until']}"
    report(heat, "well", "a", "healthy")
    eventually(lambda: heat.get(path)["stack"]["guard"]["heard"] == ["generic"], "the source is heard")
    report(heat, "k", "a")
    fired = action(heat, path)["data"]["guard"]["fired"]
    assert (fired["source"], fired["key"], fired["summary"]) == ("generic", "k", "slow")
    heat.settle(path, "ROLLBACK_COMPLETE")
    after = heat.get(path)["stack"]
    assert "generic reported slow" in after["stack_status_reason"] and "guard" not in after
    assert action(heat, path)["outputs"]["guard"] == {"result": "fired"}
    refused = heat.call("PUT", path, {"template": template(a=SECOND), "guard": {"bake": 1}}, 409).json["error"]
    assert refused["type"] == "GuardFiring"
    assert refused["holder"] == {"kind": "alert", "id": "k", "by": "generic", "since": None}  # Z5
    (look,) = refused["way_out"]
    assert look["command"] == "heatlite health source show generic"
    heat.call(look["method"], look["path"], code=200)


def test_why_a_bake_waits_and_each_way_out(heat: Heat) -> None:
    path = begun(heat, "waits")
    why = heat.get(f"{path}/why")
    fact = next(one for one in why["facts"] if one["code"] == "baking")
    assert why["waits"] is True and why["facts"][0] == fact
    assert action(heat, path)["status_reason"] == fact["text"]
    ends = next(one for one in fact["way_out"] if one["command"] == "heatlite end-bake waits")
    assert ends["path"] == f"/v1/demo{path}/actions" or ends["path"].endswith(f"{path}/actions")
    assert heat.call(ends["method"], f"{path}/actions", ends["body"], 200).json is None
    heat.settle(path, "UPDATE_COMPLETE")
    assert action(heat, path)["outputs"]["guard"] == {"result": "ended"}
    heat.call("POST", f"{path}/actions", {"end_bake": None}, 409)


@pytest.mark.slow
def test_scaling_and_repairs_in_a_bake(heat: Heat) -> None:
    """As under any action: ignored, and refused with the action that holds the stack."""
    group = {"type": "OS::Heat::AutoScalingGroup", "properties": {"min_size": 1, "max_size": 3, "resource": FIRST}}
    policy = {
        "type": "OS::Heat::ScalingPolicy",
        "properties": {
            "adjustment_type": "change_in_capacity",
            "auto_scaling_group_id": {"get_resource": "g"},
            "scaling_adjustment": 1,
        },
    }
    path = heat.create(template(a=FIRST, g=group, up=policy), "scaled")
    after = {"template": template(a=SECOND, g=group, up=policy), "guard": {"bake": HOUR}}
    heat.call("PUT", path, after, 202)
    eventually(lambda: action(heat, path)["status"] == "WAITING", "it bakes")
    ignored = heat.call("POST", f"{path}/resources/up/signal", {}, 200)
    assert ignored.headers["X-Heatlite-Ignored"].startswith("busy")
    for deed in ({"heal": {"resources": ["a"]}}, {"lock": {}}, {"check": None}, {"retry": None}):
        refused = heat.call("POST", f"{path}/actions", deed, 409).json["error"]
        assert action(heat, path)["id"] in refused["message"], deed
    heat.call("POST", f"{path}/actions", {"cancel_update": None}, 200)
    heat.settle(path, "ROLLBACK_COMPLETE")


def test_an_update_that_waits_for_an_approval(heat: Heat) -> None:
    """C4: an alert that stands when it would begin refuses it."""
    path = heat.create(template(a=FIRST), "guarded")
    heat.call("PUT", f"{path}/change_policy", {"change_policy": "2026-11-28", "approve": "always"}, 200)
    after = {"template": template(a=SECOND), "guard": {"bake": HOUR}}
    heat.call("PUT", f"{path}?approval=wait", after, 202)
    report(heat, "early", "a")
    assert action(heat, path)["status"] == "INIT"
    (waiting,) = heat.get("/approvals?state=PENDING")["approvals"]
    decision = f"/approvals/{waiting['id']}/approve"
    refused = heat.call("POST", decision, {"digest": waiting["digest"]}, 409).json["error"]
    assert refused["type"] == "GuardFiring" and action(heat, path)["status"] == "INIT"
    report(heat, "early", "a", "healthy")
    heat.call("POST", decision, {"digest": waiting["digest"]}, 202)
    eventually(lambda: action(heat, path)["status"] == "WAITING", "it bakes")
    report(heat, "late", "a")
    heat.settle(path, "ROLLBACK_COMPLETE")
    assert action(heat, path)["outputs"]["guard"] == {"result": "fired"}


def test_plans_name_what_is_changed_at_once(heat: Heat) -> None:
    path = heat.create(template(a=FIRST, v=value("x")), "planned")
    body = {"template": template(a=SECOND, v=value("y")), "guard": {"bake": 60}}
    plan = heat.call("PUT", f"{path}/preview?plan=true", body, 200).json["plan"]
    assert plan["guard"] == {"bake": 60, "not_taken_back": ["v"]}
    without = heat.call("PUT", f"{path}/preview?plan=true", {"template": template(a=FIRST)}, 200)
    assert "guard" not in without.json["plan"]


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("PUT", {"guard": {"bake": 1}, "targets": ["a"]}),
        ("PATCH", {"guard": {"bake": 1, "bakes": 1}}),
        ("PATCH", {"guard": {"bake": 1, "sources": ["nobody"]}}),
        ("PATCH", {"guard": True}),
    ],
)
def test_unknown_keys_and_sources(heat: Heat, method: str, body: dict[str, Any]) -> None:
    """Z2: a misspelt key does nothing."""
    path = heat.create(template(a=FIRST), "strict")
    if method == "PUT":
        body = {**body, "template": template(a=SECOND)}
    heat.call(method, path, body, 400)
    heat.call("PATCH", path, {"guard": False}, 202)
    heat.settle(path, "UPDATE_COMPLETE")


def taken(heat: Heat, name: str) -> tuple[str, str]:
    """The path of a stack, and that of a restore of its earlier definition."""
    path = heat.create(template(a=FIRST), name)
    snapshot = heat.call("POST", f"{path}/snapshots", {}, 200).json["id"]
    heat.settle(path, "SNAPSHOT_COMPLETE")
    heat.call("PUT", path, {"template": template(a=SECOND)}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    return path, f"{path}/snapshots/{snapshot}/restore"


@pytest.mark.slow
def test_a_restore_bakes_and_each_way_out_works(own_heat: Heat) -> None:
    """Also the one that waits for an approval: it keeps its guard."""
    heat = own_heat
    path, restore = taken(heat, "back")
    heat.call("POST", restore, {"guard": {"bake": HOUR}, "gard": 1}, 400)
    heat.call("POST", restore, {"guard": {"bak": HOUR}}, 400)
    for number, query in ((1, ""), (0, ""), (0, "?approval=wait")):
        heat.call("PUT", path, {"template": template(a=SECOND)}, 202)
        heat.settle(path, "UPDATE_COMPLETE")
        if query:
            heat.call("PUT", f"{path}/change_policy", {"change_policy": "2026-11-28", "approve": "always"}, 200)
        heat.call("POST", restore + query, {"guard": {"bake": HOUR}}, 202)
        if query:
            (waiting,) = heat.get("/approvals?state=PENDING")["approvals"]
            heat.call("POST", f"/approvals/{waiting['id']}/approve", {"digest": waiting["digest"]}, 202)
        eventually(lambda: "baking" in {one["code"] for one in heat.get(f"{path}/why")["facts"]}, "it bakes")
        fact = next(one for one in heat.get(f"{path}/why")["facts"] if one["code"] == "baking")
        out = [one for one in fact["way_out"] if one["path"] is not None][number]
        heat.call(out["method"], f"{path}/actions", out["body"], 200)
        heat.settle(path, ("RESTORE_COMPLETE", "ROLLBACK_COMPLETE")[number])


def test_heats_clients_restore_without_a_body(heat: Heat) -> None:
    """Z1: what they send else is ignored."""
    path, restore = taken(heat, "plain")
    heat.call("POST", restore, {"anything": 1}, 202)
    heat.settle(path, "RESTORE_COMPLETE")


def test_a_create_has_no_guard(heat: Heat) -> None:
    body = {"stack_name": "new", "template": template(a=FIRST), "guard": {"bake": 1}}
    heat.call("POST", "/stacks", body, 400)


@pytest.mark.slow
def test_the_guard_of_a_policy(town: Town) -> None:
    """It guards the updates that bring none, also of who may not loosen it."""
    admin, member = town["admin"], town["member"]
    path = member.create(template(a=FIRST), "ruled")
    form = {"change_policy": "2026-11-28"}
    member.call("PUT", f"{path}/change_policy", {**form, "guard": {"bake": HOUR}}, 200)
    found = member.get(f"{path}/change_policy")["effective"]["guard"]
    assert found == {"value": {"bake": HOUR}, "from": "stack"}
    second = {"template": template(a=SECOND)}
    assert member.call("PUT", f"{path}/preview?plan=true", second, 200).json["plan"]["guard"]["bake"] == HOUR
    refused = member.call("PUT", path, {**second, "guard": False}, 403).json["error"]["message"]
    assert "change_policy:put" in refused
    for looser in ({"bake": 60}, {"bake": HOUR, "unknown": "pass"}, {"bake": HOUR, "alerts": [{"labels.s": ["x"]}]}):
        refused = member.call("PUT", path, {**second, "guard": looser}, 403).json["error"]["message"]
        assert f"looser: {next(key for key in looser if key != 'bake' or looser[key] == 60)}" in refused
    stricter = {**second, "guard": {"bake": 2 * HOUR}}
    assert member.call("PUT", f"{path}/preview?plan=true", stricter, 200).json["plan"]["guard"]["bake"] == 2 * HOUR
    admin.call("PUT", f"{path}/preview?plan=true", {**second, "guard": {"bake": 60}}, 200)
    for guard in ({"bake": 60}, {"bake": HOUR, "unknown": "pass"}, None):
        refused = member.call("PUT", f"{path}/change_policy", {**form, "guard": guard}, 403).json["error"]["message"]
        assert "this loosens guard" in refused
    member.call("DELETE", f"{path}/change_policy", code=403)
    member.call("PUT", f"{path}/change_policy", {**form, "guard": {"bake": 2 * HOUR}}, 200)
    member.call("PUT", path, second, 202)
    eventually(lambda: action(member, path)["status"] == "WAITING", "it bakes")
    member.call("POST", f"{path}/actions", {"end_bake": None}, 200)
    member.settle(path, "UPDATE_COMPLETE")
    snapshot = member.call("POST", f"{path}/snapshots", {}, 200).json["id"]
    member.settle(path, "SNAPSHOT_COMPLETE")
    refused = member.call("POST", f"{path}/snapshots/{snapshot}/restore", {"guard": False}, 403).json["error"]
    assert "change_policy:put" in refused["message"]
    admin.call("PUT", path, {"template": template(a=FIRST), "guard": False}, 202)
    member.settle(path, "UPDATE_COMPLETE")
    assert "guard" not in action(member, path)["outputs"]
    admin.call("PUT", f"{path}/change_policy", {**form, "guard": None}, 200)
    assert member.get(f"{path}/change_policy")["effective"]["guard"] == {"value": None, "from": "default"}
    for where in ("", path):
        admin.call("PUT", f"{where}/change_policy", {**form, "guard": {"bake": -1}}, 400)
    admin.call("PUT", "/change_policy", {**form, "guard": {"bake": 1}}, 400)
