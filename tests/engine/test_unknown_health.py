"""A check without an answer fails, and no update replaces anything for it."""

from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.json import dump, parse
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord

from .conftest import Engine, resource, template, thing


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def odd(**more: Any) -> Any:
    """A resource whose check can neither say that it is well nor that it is not."""
    return resource("Test::Odd", raise_in="handle_check", **more)


def plan(engine: Engine, stack: StackRecord) -> dict[str, str]:
    """The outcomes of an update by path."""
    changes = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True, plan=True)
    assert changes.plan is not None
    return {"/".join(one.path): one.action for one in changes.plan.resources}


def unknown(engine: Engine, stack: StackRecord) -> set[str]:
    """The paths that the plan of an update shows with unknown health."""
    changes = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True, plan=True)
    assert changes.plan is not None
    return {"/".join(one.path) for one in changes.plan.resources if one.health and one.health.since}


def test_the_row_stays_as_it_was_and_nothing_is_replaced(engine: Engine) -> None:
    stack = engine.create(template(a=odd(), b=thing()))
    before, mark = engine.row(stack, "a"), engine.now_on(stack)
    stack = engine.check(stack)
    assert final(stack) == "CHECK_FAILED"
    assert stack.status_reason == (
        "Resource CHECK failed: 1 could not be looked at (ZeroDivisionError: handle_check)"
    )
    row = engine.row(stack, "a")
    assert (row.verb, row.status, row.status_reason) == (before.verb, before.status, before.status_reason)
    assert row.updated_at == before.updated_at
    assert row.health is not None
    assert row.health.since == engine.clock.now()
    assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CHECK_COMPLETE"}
    told = [event for event in engine.events(stack)[mark:] if event.resource_name == "a"]
    assert [state(event.verb, event.status) for event in told] == ["CHECK_FAILED"]
    assert told[-1].status_reason == "Could not look: ZeroDivisionError: resources.a: handle_check"
    (action,) = engine.store.actions.ended([_last(engine)])
    assert parse(dump(action.outputs))["checked"] == {
        "healthy": 1, "unhealthy": 0, "unknown": 1, "unsupported": 0, "stale": [],
        "causes": {"ZeroDivisionError: handle_check": 1}, "drifted": 0,
    }  # fmt: skip
    assert plan(engine, stack) == {"a": "keep", "b": "keep"}
    assert unknown(engine, stack) == {"a"}
    ids = engine.ids(stack)
    stack = engine.patch(stack)
    assert (final(stack), engine.ids(stack)) == ("UPDATE_COMPLETE", ids)


def _last(engine: Engine) -> str:
    ((found,),) = engine.store.database.read("SELECT id FROM action ORDER BY seq DESC LIMIT 1")
    return str(found)


def test_the_time_is_that_of_the_first_check_that_could_not_look(engine: Engine) -> None:
    stack = engine.check(engine.create(template(a=odd())))
    first = engine.clock.now()
    engine.clock.pass_(100)
    stack = engine.check(stack)
    health = engine.row(stack, "a").health
    assert health is not None
    assert health.since == first
    # A check that can look says what it has found.
    stack = engine.put(stack, template(a=resource("Test::Odd")))
    stack = engine.check(stack)
    assert (final(stack), engine.row(stack, "a").health) == ("CHECK_COMPLETE", None)


def test_an_update_in_place_has_reached_the_object(engine: Engine) -> None:
    stack = engine.check(engine.create(template(a=odd(value="1"))))
    stack = engine.put(stack, template(a=odd(value="2")))
    row = engine.row(stack, "a")
    assert (state(row.verb, row.status), row.health) == ("UPDATE_COMPLETE", None)


def test_a_mark_stays_a_mark(engine: Engine) -> None:
    stack = engine.create(template(a=odd()))
    engine.mark(stack, "a", reason="it smells")
    stack = engine.check(stack)
    row = engine.row(stack, "a")
    assert (state(row.verb, row.status), row.status_reason) == ("CHECK_FAILED", "it smells")
    assert plan(engine, stack) == {"a": "replace"}
    before = engine.ids(stack)
    stack = engine.patch(stack)
    assert final(stack) == "UPDATE_COMPLETE"
    assert engine.ids(stack) != before
    assert engine.row(stack, "a").health is None


