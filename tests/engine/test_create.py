"""Create: order, parallel work, failures, time, rollback."""

import threading
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable, HeatliteError, RequestLimitExceeded, StackExists
from heatlite.core.status import Status, Verb, state
from heatlite.store.errors import UnreadableSecret
from tests.tables import few

from .conftest import Engine, attr, param, ref, resource, template, thing


def test_everything_is_made_in_order(engine: Engine) -> None:
    stack = engine.create(
        template(b=thing(ref("a"), wait_secs=5), a=thing("first", wait_secs=5), c=thing(depends_on="b"))
    )
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    assert stack.status_reason == "Stack CREATE completed successfully"
    assert engine.told(stack) == [
        "s CREATE_IN_PROGRESS",
        "a CREATE_IN_PROGRESS",
        "a CREATE_COMPLETE",
        "b CREATE_IN_PROGRESS",
        "b CREATE_COMPLETE",
        "c CREATE_IN_PROGRESS",
        "c CREATE_COMPLETE",
        "s CREATE_COMPLETE",
    ]
    a, b = engine.row(stack, "a"), engine.row(stack, "b")
    assert a.physical_id
    assert b.properties["value"] == a.physical_id
    reasons = [event.status_reason for event in engine.events(stack)]
    assert reasons == ["Stack CREATE started", *["state changed"] * 6, "Stack CREATE completed successfully"]


def test_the_order_of_quick_types(engine: Engine) -> None:
    stack = engine.create(
        template(
            b=resource("OS::Heat::Value", value=attr("a", "value")),
            a=resource("OS::Heat::RandomString"),
            outputs={"o": attr("b", "value")},
        )
    )
    assert engine.told(stack)[1:-1] == [
        "a CREATE_IN_PROGRESS",
        "a CREATE_COMPLETE",
        "b CREATE_IN_PROGRESS",
        "b CREATE_COMPLETE",
    ]
    assert engine.outputs(stack)["o"] == engine.row(stack, "a").data["value"]


