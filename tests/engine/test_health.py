"""Marks of health: each row of the table of marks, and the update after it."""

import pytest
from msgspec.structs import replace

from heatlite.core.errors import (
    ActionInProgress,
    PhysicalResourceIDAmbiguity,
    ResourceNotFound,
    StackLocked,
    StackNotFound,
)
from heatlite.core.ids import new_id
from heatlite.core.status import LockLevel, Status, Verb, state
from tests.tables import few, sampled

from .conftest import Engine, ref, resource, template, thing

FINAL = [
    (Verb.CREATE, Status.COMPLETE),
    (Verb.CREATE, Status.FAILED),
    (Verb.UPDATE, Status.COMPLETE),
    (Verb.UPDATE, Status.FAILED),
    (Verb.CHECK, Status.COMPLETE),
    (Verb.CHECK, Status.FAILED),
    (Verb.SUSPEND, Status.COMPLETE),
    (Verb.SUSPEND, Status.FAILED),
    (Verb.RESUME, Status.COMPLETE),
    (Verb.UNLOCK, Status.COMPLETE),
    (Verb.INIT, Status.COMPLETE),
]


@pytest.mark.parametrize(("verb", "status"), few(FINAL))
def test_unhealthy(engine: Engine, verb: Verb, status: Status) -> None:
    stack = engine.create(template(a=thing()))
    engine.put_row(stack, "a", verb, status, "before")
    mark = engine.now_on(stack)
    engine.mark(stack, "a", reason="it smells")
    row = engine.row(stack, "a")
    assert (state(row.verb, row.status), row.status_reason) == ("CHECK_FAILED", "it smells")
    assert row.updated_at == engine.clock.now()
    (event,) = engine.events(stack)[mark:]
    assert (event.resource_name, event.verb, event.status, event.status_reason) == ("a", "CHECK", "FAILED", "it smells")
    assert engine.get(stack) == stack


@pytest.mark.parametrize(("verb", "status"), sampled(FINAL, 3, pytest.mark.thorough))
def test_healthy(engine: Engine, verb: Verb, status: Status) -> None:
    stack = engine.create(template(a=thing()))
    engine.put_row(stack, "a", verb, status, "before")
    before, mark = engine.row(stack, "a"), engine.now_on(stack)
    engine.mark(stack, "a", unhealthy=False, reason="well again")
    if (verb, status) == (Verb.CHECK, Status.FAILED):
        row = engine.row(stack, "a")
        assert (state(row.verb, row.status), row.status_reason) == ("CHECK_COMPLETE", "well again")
        assert engine.told(stack, mark) == ["a CHECK_COMPLETE"]
    else:
        assert engine.row(stack, "a") == before
        assert engine.told(stack, mark) == []
    assert engine.get(stack) == stack


@pytest.mark.parametrize("unhealthy", few([True, False]))
@pytest.mark.parametrize("status", few([Status.COMPLETE, Status.FAILED]))
def test_a_deleted_resource_is_left_alone(engine: Engine, unhealthy: bool, status: Status) -> None:
    stack = engine.create(template(a=thing()))
    engine.put_row(stack, "a", Verb.DELETE, status)
    before, mark = engine.row(stack, "a"), engine.now_on(stack)
    engine.mark(stack, "a", unhealthy)
    assert (engine.row(stack, "a"), engine.told(stack, mark)) == (before, [])


