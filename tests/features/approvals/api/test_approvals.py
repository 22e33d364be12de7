"""Approvals of operations on stacks: routes, decisions, consequences."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.features.approvals.examiner import MOST_PENDING
from tests.api.conftest import Heat, Town, template, value
from tests.databases import sqlite
from tests.waiting import eventually

FORM = {"change_policy": "2026-11-28"}
THING = {"type": "OS::Heat::TestResource", "properties": {"value": "one"}}


class Ahead(Clock):
    """The machine's clock, which a test sets forward."""

    ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


def policy(heat: Heat, path: str = "", **keys: Any) -> None:
    heat.call("PUT", f"{path}/change_policy", {**FORM, **keys}, code=200)


def replacing(new: str = "b") -> dict[str, Any]:
    """A template in which another resource takes the place of `a`."""
    return {"template": template(**{new: THING})}


def refused(heat: Heat, method: str, path: str, body: Any = None) -> dict[str, Any]:
    answer = heat.call(method, path, body, code=409)
    assert answer.json["error"]["type"] == "ApprovalRequired"
    found: dict[str, Any] = heat.get(f"/approvals/{answer.headers['X-Heatlite-Approval']}")["approval"]
    assert found["id"] in answer.json["error"]["message"]
    assert answer.json["error"]["holder"]["id"] == found["id"]
    return found


def approve(heat: Heat, found: dict[str, Any], code: int = 202) -> Any:
    return heat.call("POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]}, code=code).json


def told(heat: Heat, error: dict[str, Any]) -> None:
    """Check what each refusal tells (law Z5)."""
    assert error["holder"].keys() == {"kind", "id", "by", "since"}
    assert error["way_out"]
    for way in error["way_out"]:
        assert way.keys() == {"text", "command", "method", "path", "body", "after"}
        if way["method"] == "GET":
            heat.call("GET", way["path"], code=200)


@pytest.mark.slow
def test_each_refusal_names_its_holder_and_a_way_out(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, path, approve="removals")
    found = refused(heat, "DELETE", path)
    decide = f"/approvals/{found['id']}"
    calls = [
        ("POST", f"{decide}/approve", {"digest": "0" * 64}), ("DELETE", path, None),
        ("PUT", f"{path}/change_policy", {**FORM, "version": 7}),
        ("PUT", "/change_policy", {**FORM, "version": 7}),
    ]  # fmt: skip
    errors = [heat.call(*call, code=409).json["error"] for call in calls]
    way = next(one for one in errors[1]["way_out"] if one["command"].split()[2] == "reject")
    heat.call(way["method"], way["path"], way["body"], code=200)
    errors.append(heat.call("POST", f"{decide}/reject", {}, code=409).json["error"])
    assert [one["type"] for one in errors] == [
        "ApprovalChanged", "ApprovalRequired", "PolicyChanged", "PolicyChanged", "InvalidApprovalState",
    ]  # fmt: skip
    for error in errors:
        told(heat, error)


def succeeded(heat: Heat, action: str) -> bool:
    return bool(heat.get(f"/actions/{action}")["action"]["status"] == "SUCCEEDED")


@pytest.mark.slow
def test_a_replacing_update_is_refused_until_it_is_approved(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    before = heat.get(path)["stack"]
    found = refused(heat, "PUT", path, replacing())
    assert (found["state"], found["subject"], found["because"]) == ("PENDING", "update", ["approve:removals"])
    assert {one["resource_name"]: one["action"] for one in found["content"]["plan"]["resources"]} == {
        "a": "delete", "b": "create",
    }  # fmt: skip
    assert refused(heat, "PUT", path, replacing())["id"] == found["id"]
    after = heat.get(path)["stack"]
    assert after.pop("approvals") == 1
    assert after == before
    assert [one["approvals"] for one in heat.get("/stacks")["stacks"]] == [1]
    assert approve(heat, found)["approval"]["state"] == "APPROVED"
    heat.call("PUT", path, replacing(), code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    done = heat.get(f"/approvals/{found['id'][:6]}")["approval"]
    assert (done["state"], done["decided_by"]) == ("DONE", "anonymous")
    assert heat.get(f"/actions/{done['action_id']}")["action"]["status"] == "SUCCEEDED"
    heat.call("PUT", path, replacing(), code=202)  # nothing to do: not asked
    heat.settle(path, "UPDATE_COMPLETE")
    refused(heat, "PUT", path, replacing("c"))
    events = [one["resource_status"] for one in heat.get(f"{path}/events")["events"]]
    assert events.count("APPROVAL_REQUESTED") == 2
    assert "APPROVAL_APPROVED" in str(events)


@pytest.mark.slow
def test_waiting_requests(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    answer = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202)
    action = answer.json["action"]
    assert answer.headers["X-Heatlite-Action"].endswith(action["id"])
    assert action["status"] == "INIT"
    (found,) = heat.get("/approvals?state=PENDING")["approvals"]
    assert found["id"] in action["status_reason"]
    assert found["action_id"] == action["id"]
    assert action["data"]["approval"] == {"id": found["id"], "digest": found["digest"]}
    assert heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]["id"] == action["id"]
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
    assert approve(heat, found)["approval"]["state"] == "DONE"
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"/actions/{action['id']}")["action"]["status"] == "SUCCEEDED"
    assert [one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]] == ["b"]
    approve(heat, found, code=409)


