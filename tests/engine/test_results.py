"""Results of an execution and the action's status after them (decision 0008)."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.ids import new_id
from heatlite.core.json import Json
from heatlite.core.status import STATUS_AFTER, ActionStatus, Result, Signal, Verb, state
from heatlite.plugin.resource import Change
from heatlite.resources.heat.testing import TestResource
from heatlite.store.records import ActionRecord, StackRecord
from tests.tables import few

from .conftest import MEMBER, Engine, param, resource, template, thing

pytestmark = pytest.mark.database

LIMIT = 3
NESTED = template(parameters={"value": {"type": "string"}}, b=thing(param("value")))
FILES = {"n.yaml": json.dumps(NESTED)}


@pytest.fixture
def engine(plugins: Path, place: Path) -> Iterator[Engine]:
    engine = Engine(place, execution_retry_limit=LIMIT)
    yield engine
    engine.close()


def wanted(value: str) -> Any:
    """Something that takes half a minute to update, and then a nested stack."""
    first = thing(value, action_wait_secs={"update": 30})
    return template(a=first, n=resource("n.yaml", value=value, depends_on="a"))


def beside(value: str) -> Any:
    """A nested stack after one resource, and beside another."""
    return template(a=thing(value), c=thing(value), n=resource("n.yaml", value=value, depends_on="a"))


def nested_of(engine: Engine, stack: StackRecord) -> StackRecord:
    (nested,) = engine.store.stacks.descendants(stack)
    return nested


def block(engine: Engine, stack: StackRecord) -> ActionRecord:
    """An action that holds a stack and never gets on."""
    engine.by_hand = True
    action = ActionRecord(
        id=new_id(), stack_id=stack.id, root_id=stack.root_id or stack.id, project=stack.project, verb=Verb.UPDATE,
        status=ActionStatus.WAITING, pending=1, requested_by="mia", created_at=engine.clock.now(),
    )  # fmt: skip
    with engine.store.transaction():
        engine.store.queue.enqueue(action)
    return action


def release(engine: Engine, action: ActionRecord) -> None:
    with engine.store.transaction():
        engine.store.moves.end(action, ActionStatus.CANCELLED, "", engine.clock.now())


def now(engine: Engine, action: ActionRecord) -> ActionRecord:
    found = engine.store.actions.get(action.id)
    assert found is not None
    return found


def in_vain(engine: Engine, **more: Any) -> tuple[StackRecord, ActionRecord, ActionRecord]:
    """A half-finished update that will find its nested stack held: stack, actions."""
    stack = engine.create(wanted("old"), files=FILES, **more)
    with engine.clock.held():
        engine.put(stack, wanted("new"), wait=False, files=FILES, **more)
        (action,) = engine.store.actions.live([stack.id])
        engine.begun(lambda: engine.states(stack)["a"] == "UPDATE_IN_PROGRESS")
        blocker = block(engine, nested_of(engine, stack))
    return stack, action, blocker


def pauses(engine: Engine, action: ActionRecord) -> list[float]:
    """Delays before a new start, from the return to the claim."""
    moves = engine.store.actions.history(action.id)
    given_back = [number for number, move in enumerate(moves) if (move.before, move.after) == ("RUNNING", "READY")]
    return [moves[number + 1].time - moves[number].time for number in given_back]


class TestAgain:
    def test_it_is_begun_again_after_longer_and_longer_pauses_and_fails_at_last(self, engine: Engine) -> None:
        stack, action, blocker = in_vain(engine)
        stack = engine.settle(stack)
        done = now(engine, action)
        assert pauses(engine, action) == [1, 2, 4]
        assert (done.status, done.retries, done.attempt) == (ActionStatus.FAILED, LIMIT, LIMIT + 1)
        assert done.deadline == action.deadline
        assert done.status_reason.startswith("Failed 4 times: A nested stack has another action already")
        assert (done.outputs.result, done.outputs.error) == (Result.ERROR, done.status_reason)
        assert (state(stack.verb, stack.status), stack.status_reason) == ("UPDATE_FAILED", done.status_reason)
        why = [move.reason for move in engine.store.actions.history(action.id) if move.after is ActionStatus.READY]
        assert [bool(reason) for reason in why] == [False, *[True] * LIMIT], "the history tells why"
        nested = nested_of(engine, stack)
        assert engine.value(nested, "b") == "old"
        assert state(nested.verb, nested.status) == "CREATE_COMPLETE", "nothing half done"

        release(engine, blocker)
        assert engine.patch(stack, files=FILES).status == "COMPLETE", "and nothing is held"
        assert (engine.value(stack, "a"), engine.value(nested, "b")) == ("new", "new")

    def test_it_goes_on_where_it_was_once_nobody_is_in_the_way(self, engine: Engine) -> None:
        with engine.clock.held():
            stack, action, blocker = in_vain(engine)
            begun = engine.now_on(stack)
            engine.clock.pass_(30)
            engine.wait_for(lambda: now(engine, action).retries == 1)
            given_back = now(engine, action)
            assert (given_back.status, given_back.owner, given_back.lease_until) == (ActionStatus.READY, None, None)
            assert given_back.not_before == given_back.updated_at + 1
            release(engine, blocker)
        stack = engine.settle(stack)
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert now(engine, action).status is ActionStatus.SUCCEEDED
        assert engine.told(stack, begun).count("a UPDATE_COMPLETE") == 1
        assert engine.value(nested_of(engine, stack), "b") == "new"

    def test_its_time_does_not_begin_anew(self, engine: Engine) -> None:
        with engine.clock.held():
            stack, action, _ = in_vain(engine, timeout_mins=1)
            engine.clock.pass_(30)
            engine.wait_for(lambda: now(engine, action).retries == 1)
            engine.clock.pass_(30)
        engine.settle(stack)
        done = now(engine, action)
        assert (done.retries, done.deadline, done.status_reason) == (1, action.deadline, "Timed out")
        assert done.outputs.result is Result.TIMEOUT

    def test_a_cancel_does_not_wait_for_the_pause(self, engine: Engine) -> None:
        with engine.clock.held():
            stack, action, _ = in_vain(engine)
            engine.clock.pass_(30)
            engine.wait_for(lambda: now(engine, action).retries == 1)
            engine.components.controls.signal(MEMBER, now(engine, action), Signal.CANCEL)
            engine.wait_for(lambda: now(engine, action).status is ActionStatus.CANCELLED)
        assert state(engine.settle(stack).verb, engine.get(stack).status) == "UPDATE_FAILED"

    @pytest.mark.slow
    def test_it_is_not_begun_again_beside_a_call_that_is_still_under_way(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        go_on, inside, again, overlaps = threading.Event(), threading.Lock(), threading.Event(), []
        at_once = TestResource.handle_update

        def slow(self: TestResource, change: Change) -> Json:
            if self.name == "a":
                go_on.wait()
            elif self.name == "c" and inside.acquire(blocking=False):
                again.wait(1)  # until somebody else comes, which nobody should
                inside.release()
            elif self.name == "c":
                overlaps.append(self)
                again.set()
            return at_once(self, change)

        monkeypatch.setattr(TestResource, "handle_update", slow)
        stack = engine.create(beside("old"), files=FILES)
        engine.put(stack, beside("new"), wait=False, files=FILES)
        (action,) = engine.store.actions.live([stack.id])
        engine.wait_for(inside.locked)
        with engine.clock.held():
            blocker = block(engine, nested_of(engine, stack))
            go_on.set()
            engine.wait_for(lambda: now(engine, action).retries == 1)
            release(engine, blocker)
        engine.settle(stack)
        assert overlaps == []


# -- every result ------------------------------------------------------------------------------------


def ok(engine: Engine) -> ActionRecord:
    return checked(engine, thing())


def error(engine: Engine) -> ActionRecord:
    gone = resource("Example::Local::File")
    return checked(engine, gone, lambda stack: Path(engine.row(stack, "a").physical_id or "").unlink())


def timeout(engine: Engine) -> ActionRecord:
    return checked(engine, thing(action_wait_secs={"check": 1e6}))


def cancel(engine: Engine) -> ActionRecord:
    stack = engine.create(template(a=thing(action_wait_secs={"check": 1e6})))
    with engine.clock.held():
        engine.stacks.check(MEMBER, stack)
        (action,) = engine.store.actions.live([stack.id])
        engine.begun(lambda: engine.states(stack) == {"a": "CHECK_IN_PROGRESS"})
        engine.components.controls.signal(MEMBER, action, Signal.CANCEL)
        engine.wait_for(lambda: not engine.store.actions.live([stack.id]) or engine.clock.pass_(60))
    return now(engine, action)


def again(engine: Engine) -> ActionRecord:
    stack, action, blocker = in_vain(engine)
    with engine.clock.held():
        engine.clock.pass_(30)
        engine.wait_for(lambda: now(engine, action).retries == 1)
        found = now(engine, action)
        release(engine, blocker)
    engine.settle(stack)
    return found


def checked(engine: Engine, part: Any, before: Callable[[StackRecord], None] = lambda _: None) -> ActionRecord:
    stack = engine.create(template(a=part))
    before(stack)
    context = replace(MEMBER, queued=[])
    engine.stacks.check(context, stack)
    engine.settle(stack)
    action = engine.store.actions.get(context.queued[0])
    assert action is not None
    return action


EXECUTIONS: dict[Result, Callable[[Engine], ActionRecord]] = {
    Result.OK: ok,
    Result.ERROR: error,
    Result.TIMEOUT: timeout,
    Result.CANCEL: cancel,
    Result.RETRY: again,
}


@pytest.mark.parametrize("result", few(list(Result)))
def test_every_result_comes_from_an_execution_and_makes_its_status(engine: Engine, result: Result) -> None:
    assert STATUS_AFTER.keys() == set(Result)
    action = EXECUTIONS[result](engine)
    assert action.status is STATUS_AFTER[result]
    assert action.outputs.result == (None if result is Result.RETRY else result)
