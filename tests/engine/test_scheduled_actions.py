"""Scheduled and repeated actions (decision 0008)."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DatabaseUnavailable,
    Forbidden,
    HTTPBadRequest,
    NoCredential,
    RequestLimitExceeded,
    StackLocked,
    StackNotFound,
    wire_name,
)
from heatlite.core.status import ActionStatus, Cause, Signal, Verb, state
from heatlite.engine.operations.scheduled_actions import MAX_SCHEDULED
from heatlite.engine.state.requests import Timing
from heatlite.store.records import ActionRecord, StackRecord
from tests.tables import few

from .conftest import ADMIN, MEMBER, START, Engine, resource, template, thing

pytestmark = pytest.mark.database


@pytest.fixture
def stack(engine: Engine) -> StackRecord:
    return engine.create(template(a=thing()))


def actions(engine: Engine, stack: StackRecord) -> list[ActionRecord]:
    """All checks, suspends and resumes of the stack, oldest first."""
    sql = "SELECT id FROM action WHERE stack_id = ? AND verb IN ('CHECK', 'SUSPEND', 'RESUME') ORDER BY seq"
    found = [engine.store.actions.get(one) for (one,) in engine.store.database.read(sql, (stack.id,))]
    return [one for one in found if one is not None]


def statuses(engine: Engine, stack: StackRecord) -> list[ActionStatus]:
    return [one.status for one in actions(engine, stack)]


def moves(engine: Engine, action: ActionRecord) -> list[tuple[ActionStatus, ActionStatus]]:
    return [(move.before, move.after) for move in engine.store.actions.history(action.id)]


def later(engine: Engine, seconds: float = 100, **more: Any) -> Timing:
    return Timing(not_before=engine.clock.now() + seconds, **more)


def start(engine: Engine, stack: StackRecord, timing: Timing, verb: Verb = Verb.CHECK) -> ActionRecord:
    engine.components.scheduled_actions.start(MEMBER, engine.get(stack), verb, timing)
    return actions(engine, stack)[-1]


def pass_until(engine: Engine, stack: StackRecord, seconds: float, *expected: ActionStatus) -> None:
    """Let time go on; then the actions of the stack come to be as `expected`."""
    engine.clock.pass_(seconds)
    engine.components.scheduled_actions.sweep()  # the worker's comes within a second, which is long for a test
    engine.wait_for(lambda: statuses(engine, stack) == list(expected))


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


DONE, NEXT, MISSED = ActionStatus.SUCCEEDED, ActionStatus.INIT, ActionStatus.CANCELLED


class TestLater:
    def test_it_holds_nothing_until_its_time(self, engine: Engine, stack: StackRecord) -> None:
        before, since = engine.get(stack), engine.now_on(stack)
        action = start(engine, stack, later(engine))
        assert (action.status, action.cause, action.deadline) == (ActionStatus.INIT, Cause.REQUEST, None)
        assert (engine.get(stack), engine.told(stack, since), moves(engine, action)) == (before, [], [])
        stack = engine.patch(stack)  # others are not kept out
        since = engine.now_on(stack)
        with engine.clock.held():
            pass_until(engine, stack, 99, NEXT)
            engine.components.scheduled_actions.sweep()
            assert statuses(engine, stack) == [NEXT]
            pass_until(engine, stack, 1, DONE)
        assert final(engine.settle(stack)) == "CHECK_COMPLETE"
        assert engine.told(stack, since)[:1] == ["s CHECK_IN_PROGRESS"]
        (done,) = actions(engine, stack)
        assert moves(engine, done) == [
            (ActionStatus.INIT, ActionStatus.READY),
            (ActionStatus.READY, ActionStatus.RUNNING),
            (ActionStatus.RUNNING, ActionStatus.SUCCEEDED),
        ]
        assert done.deadline == START + 100 + engine.settings.default_action_timeout

    @pytest.mark.parametrize("verb", few([Verb.CHECK, Verb.SUSPEND, Verb.RESUME]))
    def test_each_verb(self, engine: Engine, stack: StackRecord, verb: Verb) -> None:
        if verb is Verb.RESUME:
            engine.suspend(stack)
        count = len(actions(engine, stack))
        start(engine, stack, later(engine), verb)
        pass_until(engine, stack, 100, *[DONE] * (count + 1))
        assert final(engine.settle(stack)) == f"{verb}_COMPLETE"

    def test_its_own_timeout_counts_from_its_time(self, engine: Engine) -> None:
        slow = resource("OS::Heat::Delay", min_wait=1000, actions=["SUSPEND"])
        stack = engine.create(template(a=slow))
        action = start(engine, stack, later(engine, timeout=50), Verb.SUSPEND)
        pass_until(engine, stack, 100, ActionStatus.FAILED)
        done = engine.store.actions.get(action.id)
        assert done is not None
        assert (done.timeout, done.deadline, done.status_reason) == (50, START + 150, "Timed out")

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_a_time_that_is_past(self, engine: Engine, stack: StackRecord, seconds: float) -> None:
        with pytest.raises(HTTPBadRequest, match=f"not_before is {to_text(START + seconds)}, which is not in the fut"):
            start(engine, stack, later(engine, seconds))
        assert actions(engine, stack) == []

    @pytest.mark.slow
    def test_a_locked_stack_lets_nothing_in_and_nothing_fires_at_the_unlock(
        self, engine: Engine, stack: StackRecord
    ) -> None:
        start(engine, stack, later(engine))
        locked = engine.lock(stack, reason="disk swap")
        pass_until(engine, stack, 100, MISSED)
        (missed,) = actions(engine, stack)
        assert missed.status_reason.startswith("Its time had come, but: Stack s is under maintenance (LOCK_COMPLETE)")
        assert missed.outputs.error == missed.status_reason
        (entry,) = engine.store.suppressed.list(stack.id)
        assert (entry.request, entry.requested_by, entry.body) == ("check", MEMBER.user, {"check": None})
        assert engine.get(stack) == locked
        engine.unlock(stack)
        engine.components.scheduled_actions.sweep()
        assert statuses(engine, stack) == [MISSED]
        assert final(engine.get(stack)) == "UNLOCK_COMPLETE"

    def test_a_stack_that_is_held_names_its_holder(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, later(engine, 10))
        slow = resource("OS::Heat::TestResource", value="v", action_wait_secs={"create": 60})
        with engine.clock.held():
            engine.put(stack, template(a=thing(), b=slow), wait=False)
            engine.begun(lambda: len(engine.rows(stack)) == 2)
            (holder,) = engine.store.actions.live([stack.id])
            pass_until(engine, stack, 10, MISSED)
        (missed,) = actions(engine, stack)
        assert f"action {holder.id}" in missed.status_reason
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"

    def test_where_there_is_nothing_to_do(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, later(engine), Verb.SUSPEND)
        before = engine.suspend(stack)
        pass_until(engine, stack, 100, MISSED, DONE)
        assert "is SUSPEND_COMPLETE already" in actions(engine, stack)[0].status_reason
        assert engine.get(stack) == before

    def test_a_deletion_ends_it(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, later(engine))
        start(engine, stack, later(engine), Verb.SUSPEND)
        assert final(engine.delete(stack)) == "DELETE_COMPLETE"
        assert statuses(engine, stack) == [MISSED, MISSED]
        with pytest.raises(StackNotFound):
            start(engine, stack, later(engine))

    def test_so_does_an_abandoning(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, later(engine))
        engine.components.exports.abandon(MEMBER, engine.get(stack))
        engine.settle(stack)
        assert statuses(engine, stack) == [MISSED]

    def test_and_the_deletion_of_a_nested_stack(self, engine: Engine) -> None:
        files = {"n.yaml": json.dumps(template(a=thing()))}
        stack = engine.create(template(n=resource("n.yaml")), files=files)
        (nested,) = engine.store.stacks.descendants(stack)
        start(engine, nested, later(engine, interval=60))
        engine.put(stack, template(b=thing()))
        assert statuses(engine, nested) == [MISSED]

    def test_a_cancel(self, engine: Engine, stack: StackRecord) -> None:
        before = engine.get(stack)
        action = start(engine, stack, later(engine))
        after = engine.components.controls.signal(MEMBER, action, Signal.CANCEL)
        assert after.status is ActionStatus.CANCELLED
        engine.clock.pass_(1000)
        engine.components.scheduled_actions.sweep()
        assert (statuses(engine, stack), engine.get(stack)) == ([MISSED], before)

    @pytest.mark.slow
    def test_there_is_an_end_to_it(self, engine: Engine, stack: StackRecord) -> None:
        for _ in range(MAX_SCHEDULED):
            start(engine, stack, later(engine))
        with pytest.raises(RequestLimitExceeded, match="are already scheduled"):
            start(engine, stack, later(engine))

    def test_a_stack_whose_row_is_held_keeps_no_other_waiting(
        self, engine: Engine, stack: StackRecord, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A frozen process may hold it. The action is let in afterwards."""
        other = engine.create(template(a=thing()), name="other")
        start(engine, stack, later(engine))
        start(engine, other, later(engine))
        stacks, frozen = engine.components.scheduled_actions._store.stacks, {stack.id}
        lock = stacks.lock

        def locking(stack_id: str) -> StackRecord | None:
            if stack_id in frozen:
                raise DatabaseUnavailable(reason="lock timeout")
            return lock(stack_id)

        monkeypatch.setattr(stacks, "lock", locking)
        engine.clock.pass_(100)
        with pytest.raises(DatabaseUnavailable, match="lock timeout"):
            engine.components.scheduled_actions.sweep()
        assert statuses(engine, other) != [NEXT]
        assert statuses(engine, stack) == [NEXT]
        frozen.clear()
        pass_until(engine, stack, 1, DONE)

    def test_it_is_let_in_by_the_engine_that_comes_after(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, later(engine))
        engine.close()
        engine.clock.pass_(5000)
        engine.open()
        engine.wait_for(lambda: statuses(engine, stack) == [DONE])
        assert final(engine.settle(stack)) == "CHECK_COMPLETE"


