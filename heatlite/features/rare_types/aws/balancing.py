"""AWS::ElasticLoadBalancing::LoadBalancer: a load balancer of Octavia."""

from collections.abc import Iterable, Mapping
from typing import Final, cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.rare_types.aws.base import first_port
from heatlite.plugin import Change, Schema, prop
from heatlite.plugin.cloud import WentToError
from heatlite.plugin.needs import Find, Need
from heatlite.resources.octavia.base import AGAIN, OctaviaResource

TEXTS = {
    "CanonicalHostedZoneName": "An empty text.",
    "CanonicalHostedZoneNameID": "An empty text.",
    "SourceSecurityGroup.GroupName": "An empty text.",
    "SourceSecurityGroup.OwnerAlias": "An empty text.",
}
"""Attributes that only Amazon has, as in Heat."""


class Listener(Schema):
    ssl_certificate: str | None = prop(alias="SSLCertificateId", doc="Without effect.")
    balancer_port: int = prop(alias="LoadBalancerPort", doc="The port it listens on.")
    instance_port: int = prop(alias="InstancePort", doc="The port of the instances.")
    protocol: str = prop(alias="Protocol", one_of=("TCP", "HTTP"), doc="The protocol.")
    policies: list[Json] | None = prop(alias="PolicyNames", doc="Without effect.")


class HealthCheck(Schema):
    healthy: int = prop(alias="HealthyThreshold", doc="Number of successful checks until an instance is healthy.")
    interval: int = prop(alias="Interval", doc="Seconds between two checks.")
    target: str = prop(alias="Target", doc="The protocol, port and path of a check, such as HTTP:80/index.html.")
    timeout: int = prop(alias="Timeout", doc="Timeout of a check in seconds.")
    unhealthy: int = prop(alias="UnhealthyThreshold", doc="Number of failed checks until an instance is unhealthy.")

    def fault_target(self) -> str | None:
        return None if self.target.partition(":")[0] in ("TCP", "HTTP") else "Target begins with TCP or HTTP."

    def fault_interval(self) -> str | None:
        return "Interval must be larger than Timeout" if self.interval < self.timeout else None


class LoadBalancerProps(Schema):
    zones: list[Json] = prop(alias="AvailabilityZones", doc="Without effect, as in Heat.")
    health_check: HealthCheck | None = prop(alias="HealthCheck", doc="The check of the instances.")
    instances: list[Json] | None = prop(alias="Instances", update=True, doc="The instances, by id.")
    listeners: list[Listener] = prop(alias="Listeners", doc="The ports it listens on.")
    app_cookie: str | None = prop(alias="AppCookieStickinessPolicy", doc="Without effect.")
    lb_cookie: str | None = prop(alias="LBCookieStickinessPolicy", doc="Without effect.")
    security_groups: list[Json] | None = prop(alias="SecurityGroups", update=True, doc="Without effect.")
    subnets: list[Json] | None = prop(
        alias="Subnets",
        doc="The first is the subnet of its address; default: that of the first instance, or the only one. If the"
        " template has the subnet, give it: then both are replaced together.",
    )


SETTABLE: Final = (
    "address", "admin_state_up", "backup", "monitor_address", "monitor_port", "name", "protocol_port", "subnet_id",
    "weight",
)  # fmt: skip
"""Attributes of a member that can be set."""


