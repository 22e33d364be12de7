"""Resource types, template versions, validation, services."""

import json
import re

import pytest

import heatlite
from tests.resource_types import ALL_TYPES

from .conftest import Heat, template, value

RANDOM = "OS::Heat::RandomString"


def test_resource_types(refusing: Heat) -> None:
    names = refusing.get("/resource_types")["resource_types"]
    assert names == sorted(names)
    assert {RANDOM, "OS::Heat::Value", "OS::Heat::None", "OS::Heat::TestResource"} <= set(names)
    assert refusing.get("/resource_types?name=.*RandomString")["resource_types"] == [RANDOM]
    assert refusing.get("/resource_types?name=RandomString")["resource_types"] == []
    assert refusing.get("/resource_types?name=(")["resource_types"] == []
    assert refusing.get("/resource_types?support_status=HIDDEN")["resource_types"] == []
    assert refusing.fault("GET", "/resource_types?support_status=zz")[0] == "Invalid"
    assert refusing.get("/resource_types?version=2014.1&name=OS::Heat::Ran")["resource_types"] == [RANDOM]
    assert refusing.get("/resource_types?version=2014.1&support_status=DEPRECATED")["resource_types"] == []
    assert refusing.get("/resource_types?version=zz")["resource_types"] == []
    for item in refusing.get("/resource_types?with_description=True")["resource_types"]:
        assert item.keys() == {"resource_type", "description"}
        assert item["description"]


def test_one_resource_type(refusing: Heat) -> None:
    body = refusing.get(f"/resource_types/{RANDOM}")
    assert body.keys() == {"resource_type", "properties", "attributes", "support_status"}
    assert body["resource_type"] == RANDOM
    length = body["properties"]["length"]
    assert length["type"] == "integer"
    assert length["default"] == 32
    assert length["constraints"] == [{"range": {"min": 1, "max": 512}}]
    assert "description" in refusing.get(f"/resource_types/{RANDOM}?with_description=true")
    assert refusing.fault("GET", "/resource_types/No::Such", code=404) == (
        "EntityNotFound",
        "The Resource Type (No::Such) could not be found.",
    )


def test_without_a_cloud_its_types_are_not_offered(refusing: Heat) -> None:
    names = refusing.get("/resource_types")["resource_types"]
    assert RANDOM in names and "OS::Nova::Server" not in names
    net = {"type": "OS::Neutron::Net"}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"resource_def": net}}
    body = {"stack_name": "s", "template": template(a=net, b={"type": "OS::Neutron::Router"}, c=group)}
    answer = refusing.call("POST", "/validate?all_errors=true", {"template": body["template"]}, code=200)
    assert [one["type"] for one in answer.json["problems"]] == ["ResourceTypeUnavailable"]  # one cause is told once
    assert refusing.fault("POST", "/stacks", body) == (
        "ResourceTypeUnavailable",
        "HEAT-E99001 Service neutron is not available for resource type OS::Neutron::Net, reason: no cloud is set.",
    )


@pytest.mark.slow
def test_a_template_of_a_type(refusing: Heat) -> None:
    url = f"/resource_types/{RANDOM}/template"
    assert refusing.get(url) == refusing.get(f"{url}?template_type=cfn")
    assert "HeatTemplateFormatVersion" in refusing.get(url)
    hot = refusing.get(f"{url}?template_type=hot")
    assert hot["heat_template_version"] == "2016-10-14"
    assert "length" in hot["parameters"]
    refusing.call("POST", "/validate", {"template": hot}, code=200)
    for name in ALL_TYPES:
        for language in ("hot", "cfn"):
            answer = refusing.call("GET", f"/resource_types/{name}/template?template_type={language}")
            if answer.status_int != 200:
                assert answer.json["error"]["message"] == f"{name} is not supported."  # its service is gone
                continue
            skeleton = answer.json
            refusing.call("POST", "/validate?ignore_errors=99001", {"template": skeleton}, code=200)
    assert refusing.fault("GET", f"{url}?template_type=zz")[0] == "HTTPBadRequest"
    assert refusing.fault("GET", "/resource_types/No::Such/template", code=404)[0] == "EntityNotFound"