def test_the_default_reason_says_that_it_was_a_mark(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    engine.mark(stack, "a")
    assert "explicitly marked as unhealthy" in engine.row(stack, "a").status_reason
    engine.mark(stack, "a", unhealthy=False)
    assert "explicitly marked as healthy" in engine.row(stack, "a").status_reason


def test_a_second_mark_brings_a_new_reason(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    engine.mark(stack, "a", reason="one")
    engine.mark(stack, "a", reason="x" * 300)
    assert engine.row(stack, "a").status_reason == "x" * 300
    engine.mark(stack, "a", reason="ä" * 600_000)
    assert engine.row(stack, "a").status_reason == "ä" * 10_000 + " … (600000 characters)"


def test_a_mark_after_a_lock_counts(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    before = engine.ids(stack)
    stack = engine.unlock(engine.lock(stack))
    engine.mark(stack, "a")
    assert engine.states(stack) == {"a": "CHECK_FAILED"}
    stack = engine.put(stack, template(a=thing()))
    assert (engine.states(stack), engine.ids(stack) == before) == ({"a": "CREATE_COMPLETE"}, False)


class TestTakenBack:
    """A mark that is taken back leaves what was not whole as it was."""

    @pytest.mark.parametrize(
        ("verb", "status"),
        sampled([one for one in FINAL if Verb.SUSPEND not in one], 5, pytest.mark.thorough),
    )
    @pytest.mark.parametrize("locks", few([False, True]))
    def test_what_was_not_whole_is_so_again(self, engine: Engine, verb: Verb, status: Status, locks: bool) -> None:
        stack = engine.create(template(a=thing()))
        engine.put_row(stack, "a", verb, status, "before")
        for reason in ("one", "two"):
            engine.mark(stack, "a", reason=reason)
        if locks:
            stack = engine.unlock(engine.lock(stack))
        mark = engine.now_on(stack)
        engine.mark(stack, "a", unhealthy=False, reason="well")
        row, whole = engine.row(stack, "a"), status is Status.COMPLETE and verb is not Verb.INIT or verb is Verb.CHECK
        expected = (Verb.CHECK, Status.COMPLETE, "well") if whole else (verb, status, "before")
        assert (row.verb, row.status, row.status_reason) == expected
        (event,) = engine.events(stack)[mark:]
        assert (event.verb, event.status, event.status_reason) == (*expected[:2], "well")
        assert row.before_check is None

    @pytest.mark.parametrize("checks", few([False, True]))
    def test_what_was_never_made_is_made_by_the_next_update(self, engine: Engine, checks: bool) -> None:
        stack = engine.create(template(t=thing(fail=True), behind=thing(depends_on="t")))
        before = engine.states(stack)
        assert before == {"t": "CREATE_FAILED", "behind": "INIT_COMPLETE"}
        for name in before:
            engine.mark(stack, name)
        if checks:
            stack = engine.check(stack)
        for name in before:
            engine.mark(stack, name, unhealthy=False)
        assert engine.states(stack) == before
        stack = engine.put(stack, template(t=thing(), behind=thing(depends_on="t")))
        assert set(engine.states(stack).values()) <= {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
        assert all(row.physical_id for row in engine.rows(stack))

    def test_another_operation_forgets_it(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(fail=True)))
        engine.mark(stack, "a")
        stack = engine.put(stack, template(a=thing()))
        engine.mark(stack, "a")
        engine.mark(stack, "a", unhealthy=False)
        assert engine.states(stack) == {"a": "CHECK_COMPLETE"}


class TestLookup:
    def test_by_physical_id(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing()))
        engine.mark(stack, engine.row(stack, "a").physical_id or "")
        assert engine.states(stack) == {"a": "CHECK_FAILED", "b": "CREATE_COMPLETE"}

    def test_the_name_comes_first(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing()))
        row = replace(engine.row(stack, "a"), physical_id="b")
        with engine.store.transaction():
            engine.store.resources.save_many([row])
        engine.mark(stack, "b")
        assert engine.states(stack) == {"a": "CREATE_COMPLETE", "b": "CHECK_FAILED"}

    def test_ambiguous(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing()))
        rows = engine.rows(stack)
        with engine.store.transaction():
            engine.store.resources.save_many([replace(row, physical_id="same") for row in rows])
        with pytest.raises(PhysicalResourceIDAmbiguity, match="same"):
            engine.mark(stack, "same")
        assert set(engine.states(stack).values()) == {"CREATE_COMPLETE"}
        with engine.store.transaction():
            engine.store.resources.save_many(rows)  # each object has one owner in a consistent database

    def test_nobody(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        other = engine.create(template(x=thing()), name="other")
        for name in ("zz", "x", engine.row(other, "x").physical_id or ""):
            with pytest.raises(ResourceNotFound, match=name):
                engine.mark(stack, name)

    def test_what_a_failed_replacement_has_left(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(update_replace_value="1")))
        left = engine.row(stack, "a").physical_id or ""
        after = template(a=thing(update_replace_value="2"), boom=thing(fail=True, depends_on="a"))
        stack = engine.put(stack, after)
        assert {row.physical_id for row in engine.rows(stack) if row.name == "a"} > {left}
        with pytest.raises(ResourceNotFound, match=left):
            engine.mark(stack, left)

    def test_a_deleted_stack(self, engine: Engine) -> None:
        stack = engine.delete(engine.create(template(a=thing())))
        with pytest.raises(StackNotFound):
            engine.mark(stack, "a")


