"""Marked resources of every type are replaced by the next update, with dependents."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import StackValidationFailed
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.plugin import StackResource
from tests.engine.conftest import place, ref, resource, template  # noqa: F401 - `place` is a fixture
from tests.resource_types import ALL_TYPES, gone
from tests.tables import few, sampled, table
from tests.types.conftest import Cloudy
from tests.types.marking import RECORDED, TYPES, read, templates, types_of
from tests.types.neutron.test_neutron_types import CONNECTED, SUBNET
from tests.types.octavia.test_octavia_types import BASE, TREE
from tests.types.standing import Stands, standing, stands  # noqa: F401 - fixtures

TEMPLATES = templates()
RESOURCES = [(file, name) for file in TEMPLATES for name in read(file)["resources"]]
FIRST = {read(file)["resources"][name]["type"]: (file, name) for file, name in reversed(RESOURCES)}
"""Type → the first resource of it."""
PLACE = {Path(file).stem: file for file in TEMPLATES}
"""Example → its file."""
OF_EXAMPLES = {
    "neutron": ("fixed", "inner", "subnet", "plain", "parent", "shared", "by_port"),
    "compute": ("net", "subnet", "port", "from_disk", "disk", "more"),
    "addresses": ("port", "second", "third", "subnet", "router"),
}
"""Ports with fixed and floating addresses, their subnets and networks, trunk parents, boot volumes, attached ones."""
MARKED = sorted(
    {
        *FIRST.values(),
        *((file, name) for file, name in RESOURCES if file.startswith("templates/")),
        *((PLACE[file], name) for file, names in OF_EXAMPLES.items() if file in PLACE for name in names),
    }
)
"""One resource of each type, all of the documentation, and what others hold."""

ELSEWHERE = {"AWS::CloudFormation::Stack", "OS::Heat::SwiftSignal", "OS::Heat::SwiftSignalHandle"}
"""Types that need files, or objects of others: their marks are tried with their other tests."""


@table("name", sorted(ALL_TYPES.keys() - gone() - ELSEWHERE))
def test_every_type_has_an_example(name: str) -> None:
    recorded = {case.partition(" ")[0] for content in RECORDED.values() for case in content["cases"]}
    assert name in recorded or any(name in types_of(file) for file in TEMPLATES), (
        f"No example of {name}: add a resource of this type, and what it needs, to a template in tests/types/examples,"
        " so that what becomes of one that is marked unhealthy is tried. If the simulated cloud has no such service,"
        " add what it asks of the real one to a file of tests/types/recorded."
    )


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), sampled(MARKED, 11))
def test_what_is_marked_is_replaced(stands: Stands, file: str, name: str) -> None:  # noqa: F811
    with stands(file) as one:
        one.marks.replaced(name)


PAIRS = [
    ("addresses", "port", "second"), ("addresses", "subnet", "third"), ("addresses", "router", "associated"),
    ("site", "net", "subnet"), ("site", "subnet", "port"), ("site", "port", "web"), ("site", "address", "leads"),
    ("site", "router", "leads"), ("site", "disk", "database"), ("site", "parent", "trunk"), ("site", "lb", "pool"),
    ("site", "subnet", "workers"), ("neutron", "fixed", "leads"), ("neutron", "subnet", "trunk"),
    ("neutron", "scope", "prefixes"), ("neutron", "way_out", "interface"), ("neutron", "parent", "sub"),
    ("balancing", "listener", "pool"), ("balancing", "subnet", "lb"), ("balancing", "spare", "policy"),
    ("balancing", "member", "monitor"), ("identity", "domain", "user"),
    ("identity", "region", "endpoint"), ("ec2", "subnet", "nic"),
    ("compute", "flavor", "server"), ("storage", "kind", "volume"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "first", "second"), sampled([pair for pair in PAIRS if pair[0] in PLACE], 8, pytest.mark.thorough)
)
def test_two_that_are_marked_are_replaced(stands: Stands, file: str, first: str, second: str) -> None:  # noqa: F811
    with stands(PLACE[file]) as one:
        one.marks.replaced(first, second)


NESTED = [
    (file, name)
    for file, name in RESOURCES
    if issubclass(TYPES.get(read(file)["resources"][name]["type"]), StackResource)
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), sampled(NESTED, 4, pytest.mark.thorough))
def test_a_member_that_is_marked_is_replaced(stands: Stands, file: str, name: str) -> None:  # noqa: F811
    """By an update of the stack that it is nested in."""
    with stands(file) as one:
        cloudy = one.cloudy
        (nested,) = [
            found
            for found in cloudy.store.stacks.descendants(cloudy.get(one.marks.stack))
            if found.parent_resource == name
        ]
        for member in [row.name for row in cloudy.rows(nested)]:
            one.marks.replaced(member, stack=nested)


# -- what cannot be replaced alone -----------------------------------------------------------------


def interface() -> Any:
    """A router that is connected by a port of its own."""
    port = resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("subnet")}])
    joined = resource("OS::Neutron::RouterInterface", router=ref("router"), port=ref("port"))
    return {**SUBNET, "router": resource("OS::Neutron::Router"), "port": port, "interface": joined}


def machine() -> Any:
    """A server that takes its volume with it when it goes."""
    mapping = [{"volume_id": ref("disk"), "boot_index": 0, "delete_on_termination": True}]
    return {
        "disk": resource("OS::Cinder::Volume", size=1, image="cirros"),
        "vm": resource(
            "OS::Nova::Server",
            flavor="m1.nano",
            networks=[{"allocate_network": "none"}],
            block_device_mapping_v2=mapping,
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("resources", "marked", "why", "other"),
    few(
        [
            (interface(), "router", "port goes with it, and stays in the stack", "port"),
            (interface(), "subnet", "port cannot leave it for another", "port"),
            (machine(), "vm", "disk goes with it, and stays in the stack", "disk"),
        ]
    ),
)
def test_what_cannot_be_replaced_alone_is_told_before_anything_is_touched(
    cloudy: Cloudy, resources: Any, marked: str, why: str, other: str
) -> None:
    stack = cloudy.made(resources)
    before, full = cloudy.rows(stack), cloudy.census()
    cloudy.mark(stack, marked)
    with pytest.raises(StackValidationFailed, match=f"cannot be replaced: {why}.*Mark {other} unhealthy as well"):
        cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), StackRequest(), existing=True, plan=True)
    with pytest.raises(StackValidationFailed, match=f"Mark {other} unhealthy as well"):
        cloudy.patch(stack)
    assert [row.physical_id for row in cloudy.rows(stack)] == [row.physical_id for row in before]
    cloudy.mark(stack, other)
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    old = {row.name: row.physical_id for row in before}
    assert not {row.physical_id for row in cloudy.rows(stack)} & {old[marked], old[other]}
    assert cloudy.census() == full
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)


def test_where_a_change_leads_there_the_update_touches_nothing_either(cloudy: Cloudy) -> None:
    stack = cloudy.made(machine())
    changed = machine()
    changed["vm"]["properties"]["key_name"] = None
    changed["vm"]["properties"]["availability_zone"] = "nova"
    before = {row.name: row.physical_id for row in cloudy.rows(stack)}
    stack = cloudy.put(stack, template(**changed, more=resource("OS::Heat::RandomString")))
    assert (stack.status, "Mark disk unhealthy as well" in stack.status_reason) == ("FAILED", True)
    assert {row.name: row.physical_id for row in cloudy.rows(stack)} == before


# -- what fails on the way --------------------------------------------------------------------------


def led_to() -> Any:
    """A port with a fixed address, and a floating IP that leads to it."""
    leads = {"floatingip_id": ref("address"), "port_id": ref("port")}
    return {
        **CONNECTED,
        "port": resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"ip_address": "10.0.0.9"}]),
        "address": resource("OS::Neutron::FloatingIP", floating_network="public"),
        "leads": resource("OS::Neutron::FloatingIPAssociation", depends_on="interface", **leads),
    }


@pytest.mark.slow
@pytest.mark.parametrize("rolls_back", few([False, True]))
def test_a_floating_ip_leads_to_the_port_again_if_a_new_one_was_not_made(troubled: Any, rolls_back: bool) -> None:
    cloudy = troubled(faults=[{"verb": "network.create_port", "number": 2, "raises": "refused"}])
    stack = cloudy.made(led_to())
    full = cloudy.census()
    cloudy.mark(stack, "port")
    stack = cloudy.patch(stack, disable_rollback=not rolls_back)
    if rolls_back:
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", cloudy.why(stack)
    else:
        assert cloudy.thing(stack, "address")["port_id"] is None
        stack = cloudy.patch(stack)
        assert stack.status == "COMPLETE", cloudy.why(stack)
    port = cloudy.thing(stack, "port")
    assert [one["ip_address"] for one in port["fixed_ips"]] == ["10.0.0.9"]
    assert cloudy.thing(stack, "address")["port_id"] == port["id"]
    assert cloudy.census() == full
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["create_load_balancer", "create_pool", "create_member", "delete_listener"])
def test_a_balancer_that_was_half_made_anew_is_made_by_the_next_update(troubled: Any, verb: str) -> None:
    number = 1 if verb.startswith("delete") else 2
    cloudy = troubled(faults=[{"verb": f"load_balancer.{verb}", "number": number, "raises": "refused"}])
    _is_replaced_by_the_second_update(cloudy, BASE | TREE, "subnet")


def _is_replaced_by_the_second_update(cloudy: Cloudy, resources: Any, name: str) -> None:
    stack = cloudy.made(resources)
    full = cloudy.census()
    cloudy.mark(stack, name)
    assert cloudy.patch(stack).status == "FAILED"
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.census() == full
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)


@pytest.mark.slow
def test_a_volume_type_has_its_name_again_after_a_rollback(troubled: Any) -> None:
    cloudy = troubled(faults=[{"verb": "block_storage.retype_volume", "number": 1, "raises": "refused"}])
    kind = resource("OS::Cinder::VolumeType", name="x")
    stack = cloudy.made({"kind": kind, "volume": resource("OS::Cinder::Volume", size=1, volume_type=ref("kind"))})
    full = cloudy.census()
    cloudy.mark(stack, "kind")
    stack = cloudy.patch(stack, disable_rollback=False)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", cloudy.why(stack)
    assert cloudy.thing(stack, "kind")["name"] == "x"
    assert cloudy.thing(stack, "volume")["volume_type"] == "x"
    assert cloudy.census() == full


# -- replacements that were refused once -----------------------------------------------------------

CONNECTED_SERVER = resource("OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[{"network": ref("net")}])
ATTACHMENT = resource("OS::Cinder::VolumeAttachment", instance_uuid=ref("vm"), volume_id=ref("disk"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "resources"),
    [
        ("compute.delete_keypair", {"it": resource("OS::Nova::KeyPair", name="k")}),
        ("block_storage.update_type", {"it": resource("OS::Cinder::VolumeType", name="t")}),
        ("compute.delete_server_interface", {**SUBNET, "it": CONNECTED_SERVER}),
        (
            "compute.delete_volume_attachment",
            {
                **SUBNET, "vm": CONNECTED_SERVER, "disk": resource("OS::Cinder::Volume", size=1), "it": ATTACHMENT,
            },
        ),
    ],
)  # fmt: skip
def test_what_the_next_update_takes_over_is_that_of_the_last_object(
    troubled: Callable[..., Cloudy], verb: str, resources: Any
) -> None:
    """A replacement that was refused has made no object in between."""
    cloudy = troubled(faults=[{"verb": verb, "number": 1, "raises": "refused"}])
    _is_replaced_by_the_second_update(cloudy, resources, "it")
