"""Layer 2 gateways: connect networks of a cloud to physical ones."""

from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, Schema, SupportStatus, prop
from heatlite.plugin.naming import is_as_requested
from heatlite.resources.neutron.base import NeutronResource, Unnamed


class Interface(Schema):
    name: str = prop(doc="Its name.")
    segmentation_id: list[Json] | None = prop(doc="Its segmentation ids.")


class Device(Schema):
    device_name: str = prop(doc="Its name.")
    interfaces: list[Interface] = prop(doc="Its interfaces.")


class L2GatewayProps(Schema):
    name: str = prop(update=True, doc="Its name.")
    devices: list[Device] = prop(update=True, doc="Its devices.")


class L2Gateway(NeutronResource[L2GatewayProps], type="OS::Neutron::L2Gateway", kind="network.l2_gateway"):
    """A gateway of devices that connect networks on layer 2."""

    support_status = SupportStatus(version="12.0.0")
    described = False


class L2GatewayConnectionProps(Schema):
    l2_gateway_id: str = prop(doc="The id of the gateway.")
    network_id: str = prop(find="neutron.network", doc="The network, by name or id.")
    segmentation_id: str | None = prop(
        blank=True, doc="The segmentation id, if the interfaces of the gateway have none."
    )


class L2GatewayConnection(
    Unnamed[L2GatewayConnectionProps], type="OS::Neutron::L2GatewayConnection", kind="network.l2_gateway_connection"
):
    """Connects a network to a gateway on layer 2."""

    support_status = SupportStatus(version="12.0.0")
    alone = frozenset({"l2_gateway_id", "network_id"})
    blocks = frozenset({"OS::Neutron::L2Gateway", "OS::Neutron::Net", "OS::Neutron::ProviderNet"})


class GatewayDevice(Schema):
    id: str = prop(doc="The id of the device.")
    interface_name: str = prop(doc="The name of its interface.")


class Connection(Schema):
    network: str = prop(find="neutron.network", api="network_id", doc="The network, by name or id.")
    network_id: str | None = prop(
        hidden=True, find="neutron.network", means="network", api="", doc="An old name of network."
    )
    segmentation_type: str = prop("flat", one_of=("flat", "vlan"), doc="The type of segmentation.")
    segmentation_id: int | None = prop(between=(0, 4094), doc="The id of the VLAN.")

    def fault(self) -> str | None:
        if (self.segmentation_type == "vlan") != (self.segmentation_id is not None):
            return "segmentation_id belongs to the segmentation_type vlan, and only there"
        return None


class NetworkGatewayProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    devices: list[GatewayDevice] = prop(update=True, length=(1, None), doc="Its devices.")
    connections: list[Connection] = prop([], update=True, api="", doc="The networks that it connects.")


class NetworkGateway(
    NeutronResource[NetworkGatewayProps], type="OS::Neutron::NetworkGateway", kind="network.network_gateway"
):
    """A gateway of devices that connect networks of the cloud to physical ones."""

    support_status = SupportStatus(version="2014.1")
    described = False
    shown = {"default": (str, "True if it is the default gateway.")}

    def _connections(self, properties: JsonMap) -> list[JsonMap]:
        """Return the connections of resolved properties in the service's form."""
        return cast(list[JsonMap], self.schema.fields["connections"].wire(properties.get("connections") or []))

    def is_to_finish(self) -> bool:
        return super().is_to_finish() or bool(self.facts.properties.get("connections"))

    def finish(self) -> None:
        """Make the connections that the gateway lacks."""
        super().finish()
        ports = cast(list[JsonMap], self.fetch().get("ports") or [])
        for one in self._connections(self.resolved(self.facts.properties)):
            if not any(is_as_requested(port, one) for port in ports):
                self.service("connect_network_gateway", self.physical_id, **one)

    def handle_update(self, change: Change) -> Json:
        """Update the gateway. Changed devices need a new one."""
        token = super().handle_update(change)
        if "connections" in change.changed:
            before = self._connections(self.known(cast(JsonMap, change.before)))
            after = self._connections(self.resolved(cast(JsonMap, change.after)))
            for verb, ours, others in (("disconnect", before, after), ("connect", after, before)):
                for one in ours:
                    if one not in others:
                        self.service(f"{verb}_network_gateway", self.physical_id, **one)
        return token

    def needs_replace(self, change: Change) -> bool:
        """True for other devices, which the service cannot change."""
        return "devices" in change.changed

    def handle_delete(self) -> Json:
        if self.physical_id is not None:
            for port in cast(list[JsonMap], self.seen.get("ports") or []):
                names = ("network_id", "segmentation_type", "segmentation_id")
                one = {name: port[name] for name in names if port.get(name) is not None}
                self.service("disconnect_network_gateway", self.physical_id, **one)
        return super().handle_delete()
