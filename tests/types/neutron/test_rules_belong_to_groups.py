"""Rules of a security group belong to it, in checks and in converging updates."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.json import JsonMap
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource
from tests.resource_types import are_there
from tests.tables import few
from tests.types.conftest import Cloudy

WEB: JsonMap = {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
AMAZONS: JsonMap = {"IpProtocol": "tcp", "FromPort": "80", "ToPort": "80", "CidrIp": "10.0.0.0/8"}


def neutrons(**more: Any) -> Any:
    peers = {"protocol": "icmp", "remote_mode": "remote_group_id"}
    given = {"rules": [{**WEB, "remote_ip_prefix": "10.0.0.0/8"}, peers]}
    return resource("OS::Neutron::SecurityGroup", **{**given, **more})


def amazons(**more: Any) -> Any:
    given = {"GroupDescription": "d", "SecurityGroupIngress": [AMAZONS]}
    return resource("AWS::EC2::SecurityGroup", **{**given, **more})


GROUPS = {
    "OS::Neutron::SecurityGroup": neutrons(),
    "its own egress": neutrons(rules=[{"direction": "egress", "remote_ip_prefix": "10.0.0.0/8"}]),
    "no rules": neutrons(rules=[]),
    "AWS::EC2::SecurityGroup": amazons(),
    "AWS, its own egress": amazons(SecurityGroupEgress=[AMAZONS]),
    "AWS, no rules": amazons(SecurityGroupIngress=[]),
}
GROUPS = {name: one for name, one in GROUPS.items() if are_there([one])}


def rules(cloudy: Cloudy, stack: StackRecord) -> list[JsonMap]:
    key = cloudy.row(stack, "it").physical_id
    there: Any = cloudy.admin.call("network.security_group_rules", security_group_id=key)
    return list(there)


def what(found: list[JsonMap]) -> list[str]:
    """The rules without their ids."""
    names = ("direction", "ethertype", "protocol", "port_range_min", "remote_ip_prefix", "remote_group_id")
    return sorted(" ".join(str(one.get(name)) for name in names) for one in found)


def delete(cloudy: Cloudy, stack: StackRecord, direction: str) -> None:
    for one in rules(cloudy, stack):
        if one["direction"] == direction:
            cloudy.admin.call("network.delete_security_group_rule", one["id"])


def add(cloudy: Cloudy, stack: StackRecord, direction: str) -> None:
    view, group = cloudy.view(), cloudy.row(stack, "it").physical_id
    view.call("network.create_security_group_rule", security_group_id=group, direction=direction, ethertype="IPv4",
              protocol="udp", port_range_min=53, port_range_max=53)  # fmt: skip


DRIFTS: dict[str, Callable[[Cloudy, StackRecord], None]] = {
    "an ingress rule is deleted": lambda cloudy, stack: delete(cloudy, stack, "ingress"),
    "egress rules are deleted": lambda cloudy, stack: delete(cloudy, stack, "egress"),
    "an ingress rule is added": lambda cloudy, stack: add(cloudy, stack, "ingress"),
    "an egress rule is added": lambda cloudy, stack: add(cloudy, stack, "egress"),
}


def differs(cloudy: Cloudy, stack: StackRecord) -> bool:
    stack = cloudy.check(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    return "The object differs from what is stored: " in cloudy.row(stack, "it").status_reason


@pytest.mark.parametrize("drift", few(DRIFTS))
@pytest.mark.parametrize("group", few(GROUPS))
def test_a_check_names_the_difference_and_converge_repairs_it(cloudy: Cloudy, group: str, drift: str) -> None:
    stack = cloudy.made({"it": GROUPS[group]})
    before = what(rules(cloudy, stack))
    row = cloudy.row(stack, "it").id
    assert not differs(cloudy, stack)
    DRIFTS[drift](cloudy, stack)
    has_changed = what(rules(cloudy, stack)) != before
    assert differs(cloudy, stack) is has_changed
    stack = cloudy.patch(stack, converge=True)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert what(rules(cloudy, stack)) == before
    assert cloudy.row(stack, "it").id == row
    assert not differs(cloudy, stack)


def test_rules_of_other_resources_are_theirs(cloudy: Cloudy) -> None:
    own = resource("OS::Neutron::SecurityGroupRule", security_group=ref("it"), protocol="udp")
    stack = cloudy.made({"it": neutrons(), "own": own})
    before = what(rules(cloudy, stack))
    assert not differs(cloudy, stack)
    delete(cloudy, stack, "egress")
    stack = cloudy.patch(stack, converge=True)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert what(rules(cloudy, stack)) == before
    assert not differs(cloudy, stack)


def test_a_group_without_rules_in_the_template_may_have_any(cloudy: Cloudy) -> None:
    stack = cloudy.made({"it": resource("OS::Neutron::SecurityGroup")})
    for drift in DRIFTS.values():
        drift(cloudy, stack)
        assert not differs(cloudy, stack)


@pytest.mark.slow
def test_a_rule_about_a_group_that_is_gone_is_gone_with_it(cloudy: Cloudy) -> None:
    other: Any = cloudy.view().call("network.create_security_group", name="theirs")
    stacks = []
    for peers in ("theirs", other["id"]):
        given = [{"protocol": "tcp", "remote_mode": "remote_group_id", "remote_group_id": peers}, WEB]
        stacks.append(cloudy.made({"it": neutrons(rules=given)}, name=f"s-{len(peers)}"))
        for one in rules(cloudy, stacks[-1]):
            if one["remote_group_id"] == other["id"]:
                cloudy.view().call("network.delete_security_group_rule", one["id"])
    cloudy.view().call("network.delete_security_group", other["id"])
    cloudy.clock.pass_(3600)  # what was found is remembered for a while
    for stack in stacks:
        assert not differs(cloudy, stack)
        stack = cloudy.patch(stack, converge=True)
        assert stack.status == "COMPLETE", cloudy.why(stack)


@pytest.mark.parametrize(
    ("given", "kept"),
    few(
        [
            ({"protocol": "6"}, {"protocol": "tcp"}),
            ({"protocol": "icmp", "ethertype": "IPv6"}, {"protocol": "ipv6-icmp"}),
            ({"remote_ip_prefix": "FD00::/8", "ethertype": "IPv6"}, {"remote_ip_prefix": "fd00::/8"}),
            ({"remote_ip_prefix": "10.0.0.5/24"}, {"remote_ip_prefix": "10.0.0.0/24"}),
        ]
    ),
)
def test_another_form_of_the_same_rule_is_no_difference(cloudy: Cloudy, given: JsonMap, kept: JsonMap) -> None:
    stack = cloudy.made({"it": neutrons(rules=[given])})
    (rule,) = [one for one in rules(cloudy, stack) if one["direction"] == "ingress"]
    cloudy.admin.simulation.put("network.security_group_rule", str(rule["id"]), {**rule, **kept})
    assert not differs(cloudy, stack)
