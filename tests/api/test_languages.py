"""CloudFormation templates at the API, nested ones, and objects to adopt."""

import json
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite

from .conftest import Heat, template, value

CFN = {
    "AWSTemplateFormatVersion": "2010-09-09",
    "Description": "words",
    "Parameters": {"Size": {"Type": "Number", "Default": 8}, "Secret": {"Type": "String", "NoEcho": True}},
    "Conditions": {"Big": {"Fn::Equals": [{"Ref": "Size"}, 9]}},
    "Mappings": {"M": {"k": {"v": "mapped"}}},
    "Resources": {
        "a": {"Type": "OS::Heat::RandomString", "Properties": {"length": {"Ref": "Size"}}},
        "b": {"Type": "OS::Heat::Value", "Properties": {"value": {"Fn::GetAtt": ["a", "value"]}}, "DependsOn": "a"},
        "c": {"Type": "OS::Heat::Value", "Condition": "Big", "Properties": {"value": "big"}},
    },
    "Outputs": {
        "Value": {"Value": {"Fn::GetAtt": ["b", "value"]}, "Description": "drawn"},
        "Mapped": {"Value": {"Fn::Join": ["-", [{"Fn::FindInMap": ["M", "k", "v"]}, {"Ref": "AWS::StackName"}]]}},
        "Id": {"Value": {"Ref": "AWS::StackId"}},
    },
}


def test_a_stack_in_the_other_language(heat: Heat) -> None:
    path = heat.create(CFN, parameters={"Secret": "x"})
    stack = heat.settle(path, "CREATE_COMPLETE")
    assert stack["template_description"] == "words"
    assert stack["parameters"] == {
        "AWS::StackId": stack["parameters"]["AWS::StackId"],
        "AWS::StackName": "s",
        "AWS::Region": "ap-southeast-1",
        "Size": "8",
        "Secret": "******",
    }
    outputs = {one["output_key"]: one["output_value"] for one in stack["outputs"]}
    assert len(outputs["Value"]) == 8
    assert outputs["Mapped"] == "mapped-s"
    assert outputs["Id"].startswith("arn:openstack:heat::") and outputs["Id"].endswith(f":stacks/s/{stack['id']}")
    names = {one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]}
    assert names == {"a", "b"}
    assert heat.get(f"{path}/template") == CFN
    heat.call("PATCH", path, {"parameters": {"Size": 9}}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert {one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]} == {"a", "b", "c"}


def test_versions_and_functions(refusing: Heat) -> None:
    listed = refusing.get("/template_versions")["template_versions"]
    assert listed[0] == {"version": "AWSTemplateFormatVersion.2010-09-09", "type": "cfn", "aliases": []}
    assert listed[1] == {"version": "HeatTemplateFormatVersion.2012-12-12", "type": "cfn", "aliases": []}
    for version in listed:
        for query in ("", "?with_condition_func=true"):
            answer = refusing.get(f"/template_versions/{version['version']}/functions{query}")
            assert all(one["description"] for one in answer["template_functions"])
            assert answer["template_functions"]
    url = "/template_versions/AWSTemplateFormatVersion.2010-09-09/functions"
    plain, more = (refusing.get(url + query)["template_functions"] for query in ("", "?with_condition_func=true"))
    names = {one["functions"] for one in more} - {one["functions"] for one in plain}
    assert names == {"Fn::Equals", "Fn::Not", "Fn::And", "Fn::Or"}
    assert (
        refusing.fault("GET", "/template_versions/AWSTemplateFormatVersion.rocky/functions", code=404)[0] == "NotFound"
    )


CHILD = """
heat_template_version: rocky
parameters: {n: {type: number, default: 1}}
resources: {r: {type: OS::Heat::RandomString, properties: {length: {get_param: n}}}}
outputs: {o: {value: {get_attr: [r, value]}}}
"""


def test_more_nested_templates_than_a_stack_may_have_are_not_described(refusing: Heat) -> None:
    """A few lines describe any number."""

    def of(kind: str) -> dict[str, object]:
        return template(**{f"r{number}": {"type": kind} for number in range(30)})

    files = {"a.yaml": json.dumps(of("b.yaml")), "b.yaml": json.dumps(of("OS::Heat::RandomString"))}
    body = {"template": of("a.yaml"), "files": files}
    kind, message = refusing.fault("POST", "/validate?show_nested=true", body)
    assert (kind, message) == ("RequestLimitExceeded", "Maximum resources per stack exceeded: 20000.")


