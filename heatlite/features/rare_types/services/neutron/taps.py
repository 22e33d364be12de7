"""Copies and counts of traffic: taps, metering labels and rules."""

from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.neutron.base import AttendedResource, NeutronResource, Unnamed


class TapServiceProps(Schema):
    name: str = prop("", update=True, doc="Its name.")
    description: str = prop("", update=True, doc="Its description.")
    port: str = prop(find="neutron.port", api="port_id", doc="The port that gets the copies, by name or id.")


class TapService(AttendedResource[TapServiceProps], type="OS::Neutron::TaaS::TapService", kind="network.tap_service"):
    """A port that gets copies of traffic."""

    network_extension = "taas"
    support_status = SupportStatus(version="12.0.0")
    ready = frozenset({"ACTIVE"})
    alone = frozenset({"port"})
    blocks = frozenset({"OS::Neutron::Port"})


class TapFlowProps(Schema):
    name: str = prop("", update=True, doc="Its name.")
    description: str = prop("", update=True, doc="Its description.")
    port: str = prop(find="neutron.port", api="source_port", doc="The port whose traffic is copied, by name or id.")
    tap_service: str = prop(
        find="neutron.taas.tap_service",
        api="tap_service_id",
        doc="The tap service that gets the copies, by name or id.",
    )
    direction: str = prop("BOTH", one_of=("IN", "OUT", "BOTH"), doc="The direction of the traffic.")
    vlan_filter: str | None = prop(
        pattern=r"^([0-9]+(-[0-9]+)?)(,([0-9]+(-[0-9]+)?))*$", doc="VLANs whose traffic is copied, such as 9,18-27."
    )


class TapFlow(AttendedResource[TapFlowProps], type="OS::Neutron::TaaS::TapFlow", kind="network.tap_flow"):
    """Copies of a port's traffic for a tap service."""

    network_extension = "taas"
    support_status = SupportStatus(version="12.0.0")
    ready = frozenset({"ACTIVE"})
    blocks = frozenset({"OS::Neutron::Port", "OS::Neutron::TaaS::TapService"})


class MeteringLabelProps(Schema):
    name: str | None = prop(doc="Its name.")
    description: str | None = prop(doc="Its description.")
    shared: bool = prop(False, doc="True if all projects may use it.")


class MeteringLabel(
    NeutronResource[MeteringLabelProps], type="OS::Neutron::MeteringLabel", kind="network.metering_label"
):
    """A label under which traffic through routers is counted."""

    network_extension = "metering"
    support_status = SupportStatus(version="2014.1")
    shown = {
        "name": (str, "Its name."),
        "description": (str, "Its description."),
        "shared": (str, "True if all projects may use it."),
    }


class MeteringRuleProps(Schema):
    metering_label_id: str = prop(doc="The id of the label.")
    remote_ip_prefix: str = prop(doc="The remote network whose traffic counts.")
    direction: str = prop("ingress", one_of=("ingress", "egress"), doc="The direction of the traffic.")
    excluded: bool = prop(False, doc="True if this traffic does not count.")


class MeteringRule(Unnamed[MeteringRuleProps], type="OS::Neutron::MeteringRule", kind="network.metering_label_rule"):
    """A rule for the traffic that a label counts."""

    network_extension = "metering"
    support_status = SupportStatus(version="2014.1")
    alone = frozenset({"metering_label_id", "remote_ip_prefix", "direction"})
    shown = {
        "direction": (str, "The direction of the traffic."),
        "excluded": (str, "True if this traffic does not count."),
        "metering_label_id": (str, "The id of the label."),
        "remote_ip_prefix": (str, "The remote network."),
    }
