"""Requests with `not_before` that wait for their approval."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from heatlite import wiring
from heatlite.core.clock import to_text
from heatlite.core.config import Settings
from heatlite.engine.operations.scheduled_requests import ScheduledRequests
from tests.api.conftest import Heat, template
from tests.databases import sqlite
from tests.waiting import eventually

from .test_approvals import Ahead, approve, policy, told
from .test_subjects import LATER, MEMBERS, THING, WHOLE, opened

HOUR = 3600.0
SUBJECTS = {"update": "update", "delete": "delete", "scale_in": "scale", "replace_members": "scale"}


class Scene(Struct):
    """A stack with a request for later."""

    heat: Heat
    clock: Ahead
    begun: float
    path: str = ""

    def send(self, word: str, hours: float = 1, query: str = "?approval=wait") -> Any:
        at = to_text(self.begun + hours * HOUR)
        rest, body = LATER[word]
        asked = body(at)
        if word == "update":
            made = {"template": asked["update"]["template"]}
            plan = self.heat.call("PATCH", f"{self.path}/preview?plan=true", made, 200).json["plan"]
            asked["update"]["plan_digest"] = plan["digest"]
        return self.heat.call("POST", f"{self.path}{rest}{query}", asked)

    def change(self) -> None:
        """Change the plan of each request."""
        made = {**WHOLE["resources"], "c": THING}
        made["g"] = {**made["g"], "properties": {**made["g"]["properties"], "count": 4}}
        policy(self.heat, approve="never")
        self.heat.call("PATCH", self.path, {"template": template(**made)}, code=202)
        self.heat.settle(self.path, "UPDATE_COMPLETE")
        policy(self.heat, approve="removals")

    def pass_time(self, action: str) -> Any:
        """Set the clock forward. Returns the action as it has ended."""
        self.clock.ahead += HOUR + 1
        ended = ("SUCCEEDED", "FAILED", "CANCELLED")
        return eventually(lambda: (one := self.action(action))["status"] in ended and one, "its time has come")

    def action(self, action: str) -> Any:
        return self.heat.get(f"/actions/{action}")["action"]

    def approval(self, found: Any) -> Any:
        return self.heat.get(f"/approvals/{found['id']}")["approval"]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    clock = Ahead()
    server = wiring.embedded(Settings(database=sqlite(tmp_path), lease_seconds=1e10), clock=clock)
    found = Scene(Heat(server.app), clock, clock.now())
    found.path = found.heat.create(WHOLE)
    policy(found.heat, approve="removals")
    yield found
    server.close()


def waiting(scene: Scene, word: str) -> tuple[Any, Any]:
    """Send a request. Returns its action and its approval."""
    answer = scene.send(word)
    assert answer.status_int == 202, answer.text
    action = answer.json["action"]
    (found,) = scene.heat.get("/approvals?state=PENDING")["approvals"]
    return action, scene.approval(found)


@pytest.mark.slow
@pytest.mark.parametrize("word", LATER)
def test_it_is_asked_for_at_the_request_and_begins_at_its_time(scene: Scene, word: str) -> None:
    before = scene.heat.get(scene.path)["stack"]
    action, found = waiting(scene, word)
    assert (action["status"], action["data"]["approval"]["id"]) == ("INIT", found["id"])
    assert found["id"] in action["status_reason"]
    assert (found["subject"], found["action_id"]) == (SUBJECTS[word], action["id"])
    assert found["expires_at"] == action["not_before"] == found["content"]["not_before"]
    assert scene.send(word).json["action"]["id"] == action["id"]  # an equal one
    other = scene.send(word, hours=2).json["action"]
    assert other["id"] != action["id"]
    assert {**scene.heat.get(scene.path)["stack"], "approvals": 0} == {**before, "approvals": 0}
    fact = next(one for one in scene.heat.get(f"{scene.path}/why")["facts"] if one["id"] == found["id"])
    assert fact["blocks"] == [action["id"]]
    assert approve(scene.heat, found)["approval"]["state"] == "APPROVED"
    kept = scene.action(action["id"])
    assert (kept["status"], kept["not_before"]) == ("INIT", action["not_before"])
    fact = next(one for one in scene.heat.get(f"{scene.path}/why")["facts"] if one["id"] == found["id"])
    assert action["not_before"] in fact["text"] and fact["blocks"] == []
    assert scene.send(word).json["action"]["id"] == action["id"]
    assert scene.pass_time(action["id"])["status"] == "SUCCEEDED"
    done = scene.approval(found)
    assert (done["state"], done["action_id"]) == ("DONE", action["id"])


@pytest.mark.slow
@pytest.mark.parametrize("word", LATER)
@pytest.mark.parametrize("end", ["nobody decides", "rejected", "expired before", "cancelled", "cancelled after"])
def test_without_a_yes_it_ends(scene: Scene, word: str, end: str) -> None:
    if end == "expired before":
        policy(scene.heat, approve="removals", approval_ttl=60)
    before = scene.heat.get(scene.path)["stack"]
    action, found = waiting(scene, word)
    state = "EXPIRED"
    if end == "rejected":
        scene.heat.call("POST", f"/approvals/{found['id']}/reject", {}, code=200)
        state = "REJECTED"
    elif end == "expired before":
        scene.clock.ahead += 61
    elif end.startswith("cancelled"):
        if end == "cancelled after":
            approve(scene.heat, found)
        scene.heat.call("POST", f"/actions/{action['id']}", {"signal": "CANCEL"}, code=202)
        state = "OBSOLETE"
    else:
        scene.clock.ahead += HOUR + 1
    eventually(lambda: not opened(scene.heat), "it has ended")
    assert scene.action(action["id"])["status"] == "CANCELLED"
    eventually(lambda: scene.approval(found)["state"] == state, "its approval has ended")
    assert told_all(approve(scene.heat, found, code=409)["error"], scene)
    now = scene.heat.get(scene.path)["stack"]
    assert now == before
    assert scene.heat.get("/approvals?state=PENDING")["approvals"] == []


def told_all(error: Any, scene: Scene) -> bool:
    told(scene.heat, error)
    return bool(error["type"] == "InvalidApprovalState")


@pytest.mark.slow
@pytest.mark.parametrize("word", LATER)
def test_a_plan_that_changes_before_the_decision_is_asked_for_anew(scene: Scene, word: str) -> None:
    action, found = waiting(scene, word)
    scene.change()
    error = approve(scene.heat, found, code=409)["error"]
    assert error["type"] == "PlanChanged"
    told(scene.heat, error)
    old = scene.approval(found)
    new = scene.heat.get(f"/approvals/{old['replaced_by']}")["approval"]
    assert (old["state"], new["state"], new["action_id"]) == ("OBSOLETE", "PENDING", action["id"])
    assert new["expires_at"] == action["not_before"]
    assert new["id"] in scene.action(action["id"])["status_reason"]
    assert approve(scene.heat, new)["approval"]["state"] == "APPROVED"
    assert scene.pass_time(action["id"])["status"] == "SUCCEEDED"
    assert scene.approval(new)["state"] == "DONE"


def test_a_rejection_while_a_changed_plan_is_approved(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    action, found = waiting(scene, "delete")
    scene.change()
    begun = ScheduledRequests.ask_again

    def later(*given: Any) -> None:
        scene.heat.call("POST", f"/approvals/{found['id']}/reject", {}, code=200)
        begun(*given)

    monkeypatch.setattr(ScheduledRequests, "ask_again", later)
    assert told_all(approve(scene.heat, found, code=409)["error"], scene)
    assert (scene.approval(found)["state"], scene.action(action["id"])["status"]) == ("REJECTED", "CANCELLED")


@pytest.mark.slow
@pytest.mark.parametrize("word", LATER)
def test_a_plan_that_changes_after_the_decision_is_not_begun(scene: Scene, word: str) -> None:
    action, found = waiting(scene, word)
    approve(scene.heat, found)
    scene.change()
    before = scene.heat.get(scene.path)["stack"]
    ended = scene.pass_time(action["id"])
    assert ended["status"] == "CANCELLED"
    assert "has changed" in ended["status_reason"]
    assert scene.approval(found)["state"] == "OBSOLETE"
    assert scene.heat.get(scene.path)["stack"] == before
    assert scene.heat.get("/approvals?state=PENDING")["approvals"] == []


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lock_counts_at_its_time(scene: Scene, when: str) -> None:
    heat = scene.heat
    if when == "before":
        heat.call("POST", f"{scene.path}/actions", {"lock": {"level": "stacks"}}, 200)
        heat.settle(scene.path)
    action, found = waiting(scene, "update")
    assert approve(heat, found)["approval"]["state"] == "APPROVED"
    if when == "after":
        heat.call("POST", f"{scene.path}/actions", {"lock": {"level": "stacks"}}, 200)
        heat.settle(scene.path)
    ended = scene.pass_time(action["id"])
    assert ended["status"] == "CANCELLED" and "under maintenance" in ended["status_reason"]
    assert scene.approval(found)["state"] == "OBSOLETE"


@pytest.mark.slow
def test_what_needs_no_approval_is_scheduled_as_before(scene: Scene) -> None:
    policy(scene.heat, approve="never")
    answer = scene.send("update")
    assert (answer.status_int, answer.text) == (200, "null")
    (action,) = opened(scene.heat)
    assert "approval" not in action["data"]
    assert scene.pass_time(action["id"])["status"] == "SUCCEEDED"


@pytest.mark.slow
def test_a_cooldown_counts_at_its_time(scene: Scene) -> None:
    group = {
        "type": "OS::Heat::AutoScalingGroup",
        "properties": {"min_size": 0, "max_size": 5, "desired_capacity": 3, "cooldown": 600, "resource": THING},
    }
    scene.path = scene.heat.create(template(g=group), "cools")
    error = scene.heat.call("POST", scene.path + MEMBERS, {"scale_in": {}}, code=409).json["error"]
    assert error["type"] == "ActionCooldown"
    action, found = waiting(scene, "scale_in")
    approve(scene.heat, found)
    assert scene.pass_time(action["id"])["status"] == "SUCCEEDED"
