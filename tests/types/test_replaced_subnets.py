"""A subnet that is replaced while machines keep their place in its network."""

import json
from typing import Any

import pytest

from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from tests.engine.conftest import attr, param, ref, resource, template
from tests.resource_types import needs
from tests.tables import few
from tests.types.conftest import Cloudy

FIRST, SECOND = "10.40.0.0/24", "10.41.0.0/24"


def site(cidr: str, **server: Any) -> Any:
    """A server in a network, by which alone it is in the subnet."""
    return {
        "net": resource("OS::Neutron::Net"),
        "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr=cidr),
        "port": resource("OS::Neutron::Port", network=ref("net")),
        "db": resource(
            "OS::Nova::Server", image="cirros", flavor="m1.nano", networks=[{"network": ref("net")}], **server
        ),
    }


def places(cloudy: Cloudy) -> set[str]:
    """The networks of the addresses of all ports."""
    ports: Any = cloudy.admin.call("network.ports")
    assert all(port["fixed_ips"] for port in ports)
    return {one["ip_address"].rpartition(".")[0] for port in ports for one in port["fixed_ips"]}


@pytest.mark.slow
def test_its_machines_move_with_it(cloudy: Cloudy) -> None:
    stack = cloudy.made(site(FIRST))
    before = cloudy.row(stack, "db").physical_id
    request = StackRequest(template=template(**site(SECOND)))
    plan = cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), request, existing=False, plan=True).plan
    assert plan is not None
    shown = {"/".join(one.path): (one.action, one.cause, one.order) for one in plan.resources}
    assert shown["subnet"][::2] == ("replace", "delete_first")
    moved = "it is joined to subnet, of which there is another object"
    assert shown["db"][:2] == shown["port"][:2] == ("update", moved)
    stack = cloudy.changed(stack, site(SECOND))
    assert places(cloudy) == {"10.41.0"}
    assert cloudy.row(stack, "db").physical_id == before
    stack = cloudy.changed(stack, site(FIRST, name="x"))
    assert places(cloudy) == {"10.40.0"}


@pytest.mark.slow
def test_a_server_that_is_replaced_as_well_gets_a_new_address(cloudy: Cloudy) -> None:
    stack = cloudy.made(site(FIRST))
    cloudy.changed(stack, site(SECOND, user_data="x"))
    assert places(cloudy) == {"10.41.0"}


def stranger(cloudy: Cloudy, stack: Any) -> str:
    """A port in the subnet that no stack knows."""
    port: Any = cloudy.view().call("network.create_port", network_id=cloudy.row(stack, "net").physical_id, name="x")
    return str(port["id"])


@pytest.mark.slow
@pytest.mark.parametrize("rolls_back", few([False, True]))
def test_a_refused_deletion_leaves_it_to_the_earlier_template(cloudy: Cloudy, rolls_back: bool) -> None:
    stack = cloudy.made(site(FIRST))
    before = cloudy.row(stack, "subnet")
    port = stranger(cloudy, stack)
    stack = cloudy.put(stack, template(**site(SECOND)), disable_rollback=not rolls_back)
    if rolls_back:
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", cloudy.why(stack)
    else:
        assert (stack.status, port in cloudy.row(stack, "subnet").status_reason) == ("FAILED", True)
        stack = cloudy.changed(stack, site(FIRST))
    after = cloudy.row(stack, "subnet")
    assert (after.physical_id, state(after.verb, after.status)) == (before.physical_id, "UPDATE_COMPLETE")
    assert places(cloudy) == {"10.40.0"}
    assert cloudy.check(stack).status == "COMPLETE"
    since = cloudy.now_on(stack)
    cloudy.changed(stack, site(FIRST))
    assert cloudy.told(stack, since) == ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"]


ORDER = {"update_policy": {"replacement": {"order": "create_first"}}}


def planned(cloudy: Cloudy, stack: Any, resources: Any) -> list[tuple[str, str, str]]:
    """Names, actions and causes of the plan of an update.

    Without what it keeps, and does not explain.
    """
    request = StackRequest(template=template(**resources))
    plan = cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), request, existing=False, plan=True).plan
    assert plan is not None
    found = [("/".join(one.path), one.action, one.cause) for one in plan.resources]
    return [one for one in found if one[1:] != ("keep", "")]


