"""Boot volumes on a simulated cloud: kept by servers and their snapshots."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.status import Status
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource, template
from tests.tables import few
from tests.types.conftest import Cloudy

VOLUME, SNAPSHOT, BACKUP = "block_storage.volume", "block_storage.snapshot", "block_storage.backup"


def machine(server: Mapping[str, object] = {}, policy: str = "Delete", **volume: object) -> dict[str, Any]:
    """A volume, and a server that boots from it."""
    given = {"flavor": "m1.nano", "networks": [{"allocate_network": "none"}], **server}
    disk = {"volume_id": ref("disk"), "boot_index": 0}
    keys = {"deletion_policy": policy, "update_policy": {"replacement": {"order": "delete_first", "name": "keep"}}}
    return {
        "disk": resource("OS::Cinder::Volume", **{"size": 1, "image": "cirros", **volume}),
        "vm": resource("OS::Nova::Server", keys=keys, **{"block_device_mapping_v2": [disk], **given}),
    }


def ids(cloudy: Cloudy, stack: StackRecord) -> list[str | None]:
    return [cloudy.row(stack, name).physical_id for name in ("disk", "vm")]


def saved(cloudy: Cloudy, stack: StackRecord) -> str:
    """The id of a snapshot of the stack."""
    snapshot = cloudy.components.snapshots.take(cloudy.who, cloudy.get(stack), "s")
    stack = cloudy.settle(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    return snapshot.id


def restored(cloudy: Cloudy, stack: StackRecord, snapshot: str) -> StackRecord:
    cloudy.components.snapshots.restore(cloudy.who, cloudy.get(stack), snapshot)
    return cloudy.settle(stack)


@pytest.mark.slow
def test_a_restored_one_is_a_new_volume_and_the_server_boots_from_it(troubled: Callable[..., Cloudy]) -> None:
    """The first attempt fails at the new server; a second one continues there."""
    fault = {"verb": "compute.create_server", "number": 2, "raises": "refused"}
    cloudy = troubled(build=3, faults=[fault])
    stack = cloudy.made(machine())
    before = ids(cloudy, stack)
    snapshot = saved(cloudy, stack)
    assert (cloudy.count(SNAPSHOT), cloudy.count(BACKUP)) == (0, 1)
    assert f"It boots from volume {before[0]}, which is saved" in cloudy.row(stack, "vm").status_reason
    stack = cloudy.changed(stack, machine(size=2))
    assert ids(cloudy, stack) == before
    stack = restored(cloudy, stack, snapshot)
    assert (stack.verb, stack.status) == ("RESTORE", "FAILED")
    with pytest.raises(Exception, match="restore the snapshot again"):
        cloudy.components.stacks.retry(cloudy.who, cloudy.get(stack))
    stack = restored(cloudy, stack, snapshot)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    disk, server = ids(cloudy, stack)
    assert disk != before[0] and server != before[1]
    thing = cloudy.thing(stack, "disk")
    (attachment,) = thing["attachments"]  # type: ignore[misc,union-attr]
    assert (thing["size"], thing["bootable"], attachment["server_id"]) == (1, "true", server)  # type: ignore[index,call-overload]
    assert (cloudy.count(VOLUME), cloudy.count("compute.server")) == (1, 1)
    assert cloudy.delete(stack).status is Status.COMPLETE
    assert (cloudy.count(VOLUME), cloudy.count(BACKUP)) == (0, 0)


@pytest.mark.slow
def test_it_grows_where_it_is_and_stays_writable(cloudy: Cloudy) -> None:
    stack = cloudy.made(machine())
    before = ids(cloudy, stack)
    stack = cloudy.put(stack, template(**machine(size=2, read_only=True)))
    text = f"read_only cannot change while server {before[1]} boots from volume {before[0]}: leave it as it was"
    assert text in cloudy.row(stack, "disk").status_reason
    cloudy.changed(stack, machine(size=2))
    assert (ids(cloudy, stack), cloudy.thing(stack, "disk")["size"]) == (before, 2)
    with pytest.raises(Exception, match="Cannot detach a root device volume"):
        cloudy.view().call("compute.delete_volume_attachment", before[1], before[0])
    cloudy.view().call("block_storage.create_backup", volume_id=before[0], name="kept", force=True)
    cloudy.changed(stack, machine(size=2, backup_id="kept"))
    assert not set(ids(cloudy, stack)) & set(before)
    assert (cloudy.thing(stack, "disk")["bootable"], cloudy.count(VOLUME)) == ("true", 1)


def test_an_attempt_of_before_that_wanted_to_take_it_away_is_forgotten(cloudy: Cloudy) -> None:
    stack = cloudy.made(machine())
    row = cloudy.row(stack, "disk")
    with cloudy.store.transaction():
        joined = [[ids(cloudy, stack)[1], "/dev/vda"]]
        cloudy.store.resources.save_many([replace(row, data={**row.data, "joined": joined})])  # type: ignore[dict-item]
    cloudy.changed(stack, machine(name="n"))
    assert cloudy.thing(stack, "disk")["status"] == "in-use"


@pytest.mark.slow
def test_a_saved_server_holds_its_volume_and_says_so(cloudy: Cloudy) -> None:
    """deletion_policy of the server: the retained image keeps its source."""
    stack = cloudy.made(machine(policy="Snapshot"))
    begun = cloudy.clock.now()
    stack = cloudy.delete(stack)
    assert (stack.status, cloudy.clock.now() - begun < 60) == (Status.FAILED, True)
    (snapshot,) = cloudy.admin.things(SNAPSHOT)
    (image,) = [one for one in cloudy.admin.things("image.image") if one["name"] != "cirros"]
    reason = cloudy.row(stack, "disk").status_reason
    told = f"snapshot {snapshot['id']} (snapshot for {image['name']}), of which the image {image['id']} is made"
    assert told in reason
    cloudy.view().call("image.delete_image", image["id"])
    cloudy.view().call("block_storage.delete_snapshot", snapshot["id"])
    assert cloudy.delete(stack).status is Status.COMPLETE
    assert cloudy.count(VOLUME) == 0


@pytest.mark.slow
@pytest.mark.parametrize("form", few(["block_device_mapping", "block_device_mapping_v2"]))
def test_one_that_goes_with_its_server(troubled: Callable[..., Cloudy], form: str) -> None:
    """Saved as a snapshot of the volume, for restores; the volume outlives it."""
    cloudy = troubled(build=5)
    first = cloudy.view().call("block_storage.create_volume", size=1, imageRef=cirros(cloudy))
    assert isinstance(first, dict)
    cloudy.clock.pass_(10)
    cloudy.view().call("block_storage.create_snapshot", volume_id=first["id"], name="first")
    cloudy.clock.pass_(10)
    one = {"snapshot_id": "first", "delete_on_termination": True}
    mapping = [{**one, "device_name": "vda"}, {**one, "device_name": "vdb"}]
    if form == "block_device_mapping_v2":
        mapping = [{"image": "cirros", "volume_size": 1, "delete_on_termination": True}]
    written = {"vm": resource("OS::Nova::Server", flavor="m1.nano", networks=[{"allocate_network": "none"}],
                              **{form: mapping})}  # fmt: skip
    stack = cloudy.made(written)
    snapshot = saved(cloudy, stack)
    old = cloudy.row(stack, "vm")
    stack = restored(cloudy, stack, snapshot)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    assert cloudy.row(stack, "vm").physical_id != old.physical_id
    given = cloudy.row(stack, "vm").properties[form]
    held = cloudy.admin.thing(SNAPSHOT, given[0]["snapshot_id"])  # type: ignore[index,call-overload]
    assert held["name"] == f"snapshot for {old.physical_name}-{snapshot[-12:]}"
    assert [one["snapshot_id"] for one in given[1:]] == ["first"] * (len(mapping) - 1)  # type: ignore[index,call-overload,union-attr]
    cloudy.components.snapshots.delete(cloudy.who, cloudy.get(stack), snapshot)
    cloudy.settle(stack)
    saved(cloudy, stack)
    new = [key for key, one in cloudy.admin.simulation.all(VOLUME).items() if one["status"] == "in-use"]
    assert cloudy.delete(stack).status is Status.COMPLETE
    cloudy.clock.pass_(10)
    left = cloudy.admin.simulation.all(VOLUME)
    assert not set(new) & set(left)
    assert [one["name"] for one in cloudy.admin.things(SNAPSHOT)] == ["first"]
    assert [one["name"] for one in cloudy.admin.things("image.image")] == ["cirros"]


def cirros(cloudy: Cloudy) -> Any:
    found = cloudy.view().call("image.find_image", "cirros")
    assert isinstance(found, dict)
    return found["id"]
