"""Security groups."""

from collections.abc import Iterator, Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap, as_maps, dump
from heatlite.features.rare_types.aws.base import Mapped
from heatlite.plugin import Schema, prop
from heatlite.resources.neutron import security


class Rule(Schema):
    protocol: str | None = prop(alias="IpProtocol", blank=True, doc="The protocol, by name or number; -1: any.")
    from_port: str | None = prop(alias="FromPort", blank=True, doc="The first port; for ICMP the type; -1: any.")
    to_port: str | None = prop(alias="ToPort", blank=True, doc="The last port; for ICMP the code; -1: any.")
    cidr: str | None = prop(alias="CidrIp", blank=True, doc="The addresses of the peers.")
    group_id: str | None = prop(
        alias="SourceSecurityGroupId", blank=True, doc="The security group of the peers, by id."
    )
    group_name: str | None = prop(
        alias="SourceSecurityGroupName", blank=True, doc="The security group of the peers, by name."
    )
    owner_id: str | None = prop(alias="SourceSecurityGroupOwnerId", doc="Without effect.")


class SecurityGroupProps(Schema):
    description: str = prop(alias="GroupDescription", doc="Its description.")
    vpc_id: str | None = prop(alias="VpcId", doc="Without effect: security groups belong to projects.")
    ingress: list[Rule] | None = prop(alias="SecurityGroupIngress", update=True, doc="Rules for incoming traffic.")
    egress: list[Rule] | None = prop(
        alias="SecurityGroupEgress", update=True, doc="Rules for outgoing traffic; default: all is allowed."
    )


class SecurityGroup(Mapped[SecurityGroupProps], type="AWS::EC2::SecurityGroup", kind="network.security_group"):
    """Firewall rules of machines: an OS::Neutron::SecurityGroup."""

    mapped = security.SecurityGroup
    counts = security.SecurityGroup.counts
    puts_back = frozenset({"GroupDescription"})

    @classmethod
    def translated(cls, given: Mapping[str, object]) -> JsonMap:
        rules: list[Json] = [_translated(direction, rule) for direction, rule in _rules(given)]
        says_rules = any(given.get(name) is not None for name in NAMES.values())
        return {"description": cast(Json, given.get("GroupDescription")), "rules": rules if says_rules else None}

    def live_properties(self) -> Mapping[str, Json] | None:
        """Return description and rules of the group, those of the template as they are."""
        live = self.other.live_properties()
        if live is None:
            return None
        description = {"GroupDescription": live["description"]} if "description" in live else {}
        if "rules" not in live:
            return description
        field = security.SecurityGroupProps.fields["rules"]
        written = {
            dump(field.take([_translated(direction, rule)], (), [])): (direction, rule)
            for direction, rule in _rules(self.facts.properties)
        }
        found: dict[str, list[Json]] = {name: [] for name in NAMES.values()}
        for rule in as_maps(live["rules"]):
            direction, one = written.get(dump([rule]), (str(rule.get("direction", "ingress")), _amazons(rule)))
            found[NAMES[direction]].append(one)
        given = self.facts.properties
        rules = {name: cast(Json, some) for name, some in found.items() if some or given.get(name) is not None}
        return {**description, **rules}


NAMES = {"ingress": "SecurityGroupIngress", "egress": "SecurityGroupEgress"}
"""Direction of rules → the property that has them."""


ANY_IPV6 = "::/0"
"""Peers of a rule of the other type for IPv6 without a prefix."""


def _rules(given: Mapping[str, object]) -> Iterator[tuple[str, JsonMap]]:
    """Yield the direction and the known parts of each rule in properties."""
    for direction, name in NAMES.items():
        yield from ((direction, rule) for rule in as_maps(given.get(name)))


def _amazons(rule: JsonMap) -> JsonMap:
    """Return a rule of the other type in the form of this one."""
    group = rule.get(security.BY_GROUP)
    prefix = rule.get(security.BY_PREFIX) or (ANY_IPV6 if rule.get("ethertype") == "IPv6" else None)
    peers: JsonMap = {"CidrIp": prefix} if group is None else {"SourceSecurityGroupId": group}
    ports = (rule.get("port_range_min"), rule.get("port_range_max"))
    low, high = ("-1" if port is None else str(port) for port in ports)
    return {"IpProtocol": str(rule.get("protocol", "-1")), "FromPort": low, "ToPort": high, **peers}


def _translated(direction: str, rule: Mapping[str, Json]) -> JsonMap:
    given: JsonMap = {
        "direction": direction,
        "protocol": rule.get("IpProtocol"),
        "port_range_min": rule.get("FromPort"),
        "port_range_max": rule.get("ToPort"),
        "remote_ip_prefix": rule.get("CidrIp"),
    }
    if ":" in str(rule.get("CidrIp")):
        given |= {"ethertype": "IPv6", "remote_ip_prefix": None if rule["CidrIp"] == ANY_IPV6 else rule["CidrIp"]}
    group = rule.get("SourceSecurityGroupId") or rule.get("SourceSecurityGroupName")
    if group is not None:
        given |= {"remote_mode": "remote_group_id", "remote_group_id": group}
    return {name: value for name, value in given.items() if value not in (None, "-1")}
