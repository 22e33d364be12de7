"""Requests of other OpenStack services: Aodh's heat notifier, Tacker's VNF driver."""

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.repairs import allow_repairs, follow, heal_another, updates
from tests.waiting import eventually

MEMBER = """
heat_template_version: 2018-08-31
parameters: {fail: {type: boolean, default: false}}
resources:
  server: {type: OS::Heat::TestResource, properties: {value: up, fail: {get_param: fail}}}
"""


def template(size: int, fail: bool = False) -> dict[str, Any]:
    member = {"type": "member.yaml", "properties": {"fail": fail}}
    group = {"min_size": size, "max_size": 5, "resource": member}
    return {
        "heat_template_version": "2018-08-31",
        "parameters": {"nfv": {"type": "json", "default": {}}},
        "resources": {"VDU": {"type": "OS::Heat::AutoScalingGroup", "properties": group}},
    }


def state(server: Server, path: str) -> str | None:
    answer = follow(server, "GET", path)
    return None if answer.status == 404 else answer.data["stack"]["stack_status"]  # type: ignore[index,no-any-return]


def reached(server: Server, path: str, *states: str | None) -> None:
    eventually(lambda: state(server, path) in states, f"{path} is {states}")


def members(server: Server, path: str) -> list[dict[str, Any]]:
    answer = follow(server, "GET", f"{path}/resources?nested_depth=2")
    assert answer.status == 200
    found: list[dict[str, Any]] = answer.data["resources"]  # type: ignore[index]
    return sorted((one for one in found if one["resource_name"] == "server"), key=lambda one: one["parent_resource"])


@pytest.mark.slow
def test_aodh_marks_the_member_of_a_group_and_updates_the_stack(server: Server) -> None:
    """It knows the ids of the stack, of the group and of the failed server."""
    path = server.create("for-aodh", template(2), files={"member.yaml": MEMBER})
    assert server.settled(path) == "CREATE_COMPLETE"
    allow_repairs(server, path)
    stack_id, before = path.rpartition("/")[2], members(server, path)
    group_id = server.resources(path)["VDU"]
    failed = before[0]["physical_resource_id"]
    query = f"nested_depth=3&physical_resource_id={failed}"
    found = server.request("GET", f"{server.find(stack_id)}/resources?{query}")
    (resource,) = found.data["resources"]  # type: ignore[index]
    member = resource["parent_resource"]
    mark = {"mark_unhealthy": True, "resource_status_reason": "unhealthy load balancer member"}
    assert server.request("PATCH", f"{server.find(group_id)}/resources/{member}", mark).status == 200
    heal_another(server, "beside-aodh")
    assert updates(server, path) == []
    assert follow(server, "PATCH", f"/stacks/{stack_id}", {}).status == 202
    assert server.settled(path) == "UPDATE_COMPLETE"
    assert len(updates(server, path)) == 1
    after = {one["physical_resource_id"] for one in members(server, path)}
    assert failed not in after
    assert before[1]["physical_resource_id"] in after
    assert follow(server, "DELETE", f"/stacks/{stack_id}").status == 204


@pytest.mark.slow
def test_tacker_runs_a_vnf(server: Server) -> None:
    """Instantiate, scale, heal, roll back and terminate, with stacks by name."""
    fields = {"parameters": {"nfv": {"x": 1}}, "files": {"member.yaml": MEMBER}, "disable_rollback": False}
    made = server.request("POST", "/stacks", {"stack_name": "vnf-1", "template": template(1), **fields})
    assert made.status == 201
    path = f"/stacks/vnf-1/{made.data['stack']['id']}"  # type: ignore[index]
    reached(server, path, "CREATE_COMPLETE")
    shown: Any = follow(server, "GET", "/stacks/vnf-1").data
    assert json.loads(shown["stack"]["parameters"]["nfv"]) == {"x": 1}
    told: Any = follow(server, "GET", "/stacks/vnf-1/template").data
    assert told["resources"].keys() == {"VDU"}
    assert follow(server, "GET", "/stacks/vnf-1/files").data == {"member.yaml": MEMBER}

    assert follow(server, "PATCH", path, {"template": template(2), "disable_rollback": False}).status == 202
    reached(server, path, "UPDATE_COMPLETE")
    allow_repairs(server, path)
    first, second = members(server, path)
    (link,) = (one["href"] for one in first["links"] if one["rel"] == "stack")
    owner = "/".join(urlsplit(link).path.split("/")[-2:])
    mark = {"mark_unhealthy": True, "resource_status_reason": "marked by tacker"}
    assert server.request("PATCH", f"/stacks/{owner}/resources/server", mark).status == 200
    info: Any = server.request("GET", f"/stacks/{owner}/resources/server").data
    assert info["resource"]["resource_status"] == "CHECK_FAILED"
    assert server.request("GET", f"/stacks/{owner}/resources/nothing").status == 404
    before = updates(server, path)
    heal_another(server, "beside-tacker")
    assert updates(server, path) == before
    assert follow(server, "PATCH", path, {"disable_rollback": False}).status == 202
    reached(server, path, "UPDATE_COMPLETE")
    healed = {one["physical_resource_id"] for one in members(server, path)}
    assert first["physical_resource_id"] not in healed
    assert second["physical_resource_id"] in healed

    whole = {**fields, "template": template(2, fail=True)}
    assert follow(server, "PUT", path, whole).status == 202
    reached(server, path, "ROLLBACK_COMPLETE")
    wanted = "resource_action=CREATE&resource_action=UPDATE&resource_status=FAILED&sort_dir=desc&limit=1"
    events: Any = follow(server, "GET", f"{path}/resources/vnf-1/events?{wanted}").data
    assert "Test" in events["events"][0]["resource_status_reason"]
    assert follow(server, "DELETE", path).status == 204
    reached(server, "/stacks/vnf-1", None)
    assert follow(server, "DELETE", "/stacks/vnf-1").status == 404