@pytest.mark.slow
def test_the_plan_tells_what_blocks_and_what_is_taken_back(cloudy: Cloudy) -> None:
    """Laws G8 and G10, with the order that the template asks for."""
    first, second = site(FIRST), site(SECOND)
    for one in (first, second):
        one["subnet"].update(ORDER)
    stack = cloudy.made(first)
    before = cloudy.row(stack, "subnet").physical_id
    replaces = ("subnet", "replace", "a property changed that cannot be changed in place")
    joined = "it is joined to subnet, of which there is another object"
    blocks = f"{joined}, and it blocks the deletion of subnet"
    assert planned(cloudy, stack, second) == [replaces, ("port", "update", blocks), ("db", "update", blocks)]
    stack = cloudy.put(stack, template(**second))
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    (newer,) = {row.physical_id for row in cloudy.rows(stack) if row.name == "subnet"} - {before}
    back = "its deletion was refused, so it is taken back"
    assert planned(cloudy, stack, first) == [
        ("subnet", "keep", back), ("port", "update", joined), ("db", "update", joined),
        ("subnet", "delete", "left over from an earlier update"),
    ]  # fmt: skip
    stack, since = cloudy.get(stack), cloudy.clock.now()
    stack = cloudy.changed(stack, first)
    assert cloudy.clock.now() - since < 10, "it waits for no retry"
    subnets: Any = cloudy.admin.call("network.subnets")
    assert before in {one["id"] for one in subnets} and newer not in {one["id"] for one in subnets}
    assert [row.physical_id for row in cloudy.rows(stack) if row.name == "subnet"] == [before]


@pytest.mark.slow
def test_a_subnet_that_a_port_names_is_not_blocked(cloudy: Cloudy) -> None:
    first, second = site(FIRST), site(SECOND)
    for one in (first, second):
        one["subnet"].update(ORDER)
        one["port"]["properties"]["fixed_ips"] = [{"subnet": ref("subnet")}]
        del one["db"]
    stack = cloudy.made(first)
    assert [(name, action) for name, action, cause in planned(cloudy, stack, second) if "blocks" not in cause] == [
        ("subnet", "replace"), ("port", "update"),
    ]  # fmt: skip
    cloudy.changed(stack, second)
    assert places(cloudy) == {"10.41.0"}


@pytest.mark.slow
def test_what_is_left_says_who_holds_it_and_why_nothing_was_rolled_back(cloudy: Cloudy) -> None:
    """Even in the order that the template asks for, the way back stays open."""
    first, second = site(FIRST), site(SECOND)
    for one in (first, second):
        one["subnet"].update(ORDER)
        del one["port"]
    stack = cloudy.made(first)
    stack = cloudy.put(stack, template(**second), disable_rollback=False)
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    assert stack.status_reason.endswith(
        "Not rolled back: all that the template wants is made, and only old objects are left, of subnet"
    )
    old = next(row for row in cloudy.rows(stack) if row.name == "subnet")
    assert old.status_reason.endswith("belongs to db")
    stack = cloudy.changed(stack, first)
    assert cloudy.row(stack, "subnet").physical_id == old.physical_id
    assert places(cloudy) == {"10.40.0"}


LED: dict[str, dict[str, Any]] = {
    "EIPAssociation": {
        "eip": resource("AWS::EC2::EIP", Domain="vpc", depends_on="way"),
        "led": resource("AWS::EC2::EIPAssociation", AllocationId=attr("eip", "AllocationId"), InstanceId=ref("it")),
    },
    "EIP": {"led": resource("AWS::EC2::EIP", Domain="vpc", InstanceId=ref("it"), depends_on="way")},
}


@pytest.mark.slow
@needs("AWS::EC2::Instance")
@pytest.mark.parametrize("led", few(LED))
def test_a_floating_ip_that_leads_to_a_machine_does_not_hold_it(cloudy: Cloudy, led: str) -> None:
    """The machine, which is older than its way out, leaves the subnet first."""
    networks: Any = cloudy.admin.call("network.networks")
    outside = next(one["id"] for one in networks if one["router:external"])
    machine = {
        "net": resource("OS::Neutron::Net"),
        "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr=FIRST),
        "it": resource("AWS::EC2::Instance", ImageId="cirros", InstanceType="m1.nano", SubnetId=ref("subnet")),
    }
    stack = cloudy.made(machine)
    whole = {
        **machine,
        "router": resource("OS::Neutron::Router", external_gateway_info={"network": outside}),
        "way": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
        **LED[led],
    }
    stack = cloudy.changed(stack, whole)
    for name in ("subnet", "net"):
        cloudy.mark(stack, name)
        stack = cloudy.changed(stack, whole)
        addresses: Any = cloudy.admin.call("network.ips")
        port: Any = cloudy.admin.call("network.get_port", addresses[0]["port_id"])
        assert port["device_id"] == cloudy.row(stack, "it").physical_id