def test_nested_templates_are_validated(refusing: Heat) -> None:
    nested = template(a={"type": "child.yaml", "properties": {"n": 5}})
    body = {"template": nested, "files": {"child.yaml": CHILD}}
    assert "NestedParameters" not in refusing.call("POST", "/validate", body, code=200).json
    answer = refusing.call("POST", "/validate?show_nested=true", body, code=200).json
    parameters = answer["NestedParameters"]["a"]
    assert parameters["Type"] == "child.yaml"
    assert parameters["Parameters"]["n"]["Default"] == 1
    refusing.call("POST", "/stacks/preview", {"stack_name": "s", **body}, code=200)
    wrong = {"template": template(a={"type": "child.yaml", "properties": {"m": 5}}), "files": {"child.yaml": CHILD}}
    kind, message = refusing.fault("POST", "/stacks", {"stack_name": "s", **wrong})
    assert (kind, "Unknown Property m" in message) == ("StackValidationFailed", True)
    gone = {"stack_name": "s", "template": nested}
    kind, message = refusing.fault("POST", "/stacks", gone)
    assert kind == "StackValidationFailed"
    assert message.startswith('Could not fetch remote template "child.yaml"')


@pytest.mark.parametrize("count", [0, 1])
def test_a_group_is_described_even_without_members(refusing: Heat, count: int) -> None:
    """Without them its definition is not checked, as in Heat."""
    kind = "My::Unknown" if count == 0 else "OS::Heat::RandomString"
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": {"type": kind}}}
    answer = refusing.call("POST", "/validate?show_nested=true", {"template": template(g=group)}, code=200).json
    described = {"Type": "OS::Heat::ResourceGroup", "Description": "No description", "Parameters": {}}
    assert answer["NestedParameters"] == {"g": described}
    refusing.call("POST", "/stacks/preview", {"stack_name": "s", "template": template(g=group)}, code=200)


def test_faults_of_nested_templates_have_their_file_and_line(refusing: Heat) -> None:
    broken = CHILD.replace("length:", "lenght:")
    body = {"template": template(a={"type": "child.yaml"}), "files": {"child.yaml": broken}}
    kind, message = refusing.fault("POST", "/stacks", {"stack_name": "s", **body})
    assert kind == "StackValidationFailed"
    assert message.startswith(
        "resources.a<child.yaml>: Property error: resources.r.properties: Unknown Property lenght"
    )
    answer = refusing.call("POST", "/validate?all_errors=true", body, code=200).json
    (problem,) = answer["problems"]
    assert (problem["file"], problem["line"]) == ("child.yaml", 4)


def test_what_is_adopted_depends_on_nothing(refusing: Heat) -> None:
    body = {"stack_name": "s", "template": template(a=value(external_id="abc", depends_on="b"), b=value())}
    assert refusing.fault("POST", "/stacks", body)[0] == "InvalidExternalResourceDependency"


def test_a_time_that_is_over(heat: Heat) -> None:
    text = template(a=value())
    text["parameters"] = {"p": {"type": "string", "constraints": [{"custom_constraint": "expiration"}]}}
    assert heat.fault("POST", "/stacks", {"stack_name": "s", "template": text, "parameters": {"p": "2000-01-01"}})[
        0
    ] == ("StackValidationFailed")
    path = heat.create(text, parameters={"p": "2999-01-01T00:00:00Z"})
    assert heat.settle(path, "CREATE_COMPLETE")["parameters"]["p"] == "2999-01-01T00:00:00Z"


def test_types_that_the_installation_maps(tmp_path: Path) -> None:
    folder = tmp_path / "environment.d"
    folder.mkdir()
    (tmp_path / "nested.yaml").write_text(CHILD)
    (folder / "a.yaml").write_text("resource_registry: {My::*: OS::Heat::*, My::Nested: ../nested.yaml}\n")
    server = wiring.embedded(Settings(database=sqlite(tmp_path), environment_dir=str(folder)))
    heat = Heat(server.app)
    try:
        mine = {"type": "My::Value", "properties": {"value": 1}}
        path = heat.create(template(a=mine))
        heat.settle(path, "CREATE_COMPLETE")
        assert heat.get(f"{path}/environment")["resource_registry"] == {"resources": {}}
        none = {"resource_registry": {"My::Value": "OS::Heat::None"}}
        path = heat.create(template(a=mine), "t", environment=none)
        heat.settle(path, "CREATE_COMPLETE")
        nested = {"template": template(n={"type": "My::Nested", "properties": {"n": "x"}})}
        assert "could not convert" in heat.fault("POST", "/stacks", {"stack_name": "u", **nested})[1]
    finally:
        server.close()
