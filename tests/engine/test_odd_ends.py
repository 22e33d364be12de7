"""Types and machines misbehave: missing types, odd answers, restarts, clock jumps."""

import sys
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.json import Json
from heatlite.core.status import state
from heatlite.store.records import StackRecord
from heatlite.template.functions.text import Digest
from tests.databases import PLACES, claim_one
from tests.tables import few, sampled

from .conftest import MEMBER, Engine, attr, ref, resource, template, thing


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


class TestATypeThatIsGone:
    """Its package was removed while stacks of it live on."""

    @pytest.fixture
    def stack(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> StackRecord:
        made = template(
            a=resource("Test::Robust", value="1"),
            kept=resource("Test::Robust", value="1", keys={"deletion_policy": "Retain"}),
            b=thing(depends_on="a"),
            outputs={"o": attr("a", "value"), "p": attr("b", "output")},
        )
        stack = engine.create(made)
        engine.close()
        monkeypatch.setattr(sys, "path", [path for path in sys.path if not path.endswith("/types")])
        engine.open()
        return engine.get(stack)

    def test_it_can_be_read(self, engine: Engine, stack: StackRecord) -> None:
        assert engine.outputs(stack) == {"o": None, "p": "v"}
        found = engine.components.reader.attributes(MEMBER, stack, engine.row(stack, "a"), ("value",))
        assert set(found.values()) == {None}

    @pytest.mark.slow
    def test_the_check_of_it_fails(self, engine: Engine, stack: StackRecord) -> None:
        stack = engine.check(stack)
        assert final(stack) == "CHECK_FAILED"
        assert engine.states(stack)["b"] == "CHECK_COMPLETE"
        health = engine.row(stack, "a").health
        assert health is not None
        assert "resources.a: " in health.reason
        assert "Test::Robust" in stack.status_reason

    def test_the_lock_of_it_fails(self, engine: Engine, stack: StackRecord) -> None:
        stack = engine.lock(stack)
        assert final(stack) == "LOCK_FAILED"
        assert engine.states(stack)["b"] == "LOCK_COMPLETE"
        assert "Test::Robust" in stack.status_reason

    @pytest.mark.slow
    def test_the_delete_of_it_fails(self, engine: Engine, stack: StackRecord) -> None:
        stack = engine.delete(stack)
        assert final(stack) == "DELETE_FAILED"
        assert "Test::Robust" in stack.status_reason
        # What its type is not needed for goes all the same; what is retained is listed when the stack goes.
        assert engine.states(stack) == {"a": "DELETE_FAILED", "kept": "DELETE_COMPLETE"}

    def test_an_update_can_make_something_else_of_it(self, engine: Engine, stack: StackRecord) -> None:
        stack = engine.put(stack, template(a=thing(), b=thing(ref("a"))))
        # The old object cannot be removed; the new one is there.
        assert final(stack) == "UPDATE_FAILED"
        assert "Test::Robust" in stack.status_reason
        found = [(row.name, row.mapped_type) for row in engine.rows(stack)]
        assert ("a", "OS::Heat::TestResource") in found

    def test_a_mark_needs_no_type(self, engine: Engine, stack: StackRecord) -> None:
        engine.mark(stack, "a")
        assert engine.states(stack)["a"] == "CHECK_FAILED"


class TestOddAnswers:
    @pytest.mark.parametrize("verb", sampled(["create", "update", "delete", "lock", "unlock"], 3, pytest.mark.thorough))
    @pytest.mark.parametrize("where", few(["handle", "check"]))
    def test_whatever_is_raised_fails_the_resource(self, engine: Engine, verb: str, where: str) -> None:
        told = {"raise_in": f"{where}_{verb}"}
        stack = engine.create(template(a=resource("Test::Odd", **(told if verb == "create" else {})), z=thing()))
        if verb != "create":
            stack = engine.put(stack, template(a=resource("Test::Odd", **told), z=thing()))
        match verb:
            case "delete":
                stack = engine.delete(stack)
            case "lock":
                stack = engine.lock(stack)
            case "unlock":
                stack = engine.unlock(engine.lock(stack))
        assert final(stack) == f"{verb.upper()}_FAILED"
        assert engine.row(stack, "a").status_reason == f"ZeroDivisionError: resources.a: {where}_{verb}"
        assert stack.status_reason.endswith(f"ZeroDivisionError: resources.a: {where}_{verb}")

    def test_data_that_is_no_json_fails_the_resource_only(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Odd", data="object"), z=thing(wait_secs=5)))
        assert final(stack) == "CREATE_FAILED"
        assert engine.states(stack) == {"a": "CREATE_FAILED", "z": "CREATE_COMPLETE"}
        assert "resources.a: " in stack.status_reason

    def test_a_token_that_is_no_json_fails_the_resource_only(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Odd", data="token"), z=thing(wait_secs=5)))
        assert final(stack) == "CREATE_FAILED"
        assert engine.states(stack) == {"a": "CREATE_FAILED", "z": "CREATE_COMPLETE"}

    def test_a_physical_id_that_is_no_text_fails_the_resource_only(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Odd", data="id"), z=thing(wait_secs=5)))
        assert engine.states(stack) == {"a": "CREATE_FAILED", "z": "CREATE_COMPLETE"}
        assert engine.row(stack, "a").physical_id is None

    def test_a_reason_may_hold_anything(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Odd", data="message"), z=thing(wait_secs=5)))
        assert engine.states(stack) == {"a": "CREATE_FAILED", "z": "CREATE_COMPLETE"}
        assert engine.row(stack, "a").status_reason == "OSError: resources.a: no such file: ? ?"

    def test_a_handler_that_exits_fails_the_resource_only(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Odd", data="exit"), z=thing(wait_secs=5)))
        assert engine.states(stack) == {"a": "CREATE_FAILED", "z": "CREATE_COMPLETE"}
        assert engine.row(stack, "a").status_reason == "SystemExit: resources.a: told to exit"

    @pytest.mark.parametrize("broken", few(["reference", "attribute", "needs_replace", "needs_replace_failed"]))
    def test_questions_that_a_type_cannot_answer(self, engine: Engine, broken: str) -> None:
        made: Any = template(
            a=resource("Test::Odd", raise_in=broken, fail=broken == "needs_replace_failed"),
            b=thing(ref("a"), depends_on="a") if broken == "reference" else thing(),
            c=thing(attr("a", "odd")) if broken == "attribute" else thing(),
        )
        stack = engine.create(made)
        if broken.startswith("needs"):
            stack = engine.put(
                stack, template(a=resource("Test::Odd", raise_in=broken, value="2"), b=thing(), c=thing())
            )
        assert final(stack) in ("CREATE_FAILED", "UPDATE_FAILED")
        assert f"ZeroDivisionError: {broken}" in stack.status_reason
        assert "Internal error" not in stack.status_reason

    def test_a_function_that_fails(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """It fails its resource, not the engine."""

        def made(text: str) -> Any:
            return template(a=thing({"digest": ["sha512", attr("c", "output")]}), b=thing(text), c=thing())

        stack = engine.create(made("1"))
        monkeypatch.setattr(Digest, "apply", lambda *_: 1 // 0)
        stack = engine.put(stack, made("2"))
        assert final(stack) == "UPDATE_FAILED"
        assert "ZeroDivisionError: resources.a: " in stack.status_reason

    def test_an_attribute_that_fails_hides_nothing_else(self, engine: Engine) -> None:
        outputs = {"o": attr("a", "odd"), "p": attr("z", "output")}
        stack = engine.create(template(a=resource("Test::Odd", raise_in="attribute"), z=thing(), outputs=outputs))
        shown = {output["output_key"]: output for output in engine.components.reader.outputs(stack)}
        assert shown["o"]["output_value"] is None
        assert "attribute" in str(shown["o"]["output_error"])
        assert shown["p"]["output_value"] == "v"
        assert engine.components.reader.attributes(MEMBER, stack, engine.row(stack, "a"), ())["odd"] is None

    def test_half_a_surrogate_in_an_attribute(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """Neither a database nor an answer can hold it."""
        monkeypatch.setattr(engine.components.types.get("Test::Odd"), "attr_odd", lambda _: {"x": ["a\udcff\n"]})
        given = attr("a", "odd", "x", "0")
        stack = engine.create(template(a=resource("Test::Odd"), b=thing(given), outputs={"o": given}))
        assert (final(stack), engine.value(stack, "b")) == ("CREATE_COMPLETE", "a?\n")
        assert engine.outputs(stack) == {"o": "a?\n"}
        shown = engine.components.reader.attributes(MEMBER, stack, engine.row(stack, "a"), ())
        assert shown["odd"] == {"x": ["a?\n"]}

    def test_a_check_asked_too_often_is_still_asked(self, engine: Engine) -> None:
        """Polls that return False are spaced up to a second; numbers are used as given."""
        before = engine.clock.now()
        stack = engine.create(template(a=resource("Test::Odd", answers=[False] * 8 + [0, -5, 3.5, True])))
        assert final(stack) == "CREATE_COMPLETE"
        # 0.05 + 0.1 + 0.2 + 0.4 + 0.8 + 1 + 1 + 1, then 3.5
        assert engine.clock.now() - before == pytest.approx(8.05)


class TestProcess:
    def test_a_stop_gives_back_what_runs(self, engine: Engine) -> None:
        with engine.clock.held():
            stack = engine.create(template(a=thing(wait_secs=50), b=thing(depends_on="a")), wait=False)
            engine.begun(lambda: engine.rows(stack) and engine.row(stack, "a").token)
            before = engine.row(stack, "a")
            engine.close()
            assert final(engine.get(stack)) == "CREATE_IN_PROGRESS"
            assert engine.row(stack, "a") == before
            engine.store.close()
        engine.open()
        stack = engine.settle(stack)
        assert final(stack) == "CREATE_COMPLETE"
        assert engine.told(stack).count("a CREATE_IN_PROGRESS") == 1
        assert engine.row(stack, "a").physical_id == before.physical_id

    @pytest.mark.parametrize("deleted", few([False, True]))
    def test_a_fault_of_ours_ends_the_action_and_leaves_a_delete_alone(self, engine: Engine, deleted: bool) -> None:
        engine.close()
        stack = engine.create(template(a=thing()), wait=False)
        if deleted:
            assert claim_one(engine.store, "an engine that died", engine.clock.now(), 30)
            engine.delete(stack, wait=False)
            if engine.store.database.path is None:
                engine.clock.pass_(30)  # nobody has told whether it lives
        with engine.store.transaction():
            lost = engine.store.database.read("SELECT * FROM template")
            engine.store.database.write("DELETE FROM template")  # what cannot happen
        engine.store.close()
        engine.open()
        stack = engine.settle(stack)
        if deleted:
            assert engine.told(stack) == ["s CREATE_IN_PROGRESS", "s DELETE_IN_PROGRESS", "s DELETE_COMPLETE"]
        else:
            assert final(stack) == "CREATE_FAILED"
            assert stack.status_reason == "Internal error of the engine; its log has the details"
            assert final(engine.delete(stack)) == "DELETE_COMPLETE"
        marks = ", ".join("?" * len(lost[0]))
        with engine.store.transaction():
            engine.store.database.write_many(f"INSERT INTO template VALUES ({marks})", lost)

    def test_an_engine_that_has_stopped_is_not_listed(self, place: Path) -> None:
        engine = Engine(place)
        engine.close()
        engine.settings = type(engine.settings)(database=engine.settings.database)  # leases of 30 s: it reports at once
        engine.open()
        try:
            engine.wait_for(engine.store.services.list)
        finally:
            engine.close()
        assert engine.store.services.list() == []
        engine.store.close()

    def test_a_jump_of_the_clock_takes_no_action_from_its_worker(self, plugins: Path, place: Path) -> None:
        """A machine that sleeps wakes with expired leases; what runs here still runs here."""
        engine = Engine(place)
        engine.close()
        engine.settings = type(engine.settings)(database=engine.settings.database)  # leases of 30 s
        engine.open()
        try:
            with engine.clock.held():
                stack = engine.create(template(a=thing(wait_secs=3000)), wait=False)
                engine.begun(lambda: engine.rows(stack) and engine.row(stack, "a").token)
                (action,) = engine.store.actions.live([stack.id])
                engine.clock.pass_(1000)
                engine.server.worker.wake()
                other = engine.create(template(), name="other", wait=False)
                engine.settle(other)
                (now,) = engine.store.actions.live([stack.id])
                assert now.attempt == action.attempt
            assert final(engine.settle(stack)) == "CREATE_COMPLETE"
        finally:
            engine.close()

    @pytest.mark.slow
    def test_many_stacks_at_once(self, engine: Engine) -> None:
        stacks = [
            engine.create(template(a=thing(), b=thing(ref("a"))), name=f"s{number}", wait=False) for number in range(20)
        ]
        for stack in stacks:
            assert final(engine.settle(stack)) == "CREATE_COMPLETE"


@pytest.mark.skipif(not PLACES.are_files, reason="what functions compute has nothing to do with the database")
class TestWorkOfFunctions:
    """It is bounded for each who asks, not over the life of a stack."""

    @pytest.mark.slow
    def test_outputs_can_be_read_for_ever(self, engine: Engine) -> None:
        words: Json = ["x" * 12_800] * 10  # to count, as much work as a thousand short ones
        output: Json = {"value": {"list_join": [",", words]}}
        stack = engine.create({"heat_template_version": "2021-04-16", "outputs": {"o": output}})
        for _ in range(3100):
            shown = engine.components.reader.outputs(stack)[0]
        assert "output_error" not in shown

    @pytest.mark.slow
    def test_a_walk_does_not_run_out_of_it(self, engine: Engine) -> None:
        """Each resource and each evaluation may use the check's whole budget."""
        words: Json = ["x"] * 5000

        def made(delimiter: str) -> Any:
            joined = {"list_join": [delimiter, *[{"get_param": "words"}] * 90]}
            things = {f"r{number}": thing({"digest": ["md5", joined]}) for number in range(2)}
            return template(parameters={"words": {"type": "json", "default": words}}, **things)

        stack = engine.create(made(","))
        assert final(stack) == "CREATE_COMPLETE"
        # The plan evaluates both, and so do the steps.
        assert final(engine.put(stack, made(";"))) == "UPDATE_COMPLETE"
