"""A takeover continues the attempt; it does not retry as a user would."""

import pytest

from heatlite.core.actions.payloads import ActionData
from heatlite.core.status import ActionStatus, Status, state
from heatlite.store.records import StackRecord
from tests.databases import claim_one
from tests.tables import few

from .conftest import START, Engine, resource, template, thing

pytestmark = pytest.mark.database

SLOW = {"wait_secs": 6}


def stack_state(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def restart(engine: Engine) -> None:
    """SIGTERM: what runs is given back, and the next process takes it up."""
    engine.close()
    engine.open()


def failed(engine: Engine, stack: StackRecord, name: str) -> None:
    """Wait until a resource has failed and everything else waits for time to pass."""
    engine.begun(lambda: any(row.name == name and row.status is Status.FAILED for row in engine.rows(stack)))


def disk(value: str) -> dict[str, object]:
    """An object with a fixed size; a failed change would replace it."""
    return resource("Test::Odd", value=value, raise_in="handle_update")  # type: ignore[no-any-return]


@pytest.mark.parametrize("restarts", few([1, 3]))
def test_what_a_create_has_failed_to_make_is_not_made_again(engine: Engine, restarts: int) -> None:
    with engine.clock.held():
        stack = engine.create(template(boom=thing(fail=True), slow=thing(**SLOW)), wait=False)
        failed(engine, stack, "boom")
        for _ in range(restarts):
            restart(engine)
    stack = engine.settle(stack)
    assert stack_state(stack) == "CREATE_FAILED"
    assert stack.status_reason == "Resource CREATE failed: ValueError: resources.boom: Test Resource failed boom"
    assert engine.states(stack) == {"boom": "CREATE_FAILED", "slow": "CREATE_COMPLETE"}
    told = engine.told(stack)
    assert len(told) == len(set(told))
    assert len(engine.rows(stack)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("rollback", few([False, True]))
def test_what_an_update_was_refused_at_is_not_replaced(engine: Engine, rollback: bool) -> None:
    stack = engine.create(template(disk=disk("small")))
    before = engine.row(stack, "disk").id
    with engine.clock.held():
        engine.put(stack, template(disk=disk("large"), slow=thing(**SLOW)), wait=False, disable_rollback=True)
        failed(engine, stack, "disk")
        restart(engine)
    stack = engine.settle(stack)
    assert stack_state(stack) == "UPDATE_FAILED"
    assert engine.states(stack) == {"disk": "UPDATE_FAILED", "slow": "CREATE_COMPLETE"}
    assert engine.row(stack, "disk").id == before
    # A retry by the user replaces it, also where it is interrupted.
    with engine.clock.held():
        engine.put(stack, template(disk=disk("large"), other=thing(**SLOW)), wait=False, disable_rollback=not rollback)
        engine.begun(lambda: "other" in engine.states(stack) and engine.states(stack)["other"] == "CREATE_IN_PROGRESS")
        restart(engine)
    stack = engine.settle(stack)
    assert stack_state(stack) == "UPDATE_COMPLETE"
    assert engine.row(stack, "disk").id != before


def test_the_time_for_what_is_under_way_goes_on(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(template(boom=thing(fail=True), slow=thing(wait_secs=1000)), wait=False)
        failed(engine, stack, "boom")
        engine.clock.pass_(200)
        restart(engine)
        engine.begun(lambda: engine.get(stack).status is Status.IN_PROGRESS)
        assert engine.states(stack)["slow"] == "CREATE_IN_PROGRESS"
    stack = engine.settle(stack)
    assert engine.row(stack, "slow").status_reason == "CREATE aborted: another resource failed"
    assert engine.clock.now() < START + 245


@pytest.mark.slow
def test_a_cancel_lets_end_what_another_process_has_begun(engine: Engine) -> None:
    stack = engine.create(template(slow=thing("one"), a=thing()))
    new = thing(**SLOW)
    changed = template(slow=thing("two", **SLOW), a=thing(), new=new, then=thing(depends_on="slow"))
    with engine.clock.held():
        engine.put(stack, changed, wait=False)
        engine.begun(lambda: engine.states(stack).get("slow") == "UPDATE_IN_PROGRESS")
        engine.cancel(stack, rollback=False, wait=False)
        restart(engine)
    stack = engine.settle(stack)
    assert (stack_state(stack), stack.status_reason) == ("UPDATE_FAILED", "Stack UPDATE cancelled")
    assert engine.states(stack) == {
        "slow": "UPDATE_COMPLETE", "a": "CREATE_COMPLETE", "new": "CREATE_FAILED", "then": "INIT_COMPLETE",
    }  # fmt: skip


@pytest.mark.slow
def test_a_clean_up_that_another_process_goes_on_with_is_not_undone(engine: Engine) -> None:
    """All objects are made: a clean-up without time left causes no rollback."""
    old = thing(**SLOW)
    stack = engine.create(template(old=old, a=thing("one")))
    with engine.clock.held():
        engine.put(stack, template(a=thing("two")), wait=False, disable_rollback=False, timeout_mins=1)
        engine.begun(lambda: engine.states(stack)["old"] == "DELETE_IN_PROGRESS")
        engine.close()
        engine.clock.pass_(120)
        engine.open()
    stack = engine.settle(stack)
    assert (stack_state(stack), stack.status_reason.partition(": ")[0]) == (
        "UPDATE_FAILED", "Timed out. Not rolled back",
    )  # fmt: skip
    assert engine.value(stack, "a") == "two"


def test_nothing_is_told_of_the_stopping_once_the_action_has_ended(engine: Engine) -> None:
    stack = engine.create(template(boom=thing(fail=True), slow=thing(**SLOW)))
    (action_id,) = [row[0] for row in engine.store.database.read("SELECT id FROM action")]
    action = engine.store.actions.get(action_id)
    assert action is not None
    assert action.data == ActionData()
    assert stack_state(stack) == "CREATE_FAILED"


@pytest.mark.slow
def test_a_check_keeps_what_it_has_found_so_far(engine: Engine) -> None:
    """One healthy, one unreachable, one without check; another takes its time."""
    found = {"well": thing(), "plain": resource("Test::Robust")}
    hidden = resource("Test::Odd", raise_in="handle_check")
    stack = engine.create(template(**found, hidden=hidden, slow=thing(action_wait_secs={"check": 60})))
    since = engine.now_on(stack)
    with engine.clock.held():
        engine.stacks.check(engine.who, engine.get(stack))
        engine.begun(lambda: "hidden CHECK_FAILED" in engine.told(stack, since))
        for _ in range(2):
            restart(engine)
            engine.begun(lambda: engine.states(stack)["slow"] == "CHECK_IN_PROGRESS")
    stack = engine.settle(stack)
    told = engine.told(stack, since)
    assert sorted(told) == sorted(set(told))
    assert "1 could not be looked at" in stack.status_reason
    ((action_id,),) = engine.store.database.read("SELECT id FROM action WHERE verb = 'CHECK'")
    action = engine.store.actions.get(action_id)
    assert action is not None
    assert action.data.checked is None
    checked = action.outputs.checked
    assert checked is not None
    assert (checked.healthy, checked.unhealthy, checked.unknown, checked.unsupported) == (2, 0, 1, 1)


def suspect(engine: Engine, name: str, takeovers: int) -> str:
    """Queue an action that was taken over without progress; return its id.

    No engine runs.
    """
    stack = engine.create(template(a=thing(wait_secs=50)), name, wait=False)
    (queued,) = engine.store.actions.live([stack.id])
    claimed = claim_one(engine.store, "an engine that has stopped", engine.clock.now(), 60, queued.id)
    assert claimed is not None
    engine.store.claims.set_takeovers(claimed, takeovers)
    with engine.store.transaction():
        engine.store.claims.release("an engine that has stopped", engine.clock.now(), "")
    return claimed.id


def status(engine: Engine, action_id: str) -> ActionStatus:
    action = engine.store.actions.get(action_id)
    assert action is not None
    return action.status


def take(engine: Engine, action_id: str) -> None:
    """Have the worker claim and run an action in this thread."""
    engine.server.worker._hints.acquire()
    engine.server.worker._take(action_id)


@pytest.mark.slow
def test_a_suspect_waits_for_an_engine_that_has_lived_for_its_pause(engine: Engine) -> None:
    """Engines that are killed every few seconds count no further takeover."""
    engine.close()
    action_id = suspect(engine, "s", 4)
    with engine.clock.held():
        for _ in range(2):
            engine.open()
            engine.clock.pass_(3.9)
            take(engine, action_id)
            assert status(engine, action_id) is ActionStatus.READY
            engine.close()
        engine.open()
        engine.clock.pass_(4)
        take(engine, action_id)
        assert status(engine, action_id) is ActionStatus.RUNNING


def test_an_engine_takes_suspects_one_after_the_other(engine: Engine) -> None:
    engine.close()
    actions = [suspect(engine, f"s{number}", 1) for number in range(2)]
    with engine.clock.held():
        engine.open()
        engine.begun(lambda: ActionStatus.RUNNING in [status(engine, one) for one in actions])
        (waiting,) = [one for one in actions if status(engine, one) is ActionStatus.READY]
        engine.clock.pass_(1.9)
        take(engine, waiting)
        assert status(engine, waiting) is ActionStatus.READY
        engine.clock.pass_(0.1)
        take(engine, waiting)
        assert status(engine, waiting) is ActionStatus.RUNNING