def test_template_versions(refusing: Heat) -> None:
    versions = refusing.get("/template_versions")["template_versions"]
    assert len(versions) == 13
    for version in versions:
        assert version.keys() == {"version", "type", "aliases"}
    assert {
        "version": "heat_template_version.2018-08-31",
        "type": "hot",
        "aliases": ["heat_template_version.rocky"],
    } in (versions)


def test_template_functions(refusing: Heat) -> None:
    def functions(version: str, query: str = "") -> set[str]:
        body = refusing.get(f"/template_versions/{version}/functions{query}")
        for function in body["template_functions"]:
            assert function.keys() == {"functions", "description"}
        return {function["functions"] for function in body["template_functions"]}

    rocky = functions("heat_template_version.2018-08-31")
    assert rocky == functions("heat_template_version.rocky")
    assert {"get_attr", "str_replace", "repeat", "if"} <= rocky
    assert "equals" not in rocky
    assert functions("heat_template_version.rocky", "?with_condition_func=True") > rocky
    assert "repeat" not in functions("heat_template_version.2014-10-16")
    for known in refusing.get("/template_versions")["template_versions"]:
        body = refusing.get(f"/template_versions/{known['version']}/functions?with_condition_func=true")
        assert all(function["description"] for function in body["template_functions"])
    assert refusing.fault("GET", "/template_versions/zz/functions", code=404) == (
        "NotFound",
        "Template with version zz not found",
    )


