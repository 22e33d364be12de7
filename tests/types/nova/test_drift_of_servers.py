"""Drift of what is attached to a server is seen, and put back in place."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest

from heatlite.core.json import JsonMap
from heatlite.features.drift.store.store import DriftStore
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource
from tests.tables import sampled
from tests.types.conftest import Cloudy

SERVER: Final = {"flavor": "m1.small", "image": "cirros"}
BASICS: Final = {
    "net": resource("OS::Neutron::Net", name="lan"),
    "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.7.0.0/24"),
}
OWN_PORT: Final = [{"network": ref("net")}]


def server(**given: Any) -> JsonMap:
    return {**BASICS, "vm": resource("OS::Nova::Server", depends_on="sub", **{**SERVER, **given})}


class Site:
    """A server of a stack, and changes of it from outside."""

    def __init__(self, cloudy: Cloudy, stack: StackRecord) -> None:
        self.key = {row.name: row.physical_id for row in cloudy.rows(stack)}
        self._call = cloudy.view().call
        self.cloudy = cloudy

    def ports(self, name: str = "vm") -> list[str]:
        found: Any = self._call("compute.server_interfaces", self.key[name])
        return [one["port_id"] for one in found]

    def do(self, verb: str, *arguments: Any, **attributes: Any) -> Any:
        found = self._call(verb, *arguments, **attributes)
        self.cloudy.clock.pass_(60)
        return found

    def detach(self) -> None:
        self.do("compute.delete_server_interface", self.ports()[0], self.key["vm"])

    def delete_port(self) -> None:
        self.do("network.delete_port", self.ports()[0])

    def attach(self) -> None:
        self.do("compute.create_server_interface", self.key["vm"], net_id=self.key["net"])

    def readdress(self) -> None:
        place = {"subnet_id": self.key["sub"], "ip_address": "10.7.0.77"}
        self.do("network.update_port", self.ports()[0], fixed_ips=[place])

    def dissociate(self) -> None:
        self.do("network.update_ip", self.key["ip"], port_id=None)

    def change_groups(self) -> None:
        other = self.do("network.create_security_group", name="other")
        self.do("network.update_port", self.ports()[0], security_groups=[other["id"]])

    def add_group(self) -> None:
        other = self.do("network.create_security_group", name="other")
        self.do("network.update_port", self.ports()[0], security_groups=[self.key["sg"], other["id"]])

    def detach_volume(self) -> None:
        self.do("compute.delete_volume_attachment", self.key["vm"], self.key["vol"])


    def change_port(self, **attributes: Any) -> None:
        self.do("network.update_port", self.ports()[0], **attributes)


EXTRA: Final[Mapping[str, tuple[JsonMap, JsonMap]]] = {
    "admin_state_up": ({}, {"admin_state_up": False}),
    "allowed_address_pairs": ({"allowed_address_pairs": [{"ip_address": "10.7.0.50"}]}, {"allowed_address_pairs": []}),
    "vnic_type": ({"binding:vnic_type": "direct"}, {"binding:vnic_type": "normal"}),
    "no_fixed_ips": ({"no_fixed_ips": True}, {"fixed_ips": [{"ip_address": "10.7.0.60"}]}),
    "port_security_enabled": ({"port_security_enabled": False}, {"port_security_enabled": True}),
    "propagate_uplink_status": ({"propagate_uplink_status": True}, {"propagate_uplink_status": False}),
    "qos_policy": ({"qos_policy": ref("qos")}, {"qos_policy_id": None}),
    "value_specs": ({"value_specs": {"description": "mine"}}, {"description": "theirs"}),
}
"""Properties of a port that a server makes for itself, and attributes that differ from them."""

POLICY: Final = {"qos": resource("OS::Neutron::QoSPolicy")}
GROUP: Final = {"sg": resource("OS::Neutron::SecurityGroup", rules=[])}
CASES: Final[Mapping[str, tuple[JsonMap, Callable[[Site], None], list[str]]]] = {
    "own port detached": (server(networks=OWN_PORT), Site.detach, ["/networks/0"]),
    "own port deleted": (server(networks=OWN_PORT), Site.delete_port, ["/networks/0"]),
    "given port detached": (
        {**server(networks=[{"port": ref("p")}]), "p": resource("OS::Neutron::Port", network=ref("net"))},
        Site.detach, ["/networks/0"],
    ),
    "one more port": (server(networks=OWN_PORT), Site.attach, ["/networks/-"]),
    "another address": (
        server(networks=[{"network": ref("net"), "fixed_ip": "10.7.0.9"}]), Site.readdress, ["/networks/0"],
    ),
    "floating IP elsewhere": (
        {
            **server(networks=[{"network": ref("net"), "floating_ip": ref("ip")}]),
            "ip": resource("OS::Neutron::FloatingIP", floating_network="public", depends_on="in"),
            "router": resource("OS::Neutron::Router", external_gateway_info={"network": "public"}),
            "in": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("sub")),
        },
        Site.dissociate, ["/networks/0"],
    ),
    "other groups": (
        {**server(networks=OWN_PORT, security_groups=[ref("sg")]), **GROUP}, Site.change_groups, ["/security_groups/0"],
    ),
    "one more group": (
        {**server(networks=OWN_PORT, security_groups=[ref("sg")]), **GROUP}, Site.add_group, ["/security_groups/-"],
    ),
    "groups of a port of the service": (
        {**server(security_groups=[ref("sg")]), **GROUP}, Site.add_group, ["/security_groups/-"],
    ),
    "volume detached": (
        {
            **server(networks=OWN_PORT, block_device_mapping_v2=[{"volume_id": ref("vol"), "boot_index": -1}]),
            "vol": resource("OS::Cinder::Volume", size=1),
        },
        Site.detach_volume, ["/block_device_mapping_v2/0"],
    ),
    **{
        f"{name} of an own port": (
            {**server(networks=[{**OWN_PORT[0], "port_extra_properties": given}]), **POLICY},
            partial(Site.change_port, **attributes), ["/networks/0"],
        )
        for name, (given, attributes) in EXTRA.items()
    },
}  # fmt: skip
"""A template, a change from outside, and the places that differ."""


def places(cloudy: Cloudy, stack: StackRecord, name: str = "vm") -> list[str]:
    row = cloudy.row(stack, name)
    record = cloudy.store.of(DriftStore).of([row.id]).get(row.id)
    return [] if record is None else [one.path for one in record.differences or ()]


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(CASES, 4))
def test_drift_of_a_server_is_put_back_in_place(cloudy: Cloudy, case: str) -> None:
    document, change, differs = CASES[case]
    stack = cloudy.check(cloudy.made(document))
    assert places(cloudy, stack) == []
    change(Site(cloudy, stack))
    census, ids = cloudy.census(), cloudy.ids(stack)
    stack = cloudy.check(stack)
    assert (stack.status, places(cloudy, stack)) == ("COMPLETE", differs)
    cloudy.components.repairs.revert(cloudy.who, cloudy.get(stack), ["vm"], None, {})
    stack = cloudy.settle(cloudy.get(stack))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.ids(stack) == ids
    stack = cloudy.check(stack)
    assert places(cloudy, stack) == []
    ports = {"own port deleted": 1, "one more port": -1}.get(case, 0)
    assert cloudy.census() == {**census, "network.port": census.get("network.port", 0) + ports}


WELL: Final[Mapping[str, JsonMap]] = {
    "none": server(networks=[{"allocate_network": "none"}]),
    "auto": server(networks=[{"allocate_network": "auto"}]),
    "all kinds": server(
        networks=[{"subnet": ref("sub")}, {"network": ref("net"), "fixed_ip": "10.7.0.33"}, {"network": ref("net")}],
        security_groups=["default"],
    ),
    "an unprotected port": server(
        networks=[{"network": ref("net"), "port_extra_properties": {"port_security_enabled": False}}],
    ),
    "a disk of an image": server(
        image=None, block_device_mapping_v2=[{"image": "cirros", "volume_size": 1, "boot_index": 0}],
    ),
}  # fmt: skip
"""Servers that are as they are said to be."""


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(WELL, 3))
def test_a_new_and_a_replaced_server_are_as_stored(cloudy: Cloudy, case: str) -> None:
    stack = cloudy.check(cloudy.made(WELL[case]))
    assert places(cloudy, stack) == []
    cloudy.mark(stack, "vm")
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert places(cloudy, cloudy.check(stack)) == []


@pytest.mark.slow
def test_a_port_of_another_resource_is_no_drift(cloudy: Cloudy) -> None:
    """As the rules of another resource are none of a security group."""
    more = {"p": resource("OS::Neutron::Port", network=ref("net"))}
    stack = cloudy.made({**server(networks=OWN_PORT), **more})
    key = {row.name: row.physical_id for row in cloudy.rows(stack)}
    cloudy.view().call("compute.create_server_interface", key["vm"], port_id=key["p"])
    cloudy.clock.pass_(60)
    assert places(cloudy, cloudy.check(stack)) == []


@pytest.mark.slow
def test_another_definition_still_makes_a_new_server(cloudy: Cloudy) -> None:
    groups = {name: resource("OS::Neutron::SecurityGroup", rules=[]) for name in ("sg", "other")}
    stack = cloudy.made({**server(networks=OWN_PORT, security_groups=[ref("sg")]), **groups})
    before = cloudy.ids(stack)["vm"]
    document = {**server(networks=OWN_PORT, security_groups=[ref("other")]), **groups}
    stack = cloudy.changed(stack, document, converge=True)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.ids(stack)["vm"] != before
