"""Groups over HTTP: templates that people use, and requests that make no sense."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from heatlite import wiring
from heatlite.core.config import Settings
from tests.api.conftest import Heat
from tests.databases import sqlite
from tests.tables import few

CLOUD = {"resource_registry": dict.fromkeys(("OS::Nova::*", "OS::Cinder::*", "AWS::EC2::*"), "OS::Heat::None")}
"""An environment that maps types of a cloud to a type that makes nothing."""
NEEDED = {"key_name": "k", "image": "i", "image_id": "i"}


# -- real templates ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "files", "changed"),
    few(
        [
            ("resource_group/resource_group.yaml", [], {}),
            ("resource_group/resource_group_index_lookup.yaml", ["random.yaml"], {"random_lengths": "7,8,9"}),
            ("resource_group/server_with_volumes.yaml", ["volume_with_attachment.yaml"], {"num_volumes": 4}),
            ("asg_of_servers.yaml", [], {"flavor": "m1.large"}),
            ("asg_of_stacks.yaml", ["vm_with_cinder.yaml"], {"flavor": "m1.large"}),
            ("instance_group.yaml", [], {"num_instances": 3, "instance_type": "m1.large"}),
        ]
    ),
)
def test_groups_that_people_use(heat: Heat, corpus: Path, name: str, files: list[str], changed: dict[str, Any]) -> None:
    path = corpus / name
    text = path.read_text("utf-8")
    declared = yaml.safe_load(text).get("parameters", {})
    body = {
        "files": {file: (path.parent / file).read_text("utf-8") for file in files},
        "environment": {**CLOUD, "parameters": {key: value for key, value in NEEDED.items() if key in declared}},
    }
    stack = heat.create(text, **body)
    shown = heat.settle(stack, "CREATE_COMPLETE")
    values = {output["output_key"]: output["output_value"] for output in shown["outputs"]}
    assert not [output for output in shown["outputs"] if "output_error" in output]
    if name.startswith("resource_group/resource_group"):
        lengths = [4, 5, 6] if files else [32, 32]
        assert [len(value) for value in values["all_values"]] == lengths
    if name.startswith("asg_of"):
        assert "/v1/signal/arn" in values["scale_up_url"]
    before = len(heat.get(f"{stack}/resources?nested_depth=5")["resources"])
    heat.call("PATCH", stack, {"parameters": changed}, code=202)
    heat.settle(stack, "UPDATE_COMPLETE")
    after = len(heat.get(f"{stack}/resources?nested_depth=5")["resources"])
    assert after - before == {"num_volumes": 6, "num_instances": 2}.get(next(iter(changed), ""), 0)
    heat.call("DELETE", stack, code=204)
    heat.settle(stack, "DELETE_COMPLETE")


@pytest.mark.corpus
def test_the_signed_url_of_a_policy_scales_its_group(heat: Heat, corpus: Path) -> None:
    text = (corpus / "asg_of_servers.yaml").read_text("utf-8")
    stack = heat.create(text, environment={**CLOUD, "parameters": {"key_name": "k", "image": "i"}})
    outputs = {output["output_key"]: output["output_value"] for output in heat.get(stack)["stack"]["outputs"]}
    assert outputs["asg_size"] == 3
    url = outputs["scale_up_url"]
    heat.call("POST", url[url.index("/v1/") :], code=200)
    # Within the cooldown of a minute the other policy does nothing, and the sender is told nothing.
    down = outputs["scale_dn_url"]
    heat.call("POST", down[down.index("/v1/") :], code=200)
    group = heat.get(f"{stack}/resources/asg")["resource"]["physical_resource_id"]
    heat.settle(f"/stacks/{outputs_name(heat, stack)}/{group}", "UPDATE_COMPLETE")
    assert heat.get(f"{stack}/outputs/asg_size")["output"]["output_value"] == 4


def outputs_name(heat: Heat, stack: str) -> str:
    """The name of the group's nested stack."""
    links = heat.get(f"{stack}/resources/asg")["resource"]["links"]
    (nested,) = [link["href"] for link in links if link["rel"] == "nested"]
    return str(nested).split("/")[-2]


