"""AWS::EC2's networks and addresses on a simulated cloud."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.status import Status
from tests.engine.conftest import attr, ref, resource, template
from tests.types.conftest import Cloudy


def vpc(**more: Any) -> dict[str, Any]:
    """A VPC with a subnet that a route table leads to the outside."""
    return {
        "vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
        "subnet": resource("AWS::EC2::Subnet", VpcId=ref("vpc"), CidrBlock="10.0.1.0/24", AvailabilityZone="z"),
        "gateway": resource("AWS::EC2::InternetGateway"),
        "way_out": resource("AWS::EC2::VPCGatewayAttachment", VpcId=ref("vpc"), InternetGatewayId=ref("gateway")),
        "table": resource("AWS::EC2::RouteTable", VpcId=ref("vpc")),
        "joined": resource(
            "AWS::EC2::SubnetRouteTableAssociation", RouteTableId=ref("table"), SubnetId=ref("subnet")
        ),
        **more,
    }


def reached_by(cloudy: Cloudy, router: object, subnet: object) -> bool:
    ports: Any = cloudy.admin.call("network.ports", device_id=router)
    return any(one["subnet_id"] == subnet for port in ports for one in port["fixed_ips"])


def own_router(cloudy: Cloudy, name: str) -> Any:
    (found,) = [one for one in cloudy.admin.simulation.all("network.router").values() if one["name"] == name]
    return found["id"]


@pytest.mark.slow
def test_a_vpc_with_a_way_out(cloudy: Cloudy) -> None:
    before = cloudy.census()
    stack = cloudy.made(vpc())
    table, subnet = cloudy.row(stack, "table").physical_id, cloudy.row(stack, "subnet").physical_id
    assert cloudy.admin.thing("network.router", table)["external_gateway_info"]
    own = own_router(cloudy, cloudy.row(stack, "vpc").physical_name)
    assert (reached_by(cloudy, table, subnet), reached_by(cloudy, own, subnet)) == (True, False)
    assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)
    wanted = {name: one for name, one in vpc().items() if name not in ("joined", "way_out", "gateway")}
    cloudy.changed(stack, wanted)
    assert (reached_by(cloudy, table, subnet), reached_by(cloudy, own, subnet)) == (False, True)
    assert not cloudy.admin.thing("network.router", table)["external_gateway_info"]
    assert cloudy.delete(stack).status is Status.COMPLETE
    assert cloudy.census() == before


@pytest.mark.slow
def test_answers_that_are_lost_make_nothing_twice(troubled: Callable[..., Cloudy]) -> None:
    nouns = ("network", "subnet", "router", "ip", "port")
    cloudy = troubled(faults=[{"verb": f"network.create_{noun}", "number": 1, "raises": "lost"} for noun in nouns])
    more = {"nic": resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet")), "eip": resource("AWS::EC2::EIP")}
    before = cloudy.census()
    stack = cloudy.made(vpc(**more))
    counts = {noun: cloudy.count(f"network.{noun}") - before.get(f"network.{noun}", 0) for noun in nouns[:4]}
    assert counts == {"network": 1, "subnet": 1, "router": 2, "ip": 1}
    assert cloudy.delete(stack).status is Status.COMPLETE
    assert cloudy.census() == before


@pytest.mark.slow
def test_a_network_interface(cloudy: Cloudy) -> None:
    def wanted(**properties: object) -> dict[str, Any]:
        given = {"PrivateIpAddress": "10.0.1.9", "Description": "d", **properties}
        return vpc(nic=resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet"), **given))

    group: Any = cloudy.view().call("network.create_security_group", name="web")
    outputs = {"ip": attr("nic", "PrivateIpAddress"), "zone": attr("subnet", "AvailabilityZone")}
    stack = cloudy.create(template(outputs=outputs, **wanted()))
    assert cloudy.outputs(stack) == {"ip": "10.0.1.9", "zone": "z"}
    before = cloudy.row(stack, "nic").physical_id
    cloudy.changed(stack, wanted(GroupSet=["web"]))
    assert cloudy.row(stack, "nic").physical_id == before
    assert cloudy.thing(stack, "nic")["security_groups"] == [group["id"]]
    cloudy.changed(stack, wanted(Description="e", PrivateIpAddress="10.0.1.10"))
    assert cloudy.row(stack, "nic").physical_id != before


@pytest.mark.slow
def test_what_is_gone_is_seen_and_does_not_matter_to_a_delete(cloudy: Cloudy) -> None:
    more = {"nic": resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet")), "eip": resource("AWS::EC2::EIP")}
    stack = cloudy.made(vpc(**more))
    cloudy.view().call("network.delete_port", cloudy.row(stack, "nic").physical_id)
    cloudy.view().call("network.delete_ip", cloudy.row(stack, "eip").data["allocation_id"])
    states = cloudy.states(cloudy.check(stack))
    assert {name for name, state in states.items() if state != "CHECK_COMPLETE"} == {"nic", "eip"}
    assert cloudy.delete(stack).status is Status.COMPLETE


def test_a_vpc_whose_network_is_gone_leaves_no_router(cloudy: Cloudy) -> None:
    before = cloudy.census()
    stack = cloudy.made({"vpc": vpc()["vpc"]})
    cloudy.view().call("network.delete_network", cloudy.row(stack, "vpc").physical_id)
    cloudy.delete(stack)
    assert cloudy.census() == before


@pytest.mark.slow
def test_addresses(cloudy: Cloudy) -> None:
    def wanted(nic: str) -> dict[str, Any]:
        made = resource(
            "AWS::EC2::EIPAssociation", AllocationId=attr("eip", "AllocationId"), NetworkInterfaceId=ref(nic)
        )
        nics = {name: resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet")) for name in ("one", "two")}
        return vpc(eip=resource("AWS::EC2::EIP"), leads=made, **nics)

    def leads_to() -> Any:
        return cloudy.admin.thing("network.ip", cloudy.row(stack, "eip").data["allocation_id"])["port_id"]

    stack = cloudy.made(wanted("one"))
    assert str(cloudy.row(stack, "eip").physical_id).startswith("172.24.4.")
    assert leads_to() == cloudy.row(stack, "one").physical_id
    stack = cloudy.changed(stack, wanted("two"))
    assert leads_to() == cloudy.row(stack, "two").physical_id
    assert cloudy.check(stack).status is Status.COMPLETE
    cloudy.view().call("network.update_ip", cloudy.row(stack, "eip").data["allocation_id"], port_id=None)
    assert cloudy.states(cloudy.check(stack))["leads"] == "CHECK_FAILED"
    assert cloudy.delete(stack).status is Status.COMPLETE


@pytest.mark.slow
def test_an_address_takes_the_place_of_one_that_could_not_follow(troubled: Callable[..., Cloudy]) -> None:
    """A new machine has the port of the old one, to which that address leads."""
    cloudy = troubled(faults=[{"verb": "network.update_ip", "number": 2, "raises": "refused"}])
    machine = resource("OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[{"port": ref("port")}])
    stack = cloudy.made({
        "net": resource("OS::Neutron::Net"),
        "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
        "router": resource("OS::Neutron::Router", external_gateway_info={"network": "public"}),
        "interface": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
        "port": resource("OS::Neutron::Port", network=ref("net")),
        "machine": machine,
        "eip": resource("AWS::EC2::EIP", InstanceId=ref("machine")),
    })
    full = cloudy.census()
    cloudy.mark(stack, "machine")
    assert cloudy.patch(stack).status is Status.FAILED
    stack = cloudy.patch(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    address = cloudy.admin.thing("network.ip", cloudy.row(stack, "eip").data["allocation_id"])
    assert address["port_id"] == cloudy.row(stack, "port").physical_id
    assert cloudy.census() == full


def test_what_an_association_needs(cloudy: Cloudy) -> None:
    cls = cloudy.components.types.get("AWS::EC2::EIPAssociation")
    for given, text in (
        ({}, "either EIP or AllocationId"),
        ({"EIP": "1.2.3.4", "AllocationId": "a", "InstanceId": "i"}, "either EIP or AllocationId"),
        ({"EIP": "1.2.3.4", "NetworkInterfaceId": "n"}, "InstanceId must be given"),
        ({"AllocationId": "a"}, "InstanceId must be given"),
    ):
        faults = [fault.text for fault in cls.check_properties(given) if "could not be found" not in fault.text]
        assert text in faults[0]


@pytest.mark.slow
def test_what_is_made_anew_is_not_taken_away_with_the_old(cloudy: Cloudy) -> None:
    made = resource(
        "AWS::EC2::EIPAssociation", AllocationId=attr("eip", "AllocationId"), NetworkInterfaceId=ref("nic")
    )
    nic = resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet"))
    stack = cloudy.made(vpc(eip=resource("AWS::EC2::EIP"), leads=made, nic=nic))
    for name in ("leads", "joined", "way_out"):
        cloudy.mark(stack, name)
    stack = cloudy.patch(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)


def test_another_route_table(cloudy: Cloudy) -> None:
    stack = cloudy.made(vpc(other=resource("AWS::EC2::RouteTable", VpcId=ref("vpc"))))
    joined = resource("AWS::EC2::SubnetRouteTableAssociation", RouteTableId=ref("other"), SubnetId=ref("subnet"))
    stack = cloudy.changed(stack, vpc(other=resource("AWS::EC2::RouteTable", VpcId=ref("vpc")), joined=joined))
    other, subnet = cloudy.row(stack, "other").physical_id, cloudy.row(stack, "subnet").physical_id
    assert reached_by(cloudy, other, subnet)
    assert not reached_by(cloudy, cloudy.row(stack, "table").physical_id, subnet)
    assert cloudy.delete(stack).status is Status.COMPLETE, cloudy.why(stack)