class TestSeries:
    def test_each_follows_the_end_of_the_one_before(self, engine: Engine, stack: StackRecord) -> None:
        with engine.clock.held():
            start(engine, stack, Timing(interval=60, timeout=30))
            engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
            pass_until(engine, stack, 60, DONE, DONE, NEXT)
            pass_until(engine, stack, 60, DONE, DONE, DONE, NEXT)
        first, *others = actions(engine, stack)
        assert first.cause is Cause.REQUEST
        assert {one.cause for one in others} == {Cause.SCHEDULED}
        assert [one.not_before for one in others] == [START + 60, START + 120, START + 180]
        for one in others:
            assert (one.requested_by, one.context, one.interval, one.timeout) == (MEMBER.user, first.context, 60, 30)

    def test_it_keeps_nobody_out_longer_than_it_runs(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
        assert final(engine.patch(stack)) == "UPDATE_COMPLETE"
        assert final(engine.check(stack)) == "CHECK_COMPLETE", "a check out of turn is no second series"
        assert statuses(engine, stack) == [DONE, NEXT, DONE]

    def test_a_failure_does_not_end_it(self, engine: Engine) -> None:
        stack = engine.create(template(a=resource("Example::Local::File")))
        Path(engine.row(stack, "a").physical_id or "").unlink()
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [ActionStatus.FAILED, NEXT])
        pass_until(engine, stack, 60, ActionStatus.FAILED, ActionStatus.FAILED, NEXT)
        assert final(engine.settle(stack)) == "CHECK_FAILED"

    def test_nor_does_a_lock(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
        engine.lock(stack)
        with engine.clock.held():
            pass_until(engine, stack, 60, DONE, MISSED, NEXT)
            pass_until(engine, stack, 60, DONE, MISSED, MISSED, NEXT)
            engine.unlock(stack)
            assert statuses(engine, stack) == [DONE, MISSED, MISSED, NEXT]
            pass_until(engine, stack, 60, DONE, MISSED, MISSED, DONE, NEXT)
        assert final(engine.settle(stack)) == "CHECK_COMPLETE"

    @pytest.mark.parametrize("locked", few([False, True]))
    def test_what_is_suspended_is_not_checked_and_can_be_resumed(
        self, engine: Engine, stack: StackRecord, locked: bool
    ) -> None:
        """Also where a lock has passed over it since."""
        start(engine, stack, later(engine, interval=60))
        before = engine.suspend(stack)
        if locked:
            engine.lock(stack)
            before = engine.unlock(stack)
        pass_until(engine, stack, 100, MISSED, DONE, NEXT)
        assert "Stack s is suspended" in actions(engine, stack)[0].status_reason
        assert engine.get(stack) == before
        stack = engine.resume(stack)
        assert final(stack) == "RESUME_COMPLETE"
        pass_until(engine, stack, 60, MISSED, DONE, DONE, DONE, NEXT)
        assert final(engine.settle(stack)) == "CHECK_COMPLETE"

    @pytest.mark.parametrize("timing", [{"interval": 30}, {"interval": 30, "not_before": START + 1e6}])
    def test_one_of_a_verb(self, engine: Engine, stack: StackRecord, timing: dict[str, float]) -> None:
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
        waiting = actions(engine, stack)[-1]
        with pytest.raises(ActionConflict, match=f"a CHECK every 60 seconds already .action {waiting.id}"):
            start(engine, stack, Timing(**timing))
        assert final(engine.settle(stack)) == "CHECK_COMPLETE"
        assert statuses(engine, stack) == [DONE, NEXT]

    def test_nor_a_second_one_for_later_while_one_of_it_runs(self, engine: Engine) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"check": 50})))
        with engine.clock.held():
            running = start(engine, stack, Timing(interval=60))
            with pytest.raises(ActionConflict, match=running.id):
                start(engine, stack, later(engine, interval=60))

    def test_cancelling_the_one_that_waits_ends_it(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
        engine.components.controls.signal(MEMBER, actions(engine, stack)[-1], Signal.CANCEL)
        assert statuses(engine, stack) == [DONE, MISSED]
        assert start(engine, stack, later(engine, interval=5)).status is NEXT, "another one may begin"

    @pytest.mark.parametrize("force", few([False, True]))
    def test_so_does_cancelling_the_one_that_runs(self, engine: Engine, force: bool) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"check": 1000})))
        with engine.clock.held():
            start(engine, stack, Timing(interval=60))
            engine.begun(lambda: engine.states(stack) == {"a": "CHECK_IN_PROGRESS"})
            with nullcontext() if force else engine.heard():
                engine.components.controls.signal(ADMIN, actions(engine, stack)[-1], Signal.CANCEL, force)
        engine.settle(stack)
        assert statuses(engine, stack) == [ActionStatus.CANCELLED]

    def test_so_does_a_delete(self, engine: Engine, stack: StackRecord) -> None:
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
        engine.delete(stack)
        assert statuses(engine, stack) == [DONE, MISSED]

    @pytest.mark.parametrize("force", [False, True])
    def test_also_a_delete_that_cuts_one_short(self, engine: Engine, force: bool) -> None:
        stack = engine.create(template(a=thing(action_wait_secs={"check": 1000})))
        with engine.clock.held():
            start(engine, stack, Timing(interval=60))
            engine.begun(lambda: engine.states(stack) == {"a": "CHECK_IN_PROGRESS"})
            with engine.heard():
                engine.stacks.delete(MEMBER, engine.get(stack), force)
            assert final(engine.settle(stack)) == "DELETE_COMPLETE"
        assert statuses(engine, stack) == [ActionStatus.CANCELLED]

    def test_a_tree(self, engine: Engine) -> None:
        files = {"n.yaml": json.dumps(template(a=thing()))}
        stack = engine.create(template(n=resource("n.yaml")), files=files)
        (nested,) = engine.store.stacks.descendants(stack)
        start(engine, stack, Timing(interval=60))
        engine.wait_for(lambda: statuses(engine, stack) == [DONE, NEXT])
        pass_until(engine, stack, 60, DONE, DONE, NEXT)
        assert statuses(engine, nested) == [DONE, DONE]
        assert {one.cause for one in actions(engine, nested)} == {Cause.DERIVED}

    def test_what_a_lock_refuses_at_once_can_be_replayed(self, engine: Engine, stack: StackRecord) -> None:
        engine.lock(stack)
        with pytest.raises(StackLocked):
            start(engine, stack, Timing(interval=60, body={"interval": 60}))
        (entry,) = engine.store.suppressed.list(stack.id)
        assert entry.body == {"check": {"interval": 60}}


