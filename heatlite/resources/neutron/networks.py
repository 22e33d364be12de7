"""Networks and subnets."""

import ipaddress
from collections.abc import Mapping

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, Schema, SupportStatus, prop
from heatlite.resources.neutron.base import HostedResource, NeutronResource, Tagged, ValueSpecs, overlap

NETWORK_TYPES = ("local", "vlan", "vxlan", "gre", "geneve", "flat")


class NetProps(ValueSpecs, Tagged):
    name: str | None = prop(update=True, doc="Its name.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    tenant_id: str | None = prop(blank=True, doc="The project that owns it; only administrators may set it.")
    shared: bool = prop(False, update=True, doc="True if all projects may use it; only administrators may set it.")
    dhcp_agent_ids: list[Json] | None = prop(update=True, api="", doc="The DHCP agents that serve it.")
    port_security_enabled: bool | None = prop(update=True, doc="The default of port security for its ports.")
    qos_policy: str | None = prop(
        update=True, find="neutron.qos_policy", api="qos_policy_id", doc="The QoS policy of its ports, by name or id."
    )
    dns_domain: str | None = prop(update=True, custom="dns_domain", doc="The domain of the names of its ports.")
    availability_zone_hints: list[Json] | None = prop(doc="Availability zones of its DHCP service.")


class Net(HostedResource[NetProps], type="OS::Neutron::Net", kind="network.network"):
    """A virtual network, to which servers and routers are connected."""

    counts = ("network.network",)
    ready = HostedResource.WORKING
    agent_ids = "dhcp_agent_ids"
    agent_calls = ("network_hosting_dhcp_agents", "add_dhcp_agent_to_network", "remove_dhcp_agent_from_network")
    shown = {
        "status": (str, "ACTIVE if it carries traffic."),
        "name": (str, "Its name."),
        "subnets": (list, "The ids of its subnets."),
        "admin_state_up": (str, "True if it is administratively up."),
        "tenant_id": (str, "The project that owns it."),
        "port_security_enabled": (bool, "The default of port security for its ports."),
        "mtu": (int, "The maximum packet size, in bytes."),
        "qos_policy_id": (str, "The id of its QoS policy."),
        "l2_adjacency": (bool, "True if all its ports share one broadcast domain."),
        "segments": (list, "Its segments, if it has several."),
    }


class ProviderNetProps(Tagged):
    name: str | None = prop(update=True, doc="Its name.")
    network_type: str = prop(
        update=True, one_of=NETWORK_TYPES, api="provider:network_type", doc="The type of the network."
    )
    physical_network: str | None = prop(update=True, api="provider:physical_network", doc="The physical network.")
    segmentation_id: str | None = prop(
        update=True, blank=True, api="provider:segmentation_id", doc="The segmentation id, such as a VLAN id."
    )
    router_external: bool = prop(False, update=True, api="router:external", doc="True if it is an external network.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    shared: bool = prop(True, update=True, doc="True if all projects may use it.")
    tenant_id: str | None = prop(blank=True, doc="The project that owns it.")
    port_security_enabled: bool | None = prop(update=True, doc="The default of port security for its ports.")
    dns_domain: str | None = prop(update=True, custom="dns_domain", doc="The domain of the names of its ports.")
    availability_zone_hints: list[Json] | None = prop(update=True, doc="Availability zones of its DHCP service.")


class ProviderNet(NeutronResource[ProviderNetProps], type="OS::Neutron::ProviderNet", kind="network.network"):
    """A network mapped to a physical network; only administrators may create one."""

    counts = ("network.network",)
    support_status = SupportStatus(version="2014.1")
    ready = NeutronResource.WORKING
    alone = frozenset({"physical_network", "segmentation_id"})
    shown = {
        "status": (str, "ACTIVE if it carries traffic."),
        "subnets": (list, "The ids of its subnets."),
        "segments": (list, "Its segments, if it has several."),
    }


class Pool(Schema):
    start: str = prop(custom="ip_addr", doc="The first address.")
    end: str = prop(custom="ip_addr", doc="The last address.")


class HostRoute(Schema):
    destination: str = prop(custom="net_cidr", doc="The destination network.")
    nexthop: str = prop(custom="ip_addr", doc="The address of the next hop.")


class SubnetProps(ValueSpecs, Tagged):
    network: str = prop(find="neutron.network", api="network_id", doc="The network it is part of, by name or id.")
    network_id: str | None = prop(
        find="neutron.network", hidden=True, means="network", api="", doc="An old name of network."
    )
    subnetpool: str | None = prop(
        find="neutron.subnetpool", api="subnetpool_id", doc="The subnet pool that its addresses are allocated from."
    )
    prefixlen: int | None = prop(between=(0, None), doc="The prefix length to allocate from the pool, in bits.")
    cidr: str | None = prop(custom="net_cidr", doc="Its addresses.")
    name: str | None = prop(update=True, doc="Its name.")
    gateway_ip: str | None = prop(
        update=True, null=True, doc="Its gateway; null or an empty text: none. Default: its first address."
    )
    allocation_pools: list[Pool] | None = prop(update=True, doc="The addresses available to ports.")
    dns_nameservers: list[Json] = prop([], update=True, doc="The DNS servers of its machines.")
    ip_version: int = prop(4, one_of=(4, 6), doc="Its version of IP.")
    enable_dhcp: bool = prop(True, update=True, doc="True if DHCP is enabled.")
    host_routes: list[HostRoute] | None = prop(update=True, doc="Additional routes for its machines.")
    tenant_id: str | None = prop(blank=True, doc="The project that owns it; only administrators may set it.")
    ipv6_ra_mode: str | None = prop(
        one_of=("dhcpv6-stateful", "dhcpv6-stateless", "slaac"), doc="The mode of router advertisements."
    )
    ipv6_address_mode: str | None = prop(
        one_of=("dhcpv6-stateful", "dhcpv6-stateless", "slaac"), doc="The mode of address assignment."
    )
    segment: str | None = prop(update=True, find="neutron.segment", api="segment_id", doc="The segment it is part of.")

    def fault_source(self) -> str | None:
        return "Either cidr or subnetpool must be given" if self.cidr is None and self.subnetpool is None else None

    def fault_pool(self) -> str | None:
        if self.cidr is not None and self.subnetpool is not None:
            return "Cannot use cidr and subnetpool at the same time"
        return None

    def fault_length(self) -> str | None:
        if self.cidr is not None and self.prefixlen is not None:
            return "Cannot use cidr and prefixlen at the same time"
        return None

    def fault_version(self) -> str | None:
        if self.ip_version == 4 and self.given("ipv6_ra_mode", "ipv6_address_mode"):
            return "ipv6_ra_mode and ipv6_address_mode are for IPv6"
        return None

    def fault_modes(self) -> str | None:
        if len({self.ipv6_ra_mode, self.ipv6_address_mode} - {None}) > 1:
            return "ipv6_ra_mode and ipv6_address_mode must be the same, where both are given"
        return None

    def fault_gateway(self) -> str | None:
        if self.gateway_ip not in (*NO_GATEWAY, None) and not _is_address(self.gateway_ip):
            return f"gateway_ip: {self.gateway_ip} is no address"
        return None


NO_GATEWAY = ("", "~")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


class Subnet(NeutronResource[SubnetProps], type="OS::Neutron::Subnet", kind="network.subnet"):
    """A subnet: a range of addresses of a network."""

    counts = ("network.subnet",)
    shown = {
        "name": (str, "Its name."),
        "network_id": (str, "The network that it is part of."),
        "tenant_id": (str, "The project that owns it."),
        "allocation_pools": (list, "The addresses available to ports."),
        "gateway_ip": (str, "Its gateway."),
        "host_routes": (list, "Additional routes for its machines."),
        "ip_version": (str, "Its version of IP."),
        "cidr": (str, "Its addresses."),
        "dns_nameservers": (list, "The DNS servers of its machines."),
        "enable_dhcp": (str, "True if DHCP is enabled."),
    }

    keeps_joined = True
    blocks = frozenset(
        {"OS::Neutron::Net", "OS::Neutron::ProviderNet", "OS::Neutron::Segment", "OS::Neutron::SubnetPool"}
    )

    def told(self) -> JsonMap:
        return {"cidr": None} if self.fetched.get("subnetpool_id") else {}

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other subnet is of the same network and overlaps with this one.

        Subnets of a pool always exclude each other: the new addresses would differ, and ports would keep the old ones.
        """
        own, new = self.facts.properties, properties
        if own.get("network") != new.get("network"):
            return False
        if own.get("subnetpool") is not None or new.get("subnetpool") is not None:
            return True
        return overlap([own.get("cidr")], [new.get("cidr")])

    def create_args(self) -> JsonMap:
        return self._with_gateway(super().create_args())

    def update_args(self, change: Change) -> JsonMap:
        args = self._with_gateway(super().update_args(change))
        if args.get("host_routes", []) is None:
            args["host_routes"] = []
        if args.get("allocation_pools", []) is None:
            subnet = self.fetch()
            args["allocation_pools"] = default_pools(str(subnet["cidr"]), args.get("gateway_ip", subnet["gateway_ip"]))
        return args

    def _with_gateway(self, args: JsonMap) -> JsonMap:
        """Send null for "no gateway"."""
        if args.get("gateway_ip") in NO_GATEWAY:
            args["gateway_ip"] = None
        return args


def default_pools(cidr: str, gateway: Json) -> list[Json]:
    """Return the default pools of a subnet: usable addresses except the gateway's."""
    whole = ipaddress.ip_network(cidr)
    first, last = whole[0], whole[-1]
    if whole.num_addresses > 2:
        first, last = first + 1, last - 1 if whole.version == 4 else last
    parts = [(first, last)]
    if gateway is not None and first <= (at := ipaddress.ip_address(str(gateway))) <= last:  # type: ignore[operator]
        parts = [(first, at - 1), (at + 1, last)]
    return [{"start": str(start), "end": str(end)} for start, end in parts if start <= end]  # type: ignore[operator]