# -- requests that make no sense ---------------------------------------------------------------------


def group(**properties: object) -> dict[str, Any]:
    definition = {"type": "OS::Heat::RandomString"}
    made = {"type": "OS::Heat::ResourceGroup", "properties": {"resource_def": definition, **properties}}
    return {"heat_template_version": "2021-04-16", "resources": {"g": made}}


def scaling(**properties: object) -> dict[str, Any]:
    definition = {"type": "OS::Heat::RandomString"}
    made = {"type": "OS::Heat::AutoScalingGroup", "properties": {"resource": definition, **properties}}
    return {"heat_template_version": "2021-04-16", "resources": {"g": made}}


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (group(count=-1), "-1 is out of range (min: 0, max: None)"),
        (group(count=10**30), "Maximum resources per stack exceeded: 20000."),
        (group(count=20_000), "Maximum resources per stack exceeded: 20000."),
        (group(count="many"), "Value 'many' is not an integer"),
        (group(count=1.5), "Value '1.5' is not an integer"),
        (group(resource_def={"type": "Not::There"}), "The Resource Type (Not::There) could not be found."),
        (group(index_var="%"), "length (1) is out of range (min: 3, max: None)"),
        (group(removal_policies_mode="replace"), "is not an allowed value [append, update]"),
        (scaling(min_size=-1, max_size=1), "-1 is out of range (min: 0, max: None)"),
        (scaling(min_size=2, max_size=1), "MinSize can not be greater than MaxSize"),
        (scaling(min_size=10**9, max_size=10**9), "Maximum resources per stack exceeded: 20000."),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_made(
    refusing: Heat, template: dict[str, Any], said: str
) -> None:
    _, message = refusing.fault("POST", "/stacks", {"stack_name": "s", "template": template})
    assert said in message
    assert refusing.get("/stacks")["stacks"] == []


@pytest.mark.parametrize("template", [group(count=10_000), scaling(min_size=10_000, max_size=10_000)])
def test_a_group_of_ten_thousand_is_held_to_the_setting(tmp_path: Path, template: dict[str, Any]) -> None:
    database = sqlite(tmp_path)
    # The group itself is one more.
    server = wiring.embedded(Settings(database=database, max_resources_per_stack=10_000))
    try:
        kind, message = Heat(server.app).fault("POST", "/stacks", {"stack_name": "s", "template": template})
        assert (kind, message) == ("RequestLimitExceeded", "Maximum resources per stack exceeded: 10000.")
    finally:
        server.close()


def test_groups_of_groups_are_counted_together(refusing: Heat) -> None:
    template = group(count=150, resource_def={"type": "i.yaml"})
    body = {"stack_name": "s", "template": template, "files": {"i.yaml": yaml.safe_dump(group(count=150))}}
    kind, message = refusing.fault("POST", "/stacks", body)
    assert kind == "RequestLimitExceeded"
    assert "Maximum resources per stack exceeded: 20000." in message


def test_an_update_to_too_many_leaves_the_group_as_it_is(heat: Heat) -> None:
    stack = heat.create(group(count=2))
    kind, _ = heat.fault("PUT", stack, {"template": group(count=10**6)})
    assert kind == "RequestLimitExceeded"
    assert heat.settle(stack)["stack_status"] == "CREATE_COMPLETE"


def test_a_removal_policy_may_name_nothing_that_is_there(heat: Heat) -> None:
    stack = heat.create(group(count=2))
    policies = [{"resource_list": ["nobody", 7, "", "ä" * 500]}, {"resource_list": []}, {}]
    heat.call("PUT", stack, {"template": group(count=2, removal_policies=policies)}, code=202)
    heat.settle(stack, "UPDATE_COMPLETE")
    assert len(heat.get(f"{stack}/resources?nested_depth=1")["resources"]) == 3


def test_a_group_takes_no_signal(heat: Heat) -> None:
    for number, template in enumerate((group(), scaling(min_size=1, max_size=1))):
        stack = heat.create(template, f"s{number}")
        heat.fault("POST", f"{stack}/resources/g/signal", {})
