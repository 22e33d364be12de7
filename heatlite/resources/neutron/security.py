"""Security groups and their rules."""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import Ambiguous, NameNotFound
from heatlite.core.json import Json, JsonMap, as_map, as_maps, canonical
from heatlite.plugin import Change, CloudNotFound, CloudResource, Schema, SupportStatus, prop
from heatlite.plugin.naming import is_as_requested
from heatlite.plugin.needs import Find, Need, counted
from heatlite.resources.neutron.base import NeutronResource
from heatlite.template.expression import has_unknown

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

    counts = ("network.security_group", "network.security_group_rule")
    support_status = SupportStatus(version="2014.1")

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:  # noqa: ARG003
        """Return the group and its rules, with those that the service makes."""
        group, rule = counted(cls.counts, given)
        rules = given.get("rules") or []
        if not group.known or not isinstance(rules, list):
            return [group, Need(rule.kind, 0, known=False)]
        distinct = {canonical(one) if isinstance(one, dict) and not has_unknown(one) else id(one) for one in rules}
        allows_all = not any(isinstance(one, Mapping) and one.get("direction") == "egress" for one in rules)
        return [group, Need(rule.kind, len(distinct) + 2 * allows_all)]

    def is_to_finish(self) -> bool:
        return True

    def finish(self) -> None:
        super().finish()
        self._set_rules()

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if "rules" in change.changed:
            self._set_rules(self._sent(self.known(cast(JsonMap, change.before))))
        return token

    def _set_rules(self, before: Sequence[JsonMap] = ()) -> None:
        """Add missing rules and delete surplus ones.

        Unchanged rules stay in effect throughout. Surplus are those of this resource, and those that it was seen with
        `before`. Rules of other resources (OS::Neutron::SecurityGroupRule) are not touched.
        """
        wanted = _with_defaults(self._sent(self.resolved(self.facts.properties)))
        rules = cast(list[JsonMap], self.service("security_group_rules", security_group_id=self.physical_id))
        own = cast(list[Json], self.data.get("rules", [rule["id"] for rule in rules]))  # a new group owns all
        kept: list[Json] = []
        for rule in rules:
            if _has(wanted, rule):
                kept.append(rule["id"])
            elif rule["id"] in own or _has(before, rule) and not self._is_of_other(rule):
                with suppress(CloudNotFound):
                    self.service("delete_security_group_rule", rule["id"])
        for one in wanted:
            if not any(_is(rule, one) for rule in rules):
                made = self.service("create_security_group_rule", security_group_id=self.physical_id, **one)
                kept.append(self.map(made)["id"])
        self.data["rules"] = kept

    def _sent(self, properties: JsonMap) -> list[JsonMap]:
        """Return the rules of resolved properties in the service's form, one for each."""
        field = self.schema.fields["rules"]
        written = cast(list[JsonMap], properties.get("rules") or [])
        found: list[JsonMap] = []
        for given, sent in zip(written, cast(list[JsonMap], field.wire(cast(Json, written))), strict=True):
            rule = dict(sent)
            if given.get("remote_mode", BY_PREFIX) == BY_GROUP:
                rule.pop(BY_PREFIX, None)
                rule[BY_GROUP] = given.get(BY_GROUP) or self.physical_id
            else:
                rule.pop(BY_GROUP, None)
            found.append(rule)
        return found

    def live_parts(self, thing: JsonMap) -> JsonMap:
        """Return the rules that the group has, in the form of the template.

        Without `rules` in the template it may have any. The rules of other resources are theirs.
        """
        parts, given = super().live_parts(thing), cast(list[JsonMap] | None, self.facts.properties.get("rules"))
        if given is None:
            return parts
        try:
            sent = self._sent(self.resolved({"rules": cast(Json, given)}))
        except (NameNotFound, Ambiguous):
            return parts  # what names another group cannot be compared
        rules = as_maps(thing.get("security_group_rules"))
        live = [one for one, rule in zip(given, sent, strict=True) if _has(rules, rule) or self._is_about_gone(rule)]
        wanted = _with_defaults(sent)
        others = [rule for rule in rules if not _has(wanted, rule) and not self._is_of_other(rule)]
        defaults = [rule for rule in wanted if not _has(sent, rule)]
        kept = [rule for rule in defaults if _has(rules, rule)]
        if len(kept) < len(defaults) or any(rule["direction"] == "egress" for rule in others):
            # With one rule for egress in the list, it tells all of them.
            others += kept
        if defaults and not kept and not any(rule["direction"] == "egress" for rule in others):
            others.append(NO_EGRESS)
        return {**parts, "rules": cast(Json, [*live, *map(self._read, others)])}

    def _read(self, rule: JsonMap) -> JsonMap:
        """Return a rule of the service in the form of the template."""
        item = self.schema.fields["rules"].item
        assert item is not None
        read: JsonMap = {name: value for name, value in as_map(item.read(rule)).items() if value not in (None, "")}
        if BY_GROUP in read:
            read["remote_mode"] = BY_GROUP
        return read

    def _is_of_other(self, rule: JsonMap) -> bool:
        """Test whether a rule is that of another resource."""
        holders = self.facts.holders(str(rule.get("id")))
        return any(isinstance(one, CloudResource) and one.kind == f"{self.kind}_rule" for one in holders)

    def _is_about_gone(self, rule: JsonMap) -> bool:
        """Test whether a rule is about a group that is gone, and so are its rules."""
        group = rule.get(BY_GROUP)
        try:
            return group is not None and not self.service("get_security_group", group)
        except CloudNotFound:
            return True


WHAT = ("direction", "ethertype", "protocol", "port_range_min", "port_range_max", BY_GROUP, BY_PREFIX)
"""The attributes that identify a rule: the service rejects duplicates of them."""
NO_EGRESS: JsonMap = {"direction": "egress", "ethertype": "IPv4", BY_PREFIX: "0.0.0.0/32"}
"""The absence of rules for egress as a rule, since a list without any means that all is allowed."""


def _with_defaults(rules: Sequence[JsonMap]) -> list[JsonMap]:
    """Return rules without repetitions.

    Without one for egress, all egress is allowed, as in Heat.
    """
    found: list[JsonMap] = []
    for rule in rules:
        if not any(_is(rule, one) for one in found):
            found.append(rule)
    if not any(rule["direction"] == "egress" for rule in found):
        found += [{"direction": "egress", "ethertype": version} for version in ("IPv4", "IPv6")]
    return found


def _has(rules: Iterable[JsonMap], rule: JsonMap) -> bool:
    return any(_is(rule, one) or _is(one, rule) for one in rules)


def _is(rule: JsonMap, other: JsonMap) -> bool:
    described = "description" not in other or rule.get("description") == other["description"]
    return described and all(is_as_requested(_value(rule, name), _value(other, name)) for name in WHAT)


def _value(rule: JsonMap, name: str) -> Json:
    """Return an attribute in one of the forms that the service holds equal."""
    value = rule.get(name)
    if name == "protocol" and value is not None:
        protocol = str(value).lower()
        is_icmp6 = protocol in ICMP6 or protocol == "icmp" and rule.get("ethertype") == "IPv6"
        return ICMP6[0] if is_icmp6 else NUMBERS.get(protocol, protocol)
    if name == BY_PREFIX and isinstance(value, str):
        with suppress(ValueError):
            return str(ipaddress.ip_interface(value).network)
    return value


ICMP6 = ("ipv6-icmp", "icmpv6", "58")
NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp", "132": "sctp"}

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

    counts = ("network.security_group_rule",)
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
