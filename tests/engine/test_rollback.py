"""A failed update returns to the previous state; cancels and rollbacks by callers."""

import json
from typing import Any

import pytest

from heatlite.core.errors import NotSupported, ResourceIsLocked
from heatlite.core.status import Control, Status, Verb, state
from heatlite.engine.execution import execution
from heatlite.engine.execution.final_writes import INTERNAL_ERROR, FinalWrites
from heatlite.engine.steps.converge_steps import ConvergeSteps
from heatlite.store.records import ActionRecord, StackRecord
from tests.tables import few

from .conftest import Engine, param, ref, resource, template, thing

pytestmark = pytest.mark.database

BACK = {"disable_rollback": False}


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


class TestRollback:
    def test_everything_is_as_before(self, engine: Engine) -> None:
        parameters = {"p": {"type": "string"}}

        def made(fail: bool, **more: object) -> Any:
            return template(
                a=thing(param("p")), b=thing(param("p"), fail=fail, depends_on="a"), parameters=parameters, **more
            )

        stack = engine.create(made(False, gone=thing()), parameters={"p": "1"}, files={"f": "x"}, tags=("t",), **BACK)
        before, ids, mark = stack, engine.ids(stack), engine.now_on(stack)
        stack = engine.put(stack, made(True, new=thing()), parameters={"p": "2"}, files={"g": "y"})
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert (stack.template_id, stack.environment) == (before.template_id, before.environment)
        assert (engine.value(stack, "a"), engine.value(stack, "b")) == ("1", "1")
        assert engine.ids(stack)["a"] == ids["a"]
        assert engine.ids(stack)["gone"] == ids["gone"]
        assert set(engine.states(stack)) == {"a", "b", "gone"}
        told = engine.told(stack, mark)
        assert told[0] == "s UPDATE_IN_PROGRESS"
        assert told[-1] == "s ROLLBACK_COMPLETE"
        failed = told.index("b UPDATE_FAILED")
        assert told[failed + 1 : failed + 3] == ["s UPDATE_FAILED", "s ROLLBACK_IN_PROGRESS"]
        reasons = {text: event.status_reason for text, event in zip(told, engine.events(stack)[mark:], strict=True)}
        assert reasons["s UPDATE_FAILED"] == "Resource UPDATE failed: ValueError: resources.b: Test Resource failed b"
        assert reasons["s ROLLBACK_IN_PROGRESS"] == "Stack ROLLBACK started"

    def test_the_old_object_is_taken_back(self, engine: Engine) -> None:
        def made(which: str, fail: bool = False) -> Any:
            return template(
                a=thing(update_replace_value=which), b=thing(ref("a")), boom=thing(fail=fail, depends_on="b")
            )

        stack = engine.create(made("1"), **BACK)
        old, ids, mark = engine.row(stack, "a"), engine.ids(stack), engine.now_on(stack)
        stack = engine.put(stack, made("2", fail=True))
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert engine.row(stack, "a") == old
        assert engine.value(stack, "b") == old.physical_id
        assert engine.ids(stack)["b"] == ids["b"]
        told = engine.told(stack, mark)
        assert told[1:3] == ["a CREATE_IN_PROGRESS", "a CREATE_COMPLETE"]
        # b is turned back to the old object before the new one goes.
        back = told.index("s ROLLBACK_IN_PROGRESS")
        assert told.index("b UPDATE_COMPLETE", back) < told.index("a DELETE_IN_PROGRESS")

    def test_a_removed_resource_was_never_touched(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), gone=thing()), **BACK)
        gone = engine.row(stack, "gone")
        stack = engine.put(stack, template(a=thing(fail=True)))
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert engine.row(stack, "gone") == gone

    def test_an_old_object_that_does_not_go_undoes_nothing(self, engine: Engine) -> None:
        stack = engine.create(
            template(a=thing("1"), gone=thing(action_wait_secs={"delete": -1})), timeout_mins=1, **BACK
        )
        stack = engine.put(stack, template(a=thing("2")))
        assert engine.value(stack, "a") == "2"
        assert stack.status is Status.FAILED

    def test_that_fails(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1"), b=thing("1", depends_on="a")), **BACK)
        good = stack.template_id
        # Once a has this property, no update of its value ends.
        stuck = {"action_wait_secs": {"update": -1}}
        stack = engine.put(stack, template(a=thing("1", **stuck), b=thing("1", depends_on="a")), timeout_mins=1)
        stuck_template = stack.template_id
        stack = engine.put(stack, template(a=thing("2"), b=thing("2", fail=True, depends_on="a")))
        assert final(stack) == "ROLLBACK_FAILED"
        assert stack.status_reason == "Timed out"
        assert stack.template_id == stuck_template != good
        assert "s ROLLBACK_IN_PROGRESS" in engine.told(stack)
        assert engine.states(stack)["a"] == "UPDATE_FAILED"
        stack = engine.put(stack, template(a=thing("3"), b=thing("3", depends_on="a")))
        assert final(stack) == "UPDATE_COMPLETE"

    def test_after_a_timeout_with_time_of_its_own(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1", action_wait_secs={"update": 50})), timeout_mins=1, **BACK)
        before = engine.clock.now()
        stack = engine.put(stack, template(a=thing("2", action_wait_secs={"update": -1})))
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert engine.clock.now() - before <= 120
        assert engine.value(stack, "a") == "1"

    def test_of_an_update_of_a_failed_stack_goes_back_to_the_last_one_that_was_reached(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1")))
        reached = stack.template_id
        stack = engine.put(stack, template(a=thing("2"), boom=thing(fail=True)))
        assert final(stack) == "UPDATE_FAILED"
        stack = engine.put(stack, template(a=thing("3"), boom=thing(fail=True)), **BACK)
        assert final(stack) == "ROLLBACK_COMPLETE"
        assert stack.template_id == reached
        assert engine.value(stack, "a") == "1"
        assert list(engine.states(stack)) == ["a"]

    def test_an_unhealthy_one_that_could_not_be_replaced(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing("1", wait_secs=1)), **BACK)
        before = engine.ids(stack)
        engine.mark(stack, "a")
        stack = engine.put(stack, template(a=thing("1", fail=True, wait_secs=1)))
        assert final(stack) == "ROLLBACK_COMPLETE"
        # The rollback is an update too: it replaces what is unhealthy.
        assert engine.states(stack) == {"a": "CREATE_COMPLETE"}
        assert engine.ids(stack) != before


class TestCancel:
    def slow(self, engine: Engine, **more: Any) -> StackRecord:
        """A stack in the middle of an update: a is done, b under way, c not begun."""
        stack = engine.create(self.made("1"), **more)
        engine.put(stack, self.made("2", wait_secs=10), wait=False)
        engine.begun(lambda: engine.row(stack, "b").token)
        return engine.get(stack)

    def made(self, value: str, **more: Any) -> Any:
        return template(a=thing(value), b=thing(value, depends_on="a", **more), c=thing(value, depends_on="b"))

    @pytest.mark.parametrize("disable_rollback", few([True, False]))
    def test_without_rollback(self, engine: Engine, disable_rollback: bool) -> None:
        with engine.clock.held():
            stack = self.slow(engine, disable_rollback=disable_rollback)
            engine.cancel(stack, rollback=False, wait=False)
        stack = engine.settle(stack)
        # What runs may finish; nothing else is begun.
        assert (final(stack), stack.status_reason) == ("UPDATE_FAILED", "Stack UPDATE cancelled")
        assert [engine.value(stack, name) for name in "abc"] == ["2", "2", "1"]
        assert engine.states(stack) == {"a": "UPDATE_COMPLETE", "b": "UPDATE_COMPLETE", "c": "CREATE_COMPLETE"}
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"

    def test_without_rollback_of_one_that_never_ends(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(template(a=thing(wait_secs=-1), b=thing(depends_on="a")), wait=False)
            engine.begun(lambda: engine.rows(stack) and engine.row(stack, "a").token)
            before = engine.clock.now()
            engine.cancel(stack, rollback=False, wait=False)
        stack = engine.settle(stack)
        assert engine.clock.now() < before + 1
        assert (final(stack), stack.status_reason) == ("CREATE_FAILED", "Stack CREATE cancelled")
        assert engine.states(stack) == {"a": "CREATE_FAILED", "b": "INIT_COMPLETE"}

    @pytest.mark.parametrize("disable_rollback", few([True, False]))
    def test_with_rollback(self, engine: Engine, disable_rollback: bool) -> None:
        with engine.clock.held():
            stack = self.slow(engine, disable_rollback=disable_rollback)
            engine.cancel(stack, rollback=True, wait=False)
        stack = engine.settle(stack)
        assert (final(stack), stack.status_reason) == ("ROLLBACK_COMPLETE", "Stack ROLLBACK completed successfully")
        assert [engine.value(stack, name) for name in "abc"] == ["1", "1", "1"]
        told = engine.told(stack)
        assert told.index("s UPDATE_FAILED") + 1 == told.index("s ROLLBACK_IN_PROGRESS")

    def test_a_half_made_one_goes_at_once(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        with engine.clock.held():
            engine.put(stack, template(a=thing(), new=thing(action_wait_secs={"create": -1})), wait=False)
            engine.begun(lambda: len(engine.rows(stack)) == 2 and engine.row(stack, "new").token)
            engine.cancel(stack, rollback=True, wait=False)
            engine.wait_for(lambda: engine.get(stack).verb is Verb.ROLLBACK)
            engine.wait_for(lambda: list(engine.states(stack)) == ["a"])
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"

    def test_a_rollback_is_not_cancelled(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(template(a=thing("1", action_wait_secs={"update": 5}), b=thing()))
            engine.put(
                stack,
                template(a=thing("2", action_wait_secs={"update": 0}), b=thing(fail=True, depends_on="a")),
                **BACK,
                wait=False,
            )
            engine.begun(lambda: engine.get(stack).verb is Verb.ROLLBACK and engine.row(stack, "a").token)
            for rollback in (True, False):
                with pytest.raises(NotSupported, match="ROLLBACK_IN_PROGRESS"):
                    engine.cancel(stack, rollback)
            with pytest.raises(ResourceIsLocked):
                engine.patch(stack)
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"

    def test_a_create_is_only_cancelled_without_rollback(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(template(a=thing(wait_secs=5)), wait=False)
            with pytest.raises(NotSupported, match="when stack is CREATE_IN_PROGRESS is not"):
                engine.cancel(stack, rollback=True)
        assert final(engine.settle(stack)) == "CREATE_COMPLETE"

    @pytest.mark.parametrize("rollback", [True, False])
    def test_nothing_to_cancel(self, engine: Engine, rollback: bool) -> None:
        stack = engine.create(template(a=thing()))
        with pytest.raises(NotSupported, match="when stack is CREATE_COMPLETE is not"):
            engine.cancel(stack, rollback)

    @pytest.mark.parametrize("rollback", few([True, False]))
    def test_the_last_word_counts(self, engine: Engine, rollback: bool) -> None:
        with engine.clock.held():
            stack = self.slow(engine)
            engine.cancel(stack, not rollback, wait=False)
            engine.cancel(stack, rollback, wait=False)
        assert final(engine.settle(stack)) == ("ROLLBACK_COMPLETE" if rollback else "UPDATE_FAILED")

    def failing(self, engine: Engine, **more: Any) -> StackRecord:
        """A stack in whose update boom has failed and slow is still waited for."""
        stack = engine.create(template(boom=thing("1"), slow=thing("1")), **more)
        engine.put(stack, template(boom=thing("2", fail=True), slow=thing("2", wait_secs=10)), wait=False)
        engine.begun(lambda: engine.states(stack)["boom"] == "UPDATE_FAILED" and engine.row(stack, "slow").token)
        return engine.get(stack)

    def test_a_rollback_that_is_wanted_after_a_failure(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = self.failing(engine)
            engine.cancel(stack, rollback=True, wait=False)
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
        assert (engine.value(stack, "boom"), engine.value(stack, "slow")) == ("1", "1")

    def test_a_rollback_that_is_not_wanted_after_a_failure(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = self.failing(engine, **BACK)
            engine.cancel(stack, rollback=False, wait=False)
        assert final(engine.settle(stack)) == "UPDATE_FAILED"
        assert engine.states(stack) == {"boom": "UPDATE_FAILED", "slow": "UPDATE_COMPLETE"}


def test_a_replaced_one_in_a_failed_update_and_then_a_rollback(engine: Engine) -> None:
    """Failed updates leave several rows of a name; a rollback finds the working one."""
    stack = engine.create(template(a=thing(update_replace_value="1"), z=resource("OS::Heat::Value", value=ref("a"))))
    old = engine.row(stack, "a")
    for number in ("2", "3"):
        stack = engine.put(
            stack,
            template(a=thing(update_replace_value=number, fail=True), z=resource("OS::Heat::Value", value=ref("a"))),
        )
        assert final(stack) == "UPDATE_FAILED"
    stack = engine.put(
        stack,
        template(a=thing(update_replace_value="4", fail=True), z=resource("OS::Heat::Value", value=ref("a"))),
        **BACK,
    )
    assert final(stack) == "ROLLBACK_COMPLETE"
    assert engine.row(stack, "a") == old
    assert engine.value(stack, "z") == old.physical_id


class TestInternalErrors:
    """Errors that no part of the engine expects are failures like any other."""

    @pytest.fixture(params=["plan", "step"])
    def broken(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> set[str]:
        """Names of the resources that the engine cannot plan, or cannot begin."""
        names, plan, begin = {"broken"}, execution.converge, ConvergeSteps.begin

        def planned(definition: Any, *others: Any) -> Any:
            if not names.isdisjoint(definition.resources) and request.param == "plan":
                raise ZeroDivisionError("broken")
            return plan(definition, *others)

        def begun(steps: ConvergeSteps, step: Any) -> Any:
            if step.name in names:
                raise ZeroDivisionError("broken")
            return begin(steps, step)

        monkeypatch.setattr(execution, "converge", planned)
        monkeypatch.setattr(ConvergeSteps, "begin", begun)
        return names

    def test_an_update_is_rolled_back(self, engine: Engine, broken: set[str]) -> None:
        stack = engine.create(template(a=thing("1"), gone=thing()), **BACK)
        ids, mark = engine.ids(stack), engine.now_on(stack)
        stack = engine.put(stack, template(a=thing("2"), slow=thing(wait_secs=5), broken=thing(depends_on="a")), **BACK)
        assert (final(stack), engine.value(stack, "a")) == ("ROLLBACK_COMPLETE", "1")
        assert engine.ids(stack) == ids
        told = engine.told(stack, mark)
        reasons = {text: event.status_reason for text, event in zip(told, engine.events(stack)[mark:], strict=True)}
        assert reasons["s UPDATE_FAILED"] == INTERNAL_ERROR
        assert told.index("s UPDATE_FAILED") + 1 == told.index("s ROLLBACK_IN_PROGRESS")
        assert told[-1] == "s ROLLBACK_COMPLETE"

    def test_a_create_is_rolled_back(self, engine: Engine, broken: set[str]) -> None:
        stack = engine.create(template(a=thing(), slow=thing(wait_secs=5), broken=thing(depends_on="a")), **BACK)
        assert (final(stack), engine.rows(stack)) == ("ROLLBACK_COMPLETE", [])

    def test_a_cancel_meanwhile_counts(self, engine: Engine, broken: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
        """The caller no longer wants the rollback when the next attempt begins it."""
        stack = engine.create(template(a=thing("1")))
        turned_back = FinalWrites._store_stop

        def cancelled(writes: FinalWrites, action: ActionRecord, *others: Any) -> None:
            with writes._store.transaction():
                turned_back(writes, action, *others)
                writes._store.controls.signal(action.id, Control.CANCEL, engine.clock.now())

        monkeypatch.setattr(FinalWrites, "_store_stop", cancelled)
        stack = engine.put(stack, template(a=thing("2"), broken=thing(depends_on="a")), **BACK)
        assert (final(stack), stack.status_reason) == ("UPDATE_FAILED", "Stack UPDATE cancelled")

    def test_without_a_rollback_it_fails(self, engine: Engine, broken: set[str]) -> None:
        stack = engine.create(template(a=thing("1")))
        stack = engine.put(stack, template(a=thing("2"), broken=thing(depends_on="a")))
        assert (final(stack), stack.status_reason) == ("UPDATE_FAILED", INTERNAL_ERROR)
        assert engine.events(stack)[-1].status_reason == INTERNAL_ERROR

    def test_a_rollback_that_is_broken_too_ends(self, engine: Engine, broken: set[str]) -> None:
        stack = engine.create(template(a=thing("1"), later=thing(depends_on="a")))
        broken.add("later")
        stack = engine.put(stack, template(a=thing(fail=True)), **BACK)
        assert (final(stack), stack.status_reason) == ("ROLLBACK_FAILED", INTERNAL_ERROR)

    @pytest.mark.slow
    def test_a_nested_stack_fails_and_its_root_is_rolled_back(self, engine: Engine, broken: set[str]) -> None:
        files = {"c.yaml": json.dumps(template(a=thing(), broken=thing(depends_on="a")))}
        stack = engine.create(template(a=thing("1")), **BACK)
        stack = engine.put(stack, template(a=thing("2"), c=resource("c.yaml")), files=files, **BACK)
        assert (final(stack), engine.value(stack, "a")) == ("ROLLBACK_COMPLETE", "1")
        assert engine.store.stacks.descendants(stack) == []
        assert any(INTERNAL_ERROR in event.status_reason for event in engine.events(stack))
