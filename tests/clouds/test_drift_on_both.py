"""Differences between a stack and its objects, on both clouds."""

from typing import Any

import pytest

from heatlite.engine.calls.handlers import DIFFERS
from heatlite.features.drift.store.store import DriftStore
from heatlite.store.records import StackRecord
from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud
from tests.engine.conftest import ref, resource, template

RULES = [
    {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80, "remote_ip_prefix": "10.0.0.0/8"},
    {"protocol": "17", "port_range_min": 53, "port_range_max": 53},
    {"protocol": "icmp", "ethertype": "IPv6"},
    {"protocol": "icmp", "port_range_min": 8, "port_range_max": 0, "remote_mode": "remote_group_id"},
    {"ethertype": "IPv6", "remote_ip_prefix": "FD00::/8", "description": "ours"},
]


def differing(engine: OnCloud, stack: StackRecord) -> list[str]:
    engine.well(engine.check(stack))
    return sorted(row.name for row in engine.rows(stack) if DIFFERS in row.status_reason)


def repaired(engine: OnCloud) -> None:
    """Rules and tags are changed; an update with converge puts them right."""
    engine.take_stock()
    own = resource("OS::Neutron::SecurityGroupRule", security_group=ref("group"), protocol="udp")
    document = template(
        group=resource("OS::Neutron::SecurityGroup", name="hl-drift", rules=RULES),
        net=resource("OS::Neutron::Net", name="hl-drift", tags=["a", "b"]),
        own=own,
    )
    stack = engine.well(engine.create(document))
    assert differing(engine, stack) == []
    group, net = (engine.row(stack, name).physical_id for name in ("group", "net"))
    there: Any = engine.cloud.call("network.security_group_rules", security_group_id=group)
    gone = next(one["id"] for one in there if one["port_range_min"] == 80)
    engine.cloud.call("network.delete_security_group_rule", gone)
    more = {"protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "direction": "ingress", "ethertype": "IPv4"}
    engine.cloud.call("network.create_security_group_rule", security_group_id=group, **more)
    engine.cloud.call("network.set_tags", "network", net, ["b", "c"])
    assert differing(engine, stack) == ["group", "net"]
    engine.well(engine.patch(stack, converge=True))
    assert differing(engine, stack) == []
    found: Any = engine.cloud.call("network.security_group_rules", security_group_id=group)
    assert sorted(one["port_range_min"] or 0 for one in found) == sorted(one["port_range_min"] or 0 for one in there)
    engine.gone(stack)


@pytest.mark.cloud
def test_rules_and_tags_are_repaired(simulated: Begin, real_cloud: Begin) -> None:
    repaired(real_cloud())
    repaired(simulated())


def outlived(engine: OnCloud) -> None:
    """A server whose flavor is withdrawn; another stack refers to it."""
    flavor: Any = engine.cloud.call("compute.create_flavor", name="hl-drift", ram=64, vcpus=1, disk=1)
    given = {"image": "cirros", "flavor": "hl-drift", "networks": [{"allocate_network": "none"}]}
    stack = engine.well(engine.create(template(it=resource("OS::Nova::Server", name="hl-drift", **given))))
    made = engine.row(stack, "it").physical_id
    engine.cloud.call("compute.delete_flavor", flavor["id"])
    engine.clock.pass_(3600)  # what was found is remembered for a while
    assert differing(engine, stack) == []
    engine.well(engine.patch(stack, converge=True))
    stack = engine.well(engine.put(stack, template(it=resource("OS::Nova::Server", name="hl-other", **given))))
    assert engine.row(stack, "it").physical_id == made
    external = engine.well(engine.create(template(it={"type": "OS::Nova::Server", "external_id": made}), "other"))
    assert differing(engine, external) == []
    engine.well(engine.patch(external, converge=True))
    engine.well(engine.delete(external))
    assert engine.thing(engine.cloud.call("compute.get_server", made))["name"] == "hl-other"
    engine.well(engine.delete(stack))


@pytest.mark.cloud
def test_a_server_outlives_its_flavor(simulated: Begin, real_cloud: Begin) -> None:
    outlived(real_cloud(admin=True))
    outlived(simulated(admin=True))


def told(engine: OnCloud, stack: StackRecord) -> dict[str, list[str]]:
    """The paths of the differences by resource, each with its sides."""
    rows = engine.rows(stack)
    found = engine.store.of(DriftStore).of([row.id for row in rows])
    return {
        row.name: [f"{one.path}: {one.stored!r}, {one.live!r}" for one in found[row.id].differences or ()]
        for row in rows
        if row.id in found and found[row.id].number
    }


def put_back(engine: OnCloud) -> None:
    """Objects of each kind are changed from outside, listed and put back."""
    engine.take_stock()
    rule = {"protocol": "tcp", "port_range_min": 80, "port_range_max": 80}
    document = template(
        net=resource("OS::Neutron::Net", name="hl-lan"),
        sub=resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.7.0.0/24", name="hl-sub", enable_dhcp=True),
        port=resource("OS::Neutron::Port", network=ref("net"), name="hl-port", depends_on="sub"),
        group=resource("OS::Neutron::SecurityGroup", name="hl-group", rules=[rule]),
        vm=resource(
            "OS::Nova::Server", name="hl-vm", flavor="m1.nano", image="cirros", networks=[{"port": ref("port")}],
            metadata={"tier": "gold"},
        ),
        vol=resource("OS::Cinder::Volume", size=1, name="hl-vol", metadata={"role": "db"}),
    )  # fmt: skip
    stack = engine.well(engine.create(document))
    engine.well(engine.check(stack))
    assert told(engine, stack) == {}
    call, key = engine.cloud.call, {row.name: row.physical_id for row in engine.rows(stack)}
    call("network.update_network", key["net"], name="hl-wan")
    call("network.update_subnet", key["sub"], enable_dhcp=False)
    call("network.update_port", key["port"], name="hl-other")
    call("compute.set_server_metadata", key["vm"], {"tier": "silver"})
    call("block_storage.set_volume_metadata", key["vol"], role="web")
    there: Any = call("network.security_group_rules", security_group_id=key["group"])
    (ours,) = [one["id"] for one in there if one["port_range_min"] == 80]
    call("network.delete_security_group_rule", ours)
    engine.well(engine.check(stack))
    found = told(engine, stack)
    (lost,) = found.pop("group")
    assert lost.startswith("/rules/0: {") and lost.endswith(", UNSET")
    assert found == {
        "net": ["/name: 'hl-lan', 'hl-wan'"],
        "sub": ["/enable_dhcp: True, False"],
        "port": ["/name: 'hl-port', 'hl-other'"],
        "vm": ["/metadata/tier: 'gold', 'silver'"],
        "vol": ["/metadata/role: 'db', 'web'"],
    }
    engine.well(engine.patch(stack, converge=True))
    engine.well(engine.check(stack))
    assert told(engine, stack) == {}
    assert {row.name: row.physical_id for row in engine.rows(stack)} == key
    engine.gone(stack)


@pytest.mark.cloud
def test_each_kind_of_object_is_put_back(simulated: Begin, real_cloud: Begin) -> None:
    put_back(real_cloud())
    put_back(simulated())
