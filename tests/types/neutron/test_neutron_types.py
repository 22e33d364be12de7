"""Network types through the engine on a simulated cloud: one life for all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import JsonMap
from heatlite.features.simulator.simulation import FAULT
from heatlite.plugin import Change, CloudResource
from heatlite.plugin.naming import is_as_requested
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource, template
from tests.resource_types import ALL_TYPES
from tests.tables import few, sampled, table
from tests.types.conftest import Cloudy

Resources = Mapping[str, Any]

NET = {"net": resource("OS::Neutron::Net")}
SUBNET = {**NET, "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24")}
PORT = {**SUBNET, "port": resource("OS::Neutron::Port", network=ref("net"))}
ROUTER = {"router": resource("OS::Neutron::Router", external_gateway_info={"network": "public"})}
CONNECTED = {
    **PORT,
    **ROUTER,
    "interface": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
}
PORTS = {**PORT, "other": resource("OS::Neutron::Port", network=ref("net"))}
POLICY = {"policy": resource("OS::Neutron::QoSPolicy")}
GROUP = {"group": resource("OS::Neutron::SecurityGroup")}


@dataclass(frozen=True)
class Case:
    """A type, and what its resource `it` goes through."""

    type: str
    properties: Resources = field(default_factory=dict)
    around: Resources = field(default_factory=dict)
    """The other resources of its stack."""
    made: JsonMap = field(default_factory=dict)
    """The object, once it is made."""
    updates: Sequence[tuple[Resources, JsonMap]] = ()
    """Changes of properties in order, and the same object after each."""
    replaced: Resources | None = None
    """Properties that need another object."""
    verb: str = ""
    """The verb that makes it, where it is not the regular one."""
    may_vanish: bool = True

    def resources(self, **properties: object) -> Resources:
        given = {name: value for name, value in {**self.properties, **properties}.items() if value is not None}
        return {**self.around, "it": resource(self.type, **given)}


def sub_port(mark: int) -> Resources:
    return {"port": ref("other"), "segmentation_type": "vlan", "segmentation_id": mark}


CASES = [
    Case(
        "OS::Neutron::Net",
        made={"admin_state_up": True, "shared": False, "status": "ACTIVE", "tenant_id": "demo"},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"admin_state_up": False}, {"admin_state_up": False}),
            ({"shared": True}, {"shared": True}),
            ({"tags": ["x", "y"]}, {"tags": ["x", "y"]}),
            ({"tags": None}, {"tags": []}),
            ({"port_security_enabled": False}, {"port_security_enabled": False}),
            ({"dns_domain": "example.org."}, {"dns_domain": "example.org."}),
            ({"qos_policy": ref("policy")}, {}),
            ({"qos_policy": None}, {"qos_policy_id": None}),
            ({"value_specs": {"mtu": 1400}}, {"mtu": 1400}),
        ],
        around=POLICY,
        replaced={"availability_zone_hints": ["nova"]},
    ),
    Case(
        "OS::Neutron::ProviderNet",
        {"network_type": "vlan", "physical_network": "physnet1", "segmentation_id": "101"},
        made={"provider:network_type": "vlan", "provider:segmentation_id": 101, "shared": True},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"router_external": True}, {"router:external": True}),
            ({"segmentation_id": "102"}, {"provider:segmentation_id": 102}),
            ({"network_type": "vxlan", "physical_network": None}, {"provider:network_type": "vxlan"}),
            ({"shared": False}, {"shared": False}),
        ],
        replaced={"tenant_id": "other", "segmentation_id": "103"},
        verb="network.create_network",
    ),
    Case(
        "OS::Neutron::Subnet",
        {"network_id": ref("net"), "cidr": "10.0.1.0/24"},
        NET,
        made={"gateway_ip": "10.0.1.1", "allocation_pools": [{"start": "10.0.1.2", "end": "10.0.1.254"}]},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"dns_nameservers": ["8.8.8.8"]}, {"dns_nameservers": ["8.8.8.8"]}),
            (
                {"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.1.9"}]},
                {"host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.0.1.9"}]},
            ),
            ({"host_routes": None}, {"host_routes": []}),
            ({"enable_dhcp": False}, {"enable_dhcp": False}),
            (
                {"allocation_pools": [{"start": "10.0.1.10", "end": "10.0.1.20"}]},
                {"allocation_pools": [{"start": "10.0.1.10", "end": "10.0.1.20"}]},
            ),
            ({"gateway_ip": "10.0.1.254"}, {"gateway_ip": "10.0.1.254"}),
            ({"allocation_pools": None}, {"allocation_pools": [{"start": "10.0.1.1", "end": "10.0.1.253"}]}),
            ({"gateway_ip": ""}, {"gateway_ip": None}),
            ({"tags": ["t"]}, {"tags": ["t"]}),
        ],
        replaced={"cidr": "10.0.2.0/24"},
    ),
    Case(
        "OS::Neutron::Port",
        {"network": ref("net"), "security_groups": ["default"]},
        {**SUBNET, **GROUP, **POLICY},
        made={"status": "DOWN", "binding:vnic_type": "normal", "port_security_enabled": True},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"admin_state_up": False}, {"admin_state_up": False}),
            ({"fixed_ips": [{"ip_address": "10.0.0.77"}]}, {"fixed_ips": [{"ip_address": "10.0.0.77"}]}),
            ({"fixed_ips": None, "no_fixed_ips": True}, {"fixed_ips": []}),
            ({"fixed_ips": [{"subnet": ref("subnet")}], "no_fixed_ips": None}, {"fixed_ips": [{}]}),
            ({"device_id": "d", "device_owner": "o"}, {"device_id": "d", "device_owner": "o"}),
            ({"security_groups": []}, {"security_groups": []}),
            (
                {"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]},
                {"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]},
            ),
            ({"allowed_address_pairs": None}, {"allowed_address_pairs": []}),
            ({"port_security_enabled": False}, {"port_security_enabled": False}),
            ({"binding:vnic_type": "direct"}, {"binding:vnic_type": "direct"}),
            ({"dns_name": "web"}, {"dns_name": "web"}),
            ({"dns_name": None}, {"dns_name": ""}),
            ({"propagate_uplink_status": False}, {"propagate_uplink_status": False}),
            ({"tags": ["t"]}, {"tags": ["t"]}),
        ],
        replaced={"mac_address": "00:11:22:33:44:55"},
    ),
    Case(
        "OS::Neutron::Router",
        {"external_gateway_info": {"network": "public", "enable_snat": False}},
        made={"status": "ACTIVE", "external_gateway_info": {"enable_snat": False, "external_fixed_ips": [{}]}},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"external_gateway_info": {"network": "public"}}, {}),
            (
                {
                    "external_gateway_info": {
                        "network": "public",
                        "external_fixed_ips": [{"ip_address": "172.24.4.99"}],
                    }
                },
                {"external_gateway_info": {"external_fixed_ips": [{"ip_address": "172.24.4.99"}]}},
            ),
            ({"external_gateway_info": None}, {"external_gateway_info": None}),
            ({"admin_state_up": False}, {"admin_state_up": False}),
            ({"tags": ["t"]}, {"tags": ["t"]}),
        ],
        replaced={"distributed": True},
    ),
    Case(
        "OS::Neutron::RouterInterface",
        {"router_id": ref("router"), "subnet_id": ref("subnet")},
        {**SUBNET, **ROUTER},
        verb="network.add_interface_to_router",
    ),
    Case(
        "OS::Neutron::RouterGateway",
        {"router_id": ref("router"), "network_id": "public"},
        {"router": resource("OS::Neutron::Router"), "router2": resource("OS::Neutron::Router")},
        replaced={"router_id": ref("router2")},
        verb="network.update_router",
    ),
    Case(
        "OS::Neutron::ExtraRouteSet",
        {"router": ref("router"), "routes": [{"destination": "10.5.0.0/16", "nexthop": "10.0.0.5"}]},
        CONNECTED,
        updates=[
            ({"routes": [{"destination": "10.6.0.0/16", "nexthop": "10.0.0.6"}]}, {}),
            ({"routes": []}, {}),
        ],
        verb="network.add_extra_routes_to_router",
    ),
    Case(
        "OS::Neutron::FloatingIP",
        {"floating_network_id": "public"},
        CONNECTED,
        made={"status": "DOWN", "port_id": None},
        updates=[
            ({"port_id": ref("port")}, {"status": "ACTIVE", "fixed_ip_address": "10.0.0.2"}),
            ({"fixed_ip_address": "10.0.0.2", "port_id": ref("port")}, {"fixed_ip_address": "10.0.0.2"}),
            ({"port_id": None}, {"port_id": None, "router_id": None, "fixed_ip_address": None}),
            ({"dns_name": "web"}, {"dns_name": "web"}),
            ({"dns_domain": "example.org."}, {"dns_domain": "example.org."}),
        ],
        replaced={"floating_ip_address": "172.24.4.200"},
        verb="network.create_ip",
    ),
    Case(
        "OS::Neutron::FloatingIPAssociation",
        {"floatingip_id": ref("ip"), "port_id": ref("port")},
        {
            **CONNECTED,
            "ip": resource("OS::Neutron::FloatingIP", floating_network="public"),
            "ip2": resource("OS::Neutron::FloatingIP", floating_network="public"),
        },
        verb="network.update_ip",
    ),
    Case(
        "OS::Neutron::FloatingIPPortForward",
        {
            "floating_ip": ref("ip"),
            "internal_port": ref("port"),
            "internal_ip_address": "10.0.0.2",
            "external_port": 80,
            "internal_port_number": 8080,
            "protocol": "tcp",
        },
        {
            **CONNECTED,
            "port": resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"ip_address": "10.0.0.2"}]),
            "ip": resource("OS::Neutron::FloatingIP", floating_network="public"),
            "ip2": resource("OS::Neutron::FloatingIP", floating_network="public"),
        },
        made={"external_port": 80, "internal_port": 8080, "protocol": "tcp"},
        updates=[
            ({"external_port": 81}, {"external_port": 81}),
            ({"internal_port_number": 8081}, {"internal_port": 8081}),
            ({"protocol": "udp"}, {"protocol": "udp"}),
        ],
        replaced={"floating_ip": ref("ip2")},
    ),
    Case(
        "OS::Neutron::SecurityGroup",
        {"rules": [{"protocol": "tcp", "port_range_min": 22, "port_range_max": 22}]},
        made={"stateful": True, "security_group_rules": [{"port_range_min": 22}, {}, {}]},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"description": "d"}, {"description": "d"}),
            ({"description": None}, {"description": ""}),
            (
                {"rules": [{"protocol": "17"}, {"remote_mode": "remote_group_id"}]},
                {"security_group_rules": [{"protocol": "17", "direction": "ingress"}, {"protocol": None}, {}, {}]},
            ),
            (
                {"rules": [{"direction": "egress", "remote_ip_prefix": "10.0.0.0/8"}]},
                {"security_group_rules": [{"direction": "egress", "remote_ip_prefix": "10.0.0.0/8"}]},
            ),
            (
                {"rules": None},
                {
                    "security_group_rules": [
                        {"ethertype": "IPv4", "direction": "egress", "remote_ip_prefix": None},
                        {"ethertype": "IPv6", "direction": "egress"},
                    ]
                },
            ),
            ({"stateful": False}, {"stateful": False}),
        ],
    ),
    Case(
        "OS::Neutron::SecurityGroupRule",
        {"security_group": ref("group"), "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "10.0.0.0/8"},
        GROUP,
        made={"protocol": "tcp", "direction": "ingress", "ethertype": "IPv4", "remote_ip_prefix": "10.0.0.0/8"},
        replaced={"port_range_max": 23},
    ),
    Case(
        "OS::Neutron::SubnetPool",
        {"prefixes": ["10.0.0.0/16"], "default_prefixlen": 24},
        {"scope": resource("OS::Neutron::AddressScope")},
        made={"ip_version": 4, "min_prefixlen": 8, "max_prefixlen": 32, "default_prefixlen": 24},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"prefixes": ["10.0.0.0/16", "10.9.0.0/16"]}, {"prefixes": ["10.0.0.0/16", "10.9.0.0/16"]}),
            ({"default_prefixlen": 25}, {"default_prefixlen": 25}),
            ({"min_prefixlen": 20, "max_prefixlen": 30}, {"min_prefixlen": 20, "max_prefixlen": 30}),
            ({"default_quota": 1024}, {"default_quota": 1024}),
            ({"address_scope": ref("scope")}, {}),
            ({"address_scope": None}, {"address_scope_id": None}),
            ({"tags": ["t"]}, {"tags": ["t"]}),
        ],
        replaced={"shared": True},
    ),
    Case(
        "OS::Neutron::AddressScope",
        made={"ip_version": 4, "shared": False},
        updates=[({"name": "a"}, {"name": "a"}), ({"shared": True}, {"shared": True})],
        replaced={"ip_version": 6},
    ),
    Case(
        "OS::Neutron::Segment",
        {"network": ref("net"), "network_type": "vlan", "physical_network": "physnet1", "segmentation_id": 7},
        NET,
        made={"network_type": "vlan", "segmentation_id": 7},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"description": "d"}, {"description": "d"}),
            ({"description": None}, {"description": ""}),
        ],
        replaced={"physical_network": "physnet2"},
    ),
    Case(
        "OS::Neutron::QoSPolicy",
        made={"shared": False, "rules": []},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"description": "d"}, {"description": "d"}),
            ({"shared": True}, {"shared": True}),
        ],
    ),
    Case(
        "OS::Neutron::QoSBandwidthLimitRule",
        {"policy": ref("policy"), "max_kbps": 100},
        {**POLICY, "policy2": resource("OS::Neutron::QoSPolicy")},
        made={"max_kbps": 100, "max_burst_kbps": 0, "direction": "egress"},
        updates=[
            ({"max_kbps": 200}, {"max_kbps": 200}),
            ({"max_burst_kbps": 20}, {"max_burst_kbps": 20}),
            ({"direction": "ingress"}, {"direction": "ingress"}),
        ],
        replaced={"policy": ref("policy2")},
    ),
    Case(
        "OS::Neutron::QoSDscpMarkingRule",
        {"policy": ref("policy"), "dscp_mark": 16},
        {**POLICY, "policy2": resource("OS::Neutron::QoSPolicy")},
        made={"dscp_mark": 16},
        updates=[({"dscp_mark": 56}, {"dscp_mark": 56})],
        replaced={"policy": ref("policy2")},
    ),
    Case(
        "OS::Neutron::QoSMinimumBandwidthRule",
        {"policy": ref("policy"), "min_kbps": 100},
        {**POLICY, "policy2": resource("OS::Neutron::QoSPolicy")},
        made={"min_kbps": 100, "direction": "egress"},
        updates=[({"min_kbps": 200}, {"min_kbps": 200}), ({"direction": "ingress"}, {"direction": "ingress"})],
        replaced={"policy": ref("policy2")},
    ),
    Case(
        "OS::Neutron::QoSMinimumPacketRateRule",
        {"policy": ref("policy"), "min_kpps": 10},
        {**POLICY, "policy2": resource("OS::Neutron::QoSPolicy")},
        made={"min_kpps": 10, "direction": "egress"},
        updates=[({"min_kpps": 20}, {"min_kpps": 20}), ({"direction": "any"}, {"direction": "any"})],
        replaced={"policy": ref("policy2")},
    ),
    Case(
        "OS::Neutron::Trunk",
        {"port": ref("port")},
        PORTS,
        made={"sub_ports": [], "admin_state_up": True},
        updates=[
            ({"name": "a"}, {"name": "a"}),
            ({"description": "d"}, {"description": "d"}),
            ({"sub_ports": [sub_port(10)]}, {"sub_ports": [{"segmentation_id": 10}]}),
            ({"sub_ports": [sub_port(11)]}, {"sub_ports": [{"segmentation_id": 11}]}),
            ({"sub_ports": None}, {"sub_ports": []}),
            ({"admin_state_up": False}, {"admin_state_up": False}),
            ({"admin_state_up": None}, {"admin_state_up": True}),
        ],
    ),
    Case(
        "OS::Neutron::RBACPolicy",
        {"object_type": "network", "object_id": ref("net"), "target_tenant": "other", "action": "access_as_shared"},
        NET,
        made={"target_tenant": "other", "action": "access_as_shared"},
        updates=[({"target_tenant": "another"}, {"target_tenant": "another"})],
        replaced={"action": "access_as_external"},
    ),
    Case(
        "OS::Neutron::Quota",
        {"project": "demo", "port": 7},
        made={"port": 7, "network": 1000},
        updates=[
            ({"port": 8, "network": -1}, {"port": 8, "network": -1}),
            ({"network": None}, {"port": 8, "network": 1000}),
        ],
        verb="network.update_quota",
        may_vanish=False,
    ),
]
BY_TYPE = pytest.mark.parametrize("case", few(CASES), ids=lambda case: case.type.rpartition("::")[2])


def it(cloudy: Cloudy, stack: StackRecord) -> CloudResource[Any]:
    found = cloudy.components.reader.resources_of(cloudy.get(stack)).make(cloudy.row(stack, "it"))
    assert isinstance(found, CloudResource)
    return found


def thing(cloudy: Cloudy, stack: StackRecord) -> JsonMap:
    """The object as the type sees it. Raises CloudNotFound."""
    return it(cloudy, stack).fetch()


def vanish(cloudy: Cloudy, stack: StackRecord) -> None:
    """Somebody else removes the object."""
    it(cloudy, stack).handle_delete()


@pytest.mark.slow
@BY_TYPE
def test_it_is_made_changed_in_place_and_removed(cloudy: Cloudy, case: Case) -> None:
    before = cloudy.census()
    stack = cloudy.made(case.resources())
    assert is_as_requested(thing(cloudy, stack), case.made), thing(cloudy, stack)
    made = cloudy.row(stack, "it").id
    given: dict[str, object] = {}
    for properties, expected in case.updates:
        given |= properties
        cloudy.changed(stack, case.resources(**given))
        assert cloudy.row(stack, "it").id == made, properties
        assert is_as_requested(thing(cloudy, stack), expected), (properties, thing(cloudy, stack))
        assert cloudy.check(stack).status == "COMPLETE", properties
    cloudy.delete(stack)
    assert cloudy.census() == before


@pytest.mark.parametrize(
    "case",
    sampled([case for case in CASES if case.replaced], 5, pytest.mark.thorough),
    ids=lambda case: case.type.rpartition("::")[2],
)
def test_another_object_takes_its_place(cloudy: Cloudy, case: Case) -> None:
    around = {**case.resources(), "router2": resource("OS::Neutron::Router")}
    stack = cloudy.made(around)
    before, old = cloudy.census(), cloudy.row(stack, "it").physical_id
    assert case.replaced is not None
    cloudy.changed(stack, {**around, **case.resources(**case.replaced)})
    assert cloudy.row(stack, "it").physical_id != old
    assert cloudy.census() == before
    thing(cloudy, stack)


VANISHING = pytest.mark.parametrize(
    "case", few(case for case in CASES if case.may_vanish), ids=lambda case: case.type.rpartition("::")[2]
)


@VANISHING
def test_one_that_has_vanished_is_missed_and_made_again(cloudy: Cloudy, case: Case) -> None:
    stack = cloudy.made(case.resources())
    vanish(cloudy, stack)
    with pytest.raises(CloudNotFound):
        thing(cloudy, stack)
    assert cloudy.check(stack).status == "FAILED"
    cloudy.changed(stack, case.resources())
    thing(cloudy, stack)


@VANISHING
def test_one_that_has_vanished_is_deleted(cloudy: Cloudy, case: Case) -> None:
    before = cloudy.census()
    stack = cloudy.made(case.resources())
    vanish(cloudy, stack)
    cloudy.delete(stack)
    assert cloudy.get(stack).deleted_at is not None
    assert cloudy.census() == before


@BY_TYPE
def test_an_answer_that_is_lost_leaves_no_second_object(troubled: Callable[..., Cloudy], case: Case) -> None:
    kinds = [one["type"] for one in case.resources().values()]
    verb = case.verb or f"network.create_{Registry(ALL_TYPES).get(case.type).kind.partition('.')[2]}"
    # That of `it` is the last of its kind.
    cloudy = troubled(faults=[{"verb": verb, "number": kinds.count(case.type), "raises": "lost"}])
    before = cloudy.census()
    stack = cloudy.made(case.resources())
    assert cloudy.admin.simulation.all(FAULT)["0"]["calls"] >= kinds.count(case.type)
    assert is_as_requested(thing(cloudy, stack), case.made)
    cloudy.delete(stack)
    assert cloudy.census() == before


ID = "11111111-2222-3333-4444-555555555555"
PATH = {"router": ID, "subnet": ID}
CONNECTION = {
    "peer_address": "192.0.2.1", "peer_id": "192.0.2.1", "peer_cidrs": ["10.1.0.0/24"], "psk": "secret",
    "ikepolicy_id": ID, "ipsecpolicy_id": ID, "vpnservice_id": ID,
}  # fmt: skip
RANGE = {"prefixes": ["10.0.0.0/8"]}
SITE = {"network": ID, "network_type": "vlan"}
NO_TEXT, KEPT = {"description": ""}, {}


DROPPED: list[tuple[str, JsonMap, str, JsonMap]] = [
    ("IKEPolicy", {}, "description", NO_TEXT),
    ("IPsecPolicy", {}, "description", NO_TEXT),
    ("IPsecSiteConnection", CONNECTION, "description", NO_TEXT),
    ("Net", {}, "dns_domain", {"dns_domain": ""}),
    ("Net", {}, "port_security_enabled", KEPT),
    ("Port", {"network": ID}, "dns_name", {"dns_name": ""}),
    ("Port", {"network": ID}, "fixed_ips", KEPT),
    ("PortChain", {"port_pair_groups": [ID]}, "description", NO_TEXT),
    ("PortPair", {"ingress": ID, "egress": ID}, "description", NO_TEXT),
    ("PortPairGroup", {"port_pairs": [ID]}, "description", NO_TEXT),
    ("ProviderNet", {"network_type": "vlan"}, "dns_domain", {"dns_domain": ""}),
    ("ProviderNet", {"network_type": "vlan"}, "port_security_enabled", KEPT),
    ("QoSPolicy", {}, "description", NO_TEXT),
    ("SecurityGroup", {}, "description", NO_TEXT),
    ("SecurityGroup", {}, "stateful", KEPT),
    ("Segment", SITE, "description", NO_TEXT),
    ("SubnetPool", RANGE, "default_quota", KEPT),
    ("SubnetPool", RANGE, "min_prefixlen", KEPT),
    ("Trunk", {"port": ID}, "description", NO_TEXT),
    ("VPNService", PATH, "description", NO_TEXT),
]  # fmt: skip


@table(("name", "given", "dropped", "sent"), [one for one in DROPPED if f"OS::Neutron::{one[0]}" in ALL_TYPES])
def test_no_null_is_sent_that_the_service_refuses(
    build: Callable[..., Any], name: str, given: JsonMap, dropped: str, sent: JsonMap
) -> None:
    """Tests what is sent when a property is dropped from the template."""
    resource = build(Registry(ALL_TYPES).get(f"OS::Neutron::{name}"), given, physical_id=ID)
    resource._fetched = {"fixed_ips": [{"subnet_id": ID}]}
    after = resource.facts.properties
    assert resource.update_args(Change(frozenset({dropped}), {**after, dropped: True}, after)) == sent


HTTP = {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
UNFINISHED = [
    ("network.create_security_group_rule", "OS::Neutron::SecurityGroup", {"rules": [HTTP]}, "security_group_rules"),
    ("network.set_tags", "OS::Neutron::Net", {"tags": ["a"]}, "tags"),
    ("block_storage.set_volume_readonly", "OS::Cinder::Volume", {"size": 1, "read_only": True}, "metadata"),
]
"""Calls that finish a new object, and the attribute that tells of them."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "type_name", "given", "attribute"), few(UNFINISHED), ids=[one[1] for one in UNFINISHED]
)
def test_a_new_object_that_could_not_be_finished_is_made_again(
    troubled: Callable[..., Cloudy], verb: str, type_name: str, given: JsonMap, attribute: str
) -> None:
    cloudy = troubled(faults=[{"verb": verb, "number": 1, "raises": "refused"}])
    resources = {"it": resource(type_name, **given)}
    stack = cloudy.create(template(**resources))
    assert stack.status == "FAILED"
    plain = thing(cloudy, stack)[attribute]
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert thing(cloudy, stack)[attribute] != plain
    cloudy.delete(stack)


