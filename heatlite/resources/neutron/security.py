"""Security groups and their rules."""

from collections.abc import Mapping
from contextlib import suppress
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudNotFound, Schema, SupportStatus, prop
from heatlite.plugin.cloud import is_as_requested
from heatlite.resources.neutron.base import NeutronResource

# fmt: off
PROTOCOLS: tuple[Json, ...] = (
    *range(256), "ah", "dccp", "egp", "esp", "gre", "icmp", "icmpv6", "igmp", "ipv6-encap", "ipv6-frag", "ipv6-icmp",
    "ipv6-nonxt", "ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp", "udplite", "vrrp",
)
# fmt: on
BY_GROUP, BY_PREFIX = "remote_group_id", "remote_ip_prefix"


class Rule(Schema):
    description: str | None = prop(doc="Its description.")
    direction: str = prop(
        "ingress", one_of=("ingress", "egress"), doc="The direction of the traffic: ingress or egress."
    )
    ethertype: str = prop("IPv4", one_of=("IPv4", "IPv6"), doc="The version of IP.")
    port_range_min: int | None = prop(between=(0, 65535), doc="The first port; for ICMP the type.")
    port_range_max: int | None = prop(between=(0, 65535), doc="The last port; for ICMP the code.")
    protocol: str | None = prop(one_of=PROTOCOLS, doc="The protocol, by name or number; default: any.")
    remote_mode: str = prop(
        BY_PREFIX, one_of=(BY_PREFIX, BY_GROUP), api="", doc="The selection of peers: by address or by security group."
    )
    remote_group_id: str | None = prop(
        find="neutron.security_group", doc="The security group of the peers, by name or id; default: this one."
    )
    remote_ip_prefix: str | None = prop(custom="net_cidr", doc="The addresses of the peers; default: any.")


