"""Groups of servers from launch configurations."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from heatlite.core.errors import EntityNotFound
from heatlite.features.rare_types.aws.groups import CfnAutoScalingGroup, InstanceGroup, LaunchConfiguration
from heatlite.plugin import NoActionNeeded
from tests.tables import table
from tests.types.heat.test_scaling_groups import asked, signal
from tests.types.nested_stack import Group

Build = Callable[..., Any]

CONFIG = {"ImageId": "i", "InstanceType": "t"}
ZONES: dict[str, Any] = {"AvailabilityZones": []}


def of_servers(build: Build, cls: type[Any]) -> Group:
    found = {
        "lc": SimpleNamespace(facts=SimpleNamespace(properties=CONFIG), metadata={"m": 1}),
        "lc2": SimpleNamespace(facts=SimpleNamespace(properties={**CONFIG, "KeyName": "k"}), metadata={}),
    }
    return Group(build, cls, sibling=found.get)


def named(name: str) -> dict[str, str]:
    return {"Key": f"metering.{name}", "Value": "s-a-abcdefghijkl"}


def test_servers_are_as_the_launch_configuration_says(build: Build) -> None:
    group = of_servers(build, InstanceGroup)
    tags = [{"Key": "a", "Value": "b"}]
    (members,) = group.become(**ZONES, LaunchConfigurationName="lc", Size=2, Tags=tags)
    server = {
        "type": "AWS::EC2::Instance",
        "properties": {**CONFIG, "Tags": [*tags, named("groupname")]},
        "metadata": {"m": 1},
    }
    assert list(members.values()) == [server, server]
    group.become(**ZONES, LaunchConfigurationName="lc", Size=1, Tags=tags)
    assert len(group.names) == 1
    assert group.now().attribute("InstanceList") == "0.0.0.0"
    with pytest.raises(NoActionNeeded):
        signal(group, asked("change_in_capacity", 1))


def test_a_tag_for_metering_takes_the_place_of_the_groups_name(build: Build) -> None:
    own = [{"Key": "metering.groupname", "Value": "web"}]
    group = of_servers(build, InstanceGroup)
    (members,) = group.become(**ZONES, LaunchConfigurationName="lc", Size=1, Tags=own)
    assert [server["properties"]["Tags"] for server in members.values()] == [own]
    group = of_servers(build, CfnAutoScalingGroup)
    (members,) = group.become(**ZONES, LaunchConfigurationName="lc", MinSize=1, MaxSize=1, Tags=own)
    assert [server["properties"]["Tags"] for server in members.values()] == [[*own, named("AutoScalingGroupName")]]


def test_servers_of_an_autoscaling_group(build: Build, clock: Any) -> None:
    group = of_servers(build, CfnAutoScalingGroup)
    sizes = {"MinSize": 1, "MaxSize": 3, "Cooldown": 5}
    group.become(**ZONES, **sizes, LaunchConfigurationName="lc2", VPCZoneIdentifier=["net"])
    assert group.nested is not None
    (server,) = group.nested.definitions.values()
    tags = [named("groupname"), named("AutoScalingGroupName")]
    assert server["properties"] == {**CONFIG, "KeyName": "k", "SubnetId": "net", "Tags": tags}
    clock.time += 5
    assert signal(group, asked("change_in_capacity", 5)) == 3
    assert group.now().attribute("InstanceList") == "0.0.0.0,0.0.0.0,0.0.0.0"


@pytest.mark.parametrize(
    ("cls", "sizes", "policy"),
    [
        (InstanceGroup, {"Size": 2}, "RollingUpdate"),
        (CfnAutoScalingGroup, {"MinSize": 2, "MaxSize": 9}, "AutoScalingRollingUpdate"),
    ],
)
def test_another_launch_configuration_rolls_where_the_policy_says_so(
    build: Build, cls: type[Any], sizes: dict[str, int], policy: str
) -> None:
    group = of_servers(build, cls)
    group.become(**ZONES, **sizes, LaunchConfigurationName="lc")
    (members,) = group.become(**ZONES, **sizes, LaunchConfigurationName="lc2")
    assert all("KeyName" not in server["properties"] for server in members.values())
    group.policy = {policy: {"PauseTime": "PT1M"}}
    assert len(group.become(**ZONES, **sizes, LaunchConfigurationName="lc2")) == 1
    rounds = group.become(**ZONES, **sizes, LaunchConfigurationName="lc")
    group.become(**ZONES, **sizes, LaunchConfigurationName="lc2")
    assert len(rounds) == 2
    assert group.nested is not None
    assert group.nested.pauses == [0, 60]
    assert all("KeyName" in server["properties"] for server in group.nested.definitions.values())


def test_servers_whose_rolling_update_failed_are_changed_by_the_next(build: Build) -> None:
    group = of_servers(build, InstanceGroup)
    group.policy = {"RollingUpdate": {}}
    group.become(**ZONES, Size=2, LaunchConfigurationName="lc")
    properties = group.properties = {**ZONES, "Size": 2, "LaunchConfigurationName": "lc2"}
    # The first round was begun, and the row has the new properties; the round failed.
    resource = group.now()
    resource.facts.before = {**properties, "LaunchConfigurationName": "lc"}
    resource.child(0)
    group.data = dict(resource.data)
    assert len(group.become(**properties)) == 2
    assert group.nested is not None
    assert all("KeyName" in server["properties"] for server in group.nested.definitions.values())
    assert len(group.become(**properties)) == 1


def test_a_launch_configuration_that_is_not_there(build: Build) -> None:
    with pytest.raises(EntityNotFound, match=r"The Launch Configuration \(zz\) could not be found"):
        of_servers(build, InstanceGroup).become(**ZONES, LaunchConfigurationName="zz", Size=1)


@table(
    ("properties", "text"),
    [
        ({"MinSize": 2, "MaxSize": 1}, "MinSize can not be greater than MaxSize"),
        ({"MinSize": -1, "MaxSize": 1}, "The size of AutoScalingGroup can not be less than zero"),
        ({"MinSize": 1, "MaxSize": 2, "DesiredCapacity": 3}, "DesiredCapacity must be between MinSize and MaxSize"),
        (
            {"MinSize": 1, "MaxSize": 2, "VPCZoneIdentifier": ["a", "b"]},
            "Anything other than one VPCZoneIdentifier is not supported.",
        ),
        (
            {"MinSize": 1, "MaxSize": 2, "LaunchConfigurationName": None},
            "Either 'InstanceId' or 'LaunchConfigurationName' must be provided.",
        ),
        (
            {"MinSize": 1, "MaxSize": 2, "InstanceId": "i"},
            "Either 'InstanceId' or 'LaunchConfigurationName' must be provided.",
        ),
    ],
)
def test_faults_of_an_autoscaling_group(properties: dict[str, Any], text: str) -> None:
    given = {**ZONES, "LaunchConfigurationName": "lc", **properties}
    assert CfnAutoScalingGroup.schema.check(given)[0].text == text


@pytest.mark.parametrize(
    ("pause", "text"),
    [
        ("PT1H1S", "Maximum PauseTime is 1 hour."),
        ("1h", "Only ISO 8601 duration format of the form PT#H#M#S is supported."),
    ],
)
def test_faults_of_an_update_policy(pause: str, text: str) -> None:
    for cls, name in ((InstanceGroup, "RollingUpdate"), (CfnAutoScalingGroup, "AutoScalingRollingUpdate")):
        assert [fault.text for fault in cls.check_update_policy({name: {"PauseTime": pause}})] == [text]
        assert cls.check_update_policy({name: {"PauseTime": "PT1H"}}) == []


def test_a_group_of_servers_has_no_negative_size() -> None:
    faults = InstanceGroup.schema.check({**ZONES, "LaunchConfigurationName": "lc", "Size": -1})
    assert [fault.text for fault in faults] == ["The size of InstanceGroup can not be less than zero"]


def test_a_launch_configuration_needs_an_image_and_a_flavor() -> None:
    (fault,) = LaunchConfiguration.schema.check({"ImageId": "i"})
    assert fault.text == "If without InstanceId, ImageId and InstanceType are required."
