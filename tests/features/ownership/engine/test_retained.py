"""Imports of objects that a deletion has retained (law D9)."""

import pytest

from heatlite.core.status import Status, Verb
from tests.engine.conftest import ref, resource
from tests.features.ownership.engine.conftest import Imported

NET, SUBNET, PORT, SERVER = "OS::Neutron::Net", "OS::Neutron::Subnet", "OS::Neutron::Port", "OS::Nova::Server"
KINDS = {"net": NET, "sub": SUBNET, "port": PORT, "web": SERVER}


@pytest.mark.slow
def test_a_retained_server_has_its_network_and_is_imported_again(imported: Imported) -> None:
    cloudy = imported.cloudy
    resources = {
        "net": resource(NET, name="backend"),
        "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24"),
        "port": resource(PORT, network=ref("net"), fixed_ips=[{"subnet": ref("sub")}]),
        "web": resource(SERVER, image="cirros", flavor="m1.small", networks=[{"port": ref("port")}]),
        "data": resource("OS::Cinder::Volume", size=1),
        "disk": resource("OS::Cinder::VolumeAttachment", instance_uuid=ref("web"), volume_id=ref("data")),
    }
    stack = cloudy.made(resources, "old")
    ids = {row.name: row.physical_id or "" for row in cloudy.rows(stack) if row.name in KINDS}
    before = cloudy.census()
    plan = cloudy.stacks.preview_deletion(cloudy.who, stack, ["web"])
    stays = {"/".join(one.path): one.selection for one in plan.resources if one.action == "keep"}
    assert stays == {"web": "named", **dict.fromkeys(("net", "sub", "port"), "pulled_in")}
    cloudy.stacks.delete(cloudy.who, stack, retain=["web"], plan_digest=plan.digest)
    stack = cloudy.settle(stack)
    assert (stack.verb, stack.status) == (Verb.DELETE, Status.COMPLETE), stack.status_reason
    assert cloudy.rows(stack) == []
    action = cloudy.store.actions.last(stack.id, Verb.DELETE)
    assert action is not None
    told = {one.path: (one.type, one.physical_id) for one in action.outputs.retained or ()}
    assert told == {name: (kind, ids[name]) for name, kind in KINDS.items()}
    assert all(key in stack.status_reason for key in ids.values())
    left = cloudy.census()
    assert {kind: before[kind] - left.get(kind, 0) for kind in before if before[kind] != left.get(kind, 0)} == {
        "block_storage.volume": 1
    }
    body = {name: {"type": kind, "id": ids[name]} for name, kind in KINDS.items()}
    again = imported.done(imported.empty(), body)
    assert imported.first_plan(again) == {}
