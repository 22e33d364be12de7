"""POST S/resources/{path}/actions: bodies, answers, roles and refusals."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from tests.databases import sqlite

from .conftest import Heat, template

MEMBER = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}
NUMBERED = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": MEMBER}}
AUTOMATIC = {
    "type": "OS::Heat::AutoScalingGroup",
    "properties": {"min_size": 1, "max_size": 4, "desired_capacity": 2, "resource": MEMBER, "cooldown": 600},
}


def actions(path: str, name: str = "g") -> str:
    return f"{path}/resources/{name}/actions"


@pytest.fixture
def path(heat: Heat) -> str:
    return heat.create(template(g=NUMBERED, a=MEMBER))


def test_the_answer(heat: Heat, path: str) -> None:
    answer = heat.call("POST", actions(path), {"scale_out": {"count": 1.0}}, code=202)
    action = answer.json["action"]
    assert action["action"] == "GROUP_SCALE_OUT"
    assert answer.headers["Location"] == answer.headers["X-Heatlite-Action"]
    assert answer.headers["Location"].endswith(f"/actions/{action['id']}")
    shown = heat.get(f"/actions/{action['id']}")["action"]
    assert heat.get(f"{path}/resources/g")["resource"]["size"].keys() == {"set", "over", "by", "at"}
    assert "size" not in heat.get(f"{path}/resources/a")["resource"]
    assert shown["inputs"] == {"scale_out": {"count": 1, "strict": True, "ignore_cooldown": False}}
    assert {key: shown[key] for key in ("name", "action", "target")} == {
        key: action[key] for key in ("name", "action", "target")
    }


def test_policies(heat: Heat, path: str) -> None:
    """They are attached, changed and detached by actions, and shown."""
    leavers = {"name": "leavers", "type": "deletion", "options": {"criteria": "YOUNGEST_FIRST"}}
    for key, asked, shown in (
        ("attach_policy", leavers, {"priority": 400, "enabled": True}),
        ("update_policy", {"name": "leavers", "enabled": False, "priority": 7}, {"priority": 7, "enabled": False}),
    ):
        action = heat.call("POST", actions(path), {key: asked}, code=202).json["action"]
        assert (action["action"], action["status"]) == (f"GROUP_{key.upper()}", "SUCCEEDED")
        assert heat.get(f"/actions/{action['id']}")["action"]["inputs"][key].items() >= asked.items()
        (one,) = heat.get(f"{path}/resources/g")["resource"]["policies"].values()
        assert one.items() >= {**shown, "type": "deletion", "options": leavers["options"], "by": "anonymous"}.items()
    heat.call("POST", actions(path), {"detach_policy": {"name": "leavers"}}, code=202)
    assert "policies" not in heat.get(f"{path}/resources/g")["resource"]


FAULTS: list[tuple[Any, str]] = [
    ({"attach_policy": {"name": "a b", "type": "deletion"}}, "attach_policy.name"),
    ({"attach_policy": {"name": "a", "type": "x"}}, "There is no policy type x"),
    ({"attach_policy": {"name": "a", "type": "deletion", "options": {"criterion": 1}}}, "unknown key criterion"),
    ({"attach_policy": {"name": "a", "type": "deletion", "priority": -1}}, "attach_policy.priority"),
    ({"update_policy": {"name": "a", "type": "deletion"}}, "update_policy: unknown key type"),
    ({"detach_policy": {}}, "detach_policy: needs name"),
    ({}, "No action specified"),
    ({"scale_in": {}, "scale_out": {}}, "Multiple actions specified"),
    ({"explode": {}}, "Invalid action explode"),
    ({"resize": {}}, "resize"),
    ({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 1.5}}, "whole number"),
    ({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 3, "max_size": 2}}, "its limits are 0 and 2"),
    ({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 3, "max_size": 10_001}}, "resize.max_size"),
    ({"resize": {"min_size": 5, "max_size": 4}}, "min_size is above max_size"),
    ({"resize": {"min_size": None}}, "needs a number for min_size or max_size"),
    ({"resize": {"max_size": 3, "min_step": 1}}, "resize: unknown key min_step"),
    ({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 3, "min_step": 1}}, "CHANGE_IN_PERCENTAGE"),
    ({"resize": {"adjustment_type": "EXACT_CAPACITY", "number": -1}}, "limits"),
    ({"resize": {"follow_template": True, "number": 3}}, "resize"),
    ({"resize": {"follow_template": False}}, "resize"),
    ({"scale_in": {"count": 0}}, "scale_in.count"),
    ({"scale_in": {"criteria": "BEST"}}, "scale_in.criteria"),
    ({"scale_in": {"count": 3}}, "limits"),
    ({"scale_out": {"criteria": "RANDOM"}}, "scale_out"),
    ({"delete_members": {}}, "delete_members"),
    ({"delete_members": {"members": []}}, "delete_members.members"),
    ({"delete_members": {"members": ["9"]}}, "no member 9"),
    ({"delete_members": {"members": ["1", "1"]}}, "named twice"),
    ({"replace_members": {"members": ["9"]}}, "no member 9"),
    ({"leave": {"members": ["9"], "resource": "g"}}, "leave: unknown key resource"),
    ({"leave": {"members": []}}, "leave.members"),
    ({"leave": {"members": ["9"]}}, "no member 9"),
    ({"join": {"members": [{"id": "x", "key": {}}], "changes": "no"}}, "join.members[0]: unknown key key"),
    ({"join": {"members": [{"id": "x"}], "changes": "no"}}, "join.changes"),
    ({"join": {"members": [{"id": "x"}]}}, "join: needs plan_digest"),
    ({"join": {"members": [{}], "plan_digest": "x"}}, "one of id, name, filter and ids"),
    ({"recover": {"operation": "NODE"}}, "recover.operation"),
    ({"recover": {"operation": "REBOOT"}}, "nothing to recover"),
    ({"recover": {"operation": "RECREATE"}}, "nothing to recover"),
    ({"check": {"believe_absent": 1}}, "check.believe_absent"),
]


def test_faults(heat: Heat, path: str) -> None:
    """Each is 400 and queues nothing."""
    for body, text in FAULTS:
        assert text in heat.fault("POST", actions(path), body, code=400)[1], body
    for key in ("resize", "scale_in", "scale_out"):
        options = {"adjustment_type": "EXACT_CAPACITY", "number": 1} if key == "resize" else {}
        assert "is no group" in heat.fault("POST", actions(path, "a"), {key: options}, code=400)[1]
    heat.fault("POST", actions(path, "x"), {"scale_in": {}}, code=404)
    heat.fault("POST", actions(path, "g/9"), {"check": {}}, code=404)
    heat.fault("POST", actions(path, "a/b/c"), {"check": {}}, code=404)
    assert len(heat.get("/actions")["actions"]) == 2, "a create and its derived one"


def test_leave_and_join(heat: Heat, path: str) -> None:
    """Previews are bodies of the stack, with the path of the group."""
    preview = f"{path}/preview?plan=true"
    shown = heat.call("PATCH", preview, {"leave": {"resource": "g", "members": ["1"]}}).json["plan"]
    (one,) = shown["resources"]
    assert (one["path"], one["action"], "after" in shown) == (["g", "1"], "leave", False)
    asked = {"members": ["1"], "plan_digest": shown["digest"]}
    action = heat.call("POST", actions(path), {"leave": asked}, code=202).json["action"]
    assert (action["action"], action["status"]) == ("GROUP_LEAVE", "SUCCEEDED")
    asked = {"members": [{"id": one["physical_resource_id"], "as": "1"}]}
    heat.call("POST", f"{path}/actions", {"lock": None}, code=200)
    heat.settle(path, "LOCK_COMPLETE")
    shown = heat.call("PATCH", preview, {"join": {"resource": "g", **asked}}).json["plan"]
    asked["plan_digest"] = shown["digest"]
    assert heat.fault("POST", actions(path), {"join": asked}, code=409)[0] == "StackLocked"
    heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
    heat.settle(path, "UNLOCK_COMPLETE")
    action = heat.call("POST", actions(path), {"join": asked}, code=202).json["action"]
    assert (action["action"], action["status"]) == ("GROUP_JOIN", "SUCCEEDED")
    shown = heat.get(f"/actions/{action['id']}")["action"]
    assert shown["outputs"]["added"] == {"1": one["physical_resource_id"]}
    listed = heat.get("/actions")["actions"]
    assert {one["action"] for one in listed} >= {"GROUP_JOIN", "GROUP_LEAVE"}
    for body, text in (
        ({"leave": {"members": ["1"]}}, "leave.resource"),
        ({"leave": {"members": ["1"], "resource": "a"}}, "is no group"),
        ({"leave": {"members": ["1"], "resource": "g"}, "join": {}}, "takes no other key"),
    ):
        assert text in heat.fault("PATCH", preview, body, code=400)[1], body
    heat.fault("PATCH", preview, {"leave": {"members": ["1"], "resource": "x"}}, code=404)


@pytest.mark.slow
def test_a_path_into_a_group(heat: Heat, path: str) -> None:
    heat.call("POST", actions(path, "g/1"), {"recover": {"operation": "RECREATE"}}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    for default in ({}, None):
        before = heat.get(f"{path}/resources?nested_depth=1")["resources"]
        heat.call("POST", actions(path, "g/0"), {"recover": default}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        after = heat.get(f"{path}/resources?nested_depth=1")["resources"]
        ids = [{one["physical_resource_id"] for one in some if one["resource_name"] == "0"} for some in (before, after)]
        assert ids[0] != ids[1]
    assert heat.call("GET", actions(path, "g/1")).status_int == 405


def test_cooldown(heat: Heat) -> None:
    path = heat.create(template(g=AUTOMATIC))
    heat.call("POST", actions(path), {"scale_out": {"ignore_cooldown": True}}, code=202)
    answer = heat.call("POST", actions(path), {"scale_out": {}})
    assert answer.status_int == 409
    assert answer.json["error"]["type"] in ("ActionCooldown", "ResourceIsLocked", "ActionConflict")
    assert int(answer.headers["Retry-After"]) > 0


POLICY = {
    "type": "OS::Heat::ScalingPolicy",
    "properties": {
        "adjustment_type": "change_in_capacity",
        "auto_scaling_group_id": {"get_resource": "g"},
        "scaling_adjustment": 1,
    },
}


class StoppedClock(Clock):
    """Shows a chosen time, once there is one."""

    time: float | None = None

    def now(self) -> float:
        return super().now() if self.time is None else self.time


@pytest.mark.slow
def test_signals_in_a_cooldown_leave_an_event_per_minute(tmp_path: Path) -> None:
    clock = StoppedClock()
    server = wiring.embedded(Settings(database=sqlite(tmp_path)), clock=clock)
    try:
        heat = Heat(server.app)
        path = heat.create(template(g=AUTOMATIC, up=POLICY))
        events, signal = f"{path}/resources/up/events", f"{path}/resources/up/signal"
        before = len(heat.get(events)["events"])

        def told() -> list[str]:
            found = heat.get(events)["events"]
            return sorted(one["resource_status_reason"] for one in found if one["resource_status"].startswith("SIGNAL"))

        clock.time = clock.now() // 60 * 60 + 60
        answers = [heat.call("POST", signal, {}, code=200) for _ in range(100)]
        assert {answer.text for answer in answers} == {"null"}
        assert {answer.headers["X-Heatlite-Ignored"].partition(";")[0] for answer in answers} == {"cooldown"}
        assert told() == ["Signal ignored: cooldown"]
        refused = heat.call("POST", f"{signal}?fail_fast=true", {}, code=409)
        assert refused.json["error"]["type"] == "ActionCooldown"
        assert 0 < int(refused.headers["Retry-After"]) <= 600
        clock.time += 60
        heat.call("POST", signal, {}, code=200)
        assert told()[1:] == ["Signal ignored: cooldown, and 99 more since the last such event"]
        assert len(heat.get(events)["events"]) == before + 2
    finally:
        server.close()


def test_ignored_signals(heat: Heat) -> None:
    made = template(g=AUTOMATIC, up=POLICY)
    made["outputs"] = {"url": {"value": {"get_attr": ["up", "signal_url"]}}}
    path = heat.create(made)
    signal = f"{path}/resources/up/signal"
    answer = heat.call("POST", signal, {}, code=200)
    assert answer.text == "null"
    assert answer.headers["X-Heatlite-Ignored"].startswith("cooldown; retry_after=")
    assert heat.call("POST", signal, {"current": "ok"}, code=200).headers["X-Heatlite-Ignored"] == "not_alarm"
    answer = heat.call("POST", f"{signal}?fail_fast=true", {}, code=409)
    assert answer.json["error"]["type"] == "ActionCooldown"
    assert 0 < int(answer.headers["Retry-After"]) <= 600
    url = heat.get(f"{path}/outputs/url")["output"]["output_value"]
    signed = url[url.index("/v1/") :]
    assert heat.app.post(signed, status=200).headers["X-Heatlite-Ignored"].startswith("cooldown")
    assert heat.app.post(f"{signed}&fail_fast=true", status=409).json["error"]["type"] == "ActionCooldown"


@pytest.mark.slow
def test_one_of_a_hundred_scales(heat: Heat) -> None:
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"delete": -1}}}
    made = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": slow}}
    path = heat.create(template(g=made))
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: heat.call("POST", actions(path), {"scale_in": {}}), range(100)))
    assert sorted(answer.status_int for answer in answers) == [202, *[409] * 99]
    kinds = {answer.json["error"]["type"] for answer in answers if answer.status_int == 409}
    assert kinds <= {"ResourceIsLocked", "ActionConflict"}
