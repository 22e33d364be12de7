"""Groups of servers behind a load balancer of AWS."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from heatlite.core.json import Json, JsonMap
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource
from tests.types.conftest import Cloudy

NETWORK = {
    "vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
    "subnet": resource("AWS::EC2::Subnet", VpcId=ref("vpc"), CidrBlock="10.0.1.0/24"),
}
LISTENERS = [
    {"LoadBalancerPort": "80", "InstancePort": "8080", "Protocol": "HTTP"},
    {"LoadBalancerPort": "25", "InstancePort": "2525", "Protocol": "TCP"},
]


def balancer(**more: object) -> Any:
    return resource(
        "AWS::ElasticLoadBalancing::LoadBalancer",
        AvailabilityZones=["nova"], Subnets=[ref("subnet")], Listeners=LISTENERS, **more,
    )  # fmt: skip


def group(size: int) -> Any:
    return resource(
        "AWS::AutoScaling::AutoScalingGroup",
        AvailabilityZones=["nova"], LaunchConfigurationName=ref("launch"), MinSize=0, MaxSize=5, DesiredCapacity=size,
        VPCZoneIdentifier=[ref("subnet")], LoadBalancerNames=[ref("balancer")],
    )  # fmt: skip


def resources(size: int, **more: object) -> dict[str, Any]:
    return {
        **NETWORK,
        "balancer": balancer(),
        "launch": resource("AWS::AutoScaling::LaunchConfiguration", ImageId="cirros", InstanceType="m1.nano"),
        "group": group(size),
        "more": resource(
            "AWS::AutoScaling::ScalingPolicy",
            AdjustmentType="ChangeInCapacity", AutoScalingGroupName=ref("group"), ScalingAdjustment=1,
        ),
        **more,
    }  # fmt: skip


def servers(cloudy: Cloudy) -> set[str]:
    """Addresses of the servers."""
    ports = cast(list[JsonMap], cloudy.admin.call("network.ports"))
    owned = [port for port in ports if str(port["device_owner"]).startswith("compute:")]
    return {str(cast(list[JsonMap], port["fixed_ips"])[0]["ip_address"]) for port in owned}


def members(cloudy: Cloudy, stack: StackRecord) -> set[tuple[Json, Json]]:
    """Addresses and ports of the pools' members."""
    found = cloudy.admin.simulation.all("load_balancer.member").values()
    pools = cloudy.admin.simulation.all("load_balancer.pool")
    balancer = cloudy.row(stack, "balancer").physical_id
    assert {pools[str(one["pool_id"])]["_balancer"] for one in found} <= {balancer}
    return {(one["address"], one["protocol_port"]) for one in found}


def balanced(cloudy: Cloudy, stack: StackRecord, size: int) -> None:
    """Assert that exactly the servers are members."""
    addresses = servers(cloudy)
    assert len(addresses) == size
    assert members(cloudy, stack) == {(one, port) for one in addresses for port in (8080, 2525)}


@pytest.mark.slow
def test_its_servers_are_the_members(cloudy: Cloudy) -> None:
    before = cloudy.census()
    stack = cloudy.made(resources(2))
    balanced(cloudy, stack, 2)
    stack = cloudy.changed(stack, resources(1))
    balanced(cloudy, stack, 1)
    cloudy.components.signals.signal(cloudy.who, stack, cloudy.row(stack, "more"), None)
    cloudy.wait_for(lambda: len(members(cloudy, stack)) == 4)
    stack = cloudy.settle(stack)
    (nested,) = cloudy.store.stacks.descendants(stack)
    assert cloudy.settle(nested).status == "COMPLETE"
    balanced(cloudy, stack, 2)
    cloudy.delete(stack)
    assert cloudy.census() == before


@pytest.mark.slow
def test_a_new_load_balancer_gets_them(cloudy: Cloudy) -> None:
    stack = cloudy.made(resources(2))
    old = cloudy.row(stack, "balancer").physical_id
    cloudy.mark(stack, "balancer")
    stack = cloudy.changed(stack, resources(2))
    assert cloudy.row(stack, "balancer").physical_id != old
    balanced(cloudy, stack, 2)


@pytest.mark.slow
def test_instances_of_its_own(cloudy: Cloudy) -> None:
    machine = resource("AWS::EC2::Instance", ImageId="cirros", InstanceType="m1.nano", SubnetId=ref("subnet"))
    own = {"machine": machine, "other": machine}
    stack = cloudy.made(resources(0, **own, balancer=balancer(Instances=[ref("machine")])))
    assert len(members(cloudy, stack)) == 2
    stack = cloudy.changed(stack, resources(0, **own, balancer=balancer(Instances=[ref("machine"), ref("other")])))
    balanced(cloudy, stack, 2)


@pytest.mark.slow
def test_instances_of_its_own_take_no_place_of_a_group(cloudy: Cloudy) -> None:
    """Whichever instances come and go."""
    machine = resource("AWS::EC2::Instance", ImageId="cirros", InstanceType="m1.nano", SubnetId=ref("subnet"))
    own = {"machine": machine, "other": machine}
    stack = cloudy.made(resources(1, **own, balancer=balancer(Instances=[ref("machine"), ref("other")])))
    balanced(cloudy, stack, 3)
    stack = cloudy.changed(stack, resources(1, machine=machine, balancer=balancer(Instances=[ref("machine")])))
    balanced(cloudy, stack, 2)
    stack = cloudy.changed(stack, resources(1))
    balanced(cloudy, stack, 1)
    assert cloudy.check(stack).status == "COMPLETE"


@pytest.mark.slow
def test_it_has_been_suspended_and_resumed_when_its_service_is_done(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=5)
    stack = cloudy.made({**NETWORK, "balancer": balancer()})
    for act, is_up in ((cloudy.suspend, False), (cloudy.resume, True)):
        stack = act(stack)
        assert stack.status == "COMPLETE", cloudy.why(stack)
        thing = cloudy.thing(stack, "balancer")
        assert (thing["admin_state_up"], thing["provisioning_status"]) == (is_up, "ACTIVE")
    assert cloudy.delete(stack).status == "COMPLETE"


@pytest.mark.slow
def test_it_follows_its_instances_to_another_subnet(cloudy: Cloudy) -> None:
    def machine(subnet: str) -> Any:
        return resource("AWS::EC2::Instance", ImageId="cirros", InstanceType="m1.nano", SubnetId=ref(subnet))

    def wanted(name: str) -> dict[str, Any]:
        second = resource("AWS::EC2::Subnet", VpcId=ref("vpc"), CidrBlock="10.0.2.0/24")
        front = resource(
            "AWS::ElasticLoadBalancing::LoadBalancer",
            AvailabilityZones=["nova"], Listeners=LISTENERS, Instances=[ref(name)],
        )  # fmt: skip
        return {**NETWORK, "second": second, "here": machine("subnet"), "there": machine("second"), "balancer": front}

    stack = cloudy.made(wanted("here"))
    stack = cloudy.changed(stack, wanted("there"))
    assert cloudy.thing(stack, "balancer")["vip_subnet_id"] == cloudy.row(stack, "second").physical_id
    assert {str(address).rpartition(".")[0] for address, _ in members(cloudy, stack)} == {"10.0.2"}
