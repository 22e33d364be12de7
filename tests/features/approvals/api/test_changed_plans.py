"""Requests that wait, and whose stack has changed meanwhile (law A3)."""

from copy import deepcopy
from typing import Any

import pytest

from tests.api.conftest import Heat, template
from tests.waiting import eventually

from .test_approvals import THING, approve, policy
from .test_subjects import NEEDS, clouded, heat, opened, planned

__all__ = ["clouded", "heat"]


def changed(made: Any) -> Any:
    """A template with another resource, and a larger group."""
    now = deepcopy(made)
    now["resources"]["c"] = THING
    if "g" in now["resources"]:
        now["resources"]["g"]["properties"]["count"] = 4
    return now


@pytest.mark.slow
@pytest.mark.parametrize("asks", ["always", "never"])
@pytest.mark.parametrize("word", [word for word in NEEDS if word != "retry"])
def test_another_plan_is_asked_for_anew(heat: Heat, word: str, asks: str) -> None:
    """The policy of that moment does not count."""
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    policy(heat, approve="always")
    sent.to(heat, path, "&approval=wait" if "?" in sent.rest else "?approval=wait")
    (found,) = heat.get("/approvals")["approvals"]
    policy(heat, approve="never")
    made = changed(case.template)
    if word == "import":
        del made["resources"]["a"]  # it is to be imported
    heat.call("PATCH", path, {"template": made}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    policy(heat, approve=asks)
    assert approve(heat, found, code=409)["error"]["type"] == "PlanChanged"
    old = heat.get(f"/approvals/{found['id']}")["approval"]
    new = heat.get(f"/approvals/{old['replaced_by']}")["approval"]
    assert (old["state"], new["state"]) == ("OBSOLETE", "PENDING")
    assert new["action_id"] == found["action_id"]
    assert new["requested_by"] == found["requested_by"]
    (action,) = opened(heat)
    assert (action["id"], action["status"]) == (found["action_id"], "INIT")
    assert new["id"] in action["status_reason"]
    assert approve(heat, new)["approval"]["state"] == "DONE"
    eventually(lambda: not opened(heat), "it has ended")
    assert heat.get(f"/actions/{found['action_id']}")["action"]["status"] == "SUCCEEDED"


@pytest.mark.slow
@pytest.mark.parametrize("both", [True, False])
def test_a_move_between_stacks_waits_for_both(own_heat: Heat, both: bool) -> None:
    heat = own_heat
    path, there = heat.create(template(a=THING, b=THING)), heat.create(template(x=THING), "t")
    moved = {"moved": [{"from": "a", "to": "z"}], "to_stack": "t"}
    sent = planned("move", moved)(heat, path)
    for one in (path, there) if both else (there,):
        policy(heat, one, approve="always")
    action = sent.to(heat, path, "?approval=wait").json["action"]
    (first,) = heat.get("/approvals")["approvals"]
    assert (first["stack_name"], first["action_id"]) == ("s" if both else "t", action["id"])
    assert sent.to(heat, path, "?approval=wait").json["action"]["id"] == action["id"]
    for one, stack in ((path, "s"), (there, "t")):
        told = [fact["id"] for fact in heat.get(f"{one}/why")["facts"] if fact["code"] == "approval"]
        assert told == ([first["id"]] if stack == first["stack_name"] or stack == "s" else []), stack
    if both:
        assert approve(heat, first, code=409)["error"]["type"] == "ApprovalRequired"
        (second,) = [one for one in heat.get("/approvals?state=PENDING")["approvals"] if one["id"] != first["id"]]
        assert (second["stack_name"], second["action_id"]) == ("t", None)
        assert approve(heat, second)["approval"]["state"] == "APPROVED"
    assert approve(heat, first)["approval"]["state"] == "DONE"
    assert {one["state"] for one in heat.get("/approvals")["approvals"]} == {"DONE"}
    names = [[each["resource_name"] for each in heat.get(f"{one}/resources")["resources"]] for one in (path, there)]
    assert [sorted(each) for each in names] == [["b"], ["x", "z"]]