@pytest.mark.parametrize(
    ("type_name", "properties", "token", "needed"),
    [
        ("OS::Neutron::Net", {}, "ACTIVE", False),
        ("OS::Neutron::Net", {}, "BUILD", True),
        ("OS::Neutron::Net", {"tags": ["a"]}, "ACTIVE", True),
        ("OS::Neutron::Net", {"dhcp_agent_ids": ["a"]}, "ACTIVE", True),
        ("OS::Neutron::Subnet", {"network": "n", "cidr": "10.0.0.0/24"}, None, False),
        ("OS::Neutron::Subnet", {"network": "n", "cidr": "10.0.0.0/24", "tags": ["a"]}, None, True),
        ("OS::Neutron::SecurityGroup", {}, None, True),
        ("OS::Neutron::FloatingIP", {"floating_network": "n"}, "DOWN", False),
        ("OS::Nova::Server", {"flavor": "f", "image": "i"}, "BUILD", True),
    ],
)  # fmt: skip
def test_no_check_follows_a_create_whose_answer_says_that_all_is_done(
    build: Callable[..., Any], type_name: str, properties: JsonMap, token: str | None, needed: bool
) -> None:
    resource = build(Registry(ALL_TYPES).get(type_name), properties)
    assert (resource.polls("create") and resource.needs_check("create", token)) is needed
