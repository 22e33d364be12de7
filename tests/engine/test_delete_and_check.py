"""Delete and check."""

from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import StackNotFound
from heatlite.core.status import ActionStatus, Verb, state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord
from tests.tables import few

from .conftest import Engine, ref, resource, template, thing

pytestmark = pytest.mark.database


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def file(**more: Any) -> Any:
    return resource("Example::Local::File", **more)


class TestDelete:
    def test_in_reverse_order(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing(ref("a")), c=thing(depends_on="b"), d=thing(wait_secs=9)))
        before, mark = engine.clock.now(), engine.now_on(stack)
        stack = engine.delete(stack)
        assert (final(stack), stack.status_reason) == ("DELETE_COMPLETE", "Stack DELETE completed successfully")
        assert stack.deleted_at == engine.clock.now() == before + 9
        assert engine.rows(stack) == []
        told = engine.told(stack, mark)
        assert [text for text in told if not text.startswith("d ")] == [
            "s DELETE_IN_PROGRESS",
            "c DELETE_IN_PROGRESS",
            "c DELETE_COMPLETE",
            "b DELETE_IN_PROGRESS",
            "b DELETE_COMPLETE",
            "a DELETE_IN_PROGRESS",
            "a DELETE_COMPLETE",
            "s DELETE_COMPLETE",
        ]
        # d depends on nothing: its turn is at once.
        assert told.index("d DELETE_IN_PROGRESS") < told.index("b DELETE_IN_PROGRESS")
        assert engine.store.stacks.by_name("demo", "s") is None

    @pytest.mark.parametrize("policy", ["Retain", "retain"])
    def test_what_is_retained_stays_in_the_cloud(self, engine: Engine, plugins: Path, policy: str) -> None:
        stack = engine.create(template(a=file(keys={"deletion_policy": policy}), b=file()))
        a, b = (Path(engine.row(stack, name).physical_id or "") for name in "ab")
        stack = engine.delete(stack)
        assert final(stack) == "DELETE_COMPLETE"
        assert (a.exists(), b.exists()) == (True, False)
        assert engine.rows(stack) == []

    def test_what_is_retained_when_it_leaves_the_template(self, engine: Engine) -> None:
        stack = engine.create(template(a=file(keys={"deletion_policy": "Retain"}), b=thing()))
        path = Path(engine.row(stack, "a").physical_id or "")
        stack = engine.put(stack, template(b=thing()))
        assert (final(stack), path.exists(), list(engine.states(stack))) == ("UPDATE_COMPLETE", True, ["b"])

    def test_the_policy_can_change_alone(self, engine: Engine) -> None:
        stack = engine.create(template(a=file()))
        path = Path(engine.row(stack, "a").physical_id or "")
        before, mark = engine.ids(stack), engine.now_on(stack)
        stack = engine.put(stack, template(a=file(keys={"deletion_policy": "Retain"})))
        assert engine.ids(stack) == before
        assert engine.told(stack, mark) == ["s UPDATE_IN_PROGRESS", "s UPDATE_COMPLETE"]
        engine.delete(stack)
        assert path.exists()

    def test_a_failed_create_leaves_nothing_behind(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(template(a=file(fail=True), never=file(depends_on="a")))
        assert final(stack) == "CREATE_FAILED"
        assert engine.row(stack, "a").physical_id
        mark = engine.now_on(stack)
        stack = engine.delete(stack)
        assert final(stack) == "DELETE_COMPLETE"
        assert [path.name for path in plugins.iterdir()] == ["journal"]
        assert [text for text in engine.told(stack, mark) if text.startswith("never ")] == []

    def test_during_a_create(self, engine: Engine, plugins: Path) -> None:
        with engine.clock.held():
            stack = engine.create(
                template(a=file(slow_secs=50), b=thing(wait_secs=-1, action_wait_secs={"delete": 0})), wait=False
            )
            engine.begun(lambda: len(engine.rows(stack)) == 2 and all(row.token for row in engine.rows(stack)))
            mark = engine.now_on(stack)
            engine.delete(stack, wait=False)
            stack = engine.settle(stack)
        assert final(stack) == "DELETE_COMPLETE"
        assert [path.name for path in plugins.iterdir()] == ["journal"]
        # The state is the delete's from the beginning.
        told = [text for text in engine.told(stack, mark) if text.startswith("s ")]
        assert told == ["s DELETE_IN_PROGRESS", "s DELETE_COMPLETE"]
        assert {"a CREATE_FAILED", "b CREATE_FAILED"} < set(engine.told(stack, mark))
        reasons = {event.status_reason for event in engine.events(stack) if event.status == "FAILED"}
        assert reasons == {"CREATE aborted: the stack is being deleted"}

    def test_during_an_update_with_rollback(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1")), disable_rollback=False)
        with engine.clock.held():
            engine.put(
                stack, template(a=thing("2", wait_secs=50, action_wait_secs={"delete": 0}), b=thing()), wait=False
            )
            engine.begun(lambda: engine.row(stack, "a").token)
            engine.delete(stack, wait=False)
            stack = engine.settle(stack)
        assert final(stack) == "DELETE_COMPLETE"
        assert engine.rows(stack) == []
        assert not any("ROLLBACK" in text for text in engine.told(stack))

    def test_during_a_rollback(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(
                template(a=thing(action_wait_secs={"create": 0, "delete": 5}), boom=thing(fail=True, depends_on="a")),
                disable_rollback=False,
                wait=False,
            )
            engine.begun(lambda: engine.get(stack).verb is Verb.ROLLBACK and engine.row(stack, "a").token)
            engine.delete(stack, wait=False)
        stack = engine.settle(stack)
        assert final(stack) == "DELETE_COMPLETE"
        assert engine.rows(stack) == []

    @pytest.mark.slow
    def test_of_what_is_only_queued(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        engine.close()
        engine.stacks.update(engine.who, stack, StackRequest(template=template(b=thing())), existing=False)
        (update,) = engine.store.actions.live([stack.id])
        engine.stacks.delete(engine.who, engine.get(stack))
        engine.store.close()
        engine.open()
        stack = engine.settle(stack)
        assert final(stack) == "DELETE_COMPLETE"
        ended = engine.store.actions.get(update.id)
        assert ended is not None
        assert ended.status is ActionStatus.CANCELLED
        assert "b CREATE_IN_PROGRESS" not in engine.told(stack)

    @pytest.mark.parametrize(
        ("forces", "starts"),
        few(
            [
                ((False, False), (True, False)),
                ((True, False), (True, False)),
                ((True, True), (True, False)),
                ((False, True), (True, True)),
            ]
        ),
    )
    def test_a_repeated_delete_is_accepted(
        self, engine: Engine, forces: tuple[bool, ...], starts: tuple[bool, ...]
    ) -> None:
        """A forced delete takes the place of another one."""
        stack = engine.create(template(a=thing(action_wait_secs={"delete": 5})))
        with engine.clock.held():
            began = [engine.stacks.delete(engine.who, engine.get(stack), force) for force in forces]
            engine.begun(lambda: engine.row(stack, "a").token)
            again = engine.stacks.delete(engine.who, engine.get(stack), forces[-1])
        assert (*began, again) == (*starts, False)
        assert final(engine.settle(stack)) == "DELETE_COMPLETE"
        assert engine.told(stack).count("s DELETE_IN_PROGRESS") == sum(starts)

    def test_that_fails_can_be_asked_for_again(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(template(a=file(), b=file(depends_on="a")))
        path = Path(engine.row(stack, "b").physical_id or "")
        path.unlink()
        path.mkdir()  # what unlink refuses
        stack = engine.delete(stack)
        assert final(stack) == "DELETE_FAILED"
        assert "resources.b: " in stack.status_reason
        assert stack.status_reason.startswith("Resource DELETE failed: ")
        assert stack.deleted_at is None
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "DELETE_FAILED"}
        path.rmdir()
        stack = engine.delete(stack)
        assert final(stack) == "DELETE_COMPLETE"
        assert [path.name for path in plugins.iterdir()] == ["journal"]

    @pytest.mark.slow
    def test_that_takes_too_long(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"delete": -1})), timeout_mins=1)
        stack = engine.delete(stack)
        assert (final(stack), stack.status_reason) == ("DELETE_FAILED", "Timed out")

    def test_twice(self, engine: Engine) -> None:
        stack = engine.delete(engine.create(template(a=thing())))
        with pytest.raises(StackNotFound):
            engine.delete(stack)


class TestCheck:
    def test_types_without_a_check(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("OS::Heat::Value", value="v"), b=thing()))
        mark = engine.now_on(stack)
        stack = engine.check(stack)
        assert final(stack) == "CHECK_COMPLETE"
        assert stack.status_reason == "Stack CHECK completed successfully. 'CHECK' not fully supported (see resources)"
        assert engine.row(stack, "a").status_reason == "CHECK not supported for OS::Heat::Value"
        assert engine.states(stack) == {"a": "CHECK_COMPLETE", "b": "CHECK_COMPLETE"}
        first, *told, last = engine.told(stack, mark)
        assert (first, last) == ("s CHECK_IN_PROGRESS", "s CHECK_COMPLETE")
        assert sorted(told) == ["a CHECK_COMPLETE", "b CHECK_COMPLETE"]

    @pytest.mark.slow
    def test_events_say_what_changed(self, engine: Engine) -> None:
        """Another check of what is as it was makes no event of a resource."""
        group = resource("OS::Heat::ResourceGroup", count=2, resource_def=thing())
        stack = engine.create(template(a=resource("OS::Heat::Value", value="v"), b=thing(), c=file(), g=group))

        def checked() -> list[str]:
            mark = engine.now_on(stack)
            engine.check(stack)
            (nested,) = engine.store.stacks.descendants(engine.get(stack))
            members = [one for one in engine.told(nested) if one.startswith(("0 CHECK", "1 CHECK"))]
            assert sorted(members) == ["0 CHECK_COMPLETE", "1 CHECK_COMPLETE"]
            first, *told, last = engine.told(stack, mark)
            assert (first, last.partition("_")[0]) == ("s CHECK_IN_PROGRESS", "s CHECK")
            return sorted(told)

        assert checked() == [f"{name} CHECK_COMPLETE" for name in "abcg"]
        assert checked() == []
        Path(engine.row(stack, "c").physical_id or "").unlink()
        assert checked() == ["c CHECK_FAILED"]
        assert checked() == []
        assert engine.states(stack) == dict.fromkeys("abg", "CHECK_COMPLETE") | {"c": "CHECK_FAILED"}

    def test_types_with_one(self, engine: Engine) -> None:
        stack = engine.check(engine.create(template(b=thing(), c=thing(depends_on="b"))))
        assert stack.status_reason == "Stack CHECK completed successfully"

    @pytest.mark.slow
    def test_a_failure_stops_nobody(self, engine: Engine) -> None:
        stack = engine.create(template(a=file(), b=file(depends_on="a"), c=file(), d=file()))
        for name in "ac":
            Path(engine.row(stack, name).physical_id or "").unlink()
        before = engine.ids(stack)
        stack = engine.check(stack)
        assert final(stack) == "CHECK_FAILED"
        unhealthy, healthy = dict.fromkeys("ac", "CHECK_FAILED"), dict.fromkeys("bd", "CHECK_COMPLETE")
        assert engine.states(stack) == unhealthy | healthy
        assert "resources.a: " in stack.status_reason
        assert "resources.c: " in stack.status_reason
        assert stack.status_reason.startswith("Resource CHECK failed: ")
        # Nothing is repaired before the next update.
        assert engine.ids(stack) == before
        stack = engine.patch(stack)
        assert final(stack) == "UPDATE_COMPLETE"
        after = engine.ids(stack)
        assert (after["a"] != before["a"], after["b"] == before["b"], after["c"] != before["c"]) == (True, True, True)

    def test_an_object_that_is_back(self, engine: Engine) -> None:
        stack = engine.create(template(a=file()))
        path = Path(engine.row(stack, "a").physical_id or "")
        path.unlink()
        engine.check(stack)
        path.touch()
        assert final(engine.check(stack)) == "CHECK_COMPLETE"
        assert engine.states(stack) == {"a": "CHECK_COMPLETE"}

    def test_what_was_never_made_is_passed_over(self, engine: Engine) -> None:
        stack = engine.create(template(boom=thing(fail=True), never=thing(depends_on="boom")))
        stack = engine.check(stack)
        assert engine.states(stack) == {"boom": "CHECK_FAILED", "never": "INIT_COMPLETE"}

    def test_a_failed_one_without_a_check_stays_failed(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("OS::Heat::Value", value="v")))
        engine.mark(stack, "a", reason="gone bad")
        stack = engine.check(stack)
        assert final(stack) == "CHECK_FAILED"
        assert "gone bad" in stack.status_reason
        row = engine.row(stack, "a")
        assert (state(row.verb, row.status), row.status_reason) == ("CHECK_FAILED", "gone bad")

    def test_it_says_what_differs(self, engine: Engine) -> None:
        """Stored against live: told, not mended, and no failure."""
        stack = engine.create(template(a=file(content="x"), b=file(content="y"), c=thing("v", live_value="w")))
        path = Path(engine.row(stack, "a").physical_id or "")
        path.write_text("z")
        rows = {row.name: row for row in engine.rows(stack)}
        stack = engine.check(stack)
        assert final(stack) == "CHECK_COMPLETE"
        assert stack.status_reason == "Stack CHECK completed successfully. Not as stored: a, c (see resources)"
        reasons = {row.name: row.status_reason for row in engine.rows(stack)}
        assert reasons == {
            "a": 'The object differs from what is stored: content is "z", not "x"',
            "b": "state changed",
            "c": 'The object differs from what is stored: value is "w", not "v"',
        }
        assert path.read_text() == "z"
        assert all(row.properties == rows[row.name].properties for row in engine.rows(stack))
        # An ordinary update starts from what is stored: nothing is mended.
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"
        assert path.read_text() == "z"

    def test_an_object_that_only_the_look_finds_gone(self, engine: Engine, plugins: Path) -> None:
        stack = engine.create(template(a=resource("Test::Seen", place=str(plugins / "a"))))
        stack = engine.check(stack)
        assert (final(stack), stack.status_reason) == ("CHECK_COMPLETE", "Stack CHECK completed successfully")
        (plugins / "a").unlink()
        stack = engine.check(stack)
        assert final(stack) == "CHECK_FAILED"
        assert engine.row(stack, "a").status_reason == (
            f"EntityNotFound: resources.a: The Test::Seen ({engine.row(stack, 'a').physical_id}) could not be found."
        )

    def test_it_reads_only(self, engine: Engine) -> None:
        """A checked stack can be updated without a change."""
        stack = engine.check(engine.create(template(a=thing(), b=thing(ref("a")))))
        rows = engine.rows(stack)
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"
        assert engine.rows(stack) == rows


@pytest.mark.parametrize("again", few(["delete", "check", "suspend"]))
def test_a_request_that_has_met_the_end_of_its_stack_begins_nothing(engine: Engine, again: str) -> None:
    """It has looked before the stack was gone, and writes after that."""
    stack = engine.create(template(a=thing()))
    engine.delete(stack)
    with pytest.raises(StackNotFound):
        getattr(engine.stacks, again)(engine.who, stack)
    assert engine.store.actions.live([stack.id]) == []
    assert state(engine.get(stack).verb, engine.get(stack).status) == "DELETE_COMPLETE"
