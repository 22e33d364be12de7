"""QoS policies and their rules."""

from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.neutron.base import NeutronResource, Unnamed

MARKS = (0, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 46, 48, 56)


class QoSPolicyProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    shared: bool = prop(False, update=True, doc="True if all projects may use it.")
    tenant_id: str | None = prop(blank=True, doc="The project that owns it.")


class QoSPolicy(NeutronResource[QoSPolicyProps], type="OS::Neutron::QoSPolicy", kind="network.qos_policy"):
    """A QoS policy: traffic rules for ports and networks.

    Only administrators may create one.
    """

    support_status = SupportStatus(version="6.0.0")
    plural = "qos_policies"
    shown = {"rules": (list, "All attributes of its rules.")}


class RuleProps(Schema):
    policy: str = prop(find="neutron.qos_policy", api="", doc="The policy that it is part of, by name or id.")
    tenant_id: str | None = prop(blank=True, api="", doc="Without effect: a rule belongs to its policy.")


class BandwidthLimitProps(RuleProps):
    max_kbps: int = prop(update=True, between=(0, None), doc="Maximum bandwidth, in kilobits per second.")
    max_burst_kbps: int = prop(
        0, update=True, between=(0, None), doc="Maximum burst size, in kilobits; 0: the default."
    )
    direction: str = prop("egress", update=True, one_of=("egress", "ingress"), doc="The direction of the traffic.")


class DscpMarkingProps(RuleProps):
    dscp_mark: int = prop(update=True, one_of=MARKS, doc="The DSCP mark of packets.")


class MinimumBandwidthProps(RuleProps):
    min_kbps: int = prop(update=True, between=(0, None), doc="Minimum bandwidth, in kilobits per second.")
    direction: str = prop("egress", update=True, one_of=("egress", "ingress"), doc="The direction of the traffic.")


class MinimumPacketRateProps(RuleProps):
    min_kpps: int = prop(update=True, between=(0, None), doc="Minimum packet rate, in thousands of packets per second.")
    direction: str = prop(
        "egress", update=True, one_of=("any", "egress", "ingress"), doc="The direction of the traffic."
    )


class QoSBandwidthLimitRule(
    Unnamed[BandwidthLimitProps], type="OS::Neutron::QoSBandwidthLimitRule", kind="network.qos_bandwidth_limit_rule"
):
    """A bandwidth limit."""

    support_status = SupportStatus(version="6.0.0")
    within = "policy"
    alone = frozenset({"policy", "direction"})


class QoSDscpMarkingRule(
    Unnamed[DscpMarkingProps], type="OS::Neutron::QoSDscpMarkingRule", kind="network.qos_dscp_marking_rule"
):
    """A DSCP mark for packets."""

    support_status = SupportStatus(version="7.0.0")
    within = "policy"
    alone = frozenset({"policy"})


class QoSMinimumBandwidthRule(
    Unnamed[MinimumBandwidthProps],
    type="OS::Neutron::QoSMinimumBandwidthRule",
    kind="network.qos_minimum_bandwidth_rule",
):
    """A guaranteed minimum bandwidth."""

    support_status = SupportStatus(version="14.0.0")
    within = "policy"
    alone = frozenset({"policy", "direction"})


class QoSMinimumPacketRateRule(
    Unnamed[MinimumPacketRateProps],
    type="OS::Neutron::QoSMinimumPacketRateRule",
    kind="network.qos_minimum_packet_rate_rule",
):
    """A guaranteed minimum packet rate."""

    support_status = SupportStatus(version="19.0.0")
    within = "policy"
    alone = frozenset({"policy", "direction"})
