"""OS::Cinder::Volume on a simulated cloud."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import StackValidationFailed
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord
from tests.engine.conftest import attr, resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

VOLUME = "block_storage.volume"
BACKUP = "block_storage.backup"


def volume(*, keys: Mapping[str, object] = {}, **properties: object) -> Any:
    return resource("OS::Cinder::Volume", keys=keys, **{"size": 1, **properties})


def made(cloudy: Cloudy, verb: str, **attributes: Any) -> Any:
    """Something that is in the cloud already."""
    return cloudy.view().call(f"block_storage.{verb}", **attributes)


def wants(cloudy: Cloudy, stack: StackRecord, **after: object) -> dict[str, Any]:
    """The volume after an update to these properties, which must be in place."""
    before = cloudy.row(stack, "v").physical_id
    cloudy.changed(stack, {"v": volume(**after)})
    assert cloudy.row(stack, "v").physical_id == before
    return cloudy.thing(stack, "v")


class TestCreate:
    def test_of_a_size(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(
            {"v": volume(size=3, name="mine", description="d", metadata={"a": "b", "n": 1}, read_only=True)}
        )
        thing = cloudy.thing(stack, "v")
        assert (thing["size"], thing["name"], thing["description"], thing["status"]) == (3, "mine", "d", "available")
        assert thing["metadata"] == {"a": "b", "n": "1", "readonly": "True"}
        cloudy.delete(stack)
        assert cloudy.count(VOLUME) == 0

    @pytest.mark.parametrize("source", few(["snapshot_id", "backup_id", "source_volid", "image", "imageRef"]))
    def test_of_something_that_is_there(self, cloudy: Cloudy, source: str) -> None:
        old = made(cloudy, "create_volume", size=2, name="old")["id"]
        if source == "snapshot_id":
            made(cloudy, "create_snapshot", volume_id=old, name="source")
        if source == "backup_id":
            made(cloudy, "create_backup", volume_id=old, name="source")
        named = {"source_volid": "old", "image": "cirros", "imageRef": "cirros"}.get(source, "source")
        size = {"size": 2} if source.startswith("image") else {}
        stack = cloudy.made({"v": resource("OS::Cinder::Volume", **{source: named}, **size)})
        thing = cloudy.thing(stack, "v")
        assert thing["size"] == 2
        assert (thing["bootable"] == "true") is source.startswith("image")

    @pytest.mark.parametrize(
        ("properties", "text"),
        few(
            [
                ({}, "size is needed"),
                ({"image": "cirros"}, "size is needed"),
                ({"size": 1, "image": "cirros", "source_volid": "x"}, "only one of"),
            ]
        ),
    )
    def test_the_properties_have_to_fit_together(self, cloudy: Cloudy, properties: Any, text: str) -> None:
        cls = cloudy.components.types.get("OS::Cinder::Volume")
        assert [text in fault.text for fault in cls.check_properties(properties)] == [True]

    def test_it_is_waited_for(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(build=30)
        stack = cloudy.made({"v": volume()})
        assert cloudy.thing(stack, "v")["status"] == "available"

    def test_one_that_goes_to_error_is_made_again(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.create_volume", "number": 1, "goes": "error"}])
        cloudy.made({"v": volume()})
        assert cloudy.count(VOLUME) == 1

    def test_an_answer_that_is_lost_makes_no_second_volume(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.create_volume", "number": 1, "raises": "lost"}])
        cloudy.made({"v": volume(name="mine")})
        assert cloudy.count(VOLUME) == 1

    @pytest.mark.parametrize(
        ("quota", "text"), few([("volumes", "VolumeLimitExceeded"), ("gigabytes", "Requested 2G")])
    )
    def test_quotas(self, troubled: Callable[..., Cloudy], quota: str, text: str) -> None:
        cloudy = troubled(quotas={f"block_storage.{quota}": 1})
        cloudy.who = replace(cloudy.who, options={"quota_check": "off"})  # so that the cloud refuses
        stack = cloudy.create(template(v=volume(), w=volume(size=2, keys={"depends_on": "v"})))
        assert stack.status is Status.FAILED
        assert text in cloudy.row(stack, "w").status_reason
        assert "(request req-" in cloudy.row(stack, "w").status_reason


class TestUpdate:
    @pytest.mark.parametrize(
        ("after", "is_then"),
        sampled(
            [
                ({"size": 4}, {"size": 4}),
                ({"name": "new"}, {"name": "new"}),
                ({"description": "new"}, {"description": "new"}),
                ({"metadata": {"b": "c"}}, {"metadata": {"b": "c"}}),
                ({"read_only": True}, {"metadata": {"a": "b", "readonly": "True"}}),
                ({"volume_type": "fast"}, {"volume_type": "fast"}),
                ({"backup_id": "kept"}, {"status": "available"}),
                (
                    {"size": 4, "volume_type": "fast", "read_only": True, "backup_id": "kept"},
                    {"size": 4, "volume_type": "fast", "metadata": {"a": "b", "readonly": "True"}},
                ),
            ],
            2,
            pytest.mark.thorough,
        ),
    )
    def test_in_place(self, troubled: Callable[..., Cloudy], after: dict[str, object], is_then: Any) -> None:
        cloudy = troubled(build=3)
        made(cloudy, "create_type", name="fast")
        stack = cloudy.made({"v": volume(size=2, metadata={"a": "b"})})
        made(cloudy, "create_backup", volume_id=cloudy.row(stack, "v").physical_id, name="kept")
        cloudy.clock.pass_(10)
        thing = wants(cloudy, stack, **{"size": 2, "metadata": {"a": "b"}, **after})
        assert {key: thing[key] for key in is_then} == is_then

    @pytest.mark.slow
    @pytest.mark.parametrize("after", few([{"availability_zone": "b"}, {"scheduler_hints": {"same_host": "x"}}]))
    def test_by_another_volume(self, cloudy: Cloudy, after: dict[str, object]) -> None:
        stack = cloudy.made({"v": volume()})
        before = cloudy.row(stack, "v").physical_id
        cloudy.changed(stack, {"v": volume(**after)})
        assert cloudy.row(stack, "v").physical_id != before
        assert cloudy.count(VOLUME) == 1

    def test_a_type_that_is_not_given_any_more_is_another_volume(self, cloudy: Cloudy) -> None:
        made(cloudy, "create_type", name="fast")
        stack = cloudy.made({"v": volume(volume_type="fast")})
        before = cloudy.row(stack, "v").physical_id
        cloudy.changed(stack, {"v": volume()})
        assert cloudy.row(stack, "v").physical_id != before

    def test_nothing_shrinks_and_nothing_is_begun(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume(size=200)})
        request = StackRequest(template=template(v=volume(size=100)))
        for ask in (cloudy.components.stacks.update, cloudy.components.stacks.preview_update):
            with pytest.raises(StackValidationFailed, match="v: a volume cannot shrink: it has 200 GiB"):
                ask(cloudy.who, stack, request, existing=False)  # type: ignore[operator]
        hidden = {"size": {"type": "number", "default": 100, "hidden": True}}
        with pytest.raises(StackValidationFailed, match=r"it has 200 GiB, and size is \*\*\*"):
            cloudy.put(stack, template(parameters=hidden, v=volume(size={"get_param": "size"})))
        assert (cloudy.get(stack).verb, cloudy.get(stack).status) == ("CREATE", "COMPLETE")
        cloudy.changed(stack, {"v": volume(size=100, availability_zone="b")})  # another volume
        assert cloudy.thing(stack, "v")["size"] == 100

    def test_all_but_its_size_is_changed_back(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.extend_volume", "raises": "refused"}])
        stack = cloudy.made({"v": volume(size=1, name="before")})
        stack = cloudy.put(stack, template(v=volume(size=2, name="after")), disable_rollback=False)
        assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
        assert [cloudy.thing(stack, "v")[key] for key in ("name", "size")] == ["before", 1]

    def test_what_has_grown_by_itself_does_not_shrink_either(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume(size=1)})
        cloudy.view().call("block_storage.extend_volume", cloudy.row(stack, "v").physical_id, 3)
        stack = cloudy.put(stack, template(v=volume(size=2)))
        assert "a volume cannot shrink: it has 3 GiB, and size is 2" in cloudy.row(stack, "v").status_reason
        assert wants(cloudy, stack, size=4)["size"] == 4

    def test_a_backup_of_a_smaller_one_is_another_volume(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume(size=1, image="cirros")})
        made(cloudy, "create_backup", volume_id=cloudy.row(stack, "v").physical_id, name="kept")
        stack = cloudy.changed(stack, {"v": volume(size=2, image="cirros")})
        cloudy.changed(stack, {"v": volume(size=1, image="cirros", backup_id="kept")})
        thing = cloudy.thing(stack, "v")
        assert (thing["size"], thing["bootable"], cloudy.count(VOLUME)) == (1, "true", 1)

    @pytest.mark.slow
    def test_an_extension_that_comes_to_nothing_fails(self, troubled: Callable[..., Cloudy]) -> None:
        fault = {"verb": "block_storage.extend_volume", "number": 1, "goes": "error_extending", "message": "no room"}
        cloudy = troubled(faults=[fault])
        stack = cloudy.made({"v": volume()})
        stack = cloudy.put(stack, template(v=volume(size=2)))
        assert "ERROR_EXTENDING" in cloudy.row(stack, "v").status_reason
        assert "no room" in cloudy.row(stack, "v").status_reason

    def test_a_backup_that_could_not_be_restored_becomes_another_volume(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.restore_backup", "number": 1, "goes": "error_restoring"}])
        stack = cloudy.made({"v": volume()})
        before = cloudy.row(stack, "v").physical_id
        made(cloudy, "create_backup", volume_id=before, name="kept")
        stack = cloudy.put(stack, template(v=volume(backup_id="kept")))
        assert "ERROR_RESTORING" in cloudy.row(stack, "v").status_reason
        cloudy.changed(stack, {"v": volume(backup_id="kept")})
        assert (cloudy.row(stack, "v").physical_id != before, cloudy.count(VOLUME)) == (True, 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("gone", few(["", "a"]))
    def test_it_returns_to_those_of_its_servers_that_there_are(
        self, troubled: Callable[..., Cloudy], gone: str
    ) -> None:
        """After an update that has failed on the way."""
        cloudy = troubled(faults=[{"verb": "block_storage.extend_volume", "number": 1, "raises": "refused"}])
        made(cloudy, "create_type", name="shared", extra_specs={"multiattach": "<is> True"})
        machine = resource(
            "OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[{"allocate_network": "none"}]
        )
        servers = cloudy.made({"a": machine, "b": machine}, "servers")
        stack = cloudy.made({"v": volume(volume_type="shared")})
        for name in ("a", "b"):
            ids = cloudy.row(servers, name).physical_id, cloudy.row(stack, "v").physical_id
            cloudy.view().call("compute.create_volume_attachment", ids[0], volume=ids[1])
        after = template(v=volume(volume_type="shared", size=2))
        assert cloudy.put(stack, after).status == "FAILED"
        if gone:
            servers = cloudy.changed(servers, {"b": machine})
        assert wants(cloudy, stack, volume_type="shared", size=2)["size"] == 2
        at = {one["server_id"] for one in cloudy.thing(stack, "v")["attachments"]}
        assert at == {row.physical_id for row in cloudy.rows(servers)}

    @pytest.mark.slow
    def test_a_failed_one_that_is_well_is_kept(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.extend_volume", "number": 1, "raises": "refused"}])
        stack = cloudy.made({"v": volume()})
        stack = cloudy.put(stack, template(v=volume(size=2)))
        assert stack.status is Status.FAILED
        assert wants(cloudy, stack, size=2)["size"] == 2


class TestLife:
    def test_attributes(self, cloudy: Cloudy) -> None:
        names = ("size", "status", "metadata", "metadata_values", "display_name", "encrypted", "attachments_list")
        resources = {"v": volume(name="n", metadata={"a": "b"})}
        stack = cloudy.create(template(outputs={name: attr("v", name) for name in names}, **resources))
        assert cloudy.outputs(stack) == {
            "size": "1", "status": "available", "metadata": '{"a":"b"}', "metadata_values": {"a": "b"},
            "display_name": "n", "encrypted": "False", "attachments_list": [],
        }  # fmt: skip

    def test_check_says_how_it_is(self, cloudy: Cloudy) -> None:
        made(cloudy, "create_type", name="fast")
        stack = cloudy.made({"v": volume(metadata={"a": "1"}, volume_type="fast", read_only=False)})
        cloudy.check(stack)
        assert cloudy.row(stack, "v").status_reason == "state changed"
        thing = cloudy.thing(stack, "v")
        cloudy.admin.put(VOLUME, {**thing, "status": "error"})
        stack = cloudy.check(stack)
        assert stack.status is Status.FAILED
        assert "its status is ERROR" in cloudy.row(stack, "v").status_reason

    def test_gone_is_found_by_a_check_and_no_hindrance_to_a_delete(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume()})
        cloudy.view().call("block_storage.delete_volume", cloudy.row(stack, "v").physical_id)
        assert cloudy.check(stack).status is Status.FAILED
        assert cloudy.delete(stack).status is Status.COMPLETE

    def test_a_volume_with_snapshots_says_at_once_which(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume()})
        snapshot = made(cloudy, "create_snapshot", volume_id=cloudy.row(stack, "v").physical_id, name="mine")["id"]
        begun = cloudy.clock.now()
        stack = cloudy.delete(stack)
        assert (stack.status, cloudy.clock.now() - begun < 1) == (Status.FAILED, True)
        reason = cloudy.row(stack, "v").status_reason
        assert f"as long as it has snapshots: snapshot {snapshot} (mine). Delete" in reason
        cloudy.view().call("block_storage.delete_snapshot", snapshot)
        assert cloudy.delete(stack).status is Status.COMPLETE

    @pytest.mark.slow
    def test_snapshot_on_delete_is_a_backup(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(build=5)
        stack = cloudy.made({"v": volume(size=2, keys={"deletion_policy": "Snapshot"})})
        cloudy.delete(stack)
        (backup,) = cloudy.admin.simulation.all(BACKUP).values()
        assert (cloudy.count(VOLUME), backup["size"], backup["status"]) == (0, 2, "available")

    def test_a_backup_that_fails_keeps_the_volume(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "block_storage.create_backup", "goes": "error"}])
        stack = cloudy.made({"v": volume(keys={"deletion_policy": "Snapshot"})})
        assert cloudy.delete(stack).status is Status.FAILED
        assert cloudy.count(VOLUME) == 1

    def test_without_a_backup_service_nothing_is_waited_for(self, troubled: Callable[..., Cloudy]) -> None:
        message = "Service cinder-backup could not be found."
        fault = {"verb": "block_storage.create_backup", "raises": "unavailable", "message": message}
        cloudy = troubled(faults=[fault])
        stack = cloudy.made({"v": volume()})
        begun = cloudy.clock.now()
        cloudy.components.snapshots.take(cloudy.who, cloudy.get(stack), "s")
        stack = cloudy.settle(stack)
        assert (stack.status, cloudy.clock.now() - begun < 60) == (Status.FAILED, True)
        assert "the cloud has no backup service, and a volume is saved" in cloudy.row(stack, "v").status_reason

    @pytest.mark.slow
    def test_a_snapshot_of_the_stack_and_back(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume(size=2, name="a")})
        snapshot = cloudy.components.snapshots.take(cloudy.who, cloudy.get(stack), "s")
        stack = cloudy.settle(stack)
        assert cloudy.count(BACKUP) == 1
        stack = cloudy.changed(stack, {"v": volume(size=2, name="b")})
        before = cloudy.row(stack, "v").physical_id
        cloudy.components.snapshots.restore(cloudy.who, cloudy.get(stack), snapshot.id)
        stack = cloudy.settle(stack)
        assert stack.status is Status.COMPLETE, cloudy.why(stack)
        row = cloudy.row(stack, "v")
        assert (row.physical_id, cloudy.thing(stack, "v")["name"]) == (before, "a")
        assert row.properties["backup_id"] == next(iter(cloudy.admin.simulation.all(BACKUP)))
        cloudy.components.snapshots.delete(cloudy.who, cloudy.get(stack), snapshot.id)
        cloudy.settle(stack)
        assert cloudy.count(BACKUP) == 0

    @pytest.mark.parametrize("before", [False, True])
    def test_a_lock_makes_it_read_only_and_an_unlock_what_it_was(self, cloudy: Cloudy, before: bool) -> None:
        stack = cloudy.made({"v": volume(read_only=before)})
        cloudy.lock(stack)
        assert cloudy.thing(stack, "v")["metadata"]["readonly"] == "True"
        stack = cloudy.unlock(stack)
        assert cloudy.thing(stack, "v")["metadata"].get("readonly", "False") == str(before)
        assert "was_read_only" not in cloudy.row(stack, "v").data

    def test_a_lock_leaves_one_in_use_as_it_is_and_says_so(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume()})
        thing = cloudy.thing(stack, "v")
        cloudy.admin.put(VOLUME, {**thing, "status": "in-use"})
        assert cloudy.lock(stack).status is Status.COMPLETE
        assert "it stays writable, though it is locked" in cloudy.row(stack, "v").status_reason
        told = [event.status_reason for event in cloudy.events(stack) if event.resource_name == "v"]
        assert "it stays writable" in told[-1]
        assert cloudy.unlock(stack).status is Status.COMPLETE
        assert cloudy.row(stack, "v").status_reason == "state changed"
        assert cloudy.thing(stack, "v")["metadata"] == {}
        assert "was_read_only" not in cloudy.row(stack, "v").data

    @pytest.mark.slow
    def test_what_an_unlock_cannot_put_back_the_next_one_does(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"v": volume()})
        cloudy.lock(stack)
        cloudy.admin.put(VOLUME, {**cloudy.thing(stack, "v"), "status": "in-use"})
        stack = cloudy.unlock(stack)
        assert (stack.status, cloudy.row(stack, "v").status) == (Status.COMPLETE, Status.COMPLETE)
        assert "it stays read-only" in cloudy.row(stack, "v").status_reason
        cloudy.admin.put(VOLUME, {**cloudy.thing(stack, "v"), "status": "available"})
        cloudy.lock(stack)
        cloudy.unlock(stack)
        assert cloudy.thing(stack, "v")["metadata"] == {"readonly": "False"}
        assert "was_read_only" not in cloudy.row(stack, "v").data
