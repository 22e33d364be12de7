"""Approvals of asked replacements and retaining deletions (laws D8, D9)."""

import pytest

from tests.api.conftest import Heat, template
from tests.features.approvals.api.test_approvals import THING, approve, policy, refused


@pytest.mark.slow
def test_a_replacement_that_is_asked_for_is_a_removal(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING, b=THING))
    policy(heat, approve="removals")
    before = heat.get(f"{path}/resources/a")["resource"]["physical_resource_id"]
    heat.call("PATCH", path, {"target": ["b"]}, code=202)  # nothing goes
    heat.settle(path, "UPDATE_COMPLETE")
    found = refused(heat, "PATCH", path, {"replace": ["a"]})
    (planned,) = found["content"]["plan"]["resources"]
    assert (planned["resource_name"], planned["action"], planned["selection"]) == ("a", "replace", "named")
    shown = heat.get(f"{path}/resources/a")["resource"]
    assert (shown["resource_status"], shown["physical_resource_id"]) == ("CREATE_COMPLETE", before)
    approve(heat, found)
    refused(heat, "PATCH", path, {"replace": ["b"]})
    heat.call("PATCH", path, {"replace": ["a"]}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"{path}/resources/a")["resource"]["physical_resource_id"] != before


@pytest.mark.slow
def test_an_approved_deletion_retains_what_was_approved(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=THING, b=THING))
    policy(heat, approve="removals")
    action = heat.call("DELETE", f"{path}?retain=a&approval=wait", code=202).json["action"]
    (found,) = heat.get("/approvals?state=PENDING")["approvals"]
    found = heat.get(f"/approvals/{found['id']}")["approval"]
    plan = {one["resource_name"]: one["action"] for one in found["content"]["plan"]["resources"]}
    assert plan == {"a": "keep", "b": "delete"}
    approve(heat, found)
    heat.settle(path, "DELETE_COMPLETE")
    ended = heat.get(f"/actions/{action['id']}")["action"]
    assert [one["path"] for one in ended["outputs"]["retained"]] == ["a"]
