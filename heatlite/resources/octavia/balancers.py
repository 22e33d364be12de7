"""Load balancers and their listeners."""

from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.octavia.base import OctaviaResource

PROTOCOLS = ("TCP", "HTTP", "HTTPS", "TERMINATED_HTTPS", "PROXY", "UDP")


class LoadBalancerProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str = prop("", update=True, doc="Its description.")
    vip_subnet: str = prop(find="neutron.subnet", api="vip_subnet_id", doc="The subnet of its address, by name or id.")
    vip_address: str | None = prop(custom="ip_addr", doc="Its address; default: a free one of the subnet.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    provider: str | None = prop(doc="The provider of the load balancer.")
    flavor: str | None = prop(find="octavia.flavor", api="flavor_id", doc="Its flavor, by name or id.")
    availability_zone: str | None = prop(find="octavia.availabilityzone", doc="Its availability zone.")
    tenant_id: str | None = prop(
        find="keystone.project", api="project_id", doc="The project that owns it; only administrators may set it."
    )


class LoadBalancer(
    OctaviaResource[LoadBalancerProps], type="OS::Octavia::LoadBalancer", kind="load_balancer.load_balancer"
):
    """A load balancer: one address in front of many machines."""

    counts = ("load_balancer.loadbalancer", "network.port")
    support_status = SupportStatus(version="10.0.0")
    alone = frozenset({"vip_subnet", "vip_address"})
    blocks = frozenset({"OS::Neutron::Subnet"})
    shown = {
        "vip_address": (str, "Its address."),
        "vip_port_id": (str, "The port of its address."),
        "vip_subnet_id": (str, "The subnet of its address."),
        "pools": (list, "Its pools."),
        "flavor_id": (str, "The id of its flavor."),
    }


class ListenerProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str = prop("", update=True, doc="Its description.")
    loadbalancer: str = prop(
        find="octavia.loadbalancer", api="loadbalancer_id", doc="The load balancer it is part of, by name or id."
    )
    protocol: str = prop(one_of=PROTOCOLS, doc="The protocol.")
    protocol_port: int = prop(between=(1, 65535), doc="The port it listens on.")
    default_pool: str | None = prop(
        update=True,
        find="octavia.pool",
        api="default_pool_id",
        doc="The default pool, for requests that no policy handles.",
    )
    connection_limit: int = prop(
        -1, update=True, between=(-1, None), doc="Maximum number of simultaneous connections; -1: unlimited."
    )
    allowed_cidrs: list[str] | None = prop(
        items=prop(custom="net_cidr"), update=True, doc="The networks that may connect; default: all."
    )
    default_tls_container_ref: str | None = prop(update=True, blank=True, doc="The container with its certificate.")
    sni_container_refs: list[Json] | None = prop(update=True, doc="Containers with certificates for other names.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    tenant_id: str | None = prop(
        blank=True, api="project_id", doc="The project that owns it; only administrators may set it."
    )

    def fault(self) -> str | None:
        if self.protocol == "TERMINATED_HTTPS" and self.default_tls_container_ref is None:
            return "TERMINATED_HTTPS needs a certificate: give default_tls_container_ref."
        return None


class Listener(OctaviaResource[ListenerProps], type="OS::Octavia::Listener", kind="load_balancer.listener"):
    """A listener: a port of a load balancer."""

    counts = ("load_balancer.listener",)
    support_status = SupportStatus(version="10.0.0")
    alone = frozenset({"loadbalancer", "protocol_port"})
    blocks = frozenset({"OS::Octavia::LoadBalancer"})
    shown = {
        "loadbalancers": (list, "The load balancer that it is part of."),
        "default_pool_id": (str, "The default pool, for requests that no policy handles."),
    }

    def told(self) -> JsonMap:
        found = as_maps(self.fetched.get("loadbalancers"))
        return {"loadbalancer": found[0]["id"]} if found else {}
