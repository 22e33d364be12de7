"""Alerts take updates back: laws C1 to C8."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from heatlite.core.actions.payloads import BakeEnd
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.features.guards.errors import GuardFiring
from heatlite.features.guards.guards import Guards
from heatlite.features.healing.parts import Healing
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, Engine, template, thing
from tests.features.guards.engine.test_bakes import AFTER, BAKE, BEFORE, bakes, final, last, objects

pytestmark = pytest.mark.database
CRITICAL = {"labels.severity": ["critical"], "labels.service": ["shop"]}


def guard(**more: object) -> dict[str, Any]:
    return {"guard": {"bake": BAKE, **more}}


def alert(status: str = "firing", key: str = "k", **labels: str) -> dict[str, Any]:
    return {
        "status": status, "labels": {"alertname": "Slow", **labels}, "startsAt": "2026-11-02T12:00:00Z",
        "fingerprint": key, "annotations": {"summary": "p99 is 3 s"},
    }  # fmt: skip


SHOP = {"severity": "critical", "service": "shop"}


def send(engine: Engine, *alerts: dict[str, Any], source: str = "alertmanager") -> None:
    body: Any = {"version": "4", "alerts": [*alerts]}
    engine.components.of(Healing).intake.take(MEMBER, source, body)


def fired(engine: Engine, stack: StackRecord) -> Any:
    action = last(engine, stack)
    return engine.components.of(Guards).shown([action.id])[action.id]["fired"]


def rollbacks(engine: Engine, stack: StackRecord) -> int:
    return sum((one.verb, one.status) == (Verb.ROLLBACK, Status.IN_PROGRESS) for one in engine.events(stack))


@pytest.fixture
def engine(engine: Engine) -> Engine:
    """An engine whose process takes reports."""
    engine.front.make_app()
    return engine


@contextmanager
def baking(engine: Engine, stack: StackRecord, **more: object) -> Iterator[None]:
    """Inside, an update with a guard bakes and time is held."""
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=guard(**more))
        bakes(engine, stack)
        yield


@pytest.mark.parametrize(
    ("given", "goes_back"),
    [
        (alert(**SHOP), True),
        (alert(severity="critical", service="else"), False),
        (alert("resolved", **SHOP), False),
        (alert(severity="critical", service="shop", heatlite_stack="no", heatlite_resource="such"), True),
    ],
)
def test_alert_in_the_bake(engine: Engine, given: dict[str, Any], goes_back: bool) -> None:
    """C1, C2, C3: a matching alert alone counts, mapped or not."""
    stack = engine.create(BEFORE, disable_rollback=True)
    before = objects(engine, stack)
    with baking(engine, stack, alerts=[CRITICAL]):
        send(engine, given)
        if goes_back:
            found = fired(engine, stack)
            assert (found["source"], found["key"], found["summary"]) == ("alertmanager", "k", "Slow: p99 is 3 s")
            assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
        else:
            assert fired(engine, stack) is None and last(engine, stack).control is None
            engine.clock.pass_(BAKE)
            assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None
    assert outputs.guard.result is (BakeEnd.FIRED if goes_back else BakeEnd.PASSED)
    if goes_back:
        assert "alertmanager reported Slow: p99 is 3 s" in engine.get(stack).status_reason
        assert objects(engine, stack) == before
        assert rollbacks(engine, stack) == 1


def test_alert_in_the_changes(engine: Engine) -> None:
    """C1: before all changes are made, too."""
    stack = engine.create(BEFORE)
    before = objects(engine, stack)
    slow = {**AFTER, "resources": {**AFTER["resources"], "slow": thing("x", wait_secs=500)}}
    with engine.clock.held():
        engine.put(stack, slow, wait=False, further=guard(alerts=[CRITICAL]))
        engine.wait_for(lambda: "slow" in engine.states(stack))
        with engine.heard():
            send(engine, alert(**SHOP))
    assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before


def test_alert_after_the_bake(engine: Engine) -> None:
    """C6: it changes nothing."""
    stack = engine.create(BEFORE)
    with baking(engine, stack, alerts=[CRITICAL], unknown="pass"):
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
        send(engine, alert(**SHOP))
    assert fired(engine, stack) is None
    assert final(engine.get(stack)) == "UPDATE_COMPLETE"


def test_without_alerts_the_tree_counts(engine: Engine) -> None:
    """Each report whose target lies in the tree takes the update back, and no other."""
    stack = engine.create(BEFORE)
    engine.create(template(a=thing("x")), name="other")
    with baking(engine, stack):
        send(engine, alert(key="o", heatlite_stack="other", heatlite_resource="a"), alert(key="u"))
        assert fired(engine, stack) is None
        send(engine, alert(key="mine", heatlite_stack="s", heatlite_resource="g/0"))
        assert fired(engine, stack)["key"] == "mine"
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"


def test_a_standing_alert_refuses_the_update(engine: Engine) -> None:
    """C4: until it is resolved, or for a guard that does not look for it."""
    stack = engine.create(BEFORE)
    send(engine, alert(**SHOP))
    with pytest.raises(GuardFiring):
        engine.put(stack, AFTER, further=guard(alerts=[CRITICAL]))
    assert final(engine.get(stack)) == "CREATE_COMPLETE"
    with engine.clock.held():
        engine.put(stack, AFTER, wait=False, further=guard(bake=0, alerts=[{"labels.x": ["y"]}], unknown="pass"))
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
        send(engine, alert("resolved", **SHOP))
        engine.put(stack, BEFORE, wait=False, further=guard(bake=0, alerts=[CRITICAL], unknown="pass"))
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"


def test_silence_is_not_health(engine: Engine) -> None:
    """C5: it bakes on until a source is heard, after the end of the changes."""
    stack = engine.create(BEFORE)
    send(engine, alert("resolved"))
    with baking(engine, stack):
        for _ in range(3):
            engine.clock.pass_(BAKE)
            engine.wait_for(lambda: last(engine, stack).status is ActionStatus.WAITING)
        assert len(objects(engine, stack)["/a"]) == 2
        send(engine, alert("resolved"))
        engine.clock.pass_(60)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None and outputs.guard.result is BakeEnd.PASSED


def test_the_deadline_rolls_a_silent_bake_back(engine: Engine) -> None:
    """C5, acceptance 8: whatever the stack says of rollbacks."""
    stack = engine.create(BEFORE, disable_rollback=True, timeout_mins=30)
    before = objects(engine, stack)
    with baking(engine, stack):
        engine.clock.pass_(BAKE + 4000)
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before


def test_fired_once(engine: Engine) -> None:
    """C7: a second alert and a cancel start no second rollback."""
    stack = engine.create(BEFORE)
    with baking(engine, stack, alerts=[CRITICAL]):
        send(engine, alert(**SHOP), alert(key="k2", **SHOP))
        send(engine, alert(key="k3", **SHOP))
        assert fired(engine, stack)["key"] == "k"
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert rollbacks(engine, stack) == 1


def test_named_sources(engine: Engine) -> None:
    """Reports of others neither count nor are heard."""
    stack = engine.create(BEFORE)
    with baking(engine, stack, alerts=[CRITICAL], sources=["generic"]):
        send(engine, alert(**SHOP))
        assert fired(engine, stack) is None
        report: Any = {"reports": [{"key": "g", "status": "unhealthy", "labels": SHOP}]}
        engine.components.of(Healing).intake.take(MEMBER, "generic", report)
        assert fired(engine, stack)["source"] == "generic"
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
