"""Parts of objects that are given by name are known by the id of the name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from heatlite.core.status import state
from heatlite.plugin.cloud import PARENT
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource
from tests.resource_types import are_there
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

Parents = Callable[[str], dict[str, Any]]


def pools(name: str) -> dict[str, Any]:
    balancer = resource("OS::Octavia::LoadBalancer", vip_subnet=ref("subnet"))
    pool = resource("OS::Octavia::Pool", loadbalancer=ref("lb"), name=name, protocol="HTTP", lb_algorithm="ROUND_ROBIN")
    net = resource("OS::Neutron::Net")
    return {
        "net": net,
        "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
        "lb": balancer,
        "whole": pool,
    }


def policies(name: str) -> dict[str, Any]:
    return {"whole": resource("OS::Neutron::QoSPolicy", name=name)}


PARTS: list[tuple[Parents, Any]] = [
    (pools, resource("OS::Octavia::PoolMember", pool="first", address="10.0.0.9", protocol_port=80)),
    (policies, resource("OS::Neutron::QoSDscpMarkingRule", policy="first", dscp_mark=10)),
]


@dataclass
class Pair:
    """A stack with the whole and one with the part."""

    whole: StackRecord
    part: StackRecord
    census: dict[str, int]
    """The objects without the part."""
    wholes: Parents


@pytest.fixture(params=PARTS, ids=["member", "rule"])
def pair(cloudy: Cloudy, request: pytest.FixtureRequest) -> Pair:
    wholes, part = request.param
    whole = cloudy.made(wholes("first"), "wholes")
    census = cloudy.census()
    return Pair(whole, cloudy.made({"part": part}, "parts"), census, wholes)


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def rename(cloudy: Cloudy, pair: Pair, name: str) -> None:
    """Give the whole another name, and forget the ids of names."""
    cloudy.changed(pair.whole, pair.wholes(name))
    cloudy.close()
    cloudy.open()


@pytest.mark.slow
def test_a_part_goes_though_its_whole_has_another_name(cloudy: Cloudy, pair: Pair) -> None:
    rename(cloudy, pair, "second")
    assert final(cloudy.delete(pair.part)) == "DELETE_COMPLETE"
    assert cloudy.census() == pair.census


@pytest.mark.slow
def test_a_name_that_leads_nowhere_is_no_proof_of_a_deletion(cloudy: Cloudy, pair: Pair) -> None:
    """A row from before the id was kept."""
    row = cloudy.row(pair.part, "part")
    assert row.data.pop(PARENT) == cloudy.row(pair.whole, "whole").physical_id
    with cloudy.store.transaction():
        cloudy.store.resources.save_many([row])
    rename(cloudy, pair, "second")
    part = cloudy.delete(pair.part)
    assert final(part) == "DELETE_FAILED"
    assert "(first) could not be found" in cloudy.row(part, "part").status_reason
    assert cloudy.census() != pair.census
    rename(cloudy, pair, "first")
    assert final(cloudy.delete(part)) == "DELETE_COMPLETE"
    assert cloudy.census() == pair.census


@pytest.mark.slow
@pytest.mark.parametrize("pair", PARTS[:1], ids=["member"], indirect=True)  # a policy with rules cannot be deleted
def test_a_part_is_gone_with_its_whole(cloudy: Cloudy, pair: Pair) -> None:
    assert final(cloudy.delete(pair.whole)) == "DELETE_COMPLETE"
    cloudy.close()
    cloudy.open()
    assert final(cloudy.delete(pair.part)) == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("kind", "it"),
    few(
        [
            ("network.network", resource("OS::Neutron::Net")),
            ("network.router", resource("OS::Neutron::Router")),
            ("block_storage.volume", resource("OS::Cinder::Volume", size=1)),
            ("compute.server", resource("OS::Nova::Server", flavor="m1.nano", image="cirros")),
        ]
    ),
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_deletion_that_misses_a_part_is_repeated(troubled: Callable[..., Cloudy], kind: str, it: Any) -> None:
    """Neutron may answer 404 for a port that is gone already."""
    verb = kind.replace(".", ".delete_")
    cloudy = troubled(faults=[{"verb": verb, "number": 1, "raises": "not found"}])
    before = cloudy.count(kind)
    stack = cloudy.delete(cloudy.made({"it": it}))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.count(kind) == before


NET = {
    "net": resource("OS::Neutron::Net"),
    "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
}
JOINED = {
    **NET,
    "router": resource("OS::Neutron::Router"),
    "it": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
}
SERVER = {
    **NET,
    "it": resource("OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[{"subnet": ref("subnet")}]),
}
BALANCER = {
    "vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
    "subnet": resource("AWS::EC2::Subnet", VpcId=ref("vpc"), CidrBlock="10.0.0.0/24"),
    "it": resource(
        "AWS::ElasticLoadBalancing::LoadBalancer",
        AvailabilityZones=["nova"],
        Subnets=[ref("subnet")],
        Listeners=[{"InstancePort": "80", "LoadBalancerPort": "80", "Protocol": "HTTP"}],
    ),
}


DELETED: list[tuple[str, dict[str, Any]]] = [
    ("network.delete_ip", {"it": resource("AWS::EC2::EIP")}),
    ("network.delete_router", {"it": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16")}),
    ("network.remove_interface_from_router", JOINED),
    ("network.delete_port", SERVER),
    ("load_balancer.delete_load_balancer", BALANCER),
    ("object_store.delete_container", {"it": resource("OS::Swift::Container")}),
    ("object_store.delete_container", {"it": resource("AWS::S3::Bucket")}),
    ("compute.delete_keypair", {"it": resource("OS::Nova::KeyPair", name="mine")}),
    ("block_storage.disassociate_all_qos_spec", {"it": resource("OS::Cinder::QoSSpecs", specs={"a": "b"})}),
    ("block_storage.delete_qos_spec", {"it": resource("OS::Cinder::QoSSpecs", specs={"a": "b"})}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "resources"),
    sampled([one for one in DELETED if are_there(one[1].values())], 3, pytest.mark.thorough),
    ids=lambda one: one if isinstance(one, str) else one["it"]["type"],
)
def test_a_type_with_a_deletion_of_its_own_repeats_it(
    troubled: Callable[..., Cloudy], verb: str, resources: dict[str, Any]
) -> None:
    cloudy = troubled(faults=[{"verb": verb, "number": 1, "raises": "not found"}])
    before = cloudy.census()
    stack = cloudy.delete(cloudy.made(resources))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.census() == before


def test_a_snapshot_without_its_backup_can_be_deleted(cloudy: Cloudy) -> None:
    stack = cloudy.made({"it": resource("OS::Cinder::Volume", size=1)})
    snapshot = cloudy.components.snapshots.take(cloudy.who, cloudy.get(stack), "s")
    cloudy.settle(stack)
    (backup,) = cloudy.admin.simulation.all("block_storage.backup")
    cloudy.view().call("block_storage.delete_backup", backup)
    cloudy.components.snapshots.delete(cloudy.who, cloudy.get(stack), snapshot.id)
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
