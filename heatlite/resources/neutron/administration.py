"""Address scopes, subnet pools, segments, RBAC policies and network quotas."""

from collections.abc import Mapping

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.neutron.base import NeutronResource, Tagged, Unnamed, overlap
from heatlite.resources.neutron.networks import NETWORK_TYPES
from heatlite.resources.quotas import ProjectQuota, QuotaProps


class AddressScopeProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    shared: bool = prop(False, update=True, doc="True if all projects may use it; only administrators may set it.")
    tenant_id: str | None = prop(
        find="keystone.project", doc="The project that owns it; only administrators may set it."
    )
    ip_version: int = prop(4, one_of=(4, 6), doc="Its version of IP.")


class AddressScope(NeutronResource[AddressScopeProps], type="OS::Neutron::AddressScope", kind="network.address_scope"):
    """A set of subnet pools that do not overlap and need no address translation."""

    support_status = SupportStatus(version="6.0.0")
    described = False


def _order_fault(less: str, least: int | None, more: str, most: int | None) -> str | None:
    if least is not None and most is not None and least > most:
        return f"{less} ({least}) must not be greater than {more} ({most})"
    return None


class SubnetPoolProps(Tagged):
    name: str | None = prop(update=True, doc="Its name.")
    prefixes: list[str] = prop(items=prop(custom="net_cidr"), update=True, length=(1, None), doc="Its addresses.")
    address_scope: str | None = prop(
        update=True, find="neutron.address_scope", api="address_scope_id", doc="Its address scope, by name or id."
    )
    default_quota: int | None = prop(
        update=True, between=(0, None), doc="Quota of a project, in addresses; with IPv6, in subnets of 64 bits."
    )
    default_prefixlen: int | None = prop(
        update=True, between=(0, None), doc="Default prefix length of a subnet, in bits."
    )
    min_prefixlen: int | None = prop(update=True, between=(0, None), doc="The shortest prefix of a subnet, in bits.")
    max_prefixlen: int | None = prop(update=True, between=(0, None), doc="The longest prefix of a subnet, in bits.")
    is_default: bool = prop(False, update=True, doc="True if it is the default pool; only administrators may set it.")
    shared: bool = prop(False, doc="True if all projects may use it; only administrators may set it.")
    tenant_id: str | None = prop(blank=True, doc="The project that owns it; only administrators may set it.")

    def fault_min_and_default(self) -> str | None:
        return _order_fault("min_prefixlen", self.min_prefixlen, "default_prefixlen", self.default_prefixlen)

    def fault_default_and_max(self) -> str | None:
        return _order_fault("default_prefixlen", self.default_prefixlen, "max_prefixlen", self.max_prefixlen)

    def fault_min_and_max(self) -> str | None:
        return _order_fault("min_prefixlen", self.min_prefixlen, "max_prefixlen", self.max_prefixlen)


class SubnetPool(NeutronResource[SubnetPoolProps], type="OS::Neutron::SubnetPool", kind="network.subnet_pool"):
    """A pool of addresses from which subnets are allocated."""

    counts = ("network.subnetpool",)
    support_status = SupportStatus(version="6.0.0")
    blocks = frozenset({"OS::Neutron::AddressScope"})

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other pool has the same address scope and overlapping addresses."""
        own, new = self.facts.properties, properties
        scope = own.get("address_scope")
        return scope is not None and scope == new.get("address_scope") and overlap(own["prefixes"], new["prefixes"])


class SegmentProps(Schema):
    network: str = prop(find="neutron.network", api="network_id", doc="The network that it is part of, by name or id.")
    network_type: str = prop(one_of=NETWORK_TYPES, doc="The type of the network.")
    physical_network: str | None = prop(doc="The physical network.")
    segmentation_id: int | None = prop(between=(1, None), doc="The segmentation id, such as a VLAN id.")
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")


class Segment(NeutronResource[SegmentProps], type="OS::Neutron::Segment", kind="network.segment"):
    """A segment of a network; only administrators may create one."""

    support_status = SupportStatus(version="9.0.0")

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other segment has the same physical network and network or id."""
        own = self.facts.properties
        same = {name for name in own if own[name] is not None and own[name] == properties.get(name)}
        return "physical_network" in same and not same.isdisjoint({"network", "segmentation_id"})

    blocks = frozenset({"OS::Neutron::Net", "OS::Neutron::ProviderNet"})


OBJECTS = {
    "network": "neutron.network",
    "qos_policy": "neutron.qos_policy",
    "security_group": "neutron.security_group",
    "address_scope": "neutron.address_scope",
    "subnetpool": "neutron.subnetpool",
}
"""Type of object that an RBAC policy can share → the constraint that finds one by name."""
EXTERNAL = "access_as_external"


class RBACPolicyProps(Schema):
    object_type: str = prop(one_of=tuple(OBJECTS), doc="The type of the shared object.")
    object_id: str = prop(doc="The shared object, by name or id.")
    target_tenant: str = prop(update=True, doc="The project that gets access; *: all projects.")
    action: str = prop(
        one_of=("access_as_shared", EXTERNAL), doc="The access granted: as a shared object, or as an external network."
    )
    tenant_id: str | None = prop(blank=True, doc="The project that owns the policy; only administrators may set it.")

    def fault(self) -> str | None:
        if self.action == EXTERNAL and self.object_type != "network":
            return f"The action {EXTERNAL} is for networks, not for the object type {self.object_type}"
        return None


class RBACPolicy(Unnamed[RBACPolicyProps], type="OS::Neutron::RBACPolicy", kind="network.rbac_policy"):
    """Gives another project access to an object."""

    counts = ("network.rbac_policy",)
    support_status = SupportStatus(version="6.0.0")
    plural = "rbac_policies"
    alone = frozenset({"object_id", "target_tenant", "action"})

    def told(self) -> JsonMap:
        return {name: self.fetched.get(name) for name in ("object_type", "object_id")}

    def ids_in(self, name: str, value: Json) -> Json:
        if name == "object_id":
            return self._finders.id_of(OBJECTS[self.props.object_type], str(value))
        return super().ids_in(name, value)


class NetworkQuotaProps(QuotaProps):
    subnet: int | None = prop(update=True, between=(-1, None), doc="Maximum number of subnets; -1: unlimited.")
    network: int | None = prop(update=True, between=(-1, None), doc="Maximum number of networks; -1: unlimited.")
    floatingip: int | None = prop(update=True, between=(-1, None), doc="Maximum number of floating IPs; -1: unlimited.")
    security_group_rule: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of security group rules; -1: unlimited."
    )
    security_group: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of security groups; -1: unlimited."
    )
    router: int | None = prop(update=True, between=(-1, None), doc="Maximum number of routers; -1: unlimited.")
    port: int | None = prop(update=True, between=(-1, None), doc="Maximum number of ports; -1: unlimited.")
    subnetpool: int | None = prop(update=True, between=(-1, None), doc="Maximum number of subnet pools; -1: unlimited.")
    rbac_policy: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of RBAC policies; -1: unlimited."
    )


class Quota(ProjectQuota[NetworkQuotaProps], type="OS::Neutron::Quota", kind="network.quota"):
    """Network quotas of a project. Deletion restores the default quotas."""

    support_status = SupportStatus(version="8.0.0")
    kept_when_well = True
