"""Floating IPs, their associations and port forwarding."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudNotFound, CloudResource, ReplaceResource, Resource, Schema, SupportStatus, prop
from heatlite.resources.neutron.base import Link, NeutronResource, Unnamed, asked
from heatlite.resources.neutron.routers import leads_out

JOINED = frozenset({"OS::Neutron::Port", "OS::Neutron::Router", "OS::Neutron::RouterInterface"})
"""Types whose deletion an associated floating IP blocks."""
WAYS_OUT = frozenset({"OS::Neutron::Router", "OS::Neutron::RouterGateway", "OS::Neutron::RouterInterface"})


def leads_by(address: JsonMap, gone: Resource[Schema]) -> bool:
    """True for a floating IP's port, server and router, and that router's interfaces."""
    key = str(gone.physical_id)
    is_server = gone.type_name == "OS::Nova::Server"  # it detaches those that lead to it
    return is_server or address.get("port_id") == key or address.get("router_id") == key.partition(":")[0]


class FloatingIPProps(Schema):
    floating_network: str = prop(
        find="neutron.network", api="floating_network_id", doc="The external network, by name or id."
    )
    floating_network_id: str | None = prop(
        hidden=True, find="neutron.network", means="floating_network", api="", doc="An old name of floating_network."
    )
    floating_subnet: str | None = prop(
        find="neutron.subnet", api="subnet_id", doc="The subnet that the address is taken from, by name or id."
    )
    floating_ip_address: str | None = prop(
        custom="ip_addr", doc="The address; default: a free one. Only administrators may set it."
    )
    port_id: str | None = prop(
        update=True, find="neutron.port", doc="The port that it is associated with, by name or id."
    )
    fixed_ip_address: str | None = prop(
        update=True, custom="ip_addr", doc="The fixed IP of the port; default: its first."
    )
    dns_name: str | None = prop(update=True, custom="rel_dns_name", doc="Its name.")
    dns_domain: str | None = prop(update=True, custom="dns_domain", doc="The domain of its name.")
    value_specs: dict[str, Json] = prop({}, api="", doc="Further attributes, sent unchanged.")


class FloatingIP(NeutronResource[FloatingIPProps], type="OS::Neutron::FloatingIP", kind="network.ip"):
    """A floating IP: an address in an external network."""

    counts = ("network.floatingip",)
    named = False
    shown = {
        "router_id": (str, "The router that it is reached through."),
        "tenant_id": (str, "The project that owns it."),
        "floating_network_id": (str, "The external network."),
        "fixed_ip_address": (str, "The fixed IP that it is associated with."),
        "floating_ip_address": (str, "The address itself."),
        "port_id": (str, "The port that it is associated with."),
    }
    after = WAYS_OUT
    joins = JOINED
    blocks = frozenset({"OS::Neutron::Net", "OS::Neutron::ProviderNet"})
    alone = frozenset({"floating_network", "port_id"})

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        """True for its external network's routers and its port's interfaces, as in Heat."""
        return leads_out(own, kind, other, asked(own, "floating_network"))

    def update_args(self, change: Change) -> JsonMap:
        args = super().update_args(change)
        was_detached = self.facts.properties.get("port_id") is not None and self.fetched.get("port_id") is None
        if {"port_id", "fixed_ip_address"} & args.keys() or was_detached:
            args["port_id"] = self.props.port_id
            if self.props.port_id is not None and self.props.fixed_ip_address is not None:
                args["fixed_ip_address"] = self.props.fixed_ip_address
            else:
                args.pop("fixed_ip_address", None)
        return args

    def detach_from(self, gone: Resource[Schema]) -> None:
        if self.facts.properties.get("port_id") is not None and leads_by(self.fetched, gone):
            with suppress(CloudNotFound):
                self.service("update_ip", self.physical_id, port_id=None)


def associated(association: CloudResource[Any]) -> JsonMap:
    """Return the floating IP of a resource whose physical id is ``floating-ip:port``.

    Raises CloudNotFound unless it is associated with the port.
    """
    address, _, port = str(association.physical_id).partition(":")
    if association.physical_id is not None:
        found = association.map(association.service("get_ip", address))
        if found.get("port_id") == port:
            return found
    raise CloudNotFound("network.get_ip", f"Floating IP {address} is not associated with port {port}")


class FloatingIPAssociationProps(Schema):
    floatingip_id: str = prop(update=True, doc="The id of the floating IP.")
    port_id: str = prop(update=True, find="neutron.port", doc="The port to associate it with, by name or id.")
    fixed_ip_address: str | None = prop(
        update=True, custom="ip_addr", doc="The fixed IP of the port; default: its first."
    )


class FloatingIPAssociation(
    Link[FloatingIPAssociationProps], type="OS::Neutron::FloatingIPAssociation", kind="network.ip"
):
    """Associates a floating IP with a port.

    The physical id is ``floating-ip:port``, of the ids of both.
    """

    after = WAYS_OUT
    joins = JOINED
    searched = False  # associating is idempotent

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        """True for interfaces and gateways between the port and the outside, as in Heat."""
        return kind != "OS::Neutron::Router" and leads_out(own, kind, other, None)

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other resource associates another floating IP with the same port."""
        own = self.facts.properties
        same = [own.get(name) == properties.get(name) for name in ("floatingip_id", "port_id", "fixed_ip_address")]
        return same == [False, True, True]

    def handle_create(self) -> Json:
        props = self.props
        place: JsonMap = {} if props.fixed_ip_address is None else {"fixed_ip_address": props.fixed_ip_address}
        self.service("update_ip", props.floatingip_id, port_id=props.port_id, **place)
        self.physical_id = f"{props.floatingip_id}:{props.port_id}"
        return None

    def fetch(self) -> JsonMap:
        return associated(self)

    def live_properties(self) -> Mapping[str, Json] | None:
        live = super().live_properties()
        return None if live is None else {name: value for name, value in live.items() if name == "fixed_ip_address"}

    def detach_from(self, gone: Resource[Schema]) -> None:
        if leads_by(self.fetched, gone):
            super().detach_from(gone)

    def handle_update(self, change: Change) -> Json:
        if not change.changed and self.fetched:
            return None
        if "floatingip_id" in change.changed and self.physical_id is not None:
            with suppress(CloudNotFound):
                self.undo(self.physical_id)
        return self.handle_create()

    def undo(self, physical_id: str) -> None:
        self.fetch()  # it may have been associated with another port since
        self.service("update_ip", physical_id.partition(":")[0], port_id=None)


