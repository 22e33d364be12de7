"""Guards of restores, which are updates: laws C1, C2, C4 and C7."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.actions.payloads import BakeEnd
from heatlite.core.errors import HTTPBadRequest, NotSupported
from heatlite.core.status import ActionStatus, Verb
from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.store import ChangePolicyStore
from heatlite.features.guards.errors import GuardFiring
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import Engine, thing
from tests.engine.test_snapshots import take
from tests.features.guards.engine.test_alerts import CRITICAL, SHOP, alert, guard, rollbacks, send
from tests.features.guards.engine.test_bakes import AFTER, BAKE, BEFORE, deep, final, objects, rolling

pytestmark = pytest.mark.database
FLAT: dict[str, Any] = {"template": BEFORE}
SLOW: dict[str, Any] = {"template": {**BEFORE, "resources": {**BEFORE["resources"], "slow": thing("x", wait_secs=5)}}}
ALERTS = guard(alerts=[CRITICAL])


@pytest.fixture
def engine(engine: Engine) -> Engine:
    """An engine whose process takes reports."""
    engine.front.make_app()
    return engine


def snapshot_of(engine: Engine, first: dict[str, Any], second: dict[str, Any]) -> tuple[StackRecord, str]:
    """Return a stack with its second definition, and a snapshot of the first."""
    stack = engine.create(first["template"], files=first.get("files", {}), disable_rollback=True)
    taken = take(engine, stack)
    stack = engine.put(stack, second["template"], files=second.get("files", {}), disable_rollback=True)
    assert final(stack) == "UPDATE_COMPLETE"
    return stack, taken.id


def restore(engine: Engine, stack: StackRecord, snapshot: str, further: Any = ALERTS) -> None:
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot, further)


def action_of(engine: Engine, stack: StackRecord) -> ActionRecord:
    live = engine.store.actions.live([stack.id])
    found = live[0] if live else engine.store.actions.last(stack.id, Verb.RESTORE)
    assert found is not None
    return found


def bakes(engine: Engine, stack: StackRecord) -> None:
    def is_baking() -> bool:
        action = action_of(engine, stack)
        return action.status is ActionStatus.WAITING and action.is_baking

    engine.wait_for(is_baking)


def pass_time(engine: Engine, stack: StackRecord) -> None:
    send(engine, alert("resolved", **SHOP))  # so that a source is heard
    engine.clock.pass_(BAKE)


def ring(engine: Engine, stack: StackRecord) -> None:
    send(engine, alert(**SHOP))
    send(engine, alert(**SHOP, key="again"))


def cancel(engine: Engine, stack: StackRecord) -> None:
    engine.stacks.cancel(engine.who, engine.get(stack), rollback=True)


def end(engine: Engine, stack: StackRecord) -> None:
    engine.components.controls.end_bake(engine.who, engine.get(stack), "looks well")


ENDS: dict[str, tuple[Callable[[Engine, StackRecord], None], BakeEnd | None]] = {
    "passed": (pass_time, BakeEnd.PASSED),
    "fired": (ring, BakeEnd.FIRED),
    "cancelled": (cancel, None),
    "ended": (end, BakeEnd.ENDED),
}
TREES = {
    "flat": (FLAT, {"template": AFTER}),
    "deep": (deep("1"), deep("2")),
    "rolling": (rolling("1"), rolling("2")),
}


@pytest.mark.slow
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("course", ENDS)
def test_a_restore_bakes(engine: Engine, tree: str, course: str) -> None:
    """Old objects stay until the bake is over, also in nested stacks."""
    stack, snapshot = snapshot_of(engine, *TREES[tree])
    before, comes = objects(engine, stack), ENDS[course]
    goes_back = comes[1] in (BakeEnd.FIRED, None)
    with engine.clock.held():
        restore(engine, stack, snapshot)
        bakes(engine, stack)
        both, now = objects(engine, stack), engine.get(stack)
        assert all({*ids} <= {*both[name]} for name, ids in before.items())
        assert final(now) == "RESTORE_IN_PROGRESS" and now.status_reason.startswith("Baking until ")
        comes[0](engine, stack)
        stack = engine.settle(stack)
    assert final(stack) == ("ROLLBACK_COMPLETE" if goes_back else "RESTORE_COMPLETE")
    after, outputs = objects(engine, stack), action_of(engine, stack).outputs
    assert (after == before) == goes_back and all(len(ids) == 1 for ids in after.values())
    assert (None if outputs.guard is None else outputs.guard.result) == comes[1]
    assert rollbacks(engine, stack) == goes_back
    assert ("alertmanager reported Slow: p99 is 3 s" in stack.status_reason) == (course == "fired")


@pytest.mark.slow
def test_alert_in_the_changes(engine: Engine) -> None:
    stack, snapshot = snapshot_of(engine, SLOW, {"template": AFTER})
    before = objects(engine, stack)
    with engine.clock.held():
        restore(engine, stack, snapshot)
        engine.wait_for(lambda: "slow" in engine.states(stack))
        ring(engine, stack)
    stack = engine.settle(stack)
    assert (final(stack), objects(engine, stack)) == ("ROLLBACK_COMPLETE", before)
    assert "alertmanager reported" in stack.status_reason


@pytest.mark.slow
def test_alert_after_the_end(engine: Engine) -> None:
    """C6."""
    stack, snapshot = snapshot_of(engine, FLAT, {"template": AFTER})
    restore(engine, stack, snapshot, guard(bake=0, unknown="pass"))
    assert final(engine.settle(stack)) == "RESTORE_COMPLETE"
    ring(engine, stack)
    assert final(engine.settle(stack)) == "RESTORE_COMPLETE"


@pytest.mark.slow
def test_a_standing_alert_refuses_the_restore(engine: Engine) -> None:
    stack, snapshot = snapshot_of(engine, FLAT, {"template": AFTER})
    ring(engine, stack)
    with pytest.raises(GuardFiring):
        restore(engine, stack, snapshot)
    assert final(engine.get(stack)) == "UPDATE_COMPLETE" and not engine.store.actions.live([stack.id])
    send(engine, alert("resolved", **SHOP), alert("resolved", key="again", **SHOP))
    with engine.clock.held():
        restore(engine, stack, snapshot)
        bakes(engine, stack)
        end(engine, stack)
    assert final(engine.settle(stack)) == "RESTORE_COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"bake": -1}, {"bake": 1, "source": ["x"]}, True, {"bake": 1, "sources": ["no"]}])
def test_faults(engine: Engine, given: object) -> None:
    stack, snapshot = snapshot_of(engine, FLAT, {"template": AFTER})
    with pytest.raises(HTTPBadRequest):
        restore(engine, stack, snapshot, {"guard": given})
    assert not engine.store.actions.live([stack.id])


@pytest.mark.slow
def test_the_guard_of_a_policy(engine: Engine) -> None:
    """It guards restores that bring none."""
    stack, snapshot = snapshot_of(engine, FLAT, {"template": AFTER})
    document: Any = {"change_policy": "2026-11-28", "guard": {"bake": BAKE}}
    record = ChangePolicyRecord(stack.project, stack.id, document, 1, "ada", engine.clock.now())
    with engine.store.transaction():
        engine.store.of(ChangePolicyStore).put(record)
    with engine.clock.held():
        restore(engine, stack, snapshot, None)
        bakes(engine, stack)
        end(engine, stack)
    assert final(engine.settle(stack)) == "RESTORE_COMPLETE"


@pytest.mark.slow
def test_a_restore_without_a_guard_cannot_be_cancelled(engine: Engine) -> None:
    """Z1: as in Heat."""
    stack, snapshot = snapshot_of(engine, SLOW, {"template": AFTER})
    with engine.clock.held():
        restore(engine, stack, snapshot, None)
        engine.wait_for(lambda: "slow" in engine.states(stack))
        with pytest.raises(NotSupported):
            cancel(engine, stack)
    assert final(engine.settle(stack)) == "RESTORE_COMPLETE"
