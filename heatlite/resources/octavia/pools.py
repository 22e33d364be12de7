"""Pools, their members and health monitors."""

from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.clients.finders import identity
from heatlite.core.json import Json, JsonMap, as_maps
from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.plugin.groups import BY_ADDRESS
from heatlite.resources.octavia.balancers import PROTOCOLS
from heatlite.resources.octavia.base import OctaviaResource


class SessionPersistence(Schema):
    type: str = prop(one_of=("SOURCE_IP", "HTTP_COOKIE", "APP_COOKIE"), doc="The method to recognize a client.")
    cookie_name: str | None = prop(doc="The application's cookie, for APP_COOKIE.")

    def fault(self) -> str | None:
        if (self.type == "APP_COOKIE") != (self.cookie_name is not None):
            return f"cookie_name belongs to APP_COOKIE, and only there; the type is {self.type}."
        return None


class PoolProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str = prop("", update=True, doc="Its description.")
    loadbalancer: str | None = prop(
        find="octavia.loadbalancer", api="loadbalancer_id", doc="The load balancer it is part of, by name or id."
    )
    listener: str | None = prop(
        find="octavia.listener", api="listener_id", doc="The listener that sends it requests, by name or id."
    )
    protocol: str = prop(one_of=PROTOCOLS, doc="The protocol for its members.")
    lb_algorithm: str = prop(
        update=True,
        one_of=("ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"),
        doc="The algorithm that selects a member for a request.",
    )
    session_persistence: SessionPersistence | None = prop(
        update=True, doc="Session persistence: keeps a client at one member."
    )
    tls_enabled: bool = prop(False, update=True, doc="True if connections to members use TLS.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")

    def fault(self) -> str | None:
        if self.loadbalancer is None and self.listener is None:
            return "A pool is part of a loadbalancer or of a listener: give one of them."
        return None


class Pool(OctaviaResource[PoolProps], type="OS::Octavia::Pool", kind="load_balancer.pool"):
    """A pool: machines that handle the same requests."""

    counts = ("load_balancer.pool",)
    support_status = SupportStatus(version="10.0.0")
    alone = frozenset({"listener"})
    blocks = frozenset({"OS::Octavia::LoadBalancer", "OS::Octavia::Listener"})
    shown = {
        "healthmonitor_id": (str, "The id of its health monitor."),
        "listeners": (str, "The listeners that send it requests."),
        "members": (list, "Its members."),
    }

    def told(self) -> JsonMap:
        of = "listener" if self.fetched.get("listeners") else "loadbalancer"
        found = as_maps(self.fetched.get(f"{of}s"))
        return {of: found[0]["id"]} if found else {}


class PoolMemberProps(Schema):
    pool: str = prop(find="octavia.pool", api="", doc="The pool it is part of, by name or id.")
    address: str = prop(custom="ip_addr", doc="Its address.")
    protocol_port: int = prop(between=(1, 65535), doc="The port it listens on.")
    subnet: str | None = prop(
        find="neutron.subnet", api="subnet_id", doc="The subnet through which it is reached, by name or id."
    )
    weight: int = prop(1, update=True, between=(0, 256), doc="Its weight: its share of the requests.")
    monitor_address: str | None = prop(custom="ip_addr", doc="The address for health checks, if different.")
    monitor_port: int | None = prop(between=(1, 65535), doc="The port for health checks, if different.")
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    tags: list[Json] | None = prop(update=True, doc="Tags of the member.")


class PoolMember(OctaviaResource[PoolMemberProps], type="OS::Octavia::PoolMember", kind="load_balancer.member"):
    """A member of a pool: a machine that handles requests."""

    counts = ("load_balancer.member",)
    support_status = SupportStatus(version="10.0.0")
    within = "pool"
    blocks = frozenset({"OS::Octavia::Pool"})
    alone = frozenset({"pool", "address", "protocol_port"})

    def find(self) -> str | None:
        """Return the pool's member by its name.

        One that a policy asks for is known by its address, also if others have made it.
        """
        if BY_ADDRESS not in self.data:
            return super().find()
        place = self.props.address, self.props.protocol_port
        with suppress(CloudNotFound):
            for one in cast(list[JsonMap], self.service("members", *self.whole)):
                if (one["address"], one["protocol_port"]) == place:
                    return identity(one)
        return None

    def handle_create(self) -> Json:
        try:
            return super().handle_create()
        except CloudConflict:
            if BY_ADDRESS not in self.data or (found := self.find()) is None:
                raise
            self.physical_id = found
            return None


class HealthMonitorProps(Schema):
    pool: str = prop(find="octavia.pool", api="pool_id", doc="The pool whose members it checks, by name or id.")
    type: str = prop(one_of=("PING", "TCP", "HTTP", "HTTPS", "UDP-CONNECT"), doc="The type of the health check.")
    delay: int = prop(update=True, between=(0, None), doc="Seconds between two checks.")
    timeout: int = prop(update=True, between=(0, None), doc="Timeout of a check in seconds.")
    max_retries: int = prop(
        update=True, between=(1, 10), doc="Number of consecutive successful checks after which a member is healthy."
    )
    http_method: str | None = prop(
        update=True,
        one_of=("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH"),
        doc="The HTTP method of a check.",
    )
    url_path: str | None = prop(update=True, doc="The URL path of a check.")
    expected_codes: str | None = prop(
        update=True, doc="The expected HTTP status codes, such as 200, 200,202 or 200-204."
    )
    admin_state_up: bool = prop(True, update=True, doc="True if it is administratively up.")
    tenant_id: str | None = prop(
        blank=True, api="project_id", doc="The project that owns it; only administrators may set it."
    )


class HealthMonitor(
    OctaviaResource[HealthMonitorProps], type="OS::Octavia::HealthMonitor", kind="load_balancer.health_monitor"
):
    """A health monitor: checks the members of a pool."""

    counts = ("load_balancer.healthmonitor",)
    support_status = SupportStatus(version="10.0.0")
    alone = frozenset({"pool"})
    blocks = frozenset({"OS::Octavia::Pool"})
    shown = {"pools": (list, "The pool whose members it checks.")}
