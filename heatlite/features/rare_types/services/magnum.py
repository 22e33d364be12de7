"""Types of the service for clusters of containers."""

from contextlib import suppress

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop
from heatlite.plugin.naming import is_as_requested

BEFORE = "before"
"""Data key with the state of a cluster before the last request to change it."""


class ClusterTemplateProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    image: str = prop(find="glance.image", api="image_id", doc="The image of the nodes, by name or id.")
    flavor: str | None = prop(find="nova.flavor", api="flavor_id", doc="The flavor of the nodes, by name or id.")
    master_flavor: str | None = prop(
        find="nova.flavor", api="master_flavor_id", doc="The flavor of the master nodes, by name or id."
    )
    keypair: str | None = prop(find="nova.keypair", api="keypair_id", doc="The key pair of the nodes, by name.")
    external_network: str = prop(
        find="neutron.network", api="external_network_id", doc="The external network, by name or id."
    )
    fixed_network: str | None = prop(find="neutron.network", doc="The network of the nodes, by name or id.")
    fixed_subnet: str | None = prop(find="neutron.subnet", doc="The subnet of the nodes, by name or id.")
    network_driver: str | None = prop(doc="The driver of the containers' networks.")
    http_proxy: str | None = prop(doc="The proxy for HTTP.")
    https_proxy: str | None = prop(doc="The proxy for HTTPS.")
    no_proxy: str | None = prop(doc="Addresses without a proxy, separated by commas.")
    labels: dict[str, Json] | None = prop(doc="Labels: settings of the drivers.")
    tls_disabled: bool = prop(False, doc="True if the nodes do not use TLS.")
    public: bool = prop(False, update=True, doc="True if all projects may use it; only administrators may set it.")
    registry_enabled: bool = prop(False, doc="True if the cluster has a registry of images.")
    volume_driver: str | None = prop(one_of=("cinder", "rexray"), doc="The driver of the containers' volumes.")
    server_type: str = prop("vm", one_of=("vm", "bm"), doc="The type of the nodes: virtual machines or bare metal.")
    coe: str = prop(one_of=("kubernetes", "swarm", "mesos"), doc="The engine that runs the containers.")
    dns_nameserver: str | None = prop(custom="ip_addr", doc="The address of the name server.")
    docker_volume_size: int | None = prop(between=(1, None), doc="Size of each node's volume for images, in GiB.")
    docker_storage_driver: str = prop(
        "devicemapper", one_of=("devicemapper", "overlay"), doc="The driver of the images' storage."
    )
    master_lb_enabled: bool = prop(True, doc="True if a load balancer is before the master nodes.")
    floating_ip_enabled: bool = prop(True, doc="True if nodes have floating IPs.")


class ClusterTemplate(
    CloudResource[ClusterTemplateProps], type="OS::Magnum::ClusterTemplate", kind="container_infra.cluster_template"
):
    """A template for clusters."""

    support_status = SupportStatus(version="9.0.0")


class ClusterProps(Schema):
    name: str | None = prop(blank=True, doc="Its name.")
    cluster_template: str = prop(
        find="magnum.cluster_template", api="cluster_template_id", doc="Its template, by name or id."
    )
    keypair: str | None = prop(find="nova.keypair", doc="The key pair of the nodes, by name; default: the template's.")
    node_count: int = prop(1, update=True, between=(1, None), doc="Number of nodes.")
    master_count: int = prop(1, update=True, between=(1, None), doc="Number of master nodes.")
    discovery_url: str | None = prop(update=True, doc="The URL by which its nodes find each other.")
    create_timeout: int = prop(60, update=True, between=(0, None), doc="Timeout of its creation in minutes.")


class Cluster(CloudResource[ClusterProps], type="OS::Magnum::Cluster", kind="container_infra.cluster"):
    """A cluster of nodes that run containers.

    The service accepts a change before its conductor takes it. Until then it shows the cluster as it was.
    """

    support_status = SupportStatus(version="9.0.0")
    blocks = frozenset({"OS::Magnum::ClusterTemplate"})
    ready = frozenset({"CREATE_COMPLETE", "UPDATE_COMPLETE", "RESUME_COMPLETE", "ROLLBACK_COMPLETE"})
    broken = frozenset({"CREATE_FAILED", "UPDATE_FAILED", "DELETE_FAILED", "ROLLBACK_FAILED"})
    shown = {
        "api_address": (str, "The URL of its engine."),
        "cluster_template_id": (str, "The id of its template."),
        "coe_version": (str, "The version of its engine."),
        "container_version": (str, "The version of its containers' software."),
        "create_timeout": (int, "Timeout of its creation in minutes."),
        "discovery_url": (str, "The URL by which its nodes find each other."),
        "keypair": (str, "The key pair of the nodes."),
        "master_addresses": (list, "The addresses of the master nodes."),
        "master_count": (int, "Number of master nodes."),
        "name": (str, "Its name."),
        "node_addresses": (list, "The addresses of the nodes."),
        "node_count": (int, "Number of nodes."),
        "stack_id": (str, "The id of the stack with its machines."),
        "status": (str, "Its status."),
        "status_reason": (str, "The reason of its status."),
    }

    def handle_update(self, change: Change) -> Json:
        before, args = self.fetch(), self.update_args(change)
        super().handle_update(change)
        # The conductor leaves a cluster alone that is as requested already.
        self.data[BEFORE] = None if is_as_requested(before, args) else _state(before)
        return None

    def handle_delete(self) -> Json:
        before = None
        if self.physical_id is not None:
            with suppress(CloudNotFound):
                before = _state(self.fetch())
        super().handle_delete()
        self.data[BEFORE] = before
        return None

    def status_of(self, thing: JsonMap) -> str:
        """Return the cluster's status; "" until the conductor has taken the last change."""
        return "" if _state(thing) == self.data.get(BEFORE) else super().status_of(thing)


def _state(thing: JsonMap) -> list[Json]:
    """Return the attributes that each step of the conductor changes."""
    return [thing.get("status"), thing.get("updated_at")]