@pytest.mark.slow
def test_what_waits_holds_nothing_and_a_changed_plan_is_asked_anew(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    action = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]
    (found,) = heat.get("/approvals")["approvals"]
    heat.call("PUT", path, {"template": template(a=THING, c=THING)}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    error = approve(heat, found, code=409)["error"]
    assert error["type"] == "PlanChanged"
    old = heat.get(f"/approvals/{found['id']}")["approval"]
    new = heat.get(f"/approvals/{old['replaced_by']}")["approval"]
    assert (old["state"], new["state"], new["action_id"]) == ("OBSOLETE", "PENDING", action["id"])
    assert "c" in str(new["content"]["plan"]["resources"])
    assert heat.get(f"/actions/{action['id']}")["action"]["data"]["approval"]["id"] == new["id"]
    assert heat.get(path)["stack"]["stack_status"] == "UPDATE_COMPLETE"
    approve(heat, new)
    heat.settle(path, "UPDATE_COMPLETE")
    assert [one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]] == ["b"]


@pytest.mark.parametrize("word", ["reject", "cancel"])
def test_what_is_not_approved_ends(own_heat: Heat, word: str) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    action = heat.call("DELETE", f"{path}?approval=wait", code=202).json["action"]
    (found,) = heat.get("/approvals")["approvals"]
    assert found["subject"] == "delete"
    if word == "reject":
        shown = heat.call("POST", f"/approvals/{found['id']}/reject", {"reason": "no"}, code=200).json["approval"]
        assert (shown["state"], shown["reason"]) == ("REJECTED", "no")
    else:
        heat.call("POST", f"/actions/{action['id']}", {"signal": "CANCEL"}, code=202)
        assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "OBSOLETE"
    assert heat.get(f"/actions/{action['id']}")["action"]["status"] == "CANCELLED"
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"


def test_a_delete(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    for force in ("", "?force=true"):
        found = refused(heat, "DELETE", path + force)
        assert [(one["resource_name"], one["action"]) for one in found["content"]["plan"]["resources"]] == [
            ("a", "delete")
        ]
    heat.call("DELETE", f"{path}?approval=maybe", code=400)
    action = heat.call("DELETE", f"{path}?approval=wait", code=202).json["action"]
    approve(heat, heat.get(f"/approvals/{action['data']['approval']['id']}")["approval"])
    heat.settle(path, "DELETE_COMPLETE")
    assert {one["state"] for one in heat.get("/approvals")["approvals"]} == {"DONE", "OBSOLETE"}


@pytest.mark.slow
def test_a_create(own_heat: Heat) -> None:
    heat = own_heat
    policy(heat, approve="always")
    body = {"stack_name": "s", "template": template(a=THING)}
    heat.call("POST", "/stacks?approval=wait", body, code=400)
    found = refused(heat, "POST", "/stacks", body)
    assert (found["stack_name"], found["stack_id"], found["subject"]) == ("s", None, "create")
    assert heat.get("/stacks")["stacks"] == []
    assert refused(heat, "POST", "/stacks", body)["id"] == found["id"]
    approve(heat, found)
    heat.call("POST", "/stacks", body, code=201)
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "DONE"


@pytest.mark.parametrize(("value", "code"), [("refuse", 409), ("wait", 400), ("maybe", 400)])
def test_a_create_cannot_wait(own_heat: Heat, value: str, code: int) -> None:
    """It has no stack to wait in."""
    policy(own_heat, approve="always")
    body = {"stack_name": "s", "template": template(a=THING)}
    answer = own_heat.call("POST", f"/stacks?approval={value}", body, code=code)
    assert (f"Unknown approval {value}; there are: refuse." in answer.text) == (code == 400)


@pytest.mark.slow
def test_a_lock_comes_first(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    action = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]
    (found,) = heat.get("/approvals")["approvals"]
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
    heat.settle(path, "LOCK_COMPLETE")
    assert approve(heat, found, code=409)["error"]["type"] == "StackLocked"
    assert heat.call("PUT", path, replacing("c"), code=409).json["error"]["type"] == "StackLocked"
    (still,) = heat.get("/approvals")["approvals"]
    assert still["state"] == "PENDING"
    heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
    heat.settle(path, "UNLOCK_COMPLETE")
    approve(heat, found)
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"/actions/{action['id']}")["action"]["status"] == "SUCCEEDED"


