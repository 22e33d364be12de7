"""Groups of servers in an engine."""

import json
from typing import Any

import pytest

from tests.engine.conftest import Engine, attr, param, resource, template
from tests.engine.test_groups import members, nested, outcome, thing
from tests.tables import few

SERVERS = {"resource_registry": {"AWS::EC2::Instance": "OS::Heat::None"}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sizes", "section"),
    few(
        [
            ("OS::Heat::InstanceGroup", {"Size": 2}, "RollingUpdate"),
            ("AWS::AutoScaling::AutoScalingGroup", {"MinSize": 2, "MaxSize": 4}, "AutoScalingRollingUpdate"),
        ]
    ),
)
def test_servers_follow_their_launch_configuration(
    engine: Engine, kind: str, sizes: dict[str, int], section: str
) -> None:
    def wanted(flavor: str) -> Any:
        config = resource("AWS::AutoScaling::LaunchConfiguration", ImageId="i", InstanceType=flavor)
        keys = {"update_policy": {section: {"PauseTime": "PT1M"}}}
        name = {"get_resource": "c"}
        servers = resource(kind, keys=keys, AvailabilityZones=[], LaunchConfigurationName=name, **sizes)
        return template(g=servers, c=config, outputs={"all": attr("g", "InstanceList")})

    stack = engine.create(wanted("small"), environment=SERVERS)
    assert (outcome(stack), stack.status_reason) == ("CREATE_COMPLETE", "Stack CREATE completed successfully")
    inner = nested(engine, stack)
    before, began = engine.ids(inner), engine.clock.now()
    stack = engine.put(stack, wanted("large"), environment=SERVERS)
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert engine.clock.now() - began >= 60
    assert engine.ids(inner) == before
    document: Any = engine.store.templates.get(engine.get(inner).template_id).document
    assert {server["properties"]["InstanceType"] for server in document["resources"].values()} == {"large"}
    assert engine.outputs(stack) == {"all": "0.0.0.0,0.0.0.0"}
    assert outcome(engine.delete(stack)) == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("OS::Heat::InstanceGroup", {"Size": 2}),
        ("AWS::AutoScaling::AutoScalingGroup", {"MinSize": 2, "MaxSize": 4}),
    ],
)
def test_the_servers_may_be_a_template_with_required_parameters(
    engine: Engine, kind: str, sizes: dict[str, int]
) -> None:
    given = {"ImageId": "i", "InstanceType": "small", "SecurityGroups": ["a", "b"], "UserData": "u"}
    wanted = {name: {"type": "comma_delimited_list" if name == "SecurityGroups" else "string"} for name in given}
    wanted["Tags"] = {"type": "comma_delimited_list", "default": ""}
    server = template(parameters=wanted, outputs={"PublicIp": "o"}, t=thing(param("UserData")))
    group = resource(kind, AvailabilityZones=[], LaunchConfigurationName={"get_resource": "c"}, **sizes)
    document = template(c=resource("AWS::AutoScaling::LaunchConfiguration", **given), g=group)
    registry = {"resource_registry": {"AWS::EC2::Instance": "server.yaml"}}
    stack = engine.create(document, environment=registry, files={"server.yaml": json.dumps(server)})
    assert outcome(stack) == "CREATE_COMPLETE", stack.status_reason
    assert len(members(engine, stack)) == 2


@pytest.mark.slow
def test_servers_go_back_with_their_launch_configuration(engine: Engine) -> None:
    server = template(
        a={"type": "OS::Heat::TestResource", "properties": {"fail": param("InstanceType")}},
        parameters={
            "ImageId": {"type": "string"}, "InstanceType": {"type": "string"}, "Tags": {"type": "comma_delimited_list"},
        },
        outputs={"PublicIp": ""},
    )  # fmt: skip

    def wanted(fails: str) -> Any:
        config = resource("AWS::AutoScaling::LaunchConfiguration", ImageId="i", InstanceType=fails)
        properties = {"AvailabilityZones": [], "Size": 2, "LaunchConfigurationName": {"get_resource": "c"}}
        keys = {"update_policy": {"RollingUpdate": {}}}
        return template(g=resource("OS::Heat::InstanceGroup", keys=keys, **properties), c=config)

    given: Any = {
        "environment": {"resource_registry": {"AWS::EC2::Instance": "server.yaml"}},
        "files": {"server.yaml": json.dumps(server)},
        "disable_rollback": False,
    }
    stack = engine.create(wanted("false"), **given)
    assert outcome(stack) == "CREATE_COMPLETE"
    stack = engine.put(stack, wanted("true"), **given)
    assert outcome(stack) == "ROLLBACK_COMPLETE"
    document: Any = engine.store.templates.get(nested(engine, stack).template_id).document
    assert [made["properties"]["InstanceType"] for made in document["resources"].values()] == ["false", "false"]