@pytest.mark.slow
def test_a_lock_that_runs_out_is_lifted_by_a_scheduled_action(engine: Engine, stack: StackRecord) -> None:
    engine.lock(stack, expires_at=engine.clock.now() + 60)
    engine.clock.pass_(60)
    engine.wait_for(lambda: final(engine.get(stack)) == "UNLOCK_COMPLETE")
    sql = "SELECT cause FROM action WHERE verb IN ('LOCK', 'UNLOCK') ORDER BY seq"
    assert [cause for (cause,) in engine.store.database.read(sql)] == [Cause.REQUEST, Cause.SCHEDULED]


@pytest.mark.parametrize("verb", [Verb.CHECK, Verb.SUSPEND, Verb.RESUME])
@pytest.mark.parametrize("error", [Forbidden(action="actions:check"), NoCredential(stack_name="s", user="mia")])
def test_who_has_lost_the_right_meanwhile(engine: Engine, stack: StackRecord, verb: Verb, error: Forbidden) -> None:
    once = start(engine, stack, later(engine), verb)
    nobody = replace(MEMBER, may=lambda rule: rule != f"actions:{verb.lower()}")
    before = engine.components.scheduled_actions._author_now

    def lost(author: Context, stack: StackRecord) -> Context:
        if isinstance(error, NoCredential):
            raise error
        return replace(before(author, stack), may=nobody.may)

    for process in (engine.server, engine.front):
        process.components.scheduled_actions._author_now = lost
    for timing in (later(engine), Timing(interval=3600)):
        with pytest.raises(Forbidden):
            engine.components.scheduled_actions.start(MEMBER, engine.get(stack), verb, timing)
    pass_until(engine, stack, 101, ActionStatus.CANCELLED)
    ended = engine.store.actions.get(once.id)
    assert ended is not None and ended.outputs.code == wire_name(error)
    assert state(verb, "REFUSED") in [state(one.verb, one.status) for one in engine.events(stack)]