def test_another_hidden_value_is_asked_anew(own_heat: Heat) -> None:
    heat = own_heat
    made = {**template(a=THING), "parameters": {"p": {"type": "string", "hidden": True, "default": "x"}}}
    path = heat.create(made)
    policy(heat, approve="removals")
    body = {"template": {**made, "resources": {"b": THING}}}
    first = refused(heat, "PUT", path, {**body, "parameters": {"p": "xyzzy"}})
    second = refused(heat, "PUT", path, {**body, "parameters": {"p": "plugh"}})
    assert (first["digest"], first["id"] != second["id"]) == (second["digest"], True)
    assert "xyzzy" not in str(heat.get("/approvals")) + str(first)


def test_without_a_policy_nothing_is_asked(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    plan = heat.call("PUT", f"{path}/preview?plan=true", replacing(), code=200).json["plan"]
    assert "approval" not in plan
    policy(heat, approve="removals")
    plan = heat.call("PUT", f"{path}/preview?plan=true", replacing(), code=200).json["plan"]
    assert plan["approval"] == {"needed": True, "because": ["approve:removals"]}
    same = {"template": template(a=THING)}
    plan = heat.call("PUT", f"{path}/preview?plan=true", same, code=200).json["plan"]
    assert plan["approval"] == {"needed": False, "because": []}
    heat.call("DELETE", "/change_policy", code=204)
    heat.call("PUT", path, replacing(), code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get("/approvals")["approvals"] == []
    assert "approvals" not in heat.get(path)["stack"]


@pytest.mark.slow
def test_a_retry_needs_no_other(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    failing = {**THING, "properties": {"fail": True}}
    body = {"template": template(b=failing)}
    approve(heat, refused(heat, "PUT", path, body))
    heat.call("PUT", path, body, code=202)
    heat.settle(path, "UPDATE_FAILED")
    for _ in range(2):
        heat.call("POST", f"{path}/actions", {"retry": None}, code=200)
        heat.settle(path, "UPDATE_FAILED")
    assert len(heat.get("/approvals")["approvals"]) == 1


@pytest.mark.slow
def test_scaling(own_heat: Heat) -> None:
    heat = own_heat
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": value()}}
    path = heat.create(template(g=group))
    policy(heat, approve="removals")
    actions = f"{path}/resources/g/actions"
    out = heat.call("POST", actions, {"scale_out": {}}, code=202).json["action"]["id"]
    eventually(lambda: succeeded(heat, out), "the group has grown")
    assert heat.call("POST", actions, {"scale_in": {"count": 1}}, code=409).json["error"]["type"] == "ApprovalRequired"
    (found,) = heat.get("/approvals")["approvals"]
    assert (found["subject"], found["resource"]) == ("scale", "g")
    action = heat.call("POST", f"{actions}?approval=wait", {"scale_in": {"count": 1}}, code=202).json["action"]
    assert heat.get(f"/approvals/{found['id']}")["approval"]["action_id"] == action["id"]
    approve(heat, heat.get(f"/approvals/{found['id']}")["approval"])
    eventually(lambda: succeeded(heat, action["id"]), "the group has shrunk")
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "DONE"


GROUPS = {
    "OS::Heat::ResourceGroup": {"count": 3, "resource_def": value()},
    "OS::Heat::AutoScalingGroup": {"min_size": 0, "max_size": 9, "desired_capacity": 3, "resource": value()},
}


@pytest.mark.slow
@pytest.mark.parametrize("type_name", GROUPS)
@pytest.mark.parametrize(
    "asked",
    [
        {"scale_out": {"count": 2}}, {"scale_in": {"criteria": "RANDOM"}}, {"scale_in": {}},
        {"delete_members": {"members": ["NEWEST"], "reduce": False}},
        {"leave": {"members": ["NEWEST"], "reduce": False}}, {"leave": {"members": ["NEWEST"], "reduce": True}},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_the_plan_of_a_scaling_holds(own_heat: Heat, type_name: str, asked: dict[str, Any]) -> None:
    """Names of new members and draws stay the same while a group does."""
    heat = own_heat
    path = heat.create(template(g={"type": type_name, "properties": GROUPS[type_name]}))
    names = [one["resource_name"] for one in heat.get(f"{path}/resources?nested_depth=2")["resources"]]
    asked = json.loads(json.dumps(asked).replace("NEWEST", next(one for one in names if one != "g")))
    policy(heat, approve="always")
    actions = f"{path}/resources/g/actions"
    approve(heat, refused(heat, "POST", actions, asked))
    action = heat.call("POST", actions, asked, code=202).json["action"]["id"]
    eventually(lambda: succeeded(heat, action), "the group has changed")
    (found,) = heat.get("/approvals")["approvals"]
    assert found["state"] == "DONE"


@pytest.mark.slow
def test_four_eyes(town: Town) -> None:
    admin, member, reader = town["admin"], town["member"], town["reader"]
    path = member.create(template(a=THING), name="eyes")
    policy(admin, path, approve="removals", four_eyes=True)
    found = refused(member, "PUT", path, replacing())
    assert not member.get(f"/approvals/{found['id']}")["approval"]["may_decide"]
    assert not reader.get(f"/approvals/{found['id']}")["approval"]["may_decide"]
    assert admin.get(f"/approvals/{found['id']}")["approval"]["may_decide"]
    approve(reader, found, code=403)
    assert "four_eyes" in approve(member, found, code=403)["error"]["message"]
    approve(admin, found)
    member.call("PUT", path, replacing(), code=202)
    member.settle(path, "UPDATE_COMPLETE")
    rows = admin.get(f"/audit?operation=stacks:approve&stack={path.rpartition('/')[2]}")["audit"]
    assert {(row["target"], row["plan_digest"]) for row in rows if row["outcome"] == "done"} == {
        (found["id"], found["digest"])
    }
    admin.call("DELETE", f"{path}/change_policy", code=204)


@pytest.mark.slow
@pytest.mark.parametrize("query", ["", "?approval=wait"])
def test_two_approvers_at_once(own_heat: Heat, query: str) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    heat.call("PUT", path + query, replacing(), code=202 if query else 409)
    (found,) = heat.get("/approvals")["approvals"]
    body = {"digest": found["digest"]}
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(heat.call, "POST", f"/approvals/{found['id']}/approve", body) for _ in range(4)]
    assert sorted(one.result().status_int for one in calls) == [202, 409, 409, 409]
    heat.settle(path)
    updates = [one for one in heat.get("/actions")["actions"] if one["action"] == "STACK_UPDATE"]
    assert len(updates) == (1 if query else 0)


@pytest.mark.slow
def test_approvals_expire(tmp_path: Path) -> None:
    clock = Ahead()
    server = wiring.embedded(Settings(database=sqlite(tmp_path), lease_seconds=1e10), clock=clock)
    try:
        heat = Heat(server.app)
        path = heat.create(template(a=THING))
        policy(heat, approve="removals", approval_ttl=60)
        approve(heat, refused(heat, "PUT", path, replacing("c")))
        action = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]["id"]
        late = {one["id"]: one for one in heat.get("/approvals")["approvals"]}
        clock.ahead = 61
        for found in late.values():
            approve(heat, found, code=409)
        refused(heat, "PUT", path, replacing("c"))

        def states() -> list[str]:
            found = {one["id"]: one["state"] for one in heat.get("/approvals")["approvals"]}
            return [found[key] for key in late]

        eventually(lambda: states() == ["EXPIRED", "EXPIRED"], "the sweep ends them")
        assert heat.get(f"/actions/{action}")["action"]["status"] == "CANCELLED"
    finally:
        server.close()


@pytest.mark.slow
def test_what_ends_while_the_feature_is_off(tmp_path: Path) -> None:
    """Its approvals end with the next start. What still waits goes on."""
    settings = Settings(database=sqlite(tmp_path), lease_seconds=1e10)
    server = wiring.embedded(settings)
    heat = Heat(server.app)
    gone, cancelled, waits = (heat.create(template(a=THING), name) for name in ("gone", "cancelled", "waits"))
    for path in (gone, cancelled, waits):
        policy(heat, path, approve="removals")
    refused(heat, "DELETE", gone)
    actions = [
        heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]["id"]
        for path in (gone, cancelled, waits)
    ]
    assert server.store.inconsistencies(server.components.clock.now() + 1e6, 0.0) == []
    server.close()
    server = wiring.embedded(replace(settings, features=()))
    heat = Heat(server.app)
    heat.call("DELETE", gone, code=204)
    heat.call("POST", f"/actions/{actions[1]}", {"signal": "CANCEL"}, code=202)
    eventually(lambda: heat.get("/stacks")["stacks"][-1]["stack_name"] != "gone", "it is deleted")
    server.close()
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)

        def states() -> list[str]:
            return sorted(one["state"] for one in heat.get("/approvals")["approvals"])

        eventually(lambda: states() == ["OBSOLETE"] * 3 + ["PENDING"], "the sweep ends them")
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == []
        (found,) = heat.get("/approvals?state=PENDING")["approvals"]
        approve(heat, found)
        eventually(lambda: succeeded(heat, actions[2]), "it begins")
    finally:
        server.close()


def test_ids_by_their_beginnings(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    found = refused(heat, "DELETE", path)
    assert heat.get(f"/approvals/{found['id'][:4].upper()}")["approval"]["id"] == found["id"]
    for reference in ("abc", found["id"][:3], "%%%%", "0000"):
        heat.fault("GET", f"/approvals/{reference}", code=404)
    heat.fault("GET", "/approvals?colour=red")
    assert "there are: PENDING" in heat.fault("GET", "/approvals?state=OPEN")[1]


@pytest.mark.slow
def test_many_wait_no_more(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    for number in range(MOST_PENDING):
        refused(heat, "PUT", path, replacing(f"r{number}"))
    error = heat.call("PUT", path, replacing("last"), code=409).json["error"]
    assert error["type"] == "TooManyApprovals"
    told(heat, error)
    assert error["holder"]["id"] == heat.get("/approvals?limit=200")["approvals"][-1]["id"]
    assert heat.get(path)["stack"]["approvals"] == MOST_PENDING


@pytest.mark.slow
def test_signals(own_heat: Heat) -> None:
    """They pass, or have no effect where their scaling would need an approval."""
    heat = own_heat
    group = {
        "type": "OS::Heat::AutoScalingGroup",
        "properties": {"min_size": 0, "max_size": 5, "desired_capacity": 2, "resource": value()},
    }
    down = {
        "type": "OS::Heat::ScalingPolicy",
        "properties": {
            "auto_scaling_group_id": {"get_resource": "g"}, "adjustment_type": "change_in_capacity",
            "scaling_adjustment": -1, "cooldown": 0,
        },
    }  # fmt: skip
    path = heat.create(template(g=group, down=down))
    policy(heat, approve="removals", signals="ignore")
    ignored = heat.call("POST", f"{path}/resources/down/signal", {}, code=200)
    assert ignored.headers["X-Heatlite-Ignored"] == "approval"
    assert heat.get("/approvals")["approvals"] == []
    policy(heat, approve="removals")
    passed = heat.call("POST", f"{path}/resources/down/signal", {}, code=200)
    assert "X-Heatlite-Ignored" not in passed.headers


@pytest.mark.slow
@pytest.mark.parametrize("what", ["snapshot", "group"])
def test_what_it_is_about_is_gone(own_heat: Heat, what: str) -> None:
    """The first try to approve it ends it: what it waits for never comes."""
    heat = own_heat
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": value()}}
    path = heat.create(template(a=THING, g=group))
    snapshot = heat.call("POST", f"{path}/snapshots", {"name": "n"}, code=200).json["id"]
    heat.settle(path, "SNAPSHOT_COMPLETE")
    heat.call("PUT", path, {"template": template(b=THING, g=group)}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    policy(heat, path, approve="always")
    url, body = f"{path}/snapshots/{snapshot}/restore", None
    if what == "group":
        url, body = f"{path}/resources/g/actions", {"scale_in": {"count": 1}}
    action = heat.call("POST", f"{url}?approval=wait", body, code=202).json["action"]
    policy(heat, path, approve="never")
    heat.call("PUT", path, replacing(), code=202)
    heat.settle(path)
    heat.call("DELETE", f"{path}/snapshots/{snapshot}", code=204)
    eventually(lambda: heat.get(f"{path}/snapshots")["snapshots"] == [], "it is deleted")
    policy(heat, path, approve="always")
    found = heat.get(f"/approvals/{action['data']['approval']['id']}")["approval"]
    assert "is OBSOLETE now" in approve(heat, found, code=404)["error"]["message"]
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "OBSOLETE"
    assert heat.get(f"/actions/{action['id']}")["action"]["status"] == "CANCELLED"


@pytest.mark.slow
def test_a_snapshot_is_restored_once_it_is_approved(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    snapshot = heat.call("POST", f"{path}/snapshots", {"name": "n"}, code=200).json["id"]
    heat.settle(path, "SNAPSHOT_COMPLETE")
    heat.call("PUT", path, {"template": template(a=THING, b=THING)}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    policy(heat, approve="removals")
    restore = f"{path}/snapshots/{snapshot}/restore"
    refused(heat, "POST", restore)
    action = heat.call("POST", f"{restore}?approval=wait", code=202).json["action"]
    approve(heat, heat.get(f"/approvals/{action['data']['approval']['id']}")["approval"])
    heat.settle(path, "RESTORE_COMPLETE")
    assert [one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]] == ["a"]


@pytest.mark.parametrize("query", ["", "?approval=wait"])
def test_why_it_waits(own_heat: Heat, query: str) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    heat.call("PUT", path + query, replacing(), code=202 if query else 409)
    (found,) = heat.get("/approvals")["approvals"]
    why = heat.get(f"{path}/why")
    (fact,) = [one for one in why["facts"] if one["code"] == "approval"]
    assert (fact["id"], fact["by"], fact["what"]) == (found["id"], "anonymous", "approval")
    assert fact["blocks"] == ([found["action_id"]] if query else [])
    assert why["waits"] == bool(query)
    reject = next(one for one in fact["way_out"] if (one["path"] or "").endswith("/reject"))
    heat.call(reject["method"], reject["path"], reject["body"], code=200)
    assert [one for one in heat.get(f"{path}/why")["facts"] if one["code"] == "approval"] == []


@pytest.mark.slow
@pytest.mark.parametrize("query", ["", "?approval=wait"])
def test_actions_and_the_audit_log_name_the_approval(own_heat: Heat, query: str) -> None:
    """The request, the decision, and what it began."""
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    body = {"template": template(b={**THING, "properties": {"fail": True}})}
    heat.call("PUT", path + query, body)
    (found,) = heat.get("/approvals")["approvals"]
    approve(heat, found)
    if not query:
        heat.call("PUT", path, body, code=202)
    heat.settle(path, "UPDATE_FAILED")
    heat.call("POST", f"{path}/actions", {"retry": None}, code=200)
    heat.settle(path, "UPDATE_FAILED")
    heat.call("POST", f"{path}/actions", {"check": None}, code=200)
    actions = {one["id"]: one for one in heat.get("/actions")["actions"]}
    shown = [one.get("approval_id") for one in actions.values() if one["action"] == "STACK_UPDATE"]
    assert shown == [found["id"]] * 2
    assert {"approval_id" in one for one in actions.values() if one["action"] != "STACK_UPDATE"} == {False}
    rows = [one for one in heat.get("/audit")["audit"] if one["stack_name"] == "s"]
    named = [one["operation"] for one in rows if one["approval_id"] == found["id"]]
    again = [] if query else ["stacks:update"]
    assert named == ["actions:retry", *again, "stacks:approve", "stacks:update"]
    assert {one["approval_id"] for one in rows if one["operation"] not in named} == {None}
