"""Simulated network service (Neutron)."""

from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.network import (
    addresses,
    agents,
    policies,
    ports,
    qos,
    routers,
    security,
    trunks,
)
from heatlite.features.simulator.services.network.common import tagging
from heatlite.features.simulator.simulation import SimulatedProject, Verb

PUBLIC = "172.24.4.0/22"
"""Addresses of the initial external network (devstack's)."""

MODULES = (addresses, ports, routers, security, qos, trunks, policies, agents)

COLLECTIONS: list[Collection] = [collection for module in MODULES for collection in module.COLLECTIONS]

EXTENSIONS = ("router", "qos", "trunk", "security-group", "address-scope", "rbac-policies", "segment", "quotas")


def _extensions(view: SimulatedProject) -> Json:
    return [{"alias": alias} for alias in EXTENSIONS]


VERBS: dict[str, Verb] = {
    "network.extensions": _extensions,
    "network.set_tags": tagging,
    **{name: verb for module in MODULES for name, verb in module.VERBS.items()},
}


def furnish(view: SimulatedProject) -> None:
    """Create an external network, as every cloud has one."""
    flat: JsonMap = {"router:external": True, "provider:network_type": "flat", "provider:physical_network": "public"}
    made = view.call("network.create_network", name="public", mtu=1500, **flat)
    assert isinstance(made, dict)
    view.call("network.create_subnet", name="public-subnet", network_id=made["id"], cidr=PUBLIC, ip_version=4,
              enable_dhcp=False)  # fmt: skip
    agents.furnish(view)