class LoadBalancer(
    OctaviaResource[LoadBalancerProps],
    type="AWS::ElasticLoadBalancing::LoadBalancer",
    kind="load_balancer.load_balancer",
):
    """A load balancer in front of instances. Its DNSName is an address."""

    counts = ("load_balancer.loadbalancer", "network.port")
    blocks = frozenset({"AWS::EC2::Subnet", "OS::Neutron::Subnet"})
    shown = {"DNSName": (str, "Its address."), **{name: (str, text) for name, text in TEXTS.items()}}

    def attribute(self, name: str) -> Json:
        if name in TEXTS:
            return ""
        return self.fetched.get("vip_address") if name == "DNSName" else super().attribute(name)

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:
        """Return the load balancer with its parts.

        Each listener has a pool of all instances.
        """
        listeners, instances = (_length(given.get(name)) for name in ("Listeners", "Instances"))
        parts = {"listener": listeners, "pool": listeners, "member": listeners * instances}
        parts["healthmonitor"] = listeners if given.get("HealthCheck") is not None else 0
        found = [Need(f"load_balancer.{kind}", amount) for kind, amount in parts.items() if amount]
        return [*super().needs(given, find), *found]

    def reference(self) -> Json:
        return self.name

    @property
    def pools(self) -> dict[str, int]:
        """The names of its pools, and the ports of their members."""
        return {self._pool(one): one.instance_port for one in self.props.listeners}

    def _pool(self, listener: Listener) -> str:
        """Return the name of a listener's pool, which no other load balancer has."""
        return f"{self.physical_name}-port-{listener.balancer_port}"

    def live_properties(self) -> Mapping[str, Json] | None:
        return {} if self.fetched else None

    def identity(self) -> JsonMap:
        return {"name": self.physical_name}

    def create_args(self) -> JsonMap:
        """Return the load balancer with all its parts.

        The service makes listeners, pools, members and monitors with it.
        """
        hosts = self._hosts(self.props.instances or [])
        subnet = hosts[0]["subnet_id"] if hosts and not self.props.subnets else self._subnet()
        listeners: list[Json] = []
        for one in self.props.listeners:
            pool: JsonMap = {
                "name": self._pool(one),
                "protocol": one.protocol,
                "lb_algorithm": "ROUND_ROBIN",
                "members": self._members(hosts, one.instance_port),
            }
            if self.props.health_check is not None:
                pool["healthmonitor"] = _monitor(self.props.health_check)
            listeners.append({"protocol": one.protocol, "protocol_port": one.balancer_port, "default_pool": pool})
        return {"vip_subnet_id": subnet, "listeners": listeners}

    def _subnet(self) -> Json:
        """Return the first of the subnets, else the only one of the project.

        Raises CloudNotFound.
        """
        if self.props.subnets:
            return self.props.subnets[0]
        project = self.cloud.identity.project_id or self.facts.project
        found = cast(list[JsonMap], self.cloud.call("network.subnets", project_id=project))
        if len(found) != 1:
            text = f"the project has {len(found)} subnets: give Instances or Subnets, which say where its address is"
            raise CloudNotFound("network.subnets", text)
        return found[0]["id"]

    def _hosts(self, servers: list[Json]) -> list[JsonMap]:
        """Return the first address of each instance. Raises CloudNotFound."""
        found = []
        for server in servers:
            port = self.map(self.cloud.call("network.get_port", first_port(self, str(server))))
            found.append(cast(list[JsonMap], port["fixed_ips"])[0])
        return found

    @staticmethod
    def _members(hosts: list[JsonMap], port: int) -> list[Json]:
        return [
            {"address": host["ip_address"], "subnet_id": host["subnet_id"], "protocol_port": port} for host in hosts
        ]

    def needs_replace(self, change: Change) -> bool:
        """True if the first instance, whose subnet counts, is in another one now."""
        servers = change.after.get("Instances")
        if "Instances" not in change.changed or change.after.get("Subnets") or not isinstance(servers, list):
            return False
        if not servers or not isinstance(servers[0], str):
            return False
        return self.fetched != {} and self._hosts(servers[:1])[0]["subnet_id"] != self.fetched["vip_subnet_id"]

    def handle_update(self, change: Change) -> Json:
        if "Instances" in change.changed:
            self.data["ports"] = [*(one.balancer_port for one in self.props.listeners)]
        return None

    def check_update_complete(self, token: Json) -> bool | float:
        """Set the members of the next pool, once the previous one is done."""
        if not self.is_ready():
            return AGAIN
        ports = cast(list[int], self.data.get("ports") or [])
        if not ports:
            return True
        listener = next(one for one in self.props.listeners if one.balancer_port == ports[0])
        name = f"port-{listener.balancer_port}"
        pools = cast(list[JsonMap], self.service("pools", loadbalancer_id=self.physical_id))
        pool = next((one for one in pools if str(one["name"]).endswith(name)), None)
        if pool is None:
            raise WentToError(f"the load balancer has no pool {name}")
        members = [
            *self._others(pool["id"]),
            *self._members(self._hosts(self.props.instances or []), listener.instance_port),
        ]
        if self._heard(lambda: self.service("set_members", pool["id"], members=members)):
            self.data["ports"] = [*ports[1:]]
        return AGAIN

    def _others(self, pool: Json) -> list[Json]:
        """Return the members that other resources have made: only those have a name.

        The service removes members that are not named when it sets the members of a pool.
        """
        found = cast(list[JsonMap], self.service("members", pool))
        named = [one for one in found if one.get("name")]
        return [{key: one[key] for key in SETTABLE if one.get(key) is not None} for one in named]

    def delete_args(self) -> JsonMap:
        return {"cascade": True}

    def handle_suspend(self) -> Json:
        return self._switched(up=False)

    def check_suspend_complete(self, token: Json) -> bool | float:
        return super().check_update_complete(token)

    def handle_resume(self) -> Json:
        return self._switched(up=True)

    def check_resume_complete(self, token: Json) -> bool | float:
        return super().check_update_complete(token)

    def _switched(self, up: bool) -> Json:
        self.data["update"] = {"admin_state_up": up}
        self._update()
        return None


def _length(given: object) -> int:
    return len(given) if isinstance(given, list) else 0


def _monitor(check: HealthCheck) -> JsonMap:
    kind, _, rest = check.target.partition(":")
    monitor: JsonMap = {
        "type": kind,
        "delay": check.interval,
        "timeout": check.timeout,
        "max_retries": check.healthy,
        "max_retries_down": check.unhealthy,
    }
    if kind == "HTTP":
        monitor["url_path"] = f"/{rest.partition('/')[2]}"
    return monitor