class TestValidate:
    def test_a_good_template(self, refusing: Heat) -> None:
        good = {
            "heat_template_version": "2018-08-31",
            "description": "D.",
            "parameters": {"p": {"type": "string", "default": "x", "description": "P.", "hidden": True}},
            "parameter_groups": [{"label": "L", "parameters": ["p"]}],
        }
        body = refusing.call("POST", "/validate?show_nested=True&ignore_errors=99001", {"template": good}, code=200)
        assert body.json == {
            "Description": "D.",
            "Parameters": {
                "p": {"Type": "String", "Description": "P.", "NoEcho": "true", "Label": "p", "Default": "x"}
            },
            "ParameterGroups": [{"label": "L", "parameters": ["p"]}],
            "Environment": {
                "parameters": {},
                "parameter_defaults": {},
                "resource_registry": {"resources": {}},
                "event_sinks": [],
            },
        }

    def test_templates_used_as_types_are_in_the_registry(self, refusing: Heat) -> None:
        group = {"type": "OS::Heat::ResourceGroup", "properties": {"resource_def": {"type": "m.yaml"}}}
        chain = {"type": "OS::Heat::ResourceChain", "properties": {"resources": ["c.yaml", RANDOM]}}
        body = {
            "template": template(a={"type": "n.yaml"}, b={"type": "My::Own"}, g=group, c=chain),
            "environment": {"resource_registry": {"My::Own": "n.yaml"}},
            "files": dict.fromkeys(("n.yaml", "m.yaml", "c.yaml"), json.dumps(template(r=value()))),
        }
        environment = refusing.call("POST", "/validate", body, code=200).json["Environment"]
        assert environment["resource_registry"] == {"n.yaml": "n.yaml", "My::Own": "n.yaml", "resources": {}}

    def test_parameters_need_no_values(self, refusing: Heat) -> None:
        open_ended = {
            "heat_template_version": "2018-08-31",
            "parameters": {"p": {"type": "number"}},
            "resources": {"r": {"type": RANDOM, "properties": {"length": {"get_param": "p"}}}},
        }
        parameters = refusing.call("POST", "/validate", {"template": open_ended}, code=200).json["Parameters"]
        assert parameters == {"p": {"Type": "Number", "Description": "", "NoEcho": "false", "Label": "p"}}

    @pytest.mark.parametrize(
        ("broken", "kind", "message"),
        [
            (
                template(x={"type": "No::Such"}),
                "HTTPBadRequest",
                r"The Resource Type \(No::Such\) could not be found\.",
            ),
            (
                template(x=value(zz=1)),
                "HTTPBadRequest",
                '.*"zz" is not a valid keyword inside a resource definition',
            ),
            (
                template(x={"type": RANDOM, "properties": {"zz": 1}}),
                "HTTPBadRequest",
                "Property error: resources.x.properties: Unknown Property zz",
            ),
            (template(x=value({"get_resource": "x"})), "CircularDependencyException", "Circular Dependency Found.*"),
            (
                template(x=value(depends_on="zz")),
                "InvalidTemplateReference",
                r'The specified reference "zz" \(in x\) is incorrect\.',
            ),
            ({"resources": {}}, "InvalidTemplateVersion", "The template version is invalid: .*"),
            ("[", "HTTPBadRequest", "Template not in valid format: (?s:.*)"),
        ],
    )
    def test_a_broken_template(self, refusing: Heat, broken: object, kind: str, message: str) -> None:
        found_kind, found = refusing.fault("POST", "/validate", {"template": broken})
        assert found_kind == kind
        assert re.fullmatch(message, found), found

    @pytest.mark.parametrize(
        ("lenient", "created"),
        [
            (template(x={"type": RANDOM, "properties": {"length": "abc"}}), 400),
            (template(x={"type": RANDOM, "properties": {"length": 9999}}), 400),
            (template(x={"type": "OS::Heat::Value"}), 400),
            (template(x=value({"get_param": "zz"})), 400),
            ({**template(), "parameters": {"p": {"type": "number", "default": "abc"}}}, 400),
            ({**template(), "resources": []}, 201),
            ({"heat_template_version": "2021-04-16"}, 201),
            (template(x=value({"get_zz": "q"})), 201),
            ("heat_template_version: 2021-04-16\nresources: {}\nresources: {}\n", 201),
            ({**template(), "outputs": {"o": {"value": 1, "zz": 2}}}, 201),
        ],
    )
    def test_what_only_a_create_looks_at(self, heat: Heat, lenient: object, created: int) -> None:
        """Values of properties and parameters, and values that are not checked."""
        heat.call("POST", "/validate", {"template": lenient}, code=200)
        heat.call("POST", "/stacks", {"stack_name": "s", "template": lenient}, code=created)

    @pytest.mark.parametrize("code", ["99002", "abc"])
    def test_unknown_errors_to_ignore(self, refusing: Heat, code: str) -> None:
        body = {"template": template(x=value())}
        assert refusing.fault("POST", f"/validate?ignore_errors={code}", body)[0] == "HTTPBadRequest"

    def test_no_template(self, refusing: Heat) -> None:
        assert refusing.fault("POST", "/validate", {}) == ("HTTPBadRequest", "No template specified")


def test_build_info(refusing: Heat) -> None:
    revision = {"revision": heatlite.__version__}
    assert refusing.get("/build_info") == {
        "api": revision, "engine": revision, "cloud": None, "user": "anonymous",
    }  # fmt: skip


def test_services(heat: Heat) -> None:
    """An engine reports soon after its start."""
    import time

    end = time.monotonic() + 240
    while not (services := heat.get("/services")["services"]):
        assert time.monotonic() < end
        time.sleep(0.02)
    (service,) = services
    assert service.keys() == {
        "id", "engine_id", "host", "hostname", "binary", "topic", "report_interval", "created_at", "updated_at",
        "deleted_at", "status", "running", "actions",
    }  # fmt: skip
    assert (service["status"], service["running"], service["actions"]) == ("up", 0, [])
    assert service["deleted_at"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", service["updated_at"])
