"""Servers and their parts on both clouds: the same states and outputs."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.errors import StackValidationFailed
from heatlite.core.status import Status
from heatlite.store.records import StackRecord
from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud
from tests.clouds.real import EVERYTHING
from tests.clouds.test_two_clouds import Seen, same
from tests.engine.conftest import attr, ref, resource, template
from tests.tables import sampled

ATTRIBUTES = ("name", "networks", "tags", "first_address", "os_collect_config", "accessIPv4")


def written(more: dict[str, Any] | None = None, **properties: object) -> Any:
    """Two networks, and a server that is in the first unless it says otherwise."""
    given = {"flavor": "m1.nano", "image": "cirros", "networks": [{"network": ref("a")}], "user_data_format": "RAW"}
    keys = {"update_policy": properties.pop("policy", {})}
    return template(
        outputs={name: attr("server", name) for name in ATTRIBUTES},
        a=resource("OS::Neutron::Net", name="hl-a"),
        b=resource("OS::Neutron::Net", name="hl-b"),
        asub=resource("OS::Neutron::Subnet", network=ref("a"), cidr="10.5.0.0/24"),
        bsub=resource("OS::Neutron::Subnet", network=ref("b"), cidr="10.6.0.0/24"),
        server=resource("OS::Nova::Server", keys=keys, depends_on=["asub", "bsub"], **{**given, **properties}),
        **(more or {}),
    )


def id_of(engine: OnCloud, stack: StackRecord) -> str:
    found = engine.row(stack, "server").physical_id
    assert found is not None
    return found


def as_it_is(engine: OnCloud, stack: StackRecord) -> dict[str, Any]:
    """The server as the compute service shows it."""
    found = engine.thing(engine.cloud.call("compute.get_server", id_of(engine, stack)))
    return {name: found.get(name) for name in ("name", "status", "metadata", "locked", "locked_reason", "tags")} | {
        "flavor": found["flavor"]["original_name"]
    }


def changes(engine: OnCloud) -> Seen:
    """Renamed, resized, connected otherwise, rebuilt: all of it in place."""
    engine.take_stock()
    seen = {}
    stack = engine.well(engine.create(written(name="one", metadata={"a": 1, "b": {"c": []}}, tags=["x"])))
    seen["made"] = engine.seen(stack)
    first = id_of(engine, stack)
    steps: dict[str, dict[str, object]] = {
        "renamed": {"name": "two", "metadata": {"b": "2"}, "tags": ["y", "z"]},
        "resized": {"name": "two", "flavor": "m1.tiny"},
        "rebuilt": {"flavor": "m1.tiny", "user_data": "#!/bin/sh", "user_data_update_policy": "REBUILD"},
    }
    for name, properties in steps.items():
        stack = engine.well(engine.put(stack, written(**properties)))
        seen[name] = engine.seen(stack)
        assert id_of(engine, stack) == first
        seen[f"{name} there"] = as_it_is(engine, stack) if "name" in properties else {}
    engine.well(engine.check(stack))
    seen["checked"] = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.gone(stack)
    return seen


def interfaces(engine: OnCloud) -> Seen:
    """Another network, a port of the template, a port changed in place, none."""
    engine.take_stock()
    seen = {}
    more = {"p": resource("OS::Neutron::Port", network=ref("b"), depends_on="bsub")}
    stack = engine.well(engine.create(written(more)))
    first = id_of(engine, stack)
    unprotected = {"port_extra_properties": {"port_security_enabled": False}}
    for name, networks in {
        "both": [{"network": ref("a")}, {"port": ref("p")}],
        "fixed": [{"subnet": ref("bsub"), "fixed_ip": "10.6.0.77"}],
        "unprotected": [{"subnet": ref("bsub"), "fixed_ip": "10.6.0.77", **unprotected}],
        "none": [{"allocate_network": "none"}],
    }.items():
        stack = engine.well(engine.put(stack, written(more, networks=networks)))
        seen[name] = engine.seen(stack)
        assert id_of(engine, stack) == first
    engine.gone(stack)
    return seen


def states(engine: OnCloud) -> Seen:
    """Suspended, resumed; locked, with and without a lock of before."""
    engine.take_stock()
    seen: Seen = {}
    stack = engine.well(engine.create(written()))
    for name, operation in (("suspended", engine.suspend), ("resumed", engine.resume), ("locked", engine.lock)):
        engine.well(operation(stack))
        seen[name] = as_it_is(engine, stack) | {"name": ""}
    for verb, more in (("reboot_server", ["SOFT"]), ("delete_server", []), ("suspend_server", [])):
        with pytest.raises(Exception, match=r"is locked \(HTTP 409\)"):
            engine.cloud.call(f"compute.{verb}", id_of(engine, stack), *more)
    engine.well(engine.unlock(stack))
    seen["unlocked"] = as_it_is(engine, stack) | {"name": ""}
    engine.cloud.call("compute.lock_server", id_of(engine, stack), locked_reason="mine")
    engine.well(engine.lock(stack))
    engine.well(engine.unlock(stack))
    seen["as before"] = as_it_is(engine, stack) | {"name": ""}
    engine.cloud.call("compute.unlock_server", id_of(engine, stack))
    engine.gone(stack)
    return seen


def saved(engine: OnCloud) -> Seen:
    """A snapshot of the stack, and back to it; an image in place of a deleted server."""
    engine.take_stock()
    seen = {}
    stack = engine.well(engine.create(written(name="one")))
    first = id_of(engine, stack)
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), "s")
    engine.well(engine.settle(stack))
    stack = engine.well(engine.put(stack, written(name="two")))
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    stack = engine.well(engine.settle(stack))
    seen["restored"] = engine.seen(stack)
    assert id_of(engine, stack) == first
    engine.gone(stack)
    kept = written()
    kept["resources"]["server"]["deletion_policy"] = "Snapshot"
    stack = engine.well(engine.create(kept, "t"))
    name = engine.row(stack, "server").physical_name
    engine.well(engine.delete(stack))
    image = engine.thing(engine.cloud.call("image.find_image", name))
    seen["kept"] = {"status": image["status"], "kind": image["properties"]["image_type"]}
    engine.cloud.call("image.delete_image", image["id"])
    assert engine.holdings() == engine.before
    return seen


def replaced(engine: OnCloud) -> Seen:
    """A replacement takes over the server's ports, and a failed one gives them back.

    They are on different hosts: one that does not run anything forgets no port.
    """
    engine.take_stock()
    seen = {}
    more = {"p": resource("OS::Neutron::Port", network=ref("b"), depends_on="bsub")}
    more["apart"] = resource("OS::Nova::ServerGroup", policies=["anti-affinity"])
    given = {"networks": [{"network": ref("a")}, {"port": ref("p")}], "scheduler_hints": {"group": ref("apart")}}
    stack = engine.well(engine.create(written(more, **given, user_data="1")))
    first, outputs = id_of(engine, stack), engine.outputs(stack)["networks"]
    stack = engine.well(engine.put(stack, written(more, **given, user_data="2")))
    second = id_of(engine, stack)
    assert second != first
    assert engine.outputs(stack)["networks"] == outputs
    seen["replaced"] = engine.seen(stack)
    bad = {**more, "bad": resource("OS::Heat::TestResource", fail=True, depends_on="server")}
    stack = engine.put(stack, written(bad, **given, user_data="3"), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
    assert id_of(engine, stack) == second
    assert engine.outputs(stack)["networks"] == outputs
    seen["rolled back"] = engine.seen(stack)
    engine.gone(stack)
    return seen


def boots(engine: OnCloud) -> Seen:
    """A volume made of an image and deleted with the server, and one that stays."""
    engine.take_stock()
    seen = {}
    disk = {"image": "cirros", "volume_size": 1, "delete_on_termination": True}
    stack = engine.well(engine.create(written(image=None, block_device_mapping_v2=[disk])))
    seen["of an image"] = engine.seen(stack)
    engine.gone(stack)
    volume = {"v": resource("OS::Cinder::Volume", size=1, image="cirros")}
    mapping = [{"device_name": "vda", "volume_id": ref("v")}]
    stack = engine.well(engine.create(written(volume, image=None, block_device_mapping=mapping), "t"))
    seen["of a volume"] = engine.seen(stack)
    engine.gone(stack)
    return seen


def holds(engine: OnCloud) -> Seen:
    """A boot volume: grown, saved, restored, and held by a retained image."""

    def machine(policy: str = "Delete", **volume: object) -> Any:
        disk = resource("OS::Cinder::Volume", **{"size": 1, "image": "cirros", **volume})
        mapping = [{"volume_id": ref("v"), "boot_index": 0}]
        found = written({"v": disk}, image=None, block_device_mapping_v2=mapping,
                        policy={"replacement": {"order": "delete_first"}})  # fmt: skip
        found["resources"]["server"]["deletion_policy"] = policy
        return found

    engine.take_stock()
    seen = {}
    stack = engine.well(engine.create(machine()))
    before = id_of(engine, stack)
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), "s")
    stack = engine.well(engine.settle(stack))
    stack = engine.well(engine.put(stack, machine(size=2)))
    assert id_of(engine, stack) == before
    with pytest.raises(StackValidationFailed, match="cannot shrink"):
        engine.put(stack, machine(size=1))
    stack = engine.put(stack, machine(size=2, read_only=True))
    seen["read-only"] = engine.states(stack)
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    stack = engine.well(engine.settle(stack))
    assert id_of(engine, stack) != before
    volume = engine.thing(engine.cloud.call("block_storage.get_volume", engine.row(stack, "v").physical_id))
    seen["restored"] = {"size": volume["size"], "bootable": volume["bootable"], "story": engine.story(stack)}
    engine.gone(stack)
    stack = engine.well(engine.create(machine("Snapshot"), "t"))
    name = engine.row(stack, "server").physical_name
    stack = engine.delete(stack)
    image = engine.thing(engine.cloud.call("image.find_image", name))
    (held,) = engine.cloud.call("block_storage.snapshots", volume_id=engine.row(stack, "v").physical_id)  # type: ignore[misc]
    assert f"of which the image {image['id']} is made" in engine.row(stack, "v").status_reason
    seen["held"] = {"state": engine.states(stack), "snapshot": str(held["name"]).replace(name, "")}  # type: ignore[index]
    other = engine.well(engine.create(written(image=image["id"]), "u"))
    server = engine.thing(engine.cloud.call("compute.get_server", id_of(engine, other)))
    seen["of the image"] = {"volumes": len(server["os-extended-volumes:volumes_attached"])}
    assert server["image"]["id"] == image["id"]
    engine.well(engine.delete(other))
    before_it = engine.before["block_storage.volumes"] | {engine.row(stack, "v").physical_id}
    for volume in engine.holdings()["block_storage.volumes"] - before_it:
        engine.cloud.call("block_storage.delete_volume", volume)
    engine.cloud.call("image.delete_image", image["id"])
    engine.cloud.call("block_storage.delete_snapshot", held["id"])  # type: ignore[index]
    engine.gone(stack)
    return seen


def saves(engine: OnCloud) -> Seen:
    """A server with its volume is restored; then both go, and the held snapshot."""
    engine.take_stock()
    disk = {"image": "cirros", "volume_size": 1, "delete_on_termination": True}
    stack = engine.well(engine.create(written(image=None, block_device_mapping_v2=[disk])))
    before = id_of(engine, stack)
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), "s")
    engine.well(engine.settle(stack))
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    stack = engine.well(engine.settle(stack))
    assert id_of(engine, stack) != before
    seen = {"restored": engine.seen(stack)}
    engine.well(engine.delete(stack))
    left = engine.holdings()["block_storage.volumes"] - engine.before["block_storage.volumes"]
    seen["left"] = {"volumes": len(left)}
    for volume in left:
        engine.cloud.call("block_storage.delete_volume", volume)
    engine.wait_for(lambda: engine.holdings() == engine.before)
    return seen


def administered(engine: OnCloud) -> Seen:
    """Flavors, groups, aggregates and quotas, made, changed and removed."""

    def written(ram: int, **more: Any) -> Any:
        specs, metadata, cores = more.get("specs", {}), more.get("metadata", {}), more.get("cores", 7)
        return template(
            outputs={"specs": attr("flavor", "extra_specs"), "public": attr("flavor", "is_public")},
            project=resource("OS::Keystone::Project", name="hl-project", domain="default"),
            flavor=resource(
                "OS::Nova::Flavor", name="hl-flavor", ram=ram, vcpus=1, is_public=False, extra_specs=specs,
                tenants=[ref("project")],
            ),
            group=resource("OS::Nova::ServerGroup", name="hl-group", policies=["soft-affinity"]),
            hosts=resource("OS::Nova::HostAggregate", name="hl-hosts", hosts=["fake-1"], metadata=metadata),
            quota=resource("OS::Nova::Quota", project=ref("project"), instances=3, cores=cores),
        )  # fmt: skip

    engine.take_stock()
    seen = {}
    stack = engine.well(engine.create(written(64, specs={"a": "b", "c": "d"}, metadata={"k": "v", "l": "m"})))
    seen["made"] = engine.seen(stack)
    stack = engine.well(engine.put(stack, written(64, specs={"c": "e"}, metadata={"l": "n"}, cores=None)))
    seen["changed"] = engine.seen(stack)
    project = engine.row(stack, "project").physical_id
    limits = engine.thing(engine.cloud.call("compute.get_quota_set", project))
    hosts = engine.thing(engine.cloud.call("compute.get_aggregate", engine.row(stack, "hosts").physical_id))
    seen["there"] = {"instances": limits["instances"], "hosts": hosts["hosts"], "metadata": hosts["metadata"]}
    assert limits["cores"] != 7
    engine.well(engine.check(stack))
    engine.gone(stack)
    assert engine.cloud.call("compute.find_flavor", "hl-flavor") is None
    assert engine.cloud.call("compute.find_aggregate", "hl-hosts") is None
    return seen


def refused(engine: OnCloud) -> Seen:
    """Requests that the service refuses, and servers that it cannot place."""
    engine.take_stock()
    seen: Seen = {}
    for name, properties in {
        "zone": {"availability_zone": "nowhere"},
        "disk": {"block_device_mapping_v2": [{"ephemeral_size": 1}]},
        "name": {"metadata": {"k": "x" * 300}},
    }.items():
        stack = engine.create(written(**properties), name)
        assert stack.status is Status.FAILED
        seen[name] = engine.seen(stack)["resources"]
        engine.gone(stack)
    return seen


SCENARIOS = [changes, interfaces, states, saved, replaced, boots, holds, saves, administered, refused]


@pytest.mark.parametrize("scenario", sampled(SCENARIOS, 3, pytest.mark.thorough), ids=lambda one: one.__name__)
def test_simulated(scenario: Callable[[OnCloud], Seen], simulated: Begin) -> None:
    scenario(simulated(admin=scenario is administered))


@pytest.mark.cloud
@pytest.mark.parametrize("scenario", SCENARIOS if EVERYTHING else [states], ids=lambda one: one.__name__)
def test_on_both(scenario: Callable[[OnCloud], Seen], simulated: Begin, real_cloud: Begin) -> None:
    admin = scenario is administered
    same(scenario(real_cloud(admin=admin)), scenario(simulated(admin=admin)))
