"""Pools, their members and health monitors."""

from heatlite.core.json import Json
from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.octavia.balancers import PROTOCOLS
from heatlite.resources.octavia.base import OctaviaResource


class SessionPersistence(Schema):
    type: str = prop(one_of=("SOURCE_IP", "HTTP_COOKIE", "APP_COOKIE"), doc="By what a client is known again.")
    cookie_name: str | None = prop(doc="The application's cookie, for APP_COOKIE.")


class PoolProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str = prop("", update=True, doc="What it is for.")
    loadbalancer: str | None = prop(
        find="octavia.loadbalancer", api="loadbalancer_id", doc="The load balancer it is part of, by name or id."
    )
    listener: str | None = prop(
        find="octavia.listener", api="listener_id", doc="The listener whose requests it gets, by name or id."
    )
    protocol: str = prop(one_of=PROTOCOLS, doc="What is spoken to its members.")
    lb_algorithm: str = prop(
        update=True,
        one_of=("ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"),
        doc="Which member gets a request.",
    )
    session_persistence: SessionPersistence | None = prop(update=True, doc="Whether a client stays with a member.")
    tls_enabled: bool = prop(False, update=True, doc="Whether what is said to members is encrypted.")
    admin_state_up: bool = prop(True, update=True, doc="Whether it gets requests.")

    def fault(self) -> str | None:
        if self.loadbalancer is None and self.listener is None:
            return "A pool is part of a loadbalancer or of a listener: give one of them."
        kept = self.session_persistence
        if kept is not None and (kept.type == "APP_COOKIE") != (kept.cookie_name is not None):
            return f"session_persistence: cookie_name belongs to APP_COOKIE, and only there; the type is {kept.type}."
        return None


class Pool(OctaviaResource[PoolProps], type="OS::Octavia::Pool", kind="load_balancer.pool"):
    """A pool: machines that handle the same requests."""

    support_status = SupportStatus(version="10.0.0")
    alone = frozenset({"listener"})
    blocks = frozenset({"OS::Octavia::LoadBalancer", "OS::Octavia::Listener"})
    shown = {
        "healthmonitor_id": (str, "How its members are watched."),
        "listeners": (str, "The listeners whose requests it gets."),
        "members": (list, "Its members."),
    }


class PoolMemberProps(Schema):
    pool: str = prop(find="octavia.pool", api="", doc="The pool it is part of, by name or id.")
    address: str = prop(custom="ip_addr", doc="Where it is.")
    protocol_port: int = prop(between=(1, 65535), doc="The port it listens on.")
    subnet: str | None = prop(find="neutron.subnet", api="subnet_id", doc="The subnet it is reached by, by name or id.")
    weight: int = prop(1, update=True, between=(0, 256), doc="How much of the work it gets.")
    monitor_address: str | None = prop(custom="ip_addr", doc="Where it is watched, if elsewhere.")
    monitor_port: int | None = prop(between=(1, 65535), doc="The port where it is watched, if it is another.")
    admin_state_up: bool = prop(True, update=True, doc="Whether it gets requests.")
    tags: list[Json] | None = prop(update=True, doc="Tags of the member.")


class PoolMember(OctaviaResource[PoolMemberProps], type="OS::Octavia::PoolMember", kind="load_balancer.member"):
    """A member of a pool: a machine that handles requests."""

    support_status = SupportStatus(version="10.0.0")
    within = "pool"
    blocks = frozenset({"OS::Octavia::Pool"})
    alone = frozenset({"pool", "address", "protocol_port"})


class HealthMonitorProps(Schema):
    pool: str = prop(find="octavia.pool", api="pool_id", doc="The pool whose members it watches, by name or id.")
    type: str = prop(one_of=("PING", "TCP", "HTTP", "HTTPS", "UDP-CONNECT"), doc="How a member is asked.")
    delay: int = prop(update=True, between=(0, None), doc="Seconds between two questions.")
    timeout: int = prop(update=True, between=(0, None), doc="Seconds for an answer.")
    max_retries: int = prop(update=True, between=(1, 10), doc="After how many answers in a row a member is well.")
    http_method: str | None = prop(
        update=True,
        one_of=("GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "OPTIONS", "CONNECT", "PATCH"),
        doc="How it is asked by HTTP.",
    )
    url_path: str | None = prop(update=True, doc="What it is asked for by HTTP.")
    expected_codes: str | None = prop(update=True, doc="What it has to answer by HTTP: 200, 200,202 or 200-204.")
    admin_state_up: bool = prop(True, update=True, doc="Whether it watches.")
    tenant_id: str | None = prop(api="project_id", doc="The project that is to own it; only administrators may say so.")


class HealthMonitor(
    OctaviaResource[HealthMonitorProps], type="OS::Octavia::HealthMonitor", kind="load_balancer.health_monitor"
):
    """A health monitor: checks the members of a pool."""

    support_status = SupportStatus(version="10.0.0")
    alone = frozenset({"pool"})
    blocks = frozenset({"OS::Octavia::Pool"})
    shown = {"pools": (list, "The pool whose members it watches.")}