def test_a_mark_after_it_is_a_mark(engine: Engine) -> None:
    stack = engine.check(engine.create(template(a=odd())))
    engine.mark(stack, "a")
    assert unknown(engine, stack) == set()
    assert plan(engine, stack) == {"a": "replace"}


def test_a_definite_answer_beside_it_is_replaced(engine: Engine) -> None:
    stack = engine.create(template(a=odd(), b=resource("Test::Suspicious")))
    engine.by_hand = True
    row = engine.row(stack, "b")
    with engine.store.transaction():
        engine.store.resources.save_many([replace(row, properties={"fail": True})])
    stack = engine.check(stack)
    assert stack.status_reason == (
        "Resource CHECK failed: 1 unhealthy (b), 1 could not be looked at (ZeroDivisionError: handle_check)"
    )
    assert plan(engine, stack) == {"a": "keep", "b": "replace"}


@pytest.mark.slow
def test_a_check_that_is_cut_short_has_found_out_nothing(engine: Engine) -> None:
    slow = thing(action_wait_secs={"check": -1})
    stack = engine.create(template(a=slow), timeout_mins=1)
    stack = engine.check(stack)
    assert (final(stack), stack.status_reason) == ("CHECK_FAILED", "Timed out")
    assert engine.states(stack) == {"a": "CREATE_COMPLETE"}
    assert plan(engine, stack) == {"a": "keep"}
    before = engine.ids(stack)
    assert engine.ids(engine.patch(stack)) == before


GROUP = {
    "group": resource(
        "OS::Heat::ResourceGroup",
        count=2,
        resource_def={"type": "Test::Odd", "properties": {"raise_in": "check_check"}},
    )
}


class TestNested:
    def test_the_resource_of_a_nested_stack_is_not_marked(self, engine: Engine) -> None:
        stack = engine.create(template(**GROUP))
        group = engine.row(stack, "group")
        stack = engine.check(stack)
        assert final(stack) == "CHECK_FAILED"
        assert stack.status_reason == (
            "Resource CHECK failed: 2 could not be looked at (ZeroDivisionError: check_check)"
        )
        after = engine.row(stack, "group")
        assert (state(after.verb, after.status), after.id) == ("CREATE_COMPLETE", group.id)
        assert after.health is not None
        assert unknown(engine, stack) == {"group", "group/0", "group/1"}
        nested = engine.store.stacks.get(group.physical_id or "")
        assert nested is not None
        ids = engine.ids(nested)
        stack = engine.patch(stack)
        assert (final(stack), engine.row(stack, "group").id, engine.ids(nested)) == ("UPDATE_COMPLETE", group.id, ids)

    @pytest.mark.slow
    def test_a_mark_on_it_stays_a_mark(self, engine: Engine) -> None:
        stack = engine.create(template(**GROUP))
        engine.mark(stack, "group")
        stack = engine.check(stack)
        assert plan(engine, stack)["group"] == "replace"
        before = engine.ids(stack)
        stack = engine.patch(stack)
        assert final(stack) == "UPDATE_COMPLETE"
        assert engine.ids(stack)["group"] != before["group"]

    def test_a_mark_after_it_is_a_mark(self, engine: Engine) -> None:
        stack = engine.check(engine.create(template(**GROUP)))
        engine.mark(stack, "group")
        assert plan(engine, stack)["group"] == "replace"

    @pytest.mark.slow
    def test_marked_members_decide_as_before(self, engine: Engine) -> None:
        stack = engine.create(template(**GROUP))
        nested = engine.store.stacks.get(engine.row(stack, "group").physical_id or "")
        assert nested is not None
        engine.mark(nested, "1")
        stack = engine.check(stack)
        found = plan(engine, stack)
        assert (found["group"], found["group/0"], found["group/1"]) == ("update", "keep", "replace")


def test_what_a_lock_had_hidden_stays(engine: Engine) -> None:
    stack = engine.unlock(engine.lock(engine.create(template(a=odd()))))
    before = engine.row(stack, "a")
    assert before.before_lock is not None
    engine.check(stack)
    after = engine.row(stack, "a")
    assert replace(after, health=None, moved_in=before.moved_in) == before
