"""Ports."""

from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, Resource, Schema, prop
from heatlite.resources.neutron.base import NeutronResource, Tagged, ValueSpecs, places, same

VNIC_TYPES = ("normal", "direct", "macvtap", "direct-physical", "baremetal", "virtio-forwarder", "smart-nic")
DEFAULT_GROUP = "default"
"""The security group that every project has by default."""


LEAD_HERE = frozenset({"OS::Neutron::FloatingIP", "OS::Neutron::FloatingIPAssociation"})
"""Types that associate an address with a port."""


class AddressPair(Schema):
    ip_address: str = prop(custom="ip_or_cidr", doc="The address, or several of them.")
    mac_address: str | None = prop(custom="mac_addr", doc="The hardware address; left out: that of the port.")


class FixedIP(Schema):
    ip_address: str | None = prop(custom="ip_addr", doc="The address; left out: one that is free.")
    subnet: str | None = prop(find="neutron.subnet", api="subnet_id", doc="The subnet, by name or id.")
    subnet_id: str | None = prop(
        hidden=True, find="neutron.subnet", means="subnet", api="", doc="An old name of subnet."
    )


class PortProps(ValueSpecs, Tagged):
    name: str | None = prop(update=True, doc="Its name.")
    network: str = prop(find="neutron.network", api="network_id", doc="The network it is part of, by name or id.")
    network_id: str | None = prop(
        hidden=True, find="neutron.network", means="network", api="", doc="An old name of network."
    )
    fixed_ips: list[FixedIP] | None = prop(update=True, doc="Its addresses; left out: one of each version.")
    no_fixed_ips: bool = prop(False, update=True, api="", doc="Whether it has no address.")
    admin_state_up: bool = prop(True, update=True, doc="Whether it carries traffic.")
    mac_address: str | None = prop(custom="mac_addr", doc="Its hardware address; left out: the service makes one.")
    device_id: str = prop("", update=True, doc="What it belongs to, a server or a router.")
    device_owner: str = prop("", update=True, doc="What kind of thing it belongs to: compute:nova.")
    security_groups: list[Json] | None = prop(
        update=True, resolve="neutron.security_group", doc="Names or ids of its groups; left out: the default group."
    )
    allowed_address_pairs: list[AddressPair] | None = prop(
        update=True, doc="Addresses beside its own that it may send from."
    )
    port_security_enabled: bool | None = prop(update=True, doc="Whether it is protected; left out: as its network is.")
    propagate_uplink_status: bool | None = prop(update=True, doc="Whether it goes down with the physical network.")
    binding_vnic_type: str = prop(
        "normal", update=True, one_of=VNIC_TYPES, alias="binding:vnic_type", doc="What kind of card it is bound to."
    )
    dns_name: str | None = prop(update=True, custom="dns_name", doc="Its name in the network's domain.")
    qos_policy: str | None = prop(
        update=True, find="neutron.qos_policy", api="qos_policy_id", doc="Its QoS policy, by name or id."
    )
    replacement_policy: str = prop(
        "AUTO", update=True, hidden=True, one_of=("REPLACE_ALWAYS", "AUTO"), api="", doc="Without a meaning."
    )


class Port(NeutronResource[PortProps], type="OS::Neutron::Port", kind="network.port"):
    """A port: it connects a machine to a network."""

    shown = {
        "admin_state_up": (str, "Whether it carries traffic."),
        "allowed_address_pairs": (list, "Addresses beside its own that it may send from."),
        "device_id": (str, "What it belongs to."),
        "device_owner": (str, "What kind of thing it belongs to."),
        "dns_assignment": (dict, "Its names in the network's domain."),
        "fixed_ips": (list, "Its addresses."),
        "mac_address": (str, "Its hardware address."),
        "name": (str, "Its name."),
        "network_id": (str, "The network that it is part of."),
        "port_security_enabled": (bool, "Whether it is protected."),
        "propagate_uplink_status": (bool, "Whether it goes down with the physical network."),
        "qos_policy_id": (str, "The id of its QoS policy."),
        "security_groups": (list, "The ids of its security groups."),
        "status": (str, "ACTIVE where it carries traffic."),
        "tenant_id": (str, "The project that owns it."),
    }
    ready = NeutronResource.WORKING
    after = frozenset({"OS::Neutron::Subnet"})
    joins = frozenset({"OS::Neutron::Subnet"})
    blocks = frozenset({"OS::Neutron::Net", "OS::Neutron::ProviderNet", "OS::Neutron::Subnet"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG003
        """True for the subnets of its network, as in Heat: without them the port would have no address."""
        return same(own, "network", other, "network")

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other port has the same network, and shares a fixed IP or the MAC address."""
        own = self.facts.properties
        if own.get("network") != properties.get("network"):
            return False
        mac = own.get("mac_address")
        return bool(_asked(own) & _asked(properties)) or mac is not None and mac == properties.get("mac_address")

    def create_args(self) -> JsonMap:
        return {**self._addresses(), **super().create_args()}

    def update_args(self, change: Change) -> JsonMap:
        args = super().update_args(change)
        if "security_groups" in args and args["security_groups"] is None:
            args["security_groups"] = [self._finders.id_of("neutron.security_group", DEFAULT_GROUP)]
        if "no_fixed_ips" in change.changed:
            args.update(self._addresses())
        if not change.changed and not self.props.no_fixed_ips and not self.seen.get("fixed_ips"):
            # `let_go` has removed its addresses.
            given = self.sent(frozenset({"fixed_ips"}))["fixed_ips"]
            args["fixed_ips"] = places(self.cloud, self.props.network) if given is None else given
        return {name: value for name, value in args.items() if value is not None or name not in KEPT}

    def _addresses(self) -> JsonMap:
        return {"fixed_ips": []} if self.props.no_fixed_ips else {}

    def let_go(self, gone: Resource[Schema]) -> None:
        """Remove the port's addresses in a subnet."""
        held = cast(list[JsonMap], self.seen.get("fixed_ips") or [])
        left: list[Json] = [one for one in held if one["subnet_id"] != gone.physical_id]
        if len(left) < len(held):
            for user in self.facts.users():
                if user.type_name in LEAD_HERE:
                    user.let_go(self)
            self.service("update_port", self.physical_id, fixed_ips=left)

    def attr_network(self) -> Mapping[str, Json] | None:
        """All attributes of its network."""
        network = self.seen.get("network_id")
        return self.map(self.service("get_network", network)) if network is not None else None

    def attr_subnets(self) -> list[Json]:
        """All attributes of the subnets of its addresses."""
        addresses = cast(list[JsonMap], self.seen.get("fixed_ips") or [])
        return [self.service("get_subnet", one["subnet_id"]) for one in addresses]


def _asked(properties: Mapping[str, object]) -> set[str]:
    """Return the known addresses that properties request."""
    given = properties.get("fixed_ips")
    maps = [one for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []
    return {one["ip_address"] for one in maps if isinstance(one.get("ip_address"), str)}


KEPT = frozenset({"fixed_ips", "port_security_enabled", "propagate_uplink_status"})
"""Attributes that do not accept null: without a value in the template they stay unchanged."""
