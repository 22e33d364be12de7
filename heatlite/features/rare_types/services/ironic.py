"""The type of ports of bare metal."""

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource, Schema, SupportStatus, prop


class PortProps(Schema):
    node: str = prop(update=True, find="ironic.node", api="node_uuid", doc="The node that has it, by name or id.")
    address: str = prop(update=True, doc="Its MAC address.")
    portgroup: str | None = prop(
        update=True, find="ironic.portgroup", api="portgroup_uuid", doc="Its port group, by name or id."
    )
    local_link_connection: dict[str, Json] | None = prop(
        update=True, doc="The port of the switch that it is connected to."
    )
    pxe_enabled: bool | None = prop(update=True, doc="True if the node boots from it.")
    physical_network: str | None = prop(update=True, doc="Its physical network.")
    extra: dict[str, Json] | None = prop(update=True, doc="Further data.")
    is_smartnic: bool | None = prop(update=True, doc="True if it is a smart network card.")


class Port(CloudResource[PortProps], type="OS::Ironic::Port", kind="baremetal.port"):
    """A port of a node of bare metal. For administrators."""

    support_status = SupportStatus(version="13.0.0")
    alone = frozenset({"address"})
    shown = {
        "address": (str, "Its MAC address."),
        "extra": (dict, "Further data."),
        "internal_info": (dict, "Data of the service."),
        "is_smartnic": (bool, "True if it is a smart network card."),
        "local_link_connection": (dict, "The port of the switch that it is connected to."),
        "node_uuid": (str, "The id of its node."),
        "physical_network": (str, "Its physical network."),
        "portgroup_uuid": (str, "The id of its port group."),
        "pxe_enabled": (bool, "True if the node boots from it."),
    }

    def identity(self) -> JsonMap:
        """Return the MAC address: no two ports have the same."""
        return {"address": self.facts.properties["address"]}
