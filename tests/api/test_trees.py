"""Nested stacks as the API shows them."""

import json
from typing import Any

import pytest

from tests.api.conftest import Heat


def template(**resources: object) -> dict[str, object]:
    return {"heat_template_version": "2021-04-16", "resources": resources}


def thing(**properties: object) -> dict[str, object]:
    return {"type": "OS::Heat::TestResource", "properties": properties}


INNER = {
    **template(a=thing(value={"get_param": "v"}), b={**thing(fail={"get_param": "fail"}), "depends_on": "a"}),
    "parameters": {"v": {"type": "string", "default": "v"}, "fail": {"type": "boolean", "default": False}},
    "outputs": {"o": {"value": {"get_attr": ["a", "output"]}}},
}
OUTER = {
    **template(inner={"type": "inner.yaml", "properties": {"fail": {"get_param": "fail"}}}),
    "parameters": {"fail": {"type": "boolean", "default": False}},
}
FILES = {"inner.yaml": json.dumps(INNER), "outer.yaml": json.dumps(OUTER)}


def rel(heat: Heat, item: Any, name: str) -> str:
    (href,) = [link["href"] for link in item["links"] if link["rel"] == name]
    return str(href).partition(heat.root)[2]


@pytest.fixture
def path(heat: Heat) -> str:
    return heat.create(template(c={"type": "outer.yaml"}, plain=thing()), files=FILES)


def listed(heat: Heat, path: str, query: str) -> list[tuple[str | None, str]]:
    found = heat.get(f"{path}/resources{query}")["resources"]
    return [(item.get("parent_resource"), item["resource_name"]) for item in found]


def test_the_list_goes_as_deep_as_is_asked(heat: Heat, path: str) -> None:
    top: list[tuple[str | None, str]] = [(None, "c"), (None, "plain")]
    assert sorted(listed(heat, path, ""), key=str) == sorted(top, key=str)
    one = [*top, ("c", "inner")]
    assert sorted(listed(heat, path, "?nested_depth=1"), key=str) == sorted(one, key=str)
    two = [*one, ("inner", "a"), ("inner", "b")]
    for depth in (2, 5, 77):
        assert sorted(listed(heat, path, f"?nested_depth={depth}"), key=str) == sorted(two, key=str)
    assert listed(heat, path, "?nested_depth=5&name=b") == [("inner", "b")], "a filter does not stop the descent"


def test_the_list_leaves_out_a_stack_that_outlived_its_resource(heat: Heat) -> None:
    outer = {"type": "outer.yaml", "deletion_policy": "Retain"}
    path = heat.create(template(c=outer, plain=thing()), files=FILES)
    heat.call("PUT", path, {"template": template(plain=thing())}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert listed(heat, path, "?nested_depth=5") == [(None, "plain")]


def test_a_resource_leads_to_its_stack_and_its_stack_to_its_parent(heat: Heat, path: str) -> None:
    item = heat.get(f"{path}/resources/c")["resource"]
    below = rel(heat, item, "nested")
    assert below.endswith(item["physical_resource_id"])
    stack = heat.get(below)["stack"]
    assert stack["parent"] == path.rpartition("/")[2]
    assert stack["stack_status"] == "CREATE_COMPLETE"
    assert rel(heat, heat.get(f"{below}/resources/inner")["resource"], "stack") == below
    plain = heat.get(f"{path}/resources/plain")["resource"]
    assert {link["rel"] for link in plain["links"]} == {"self", "stack"}
    assert "parent_resource" not in plain


def test_a_nested_stack_shows_in_lists_only_if_asked(heat: Heat, path: str) -> None:
    assert [stack["stack_name"] for stack in heat.get("/stacks")["stacks"]] == ["s"]
    found = heat.get("/stacks?show_nested=True")["stacks"]
    assert len(found) == 3
    ids = {stack["id"] for stack in found}
    assert sum(stack["parent"] is None for stack in found) == 1
    assert {stack["parent"] for stack in found} - {None} < ids


def test_details_of_nested_resources(heat: Heat, path: str) -> None:
    found = heat.get(f"{path}/resources?nested_depth=2&with_detail=True")["resources"]
    by_name = {item["resource_name"]: item for item in found}
    assert by_name["a"]["attributes"] == {"output": "v"}
    assert by_name["inner"]["attributes"] == {"o": "v"}
    assert heat.get(f"{path}/resources/c?with_attr=resource.inner")["resource"]["attributes"]


def test_a_failure_three_levels_down_is_found_in_one_call(heat: Heat) -> None:
    path = heat.create(template(c={"type": "outer.yaml", "properties": {"fail": True}}), files=FILES)
    stack = heat.get(path)["stack"]
    cause = "ValueError: resources.c.resources.inner.resources.b: Test Resource failed b"
    assert stack["stack_status_reason"] == f"Resource CREATE failed: {cause}"
    failed = heat.get(f"{path}/resources?nested_depth=5&status=CREATE_FAILED")["resources"]
    reasons = {item["resource_name"]: item["resource_status_reason"] for item in failed}
    assert reasons["b"] == "ValueError: resources.b: Test Resource failed b"
    assert reasons["c"] == cause


def test_events_of_the_tree(heat: Heat, path: str) -> None:
    found = heat.get(f"{path}/events?nested_depth=5&sort_dir=asc")["events"]
    names = [event["resource_name"] for event in found]
    assert names[0] == "s" and names[-1] == "s"
    assert {"c", "plain", "inner", "a", "b"} <= set(names)
    assert all(rel(heat, event, "root_stack") == path for event in found)


@pytest.mark.slow
def test_a_deleted_tree_is_gone(heat: Heat, path: str) -> None:
    below = rel(heat, heat.get(f"{path}/resources/c")["resource"], "nested")
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    assert heat.get("/stacks?show_nested=True")["stacks"] == []
    assert heat.get(below)["stack"]["stack_status"] == "DELETE_COMPLETE"
