"""Layer 2 gateways: connect networks of a cloud to physical ones."""

from heatlite.core.json import Json
from heatlite.plugin import Schema, SupportStatus, prop
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

    network_extension = "l2-gateway"
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

    network_extension = "l2-gateway"
    support_status = SupportStatus(version="12.0.0")
    alone = frozenset({"l2_gateway_id", "network_id"})
    blocks = frozenset({"OS::Neutron::L2Gateway", "OS::Neutron::Net", "OS::Neutron::ProviderNet"})