NET, SUBNET = resource("OS::Neutron::Net"), resource("OS::Neutron::Subnet", network=ref("net"), cidr=param("cidr"))
PORT = resource("OS::Neutron::Port", network=param("net"))
PORT_BELOW = template(parameters={"net": {"type": "string"}}, port=PORT)
BELOW: dict[str, dict[str, Any]] = {
    "port.yaml": PORT_BELOW,
    "ports.yaml": template(
        parameters={"net": {"type": "string"}},
        inner=resource("port.yaml", net=param("net")),
    ),
    "subnet.yaml": template(
        parameters={"cidr": {"type": "string"}},
        outputs={"net": ref("net")},
        net=NET,
        subnet={**SUBNET, **ORDER},
    ),
}
MEMBER = {"type": "port.yaml", "properties": {"net": ref("net")}}
GROUP = resource("OS::Heat::ResourceGroup", count=2, resource_def=MEMBER)
TREES: dict[str, tuple[dict[str, Any], str, set[str]]] = {
    "port below": ({"net": NET, "subnet": ORDER, "low": resource("port.yaml", net=ref("net"))}, "subnet", {"low/port"}),
    "port two below": (
        {"net": NET, "subnet": ORDER, "low": resource("ports.yaml", net=ref("net"))}, "subnet", {"low/inner/port"},
    ),
    "ports in a group": ({"net": NET, "subnet": ORDER, "low": GROUP}, "subnet", {"low/0/port", "low/1/port"}),
    "port above": (
        {"low": resource("subnet.yaml", cidr=FIRST), "port": resource("OS::Neutron::Port", network=attr("low", "net"))},
        "low/subnet", {"port"},
    ),
    "port in a sibling": (
        {"low": resource("subnet.yaml", cidr=FIRST), "side": resource("ports.yaml", net=attr("low", "net"))},
        "low/subnet", {"side/inner/port"},
    ),
}  # fmt: skip


def in_tree(name: str, cidr: str) -> dict[str, Any]:
    """The request of a tree whose subnet has the address range."""
    made = {key: dict(value) for key, value in TREES[name][0].items()}
    if "subnet" in made:
        made["subnet"] = {**resource("OS::Neutron::Subnet", network=ref("net"), cidr=cidr), **made["subnet"]}
    else:
        made["low"] = resource("subnet.yaml", cidr=cidr)
    return {"template": template(**made), "files": {key: json.dumps(text) for key, text in BELOW.items()}}


@pytest.mark.slow
@pytest.mark.parametrize("name", TREES)
def test_the_plan_of_a_tree_tells_what_blocks(cloudy: Cloudy, name: str) -> None:
    """Law G10, in nested stacks: the plan names what keeps the old subnet in use."""
    _, subnet, ports = TREES[name]
    stack = cloudy.create(**in_tree(name, FIRST))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    request = StackRequest(**in_tree(name, SECOND))
    plan = cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), request, existing=False, plan=True).plan
    assert plan is not None
    told = {"/".join(one.path) for one in plan.resources if f"it blocks the deletion of {subnet}" in one.cause}
    assert told == ports
    (old,) = [one for one in plan.resources if "/".join(one.path) == subnet]
    assert (old.action, old.order) == ("replace", "create_first")
    stack = cloudy.put(stack, **in_tree(name, SECOND))
    assert (stack.status, "IP allocation from this subnet" in stack.status_reason) == ("FAILED", True)


@pytest.mark.slow
@pytest.mark.parametrize("order", [{}, ORDER])
def test_a_nested_port_after_the_subnet_moves_with_it_or_blocks_it(cloudy: Cloudy, order: dict[str, Any]) -> None:
    """The plan says of it what the update does, also when nothing changes any more."""

    def site_of(cidr: str) -> dict[str, Any]:
        subnet = {**resource("OS::Neutron::Subnet", network=ref("net"), cidr=cidr), **order}
        low = resource("port.yaml", net=ref("net"), depends_on="subnet")
        return {"template": template(net=NET, subnet=subnet, low=low), "files": {"port.yaml": json.dumps(PORT_BELOW)}}

    def told(cidr: str) -> dict[str, tuple[str, str]]:
        request = StackRequest(**site_of(cidr))
        plan = cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), request, existing=False, plan=True).plan
        assert plan is not None
        return {"/".join(one.path): (one.action, one.cause) for one in plan.resources}

    stack = cloudy.create(**site_of(FIRST))
    joined = "an object that it is joined to is replaced"
    port = ("update", f"{joined}, and it blocks the deletion of subnet" if order else joined)
    assert told(SECOND)["low/port"] == port
    stack = cloudy.put(stack, **site_of(SECOND))
    assert stack.status == ("FAILED" if order else "COMPLETE"), cloudy.why(stack)
    if not order:
        assert places(cloudy) == {"10.41.0"}
        assert {action for action, _ in told(SECOND).values()} == {"keep"}
