"""Types of removed services: refused with the name of a successor.

Stacks that have such resources already, adopted ones for example, can be deleted, and updated to a template without
them.
"""

from collections.abc import Mapping
from typing import Final, cast

from msgspec import Struct

from heatlite.plugin import Resource, SupportStatus
from heatlite.resources.heat.values import NoneProps


class Left(Struct, frozen=True):
    """Reason why a type is gone."""

    version: str | None
    """Version of Heat that has hidden it; None: Heat still offers it."""
    successor: str
    """Type to use instead; "": there is none."""
    service: str = ""
    """Name of a service that is gone."""
    advice: str = ""
    """Advice, where no type takes its place."""


_SAHARA: Final = Left("23.0.0", "", "Sahara")
_FIREWALLS: Final = Left(None, "", "FWaaS v1", "Use security groups instead.")
_MONASCA: Final = Left("25.0.0", "OS::Aodh::PrometheusAlarm", "Monasca")

GONE: Final[Mapping[str, Left]] = {
    "OS::Aodh::CombinationAlarm": Left("9.0.0", "OS::Aodh::CompositeAlarm"),
    "OS::Designate::Domain": Left("10.0.0", "OS::Designate::Zone"),
    "OS::Designate::Record": Left("10.0.0", "OS::Designate::RecordSet"),
    "OS::Glance::Image": Left("22.0.0", "OS::Glance::WebImage"),
    "OS::Heat::HARestarter": Left("10.0.0", "", advice="Mark resources unhealthy, and update the stack, instead."),
    "OS::Magnum::Bay": Left("11.0.0", "OS::Magnum::Cluster"),
    "OS::Magnum::BayModel": Left("11.0.0", "OS::Magnum::ClusterTemplate"),
    "OS::Monasca::AlarmDefinition": _MONASCA,
    "OS::Monasca::Notification": _MONASCA,
    **{f"OS::Neutron::{noun}": _FIREWALLS for noun in ("Firewall", "FirewallPolicy", "FirewallRule")},
    "OS::Neutron::HealthMonitor": Left("9.0.0", "OS::Octavia::HealthMonitor"),
    "OS::Neutron::LoadBalancer": Left("9.0.0", "OS::Octavia::LoadBalancer"),
    "OS::Neutron::NetworkGateway": Left(None, "", "VMware NSX for Neutron"),
    "OS::Neutron::Pool": Left("9.0.0", "OS::Octavia::Pool"),
    "OS::Neutron::PoolMember": Left("9.0.0", "OS::Octavia::PoolMember"),
    **{
        f"OS::Neutron::LBaaS::{noun}": Left("21.0.0", f"OS::Octavia::{noun}", "Neutron LBaaS")
        for noun in ("HealthMonitor", "L7Policy", "L7Rule", "Listener", "LoadBalancer", "Pool", "PoolMember")
    },
    **{
        f"OS::Sahara::{noun}": _SAHARA
        for noun in (
            "Cluster", "ClusterTemplate", "DataSource", "ImageRegistry", "Job", "JobBinary", "NodeGroupTemplate",
        )
    },
    "OS::Senlin::Cluster": Left("23.0.0", "OS::Heat::AutoScalingGroup", "Senlin"),
    "OS::Senlin::Node": Left("23.0.0", "OS::Nova::Server", "Senlin"),
    "OS::Senlin::Policy": Left("23.0.0", "OS::Heat::ScalingPolicy", "Senlin"),
    "OS::Senlin::Profile": Left("23.0.0", "OS::Heat::AutoScalingGroup", "Senlin"),
    "OS::Senlin::Receiver": Left("23.0.0", "OS::Heat::ScalingPolicy", "Senlin"),
    "OS::Vitrage::Template": Left("27.0.0", "", "Vitrage"),
}  # fmt: skip
"""Types by name."""


class GoneResource(Resource[NoneProps]):
    """A type that is gone."""

    quick = True
    any_attribute = True


def _class(type_name: str, left: Left) -> type[GoneResource]:
    cause = f"the service {left.service} is gone" if left.service else "it is gone"
    instead = f"Use {left.successor} instead." if left.successor else left.advice or "There is no successor."
    text = f"{type_name} cannot be used: {cause}. {instead}"
    members = {"__doc__": text, "gone": text, "support_status": SupportStatus("HIDDEN", left.version, text)}
    return cast(type[GoneResource], type(type_name.replace(":", ""), (GoneResource,), members, type=type_name))


def __getattr__(name: str) -> type[GoneResource]:
    """Return the class of a type, which is called by the type's name without colons."""
    found = [(type_name, left) for type_name, left in GONE.items() if type_name.replace(":", "") == name]
    if not found:
        raise AttributeError(name)
    return _class(*found[0])