class FloatingIPPortForwardProps(Schema):
    floating_ip: str = prop(resolve="neutron.floatingip", api="", doc="The floating IP, by id or address.")
    external_port: int = prop(update=True, between=(1, 65535), doc="Its port.")
    internal_port: str = prop(
        update=True,
        find="neutron.port",
        api="internal_port_id",
        doc="The port that it is associated with, by name or id.",
    )
    internal_ip_address: str = prop(update=True, custom="ip_addr", doc="The fixed IP of that port.")
    internal_port_number: int | None = prop(
        update=True, between=(1, 65535), api="internal_port", doc="The port of that address."
    )
    protocol: str = prop(update=True, one_of=("tcp", "udp", "icmp", "icmp6", "sctp", "dccp"), doc="The protocol.")


class FloatingIPPortForward(
    Unnamed[FloatingIPPortForwardProps], type="OS::Neutron::FloatingIPPortForward", kind="network.port_forwarding"
):
    """Forwards one port of a floating IP to a port of a machine."""

    support_status = SupportStatus(version="19.0.0")
    within = "floating_ip"
    joins = JOINED
    alone = frozenset({"floating_ip", "external_port", "protocol"})
    after = WAYS_OUT

    @classmethod
    def comes_after(cls, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:
        """True for interfaces and gateways between machine and outside, as in Heat."""
        return kind != "OS::Neutron::Router" and leads_out(own, kind, other, None)

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True, too, for a forwarding of any floating IP to the same internal port."""
        inside = ("internal_port", "internal_ip_address", "internal_port_number", "protocol")
        pairs = [(self.facts.properties.get(name), properties.get(name)) for name in inside]
        return super().excludes(properties) or all(own is not None and own == new for own, new in pairs)

    def handle_create(self) -> Json:
        made = self.map(self.service("create_port_forwarding", floatingip_id=self.whole[0], **self.sent()))
        self.physical_id = str(made["id"])
        self.keep_whole()
        return None

    def detach_from(self, gone: Resource[Schema]) -> None:
        with suppress(CloudNotFound):
            if leads_by(self.map(self.service("get_ip", self.whole[0])), gone):
                self.handle_delete()

    def handle_update(self, change: Change) -> Json:
        """Update the forwarding; replace it if only its path has been replaced.

        The forwarding may be gone together with the old path, or still use an old router.
        """
        if not change.changed:
            if change.metadata_changed and self.fetched:
                return None
            raise ReplaceResource
        try:
            return super().handle_update(change)
        except CloudNotFound as error:
            raise ReplaceResource from error

    def alike(self) -> list[JsonMap]:
        key: JsonMap = {"external_port": self.props.external_port, "protocol": self.props.protocol}
        return cast(list[JsonMap], self.service("port_forwardings", *self.whole, **key))