class SecurityGroupProps(Schema):
    name: str | None = prop(update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    rules: list[Rule] = prop([], update=True, api="", doc="Its rules; without an egress rule, all egress is allowed.")
    stateful: bool | None = prop(update=True, doc="True if it tracks connections and lets replies through.")

    def fault(self) -> str | None:
        if self.name == "default":
            return 'Security groups cannot be assigned the name "default".'
        return None


class SecurityGroup(NeutronResource[SecurityGroupProps], type="OS::Neutron::SecurityGroup",
                    kind="network.security_group"):  # fmt: skip
    """A security group: firewall rules of ports."""

    support_status = SupportStatus(version="2014.1")

    def is_to_finish(self) -> bool:
        return True

    def finish(self) -> None:
        super().finish()
        self._set_rules()

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if "rules" in change.changed:
            self._set_rules()
        return token

    def _set_rules(self) -> None:
        """Add missing rules and delete surplus ones.

        Unchanged rules stay in effect throughout.

        Rules of other resources (OS::Neutron::SecurityGroupRule) are not touched.
        """
        wanted = self._wanted()
        there = cast(list[JsonMap], self.service("security_group_rules", security_group_id=self.physical_id))
        own = cast(list[Json], self.data.get("rules", [rule["id"] for rule in there]))  # a new group owns all
        kept: list[Json] = []
        for rule in there:
            if any(_is(rule, one) for one in wanted):
                kept.append(rule["id"])
            elif rule["id"] in own:
                with suppress(CloudNotFound):
                    self.service("delete_security_group_rule", rule["id"])
        for one in wanted:
            if not any(_is(rule, one) for rule in there):
                made = self.service("create_security_group_rule", security_group_id=self.physical_id, **one)
                kept.append(self.map(made)["id"])
        self.data["rules"] = kept

    def _wanted(self) -> list[JsonMap]:
        """Return the rules for the service.

        Without an egress rule, all egress is allowed, as in Heat.
        """
        field = self.schema.fields["rules"]
        written = cast(list[JsonMap], self.resolved(self.facts.properties).get("rules") or [])
        found: list[JsonMap] = []
        for given, sent in zip(written, cast(list[JsonMap], field.wire(cast(Json, written))), strict=True):
            rule = dict(sent)
            if given.get("remote_mode", BY_PREFIX) == BY_GROUP:
                rule.pop(BY_PREFIX, None)
                rule[BY_GROUP] = given.get(BY_GROUP) or self.physical_id
            else:
                rule.pop(BY_GROUP, None)
            if not any(_is(rule, one) for one in found):
                found.append(rule)
        if not any(rule["direction"] == "egress" for rule in found):
            found += [{"direction": "egress", "ethertype": version} for version in ("IPv4", "IPv6")]
        return found


WHAT = ("direction", "ethertype", "protocol", "port_range_min", "port_range_max", BY_GROUP, BY_PREFIX)
"""The attributes that identify a rule: the service rejects duplicates of them."""


def _is(rule: JsonMap, other: JsonMap) -> bool:
    described = "description" not in other or rule.get("description") == other["description"]
    return described and all(is_as_requested(_value(rule, name), _value(other, name)) for name in WHAT)


def _value(rule: JsonMap, name: str) -> Json:
    value = rule.get(name)
    return value.lower() if name == "protocol" and isinstance(value, str) else value


ICMP = ("icmp", "icmpv6", "ipv6-icmp", "1", "58")


class SecurityGroupRuleProps(Schema):
    security_group: str = prop(
        find="neutron.security_group", api="security_group_id", doc="The group that it is part of, by name or id."
    )
    description: str | None = prop(doc="Its description.")
    direction: str = prop(
        "ingress", one_of=("ingress", "egress"), doc="The direction of the traffic: ingress or egress."
    )
    ethertype: str = prop("IPv4", one_of=("IPv4", "IPv6"), doc="The version of IP.")
    port_range_min: int | None = prop(between=(0, 65535), doc="The first port; for ICMP the type.")
    port_range_max: int | None = prop(between=(0, 65535), doc="The last port; for ICMP the code.")
    protocol: str = prop("tcp", one_of=PROTOCOLS, doc="The protocol, by name or number.")
    remote_group: str | None = prop(
        find="neutron.security_group", api="remote_group_id", doc="The security group of the peers, by name or id."
    )
    remote_ip_prefix: str | None = prop(custom="net_cidr", doc="The addresses of the peers; default: any.")

    def fault_remotes(self) -> str | None:
        if self.remote_group is not None and self.remote_ip_prefix is not None:
            return "Cannot use remote_group and remote_ip_prefix at the same time"
        return None

    def fault_code(self) -> str | None:
        if self.protocol in ICMP and self.port_range_min is None and self.port_range_max is not None:
            return "With ICMP, port_range_max (the code) needs port_range_min (the type)"
        return None

    def fault_great_min(self) -> str | None:
        return self._icmp_fault(self.port_range_min)

    def fault_great_max(self) -> str | None:
        return self._icmp_fault(self.port_range_max)

    def _icmp_fault(self, bound: int | None) -> str | None:
        if bound is not None and bound > 255 and self.protocol in ICMP:
            return "With ICMP, port_range_min and port_range_max are at most 255"
        return None

    def fault_range(self) -> str | None:
        low, high = self.port_range_min, self.port_range_max
        if low is not None and high is not None and low > high and self.protocol not in ICMP:
            return "port_range_min must not be greater than port_range_max"
        return None


class SecurityGroupRule(NeutronResource[SecurityGroupRuleProps], type="OS::Neutron::SecurityGroupRule",
                        kind="network.security_group_rule"):  # fmt: skip
    """A rule of a security group."""

    support_status = SupportStatus(version="7.0.0")
    named = False

    def excludes(self, properties: Mapping[str, object]) -> bool:
        """True if the other rule is equal, apart from its description."""
        before = self.facts.properties
        return all(
            field.given(before) == field.given(properties)
            for name, field in self.schema.fields.items()
            if name != "description"
        )