def test_independent_resources_are_made_at_once(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(
            template(a=thing(wait_secs=5), b=thing(wait_secs=7), c=thing(depends_on=["a", "b"])), wait=False
        )
        engine.begun(lambda: all(engine.row(stack, name).token for name in "ab") if engine.rows(stack) else False)
        assert engine.states(stack) == {"a": "CREATE_IN_PROGRESS", "b": "CREATE_IN_PROGRESS", "c": "INIT_COMPLETE"}
        engine.clock.pass_(5)
        engine.wait_for(lambda: engine.states(stack)["a"] == "CREATE_COMPLETE")
        assert engine.states(stack)["b"] == "CREATE_IN_PROGRESS"
        assert engine.states(stack)["c"] == "INIT_COMPLETE"
    engine.settle(stack)
    assert set(engine.states(stack).values()) == {"CREATE_COMPLETE"}


def test_the_time_that_it_takes_is_the_longest_path(engine: Engine) -> None:
    before = engine.clock.now()
    engine.create(template(a=thing(wait_secs=10), b=thing(wait_secs=20), c=thing(wait_secs=5, depends_on=["a"])))
    assert engine.clock.now() - before == 20


def test_a_stack_without_resources(engine: Engine) -> None:
    stack = engine.create(template())
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    assert engine.told(stack) == ["s CREATE_IN_PROGRESS", "s CREATE_COMPLETE"]


def test_failure(engine: Engine) -> None:
    stack = engine.create(template(boom=thing(fail=True), after=thing(depends_on="boom"), beside=thing(wait_secs=30)))
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    reason = "ValueError: resources.boom: Test Resource failed boom"
    assert stack.status_reason == f"Resource CREATE failed: {reason}"
    assert engine.row(stack, "boom").status_reason == reason
    # What had begun may finish; what was not reached stays as it is.
    assert engine.states(stack) == {"boom": "CREATE_FAILED", "after": "INIT_COMPLETE", "beside": "CREATE_COMPLETE"}
    assert "after INIT_COMPLETE" not in engine.told(stack)
    assert engine.told(stack)[-1] == "s CREATE_FAILED"


@pytest.mark.slow
def test_after_a_failure_nobody_waits_longer_than_error_wait_time(engine: Engine) -> None:
    before = engine.clock.now()
    stack = engine.create(template(boom=thing(fail=True), beside=thing(wait_secs=-1)))
    assert engine.clock.now() - before == engine.settings.error_wait_time
    assert engine.row(stack, "beside").status_reason == "CREATE aborted: another resource failed"
    assert stack.status_reason == "Resource CREATE failed: ValueError: resources.boom: Test Resource failed boom"


def test_several_failures_are_all_told(engine: Engine) -> None:
    stack = engine.create(template(a=thing(fail=True, wait_secs=1), b=thing(fail=True, wait_secs=2)))
    assert engine.states(stack) == {"a": "CREATE_FAILED", "b": "CREATE_FAILED"}
    assert stack.status_reason == (
        "Resource CREATE failed: ValueError: resources.a: Test Resource failed a; "
        "Resource CREATE failed: ValueError: resources.b: Test Resource failed b"
    )


def test_values_that_turn_out_bad_fail_the_resource(engine: Engine) -> None:
    stack = engine.create(
        template(
            a=resource("OS::Heat::Value", value="no number"),
            b=resource("OS::Heat::RandomString", length=attr("a", "value")),
            c=thing(depends_on="b"),
        )
    )
    assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CREATE_FAILED", "c": "INIT_COMPLETE"}
    assert engine.row(stack, "b").status_reason.startswith("StackValidationFailed: resources.b: ")
    assert engine.told(stack)[3:5] == ["b CREATE_IN_PROGRESS", "b CREATE_FAILED"]


def test_an_access_policy_names_resources_of_its_template(engine: Engine) -> None:
    def policy(*names: object) -> dict[str, Any]:
        return template(p=resource("OS::Heat::AccessPolicy", AllowedResources=list(names)), a=thing())

    with pytest.raises(HeatliteError, match=r"resources\.p\..*: AccessPolicy resource nobody not in stack$"):
        engine.create(policy("a", "nobody"))
    stack = engine.create(policy("a", attr("a", "output")))  # the attribute is not known yet
    with pytest.raises(HeatliteError, match="AccessPolicy resource b not in stack"):
        engine.put(stack, policy("b"))


@pytest.mark.parametrize("minutes", few([2, None]))
def test_timeout(engine: Engine, minutes: int | None) -> None:
    before = engine.clock.now()
    stack = engine.create(template(a=thing(wait_secs=-1), b=thing(depends_on="a")), timeout_mins=minutes)
    assert engine.clock.now() - before == (120 if minutes else engine.settings.default_action_timeout)
    assert (state(stack.verb, stack.status), stack.status_reason) == ("CREATE_FAILED", "Timed out")
    assert engine.states(stack) == {"a": "CREATE_FAILED", "b": "INIT_COMPLETE"}
    assert engine.row(stack, "a").status_reason == "CREATE aborted: Timed out"


def test_a_timeout_beside_slow_ones(engine: Engine) -> None:
    stack = engine.create(template(a=thing(wait_secs=59), b=thing(wait_secs=61)), timeout_mins=1)
    assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CREATE_FAILED"}
    assert stack.status_reason == "Timed out"


class TestRollback:
    def test_nothing_is_left_but_the_stack(self, engine: Engine) -> None:
        stack = engine.create(
            template(a=thing(), boom=thing(fail=True, depends_on="a"), never=thing(depends_on="boom")),
            disable_rollback=False,
        )
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
        assert stack.status_reason == "Stack ROLLBACK completed successfully"
        assert engine.rows(stack) == []
        assert engine.store.stacks.by_name("demo", "s") == stack
        assert engine.told(stack) == [
            "s CREATE_IN_PROGRESS",
            "a CREATE_IN_PROGRESS",
            "a CREATE_COMPLETE",
            "boom CREATE_IN_PROGRESS",
            "boom CREATE_FAILED",
            "s CREATE_FAILED",
            "s ROLLBACK_IN_PROGRESS",
            "boom DELETE_IN_PROGRESS",
            "boom DELETE_COMPLETE",
            "a DELETE_IN_PROGRESS",
            "a DELETE_COMPLETE",
            "s ROLLBACK_COMPLETE",
        ]

    def test_half_made_ones_are_not_waited_for(self, engine: Engine) -> None:
        before = engine.clock.now()
        delete = {"delete": 0}
        stack = engine.create(
            template(boom=thing(fail=True), slow=thing(wait_secs=-1, action_wait_secs={**delete, "create": -1})),
            disable_rollback=False,
        )
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
        assert engine.clock.now() - before < 5
        assert engine.rows(stack) == []

    def test_after_a_timeout(self, engine: Engine) -> None:
        stack = engine.create(
            template(a=thing(action_wait_secs={"create": -1, "delete": 50})), disable_rollback=False, timeout_mins=1
        )
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
        assert "s CREATE_FAILED" in engine.told(stack)

    def test_that_fails(self, engine: Engine) -> None:
        stack = engine.create(
            template(a=thing(action_wait_secs={"delete": -1}), boom=thing(fail=True, depends_on="a")),
            disable_rollback=False,
            timeout_mins=1,
        )
        assert state(stack.verb, stack.status) == "ROLLBACK_FAILED"
        assert stack.status_reason == "Timed out"
        assert engine.states(stack) == {"a": "DELETE_FAILED"}

    def test_the_stack_can_be_updated_afterwards(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), boom=thing(fail=True)), disable_rollback=False)
        stack = engine.put(stack, template(a=thing(), c=thing()))
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "c": "CREATE_COMPLETE"}

    def test_an_update_that_fails_afterwards_goes_back_to_nothing(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), boom=thing(fail=True)), disable_rollback=False)
        stack = engine.patch(stack)
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
        assert engine.rows(stack) == []


