"""Service function chains: traffic that is steered through ports of machines."""

from heatlite.core.json import Json
from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.neutron.base import NeutronResource


def _unsupported(version: str) -> SupportStatus:
    return SupportStatus("UNSUPPORTED", version, "The service function chaining extension of Neutron is needed.")


class PortPairProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    ingress: str = prop(find="neutron.port", doc="The port where traffic enters the machine, by name or id.")
    egress: str = prop(find="neutron.port", doc="The port where traffic leaves the machine, by name or id.")
    service_function_parameters: dict[str, Json] = prop({"correlation": None}, doc="Parameters of the machine.")


class PortPair(NeutronResource[PortPairProps], type="OS::Neutron::PortPair", kind="network.sfc_port_pair"):
    """The two ports of a machine that traffic is steered through."""

    network_extension = "sfc"
    support_status = _unsupported("7.0.0")
    alone = frozenset({"ingress", "egress"})
    blocks = frozenset({"OS::Neutron::Port"})


class PortPairGroupProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    port_pairs: list[str] = prop(
        items=prop(find="neutron.port_pair"), update=True, doc="Its port pairs, by name or id."
    )


class PortPairGroup(
    NeutronResource[PortPairGroupProps], type="OS::Neutron::PortPairGroup", kind="network.sfc_port_pair_group"
):
    """Port pairs of machines with the same function."""

    network_extension = "sfc"
    support_status = _unsupported("8.0.0")
    blocks = frozenset({"OS::Neutron::PortPair"})


class FlowClassifierProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    protocol: str | None = prop(one_of=("tcp", "udp", "icmp"), doc="The protocol of the traffic.")
    ethertype: str = prop("IPv4", one_of=("IPv4", "IPv6"), doc="The version of IP.")
    source_ip_prefix: str | None = prop(custom="net_cidr", doc="The source network.")
    destination_ip_prefix: str | None = prop(custom="net_cidr", doc="The destination network.")
    source_port_range_min: int | None = prop(between=(1, 65535), doc="The lowest source port.")
    source_port_range_max: int | None = prop(between=(1, 65535), doc="The highest source port.")
    destination_port_range_min: int | None = prop(between=(1, 65535), doc="The lowest destination port.")
    destination_port_range_max: int | None = prop(between=(1, 65535), doc="The highest destination port.")
    logical_source_port: str | None = prop(
        find="neutron.port", doc="The port that the traffic comes from, by name or id."
    )
    logical_destination_port: str | None = prop(
        find="neutron.port", doc="The port that the traffic goes to, by name or id."
    )
    l7_parameters: dict[str, Json] | None = prop(doc="Parameters of the application layer.")


class FlowClassifier(
    NeutronResource[FlowClassifierProps], type="OS::Neutron::FlowClassifier", kind="network.sfc_flow_classifier"
):
    """A description of the traffic that a chain is for."""

    network_extension = "sfc"
    support_status = _unsupported("8.0.0")
    blocks = frozenset({"OS::Neutron::Port"})


class PortChainProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    port_pair_groups: list[str] = prop(
        items=prop(find="neutron.port_pair_group"),
        update=True,
        doc="The groups of port pairs that traffic passes in this order, by name or id.",
    )
    flow_classifiers: list[str] = prop(
        [], items=prop(find="neutron.flow_classifier"), update=True, doc="Its traffic: flow classifiers by name or id."
    )
    chain_parameters: dict[str, Json] = prop({"correlation": "mpls"}, doc="Parameters of the chain.")


class PortChain(NeutronResource[PortChainProps], type="OS::Neutron::PortChain", kind="network.sfc_port_chain"):
    """A chain of machines that traffic passes."""

    network_extension = "sfc"
    support_status = _unsupported("8.0.0")
    blocks = frozenset({"OS::Neutron::PortPairGroup", "OS::Neutron::FlowClassifier"})
