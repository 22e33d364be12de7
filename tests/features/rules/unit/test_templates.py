"""The rules that are shipped, each with what strikes and what passes."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import convert

from heatlite.cli.files import load_file
from heatlite.features.change_policy.document import ProjectDocument, of_yaml, rules_of
from heatlite.features.change_policy.effective import About, Occasion, PlacedRule, PolicyOrigin
from heatlite.features.rules.expressions import fault
from heatlite.features.rules.judging import judged
from heatlite.features.rules.scene import RuleScene, SeenResource
from tests.tables import table

FOLDER = Path(__file__).parents[4] / "templates/rules"
MONDAY, SUNDAY = datetime(2026, 11, 30, 9, tzinfo=UTC), datetime(2026, 11, 29, 9, tzinfo=UTC)
GROUP, GROUP_RULE, SERVER = "OS::Neutron::SecurityGroup", "OS::Neutron::SecurityGroupRule", "OS::Nova::Server"


def rules(name: str) -> list[PlacedRule]:
    document = convert(of_yaml(load_file(FOLDER / f"{name}.yaml").data), ProjectDocument)
    return [PlacedRule(PolicyOrigin.PROJECT, one) for one in rules_of(document)]


def struck(
    name: str, kind: str = SERVER, now: datetime = MONDAY, plan: Any = None, occasion: str = "update", **resource: Any
) -> bool:
    about = {"path": "a", "type": kind, "action": "create", "properties": {}, "old": {}, "unknown": [], **resource}
    counts = dict.fromkeys(("create", "update", "replace", "delete", "keep"), 0)
    told = {"operation": "update", "tags": [], "counts": {**counts, **(plan or {}).pop("counts", {})}, **(plan or {})}
    scene = RuleScene(told, {}, now, [SeenResource("a", (kind, kind), about)])
    found = judged(rules(name), Occasion(occasion), scene, {})
    assert not found.errors, found.findings
    return bool(found.findings)


def test_they_can_be_stored() -> None:
    names = sorted(one.stem for one in FOLDER.glob("*.yaml"))
    assert names == ["listed-flavors", "no-public-ssh", "no-replacement-at-work", "production-removals"]
    for name in names:
        for one in rules(name):
            assert fault(one.rule.when, one.rule.for_ is About.RESOURCE) is None


OPEN = {"remote_ip_prefix": "0.0.0.0/0", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}


@table(
    ("change", "strikes"),
    [
        ({}, True),
        ({"remote_ip_prefix": "::/0"}, True),
        ({"remote_ip_prefix": None}, True),
        ({"port_range_min": 1, "port_range_max": 65535}, True),
        ({"port_range_min": None, "port_range_max": None}, True),
        ({"protocol": None, "port_range_min": None, "port_range_max": None}, True),
        ({"direction": "egress"}, False),
        ({"protocol": "udp"}, False),
        ({"remote_ip_prefix": "10.0.0.0/8"}, False),
        ({"port_range_min": 23, "port_range_max": 80}, False),
    ],
)
def test_no_public_ssh(change: Any, strikes: bool) -> None:
    rule = {**OPEN, **change}
    both = [{**OPEN, "remote_ip_prefix": "10.0.0.0/8"}, rule]
    assert struck("no-public-ssh", GROUP, properties={"rules": both}) is strikes
    given = {key: one for key, one in rule.items() if one is not None}
    assert struck("no-public-ssh", GROUP_RULE, properties=given) is strikes
    assert not struck("no-public-ssh", GROUP, action="delete", old={"rules": [rule]})


def test_no_public_ssh_by_groups_of_peers() -> None:
    by_group = {"protocol": "tcp", "remote_group_id": "g", "remote_mode": "remote_group_id"}
    own_group = {"protocol": "tcp", "remote_mode": "remote_group_id"}
    assert not struck("no-public-ssh", GROUP, properties={"rules": [by_group, own_group]})
    assert not struck("no-public-ssh", GROUP_RULE, properties={"protocol": "tcp", "remote_group": "g"})
    assert struck("no-public-ssh", GROUP, unknown=["rules"])
    assert not struck("no-public-ssh", GROUP)
    assert not struck("no-public-ssh", SERVER, properties={"rules": [OPEN]})


@table(
    ("now", "action", "strikes"),
    [
        (MONDAY, "replace", True),
        (MONDAY, "update", False),
        (SUNDAY, "replace", False),
        (MONDAY.replace(hour=6, minute=59), "replace", False),
        (MONDAY.replace(hour=7), "replace", True),
        (MONDAY.replace(hour=16, minute=59), "replace", True),
        (MONDAY.replace(hour=17), "replace", False),
    ],
)
def test_no_replacement_at_work(now: datetime, action: str, strikes: bool) -> None:
    assert struck("no-replacement-at-work", now=now, action=action) is strikes


@table(
    ("resource", "strikes"),
    [
        ({"properties": {"flavor": "m1.small"}}, False),
        ({"properties": {"flavor": "m1.xlarge"}}, True),
        ({"unknown": ["flavor"]}, True),
        ({"action": "delete", "old": {"flavor": "m1.xlarge"}}, False),
    ],
)
def test_listed_flavors(resource: Any, strikes: bool) -> None:
    assert struck("listed-flavors", **resource) is strikes


@table(
    ("plan", "strikes"),
    [
        ({"tags": ["production"], "counts": {"delete": 1}}, True),
        ({"tags": ["production"], "counts": {"replace": 1}}, True),
        ({"tags": ["production"], "operation": "delete"}, True),
        ({"tags": ["production"], "counts": {"create": 1}}, False),
        ({"tags": ["test"], "counts": {"delete": 1}}, False),
    ],
)
def test_production_removals(plan: Any, strikes: bool) -> None:
    assert struck("production-removals", plan={**plan}) is strikes
