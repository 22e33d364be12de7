"""Firewalls of the firewall service's first version, still found in some clouds."""

from heatlite.core.json import Json
from heatlite.plugin import Schema, prop
from heatlite.resources.neutron.base import AttendedResource, ValueSpecs

SHOWN = {
    "name": (str, "Its name."),
    "description": (str, "Its description."),
    "shared": (str, "True if all projects may use it."),
    "tenant_id": (str, "The project that owns it."),
}


class FirewallProps(ValueSpecs):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    firewall_policy_id: str = prop(update=True, doc="The id of its policy.")
    shared: bool | None = prop(update=True, doc="True if all projects may use it.")


class Firewall(AttendedResource[FirewallProps], type="OS::Neutron::Firewall", kind="network.fwaas_firewall"):
    """A firewall of all routers of a project."""

    ready = frozenset({"ACTIVE", "INACTIVE", "DOWN"})
    blocks = frozenset({"OS::Neutron::FirewallPolicy"})
    shown = {
        **SHOWN,
        "admin_state_up": (str, "True if it is administratively up."),
        "firewall_policy_id": (str, "The id of its policy."),
        "status": (str, "Its status."),
    }


class FirewallPolicyProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    shared: bool = prop(False, update=True, doc="True if all projects may use it.")
    audited: bool = prop(False, update=True, doc="True if it has been audited; each change ends that.")
    firewall_rules: list[Json] | None = prop(update=True, doc="The ids of its rules, in their order.")


class FirewallPolicy(
    AttendedResource[FirewallPolicyProps], type="OS::Neutron::FirewallPolicy", kind="network.fwaas_policy"
):
    """A list of rules for firewalls."""

    plural = "fwaas_policies"
    blocks = frozenset({"OS::Neutron::FirewallRule"})
    shown = {
        **SHOWN,
        "audited": (str, "True if it has been audited."),
        "firewall_rules": (list, "The ids of its rules."),
    }


class FirewallRuleProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    shared: bool = prop(False, update=True, doc="True if all projects may use it.")
    protocol: str = prop(
        "any", update=True, one_of=("tcp", "udp", "icmp", "any"), doc="The protocol of the packets."
    )
    ip_version: str = prop("4", update=True, one_of=("4", "6"), doc="The version of IP.")
    source_ip_address: str | None = prop(update=True, custom="net_cidr", doc="The source, an address or a network.")
    destination_ip_address: str | None = prop(
        update=True, custom="net_cidr", doc="The destination, an address or a network."
    )
    source_port: str | None = prop(update=True, doc="The source port, or a range as 80:90.")
    destination_port: str | None = prop(update=True, doc="The destination port, or a range as 80:90.")
    action: str = prop("deny", update=True, one_of=("allow", "deny"), doc="The treatment of such packets.")
    enabled: bool = prop(True, update=True, doc="True if it is in force.")


class FirewallRule(AttendedResource[FirewallRuleProps], type="OS::Neutron::FirewallRule", kind="network.fwaas_rule"):
    """A rule for packets through a firewall."""

    shown = {
        **SHOWN,
        "action": (str, "The treatment of such packets."),
        "destination_ip_address": (str, "The destination."),
        "destination_port": (str, "The destination port."),
        "enabled": (str, "True if it is in force."),
        "firewall_policy_id": (str, "The policy that has it."),
        "ip_version": (str, "The version of IP."),
        "position": (str, "Its place in that policy."),
        "protocol": (str, "The protocol of the packets."),
        "source_ip_address": (str, "The source."),
        "source_port": (str, "The source port."),
    }

    def sent(self, names: frozenset[str] | None = None) -> dict[str, Json]:
        """Return the properties; the service has null for any protocol."""
        found = super().sent(names)
        return {**found, "protocol": None} if found.get("protocol") == "any" else found
