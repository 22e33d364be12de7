"""Export, abandon and adopt over HTTP."""

import json
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite
from tests.tables import few

from .conftest import Heat, template, value

RECORD = {
    "name", "id", "action", "status", "template", "environment", "files", "project_id", "stack_user_project_id", "tags",
    "resources", "stack_protection", "cloud",
}  # fmt: skip
RESOURCE = {
    "name", "resource_id", "type", "action", "status", "metadata", "resource_data", "physical_name", "mapped_type",
    "protection",
}  # fmt: skip


def test_export_then_abandon(heat: Heat) -> None:
    path = heat.create(template(a=value()), tags="t")
    record = heat.get(f"{path}/export")
    assert record.keys() == RECORD
    assert record["resources"]["a"].keys() == RESOURCE
    assert (record["name"], record["action"], record["status"], record["tags"]) == ("s", "CREATE", "COMPLETE", ["t"])
    assert heat.call("DELETE", f"{path}/abandon", code=200).json == record
    heat.settle(path, "DELETE_COMPLETE")
    for method, below in (("GET", "/export"), ("DELETE", "/abandon")):
        assert heat.fault(method, path + below, code=404)[0] == "EntityNotFound"


@pytest.mark.parametrize("as_text", few([True, False]))
def test_adopt(heat: Heat, as_text: bool) -> None:
    path = heat.create(template(a=value("x"), b={"type": "OS::Heat::RandomString"}))
    before = heat.get(f"{path}/resources/b")["resource"]
    record = heat.call("DELETE", f"{path}/abandon", code=200).json
    heat.settle(path, "DELETE_COMPLETE")
    body = {"stack_name": "s", "adopt_stack_data": json.dumps(record) if as_text else record}
    answer = heat.call("POST", "/stacks", body, code=201)
    path = f"/stacks/s/{answer.json['stack']['id']}"
    heat.settle(path, "ADOPT_COMPLETE")
    after = heat.get(f"{path}/resources/b")["resource"]
    for key in ("physical_resource_id", "attributes"):
        assert after[key] == before[key]
    changes = heat.call("PATCH", f"{path}/preview", {}, code=200).json["resource_changes"]
    assert sorted(item["resource_name"] for item in changes.pop("unchanged")) == ["a", "b"]
    assert not any(changes.values())


def test_a_preview_of_an_adoption(heat: Heat) -> None:
    record = {"template": template(a=value("x"))}
    shown = heat.call("POST", "/stacks/preview", {"stack_name": "s", "adopt_stack_data": record}, code=200).json
    assert [item["resource_name"] for item in shown["stack"]["resources"]] == ["a"]


def test_switched_off(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), enable_stack_abandon=False, enable_stack_adopt=False)
    server = wiring.embedded(settings)
    heat = Heat(server.app)
    path = heat.create(template(a=value()))
    assert heat.fault("DELETE", f"{path}/abandon") == ("NotSupported", "Stack Abandon is not supported.")
    assert heat.fault("GET", f"{path}/export") == ("NotSupported", "Stack Export is not supported.")
    body = {"stack_name": "t", "adopt_stack_data": {"template": template(a=value())}}
    assert heat.fault("POST", "/stacks", body) == ("NotSupported", "Stack Adopt is not supported.")
    server.close()