class TestNames:
    def test_a_name_is_taken_once(self, engine: Engine) -> None:
        engine.create(template())
        with pytest.raises(StackExists, match=r"The Stack \(s\) already exists"):
            engine.create(template())

    def test_it_is_free_again_after_a_delete(self, engine: Engine) -> None:
        engine.delete(engine.create(template(a=thing())))
        assert engine.create(template()).status is Status.COMPLETE

    def test_a_race_has_one_winner(self, engine: Engine) -> None:
        together = threading.Barrier(8)
        answers: list[object] = []

        def run() -> None:
            together.wait()
            try:
                answers.append(engine.create(template(), wait=False))
            except HeatliteError as error:
                answers.append(error)
            finally:
                engine.store.close()

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        losers = [answer for answer in answers if isinstance(answer, StackExists)]
        assert (len(answers), len(losers)) == (8, 7)

    def test_no_more_stacks_than_allowed(self, plugins: Path, place: Path) -> None:
        engine = Engine(place, max_stacks_per_tenant=1)
        try:
            engine.create(template())
            with pytest.raises(RequestLimitExceeded):
                engine.create(template(), name="another")
        finally:
            engine.close()


class TestValues:
    def test_attributes_of_a_resource_that_is_not_ready_are_null(self, engine: Engine) -> None:
        with engine.clock.held():
            outputs = {"o": attr("a", "output"), "r": ref("b"), "n": attr("b", "output")}
            stack = engine.create(template(a=thing(wait_secs=5), b=thing(depends_on="a"), outputs=outputs), wait=False)
            engine.begun(lambda: engine.rows(stack))
            # A resource that is not begun gives null, and its name as reference.
            assert (engine.outputs(stack)["n"], engine.outputs(stack)["r"]) == (None, "b")
        engine.settle(stack)
        assert engine.outputs(stack) == {"o": "v", "r": engine.row(stack, "b").physical_id, "n": "v"}

    def test_outputs_of_a_failed_resource(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(fail=True), outputs={"o": attr("a", "output"), "all": attr("a")}))
        assert engine.outputs(stack) == {"o": None, "all": None}

    def test_parameters(self, engine: Engine) -> None:
        parameters = {"p": {"type": "string", "default": "d"}}
        stack = engine.create(template(a=thing(param("p")), parameters=parameters), parameters={"p": "given"})
        assert engine.value(stack, "a") == "given"

    def test_a_condition_that_is_false_makes_nothing(self, engine: Engine) -> None:
        made = template(a=thing(), b=thing(keys={"condition": "no"}), c=thing(depends_on="b"))
        stack = engine.create({**made, "conditions": {"no": {"equals": ["a", "b"]}}})
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "c": "CREATE_COMPLETE"}


@pytest.mark.slow
def test_many_resources_in_several_ticks(engine: Engine) -> None:
    every = {
        f"r{i}": resource("OS::Heat::Value", value=i, depends_on=f"r{i - 1}" if i % 3 else None) for i in range(1, 1202)
    }
    every["r0"] = resource("OS::Heat::Value", value=0)
    stack = engine.create(template(**every))
    assert stack.status is Status.COMPLETE
    assert len(engine.rows(stack)) == 1202
    assert {row.verb for row in engine.rows(stack)} == {Verb.CREATE}
    told = {text: place for place, text in enumerate(engine.told(stack))}
    assert len(told) == 2 * 1202 + 2
    for i in range(1, 1202):
        if i % 3:
            assert told[f"r{i - 1} CREATE_COMPLETE"] < told[f"r{i} CREATE_IN_PROGRESS"]


@pytest.mark.parametrize("seconds", few([10, 1000]))
def test_a_handler_waits_for_the_database(engine: Engine, monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """The answer to the commit of its own rows is lost."""
    software, back = engine.server.components.software, engine.clock.now() + seconds
    put_config = software.put_config

    def lost(*given: Any) -> None:
        put_config(*given)
        if engine.clock.now() < back:
            raise DatabaseUnavailable(reason="database is locked")

    monkeypatch.setattr(software, "put_config", lost)
    stack = engine.create(template(config=resource("OS::Heat::SoftwareConfig", config="x")))
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    assert engine.clock.now() >= back
    assert len(engine.store.software_configs.list(stack.project, None, None)) == 1


def test_a_handler_does_not_wait_for_a_key(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: Any) -> None:
        raise UnreadableSecret(keys="encryption_keys")

    monkeypatch.setattr(engine.server.components.software, "put_config", unreadable)
    stack = engine.create(template(config=resource("OS::Heat::SoftwareConfig", config="x")))
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    assert "encryption_keys lacks the key" in stack.status_reason
