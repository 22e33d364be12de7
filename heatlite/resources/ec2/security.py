"""Security groups."""

from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Schema, prop
from heatlite.resources.ec2.base import Mapped
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

    def translated(self, given: Mapping[str, object]) -> JsonMap:
        rules: list[JsonMap] = []
        for direction, name in (("ingress", "SecurityGroupIngress"), ("egress", "SecurityGroupEgress")):
            written = given.get(name)
            for one in written if isinstance(written, list) else []:
                rules.append({"direction": direction, **_translated(cast(Mapping[str, Json], one))})
        return {"description": cast(Json, given.get("GroupDescription")), "rules": cast(Json, rules)}


def _translated(rule: Mapping[str, Json]) -> JsonMap:
    given: JsonMap = {
        "protocol": rule.get("IpProtocol"),
        "port_range_min": rule.get("FromPort"),
        "port_range_max": rule.get("ToPort"),
        "remote_ip_prefix": rule.get("CidrIp"),
    }
    group = rule.get("SourceSecurityGroupId") or rule.get("SourceSecurityGroupName")
    if group is not None:
        given |= {"remote_mode": "remote_group_id", "remote_group_id": group}
    return {name: value for name, value in given.items() if value not in (None, "-1")}
