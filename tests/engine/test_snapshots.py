"""Snapshots and restore, and deletion_policy Snapshot."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import (
    ActionConflict,
    NotSupported,
    RequestLimitExceeded,
    ResourceIsLocked,
    SnapshotNotFound,
)
from heatlite.core.status import Signal, Status, Verb, state
from heatlite.store.records import SnapshotRecord, StackRecord
from tests.tables import few

from .conftest import ADMIN, Engine, attr, param, ref, resource, template, thing

pytestmark = pytest.mark.database


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


@pytest.fixture
def folder(plugins: Path) -> Path:
    """The folders of the objects and images of Test::Saved."""
    path = plugins / "saved"
    path.mkdir()
    return path


def saved(folder: Path, value: object = "v", **more: Any) -> Any:
    return resource("Test::Saved", folder=str(folder), value=value, **more)


def take(engine: Engine, stack: StackRecord, name: str | None = None) -> SnapshotRecord:
    """A snapshot as it is in the end."""
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), name)
    engine.settle(stack)
    return engine.components.snapshots.get(stack, snapshot.id)


def restore(engine: Engine, stack: StackRecord, snapshot: SnapshotRecord) -> StackRecord:
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    return engine.settle(stack)


def drop(engine: Engine, stack: StackRecord, snapshot: SnapshotRecord) -> None:
    engine.components.snapshots.delete(engine.who, engine.get(stack), snapshot.id)
    engine.wait_for(lambda: not engine.store.actions.live([stack.id]))


def nested(engine: Engine, stack: StackRecord) -> StackRecord:
    return engine.store.stacks.descendants(engine.get(stack))[0]


def content(engine: Engine, stack: StackRecord, folder: Path) -> str:
    return (folder / (engine.row(stack, "a").physical_id or "")).read_text()


def images(folder: Path) -> int:
    return len(list(folder.glob("*.image")))


class TestTake:
    def test_every_resource_is_saved(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder), b=thing(ref("a"))))
        mark = engine.now_on(stack)
        begun = engine.components.snapshots.take(engine.who, stack, "first")
        assert (begun.name, begun.verb, begun.status, begun.data) == ("first", Verb.CREATE, Status.IN_PROGRESS, None)
        stack = engine.settle(stack)
        assert (final(stack), stack.status_reason) == ("SNAPSHOT_COMPLETE", "Stack SNAPSHOT completed successfully")
        assert engine.told(stack, mark) == [
            "s SNAPSHOT_IN_PROGRESS", "a SNAPSHOT_IN_PROGRESS", "a SNAPSHOT_COMPLETE", "b SNAPSHOT_IN_PROGRESS",
            "b SNAPSHOT_COMPLETE", "s SNAPSHOT_COMPLETE",
        ]  # fmt: skip
        (snapshot,) = engine.store.snapshots.of(stack.id)
        assert (snapshot.verb, snapshot.status, snapshot.status_reason) == (
            Verb.CREATE, Status.COMPLETE, "Stack SNAPSHOT completed successfully",
        )  # fmt: skip
        data: Any = snapshot.data
        assert (data["action"], data["status"], data["template"]) == (
            "SNAPSHOT", "COMPLETE", engine.store.templates.get(stack.template_id).document,
        )  # fmt: skip
        assert data["resources"]["a"]["resource_data"] == engine.row(stack, "a").data
        assert images(folder) == 1

    def test_each_is_one_of_its_own(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder)))
        found = [take(engine, stack).data for _ in range(3)]
        assert len({found["resources"]["a"]["resource_data"]["image"] for found in found}) == 3  # type: ignore[index,call-overload]
        assert images(folder) == 3

    def test_that_fails(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder, fail="snapshot")))
        snapshot = take(engine, stack)
        why = "Resource SNAPSHOT failed: RuntimeError: resources.a: told to fail in snapshot"
        assert (final(engine.get(stack)), engine.get(stack).status_reason) == ("SNAPSHOT_FAILED", why)
        assert (snapshot.status, snapshot.status_reason) == (Status.FAILED, why)
        with pytest.raises(NotSupported):
            restore(engine, stack, snapshot)
        drop(engine, stack, snapshot)

    def test_what_is_not_well_is_not_saved(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(fail=True)))
        assert take(engine, stack).status is Status.FAILED
        assert engine.states(stack) == {"a": "CREATE_FAILED"}

    def test_not_while_something_runs(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(template(a=thing(wait_secs=9)), wait=False)
            with pytest.raises((ResourceIsLocked, ActionConflict)):
                take(engine, stack)
        engine.settle(stack)

    def test_there_is_a_limit(self, place: Path, plugins: Path) -> None:
        engine = Engine(place, max_snapshots_per_stack=2)
        stack = engine.create(template(a=thing()))
        first = take(engine, stack)
        take(engine, stack)
        with pytest.raises(RequestLimitExceeded, match="2 snapshots"):
            take(engine, stack)
        drop(engine, stack, first)
        assert take(engine, stack).status is Status.COMPLETE
        engine.close()

    def test_the_default_limit_is_heats(self, engine: Engine) -> None:
        assert engine.settings.max_snapshots_per_stack == 32

    def test_cut_short_by_a_delete(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder), n=resource("Test::SlowSaved", depends_on="a")))
        with engine.clock.held():
            engine.components.snapshots.take(engine.who, engine.get(stack), None)
            engine.begun(lambda: engine.row(stack, "n").token)
            engine.delete(stack, wait=False)
        assert final(engine.settle(stack)) == "DELETE_COMPLETE"
        assert (engine.store.snapshots.of(stack.id), list(folder.iterdir())) == ([], [])

    def test_what_it_had_saved_before_it_was_ended_by_force_goes_with_it(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder), n=resource("Test::SlowSaved", depends_on="a")))
        with engine.clock.held():
            begun = engine.components.snapshots.take(engine.who, engine.get(stack), None)
            engine.begun(lambda: engine.row(stack, "n").token)
            (action,) = engine.store.actions.live([stack.id])
            engine.components.controls.signal(ADMIN, action, Signal.CANCEL, force=True)
        engine.settle(stack)
        snapshot = engine.components.snapshots.get(stack, begun.id)
        assert (snapshot.status, snapshot.status_reason) == (Status.FAILED, "Stack SNAPSHOT cancelled")
        assert images(folder) == 1
        drop(engine, stack, snapshot)
        assert (engine.store.snapshots.of(stack.id), images(folder)) == ([], 0)


class TestRestore:
    def test_template_environment_and_files_come_back(self, engine: Engine) -> None:
        first = template(
            a=thing(param("p")), b=thing({"get_file": "f"}), parameters={"p": {"type": "string", "default": "d"}}
        )
        stack = engine.create(first, parameters={"p": "1"}, files={"f": "one"}, tags=("t",))
        snapshot = take(engine, stack)
        before = engine.ids(stack)
        stack = engine.put(stack, template(a=thing("2"), c=thing()))
        mark = engine.now_on(stack)
        stack = restore(engine, stack, snapshot)
        assert (final(stack), stack.status_reason) == ("RESTORE_COMPLETE", "Stack RESTORE completed successfully")
        assert (engine.value(stack, "a"), engine.value(stack, "b")) == ("1", "one")
        assert engine.ids(stack)["a"] == before["a"]
        assert engine.told(stack, mark)[0] == "s RESTORE_IN_PROGRESS"
        assert engine.states(stack) == {"a": "UPDATE_COMPLETE", "b": "CREATE_COMPLETE"}
        # An update goes on from there.
        assert final(engine.patch(stack, parameters={"p": "3"})) == "UPDATE_COMPLETE"
        assert engine.value(stack, "a") == "3"

    def test_an_object_is_made_of_what_was_saved(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder, "old"), outputs={"o": attr("a", "content")}))
        snapshot = take(engine, stack)
        stack = engine.put(stack, template(a=saved(folder, "new"), outputs={"o": attr("a", "content")}))
        assert engine.outputs(stack) == {"o": "new"}
        before = engine.ids(stack)
        stack = restore(engine, stack, snapshot)
        assert (final(stack), engine.outputs(stack)) == ("RESTORE_COMPLETE", {"o": "old"})
        assert engine.ids(stack) != before

    @pytest.mark.slow
    @pytest.mark.parametrize("put", few([False, True]))
    def test_what_it_made_stays(self, engine: Engine, folder: Path, put: bool) -> None:
        definition = template(a=saved(folder, "old"), b=thing("b"))
        stack = engine.create(definition)
        snapshot = take(engine, stack)
        (folder / engine.row(stack, "a").physical_name).write_text("as it was in use")
        again = take(engine, stack)
        stack = restore(engine, stack, snapshot)
        before = engine.ids(stack)
        engine.mark(stack, "b")
        stack = engine.put(stack, definition) if put else engine.patch(stack)
        assert final(stack) == "UPDATE_COMPLETE"
        changed = {name for name, made in engine.ids(stack).items() if made != before[name]}
        assert (changed, content(engine, stack, folder)) == ({"b"}, "old")
        # Another snapshot takes its place.
        stack = restore(engine, stack, again)
        assert content(engine, stack, folder) == "as it was in use"
        # One that has to be made again is made as the template says: the snapshot may be deleted.
        drop(engine, stack, again)
        engine.mark(stack, "a")
        stack = engine.patch(stack)
        assert (final(stack), content(engine, stack, folder)) == ("UPDATE_COMPLETE", "old")
        before = engine.ids(stack)
        assert engine.ids(engine.patch(stack)) == before

    def test_until_the_template_asks_for_something_else(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder, "old")))
        snapshot = take(engine, stack)
        stack = restore(engine, stack, snapshot)
        (folder / "new.image").write_text("new")
        stack = engine.put(stack, template(a=saved(folder, "old", image="new.image")))
        assert content(engine, stack, folder) == "new"
        stack = engine.put(stack, template(a=saved(folder, "fresh")))
        assert content(engine, stack, folder) == "fresh"

    def test_a_rollback_keeps_it(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder, "old")), disable_rollback=False)
        snapshot = take(engine, stack)
        stack = restore(engine, stack, snapshot)
        before = engine.ids(stack)
        (folder / "new.image").write_text("new")
        bad = template(a=saved(folder, "old", image="new.image"), b=thing(fail=True, depends_on="a"))
        stack = engine.put(stack, bad)
        assert (final(stack), engine.ids(stack)) == ("ROLLBACK_COMPLETE", before)
        stack = engine.patch(stack)
        assert (engine.ids(stack), content(engine, stack, folder)) == (before, "old")

    def test_one_that_fails_is_rolled_back(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder, "old")), disable_rollback=False)
        snapshot = take(engine, stack)
        stack = engine.put(stack, template(a=saved(folder, "new"), c=thing()))
        for image in folder.glob("*.image"):
            image.unlink()
        before = engine.ids(stack)
        stack = restore(engine, stack, snapshot)
        assert (final(stack), engine.ids(stack)) == ("ROLLBACK_COMPLETE", before)
        assert engine.row(stack, "a").properties["value"] == "new"

    def test_a_scaling_group_keeps_the_members_of_the_snapshot(self, engine: Engine) -> None:
        """Those have the saved data."""

        def group(size: int) -> Any:
            sizes = {"min_size": 1, "max_size": 5, "desired_capacity": size}
            return template(g=resource("OS::Heat::AutoScalingGroup", resource=thing(), **sizes))

        stack = engine.create(group(2))
        before = engine.ids(nested(engine, stack))
        snapshot = take(engine, stack)
        engine.clock.pass_(1)
        stack = engine.put(stack, group(4))
        assert len(engine.ids(nested(engine, stack))) == 4
        stack = restore(engine, stack, snapshot)
        assert (final(stack), engine.ids(nested(engine, stack))) == ("RESTORE_COMPLETE", before)

    @pytest.mark.slow
    def test_a_rollback_leaves_nested_stacks_as_they_were(self, engine: Engine, folder: Path) -> None:
        child = template(x=saved(folder, param("v")), parameters={"v": {"type": "string"}})
        files = {"child.yaml": json.dumps(child)}

        def outer(value: str) -> Any:
            return template(a=saved(folder, value), n=resource("child.yaml", v=value, depends_on="a"))

        stack = engine.create(outer("old"), files=files, disable_rollback=False)
        snapshot = take(engine, stack)
        name = engine.row(stack, "a").physical_name
        stack = engine.put(stack, outer("new"), files=files, disable_rollback=False)
        before = engine.ids(nested(engine, stack))
        for image in folder.glob(f"{name}*.image"):
            image.unlink()
        assert final(restore(engine, stack, snapshot)) == "ROLLBACK_COMPLETE"
        assert engine.ids(nested(engine, stack)) == before

    @pytest.mark.slow
    def test_within_a_nested_stack(self, engine: Engine, folder: Path) -> None:
        child = template(x=saved(folder, param("v")), parameters={"v": {"type": "string"}})
        child["outputs"] = {"o": {"value": attr("x", "content")}}

        def outer(value: str) -> Any:
            return template(n=resource("child.yaml", v=value), outputs={"o": attr("n", "o")})

        files = {"child.yaml": json.dumps(child)}
        stack = engine.create(outer("old"), files=files)
        snapshot = take(engine, stack)
        assert snapshot.status is Status.COMPLETE
        assert images(folder) == 1
        stack = engine.put(stack, outer("new"), files=files)
        assert engine.outputs(stack) == {"o": "new"}
        stack = restore(engine, stack, snapshot)
        assert (final(stack), engine.outputs(stack)) == ("RESTORE_COMPLETE", {"o": "old"}), stack.status_reason
        made = engine.ids(nested(engine, stack))
        stack = engine.patch(stack)
        assert engine.ids(nested(engine, stack)) == made
        drop(engine, stack, snapshot)
        assert images(folder) == 0

    def test_unknown(self, engine: Engine) -> None:
        stack, other = engine.create(template(a=thing())), engine.create(template(a=thing()), name="other")
        snapshot = take(engine, other)
        for operation in (engine.components.snapshots.restore, engine.components.snapshots.delete):
            with pytest.raises(SnapshotNotFound, match=f"The Snapshot \\({snapshot.id}\\) for Stack \\(s\\)"):
                operation(engine.who, engine.get(stack), snapshot.id)


class TestDelete:
    def test_what_types_keep_goes_with_it(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder)))
        first, second = take(engine, stack), take(engine, stack)
        state_before, events = engine.get(stack), engine.events(stack)
        drop(engine, stack, first)
        assert engine.store.snapshots.of(stack.id) == [second]
        assert images(folder) == 1
        # The stack is not concerned.
        assert (engine.get(stack), engine.events(stack)) == (state_before, events)

    def test_also_of_resources_that_are_gone(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder)))
        snapshot = take(engine, stack)
        stack = engine.put(stack, template(b=thing()))
        drop(engine, stack, snapshot)
        assert list(folder.iterdir()) == []

    def test_one_that_failed_takes_nothing_from_an_earlier_one(self, engine: Engine, folder: Path) -> None:
        def made(fail: str) -> Any:
            b, c = ({"depends_on": name} for name in "ab")
            return template(a=saved(folder), b=saved(folder, fail=fail, keys=b), c=saved(folder, keys=c))

        stack = engine.create(made(""))
        whole = take(engine, stack)
        stack = engine.put(stack, made("snapshot"))
        broken = take(engine, stack)
        assert (broken.status, images(folder)) == (Status.FAILED, 4)
        drop(engine, stack, broken)
        assert (engine.store.snapshots.of(stack.id), images(folder)) == ([whole], 3)
        assert final(restore(engine, stack, whole)) == "RESTORE_COMPLETE"

    def test_nothing_was_saved_of_what_was_never_made(self, engine: Engine, folder: Path) -> None:
        environment = {"resource_registry": {"resources": {"a": {"hooks": "pre-create"}}}}
        with engine.clock.held():
            stack = engine.create(template(a=saved(folder)), wait=False, environment=environment)
            engine.wait_for(lambda: [row.token for row in engine.rows(stack) if row.token])
            engine.stacks.cancel(engine.who, engine.get(stack), rollback=False)
        engine.settle(stack)
        assert take(engine, stack).status is Status.COMPLETE
        assert final(engine.delete(stack)) == "DELETE_COMPLETE"

    def test_one_that_fails_can_be_asked_for_again(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder)))
        snapshot = take(engine, stack)
        (image,) = folder.glob("*.image")
        flag = image.with_suffix(".locked")
        flag.touch()
        drop(engine, stack, snapshot)
        found = engine.components.snapshots.get(stack, snapshot.id)
        why = "Snapshot DELETE failed: RuntimeError: resources.a: the image is in use"
        assert (found.verb, found.status, found.status_reason) == (Verb.DELETE, Status.FAILED, why)
        stack = engine.delete(stack)
        assert (final(stack), stack.status_reason) == ("DELETE_FAILED", why)
        flag.unlink()
        assert final(engine.delete(stack)) == "DELETE_COMPLETE"
        assert (engine.store.snapshots.of(stack.id), list(folder.iterdir())) == ([], [])

    @pytest.mark.slow
    def test_of_a_type_that_is_gone(self, engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither is said to be saved what is not, nor forgotten what is."""
        stack = engine.create(template(a=saved(folder)))
        snapshot = take(engine, stack)
        engine.close()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [path for path in sys.path if not path.endswith("/types")])
            engine.open()
            assert take(engine, stack).status is Status.FAILED
            drop(engine, stack, snapshot)
            found = engine.components.snapshots.get(stack, snapshot.id)
            assert (found.verb, found.status) == (Verb.DELETE, Status.FAILED)
            engine.close()
        engine.open()
        drop(engine, stack, snapshot)
        assert images(folder) == 0

    def test_they_go_with_the_stack(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder)))
        take(engine, stack)
        take(engine, stack)
        engine.delete(stack)
        assert (engine.store.snapshots.of(stack.id), list(folder.iterdir())) == ([], [])

    def test_an_abandoned_stack_leaves_what_was_saved(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder)))
        take(engine, stack)
        engine.components.exports.abandon(engine.who, engine.get(stack))
        engine.settle(stack)
        assert (engine.store.snapshots.of(stack.id), images(folder)) == ([], 1)


class TestPolicy:
    def test_saved_before_it_is_deleted(self, engine: Engine, folder: Path) -> None:
        keys = {"deletion_policy": "Snapshot"}
        stack = engine.create(template(a=saved(folder, "kept", keys=keys), b=saved(folder, "gone")))
        engine.delete(stack)
        (image,) = folder.iterdir()
        assert (image.suffix, image.read_text()) == (".image", "kept")

    def test_when_it_leaves_the_template(self, engine: Engine, folder: Path) -> None:
        stack = engine.create(template(a=saved(folder, keys={"deletion_policy": "Snapshot"}), b=thing()))
        engine.put(stack, template(b=thing()))
        assert [path.suffix for path in folder.iterdir()] == [".image"]

    def test_one_that_fails_keeps_the_object(self, engine: Engine, folder: Path) -> None:
        keys = {"deletion_policy": "Snapshot"}
        stack = engine.create(template(a=saved(folder, fail="snapshot_delete", keys=keys)))
        stack = engine.delete(stack)
        assert final(stack) == "DELETE_FAILED"
        assert len(list(folder.iterdir())) == 1