class TestInProgress:
    def test_a_resource_alone(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        engine.put_row(stack, "a", Verb.UPDATE, Status.IN_PROGRESS)
        with pytest.raises(ActionInProgress, match=r"\(UPDATE\)"):
            engine.mark(stack, "a")
        engine.put_row(stack, "a", Verb.UPDATE, Status.COMPLETE)


class TestLocked:
    @pytest.mark.parametrize("level", list(LockLevel))
    def test_the_stack(self, engine: Engine, level: LockLevel) -> None:
        stack = engine.lock(engine.create(template(a=thing())), level)
        rows, mark = engine.rows(stack), engine.now_on(stack)
        with pytest.raises(StackLocked):
            engine.mark(stack, "a", reason="r")
        assert (engine.rows(stack), engine.told(stack, mark)) == (rows, [])
        (entry,) = engine.store.suppressed.list(stack.id)
        assert (entry.request, entry.target, entry.requested_by) == ("mark_unhealthy", "a", "mia")
        assert (entry.method, entry.path) == ("PATCH", "/resources/a")
        assert entry.body == {"mark_unhealthy": True, "resource_status_reason": "r"}

    def test_an_ancestor(self, engine: Engine) -> None:
        root = engine.create(template(a=thing()), name="root")
        child = engine.create(template(a=thing()))
        with engine.store.transaction():
            parent = replace(root, id=new_id(), name="middle", parent_id=root.id, root_id=root.id)
            engine.store.stacks.insert(parent)
            engine.store.stacks.save(replace(child, parent_id=parent.id, root_id=root.id))
        engine.lock(root)
        with pytest.raises(StackLocked, match="Stack root is under maintenance"):
            engine.mark(child, "a")
        assert [entry.request for entry in engine.store.suppressed.list(child.id)] == ["mark_unhealthy"]
        engine.unlock(root)
        engine.mark(child, "a")


class TestNextUpdate:
    def test_only_the_marked_one_is_replaced(self, engine: Engine) -> None:
        """The order of events is Heat's."""
        stack = engine.create(template(a=thing(), b=thing(ref("a")), c=thing()))
        before, physical = engine.ids(stack), engine.row(stack, "a").physical_id
        engine.mark(stack, "a")
        mark = engine.now_on(stack)
        stack = engine.patch(stack)
        assert engine.told(stack, mark) == [
            "s UPDATE_IN_PROGRESS",
            "a CREATE_IN_PROGRESS",
            "a CREATE_COMPLETE",
            "b UPDATE_IN_PROGRESS",
            "b UPDATE_COMPLETE",
            "a DELETE_IN_PROGRESS",
            "a DELETE_COMPLETE",
            "s UPDATE_COMPLETE",
        ]
        after = engine.ids(stack)
        assert after["a"] != before["a"]
        assert (after["b"], after["c"]) == (before["b"], before["c"])
        assert engine.row(stack, "a").physical_id != physical
        assert engine.value(stack, "b") == engine.row(stack, "a").physical_id
        # Done is done: the next update has nothing left to replace.
        engine.patch(stack)
        assert engine.ids(stack) == after

    def test_even_one_that_its_type_would_keep(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Test::Robust"), q=resource("OS::Heat::RandomString")))
        before, text = engine.ids(stack), engine.row(stack, "q").data
        engine.mark(stack, "a")
        engine.mark(stack, "q")
        engine.patch(stack)
        assert not set(engine.ids(stack).values()) & set(before.values())
        assert engine.row(stack, "q").data != text

    def test_what_is_well_again_is_kept(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing()))
        rows = engine.ids(stack)
        engine.mark(stack, "a")
        engine.mark(stack, "a", unhealthy=False)
        engine.patch(stack)
        assert engine.ids(stack) == rows

    def test_one_that_left_the_template_is_only_removed(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(), b=thing()))
        engine.mark(stack, "a")
        mark = engine.now_on(stack)
        stack = engine.put(stack, template(b=thing()))
        assert "a CREATE_IN_PROGRESS" not in engine.told(stack, mark)
        assert list(engine.states(stack)) == ["b"]

    def test_one_that_was_never_made(self, engine: Engine) -> None:
        stack = engine.create(template(boom=thing(fail=True), never=thing(depends_on="boom")))
        engine.mark(stack, "never")
        stack = engine.put(stack, template(boom=thing(), never=thing(depends_on="boom")))
        assert engine.states(stack) == {"boom": "CREATE_COMPLETE", "never": "CREATE_COMPLETE"}
