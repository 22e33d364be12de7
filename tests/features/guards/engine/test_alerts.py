"""Alerts take updates back: laws C1 to C8."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.actions.payloads import BakeEnd
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.status import ActionStatus, Signal, Status, Verb
from heatlite.engine.operations.action_signals import ActionSignals
from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.store import ChangePolicyStore
from heatlite.features.guards.errors import GuardFiring
from heatlite.features.guards.guards import Guards
from heatlite.features.guards.store.store import GuardStore
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.store import HealingStore
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, Engine, template, thing
from tests.features.guards.engine.test_bakes import AFTER, BAKE, BEFORE, bakes, file, final, last, objects

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


def phase(engine: Engine, stack: StackRecord) -> Any:
    """The phase of the guard that the stack shows; None: it shows none."""
    shown: Any = engine.store.of(GuardStore).stack_facts([stack.id], [stack.id]).get(stack.id, {})
    return shown.get("guard", {}).get("phase")


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_alert_after_the_bake(engine: Engine) -> None:
    """C6: it changes nothing."""
    stack = engine.create(BEFORE)
    with baking(engine, stack, alerts=[CRITICAL], unknown="pass"):
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
        send(engine, alert(**SHOP))
    assert fired(engine, stack) is None
    assert final(engine.get(stack)) == "UPDATE_COMPLETE"


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_silence_where_healing_is_off(plugins: Path, place: Path) -> None:
    """C5: a request has to say that silence passes; else a bake is ended by hand."""
    engine = Engine(place, features=("change_policy", "guards"))
    stack = engine.create(BEFORE)
    for more in ({}, {"alerts": [CRITICAL], "unknown": "pass"}, {"sources": ["generic"], "unknown": "pass"}):
        with pytest.raises(HTTPBadRequest, match="the feature healing is off"):
            engine.put(stack, AFTER, further=guard(**more))
    with baking(engine, stack, unknown="pass"):
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None and outputs.guard.result is BakeEnd.UNKNOWN
    policy: Any = {"change_policy": "2026-11-28", "guard": {"bake": BAKE}}
    record = ChangePolicyRecord(engine.who.project, stack.id, policy, 1, "ada", engine.clock.now())
    with engine.store.transaction():
        engine.store.of(ChangePolicyStore).put(record)
    with engine.clock.held():
        engine.put(stack, BEFORE, wait=False)
        bakes(engine, stack)
        for _ in range(3):
            engine.clock.pass_(BAKE)
            bakes(engine, stack)
        assert len(objects(engine, stack)["/a"]) == 2
        engine.components.controls.end_bake(engine.who, stack, "")
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    engine.close()


@pytest.mark.slow
def test_a_bake_while_the_feature_is_off(engine: Engine) -> None:
    """It ends at its time, and does not say that a source was heard."""
    stack = engine.create(BEFORE)
    with baking(engine, stack):
        engine.end()
        engine.settings = replace(engine.settings, features=())
        engine.open()
        engine.clock.pass_(BAKE)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None and outputs.guard.result is BakeEnd.UNKNOWN


BLIND: dict[str, Any] = {"reports": [{"key": "b", "status": "unknown", "stack": "s", "resource": "a"}]}
BROKEN: dict[str, Any] = {"reports": [{"key": "b"}]}


@pytest.mark.slow
@pytest.mark.parametrize("body", [BLIND, BROKEN])
def test_who_is_not_heard(engine: Engine, body: Any) -> None:
    """C5: a source that cannot see, or that says nothing."""
    stack = engine.create(BEFORE)
    with baking(engine, stack, sources=["generic", "alertmanager"]):
        send(engine, alert("resolved"))
        engine.components.of(Healing).intake.take(MEMBER, "generic", body)
        for _ in range(2):
            engine.clock.pass_(BAKE)
            bakes(engine, stack)
        well: Any = {"reports": [{"key": "b", "status": "healthy"}]}
        engine.components.of(Healing).intake.take(MEMBER, "generic", well)
        engine.clock.pass_(60)
        assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    outputs = last(engine, stack).outputs
    assert outputs.guard is not None and outputs.guard.result is BakeEnd.PASSED


@pytest.mark.slow
def test_what_was_heard_before_the_bake(engine: Engine) -> None:
    """C5: a report during the changes says nothing about their result."""
    stack = engine.create(BEFORE)
    slow = {**AFTER, "resources": {**AFTER["resources"], "slow": thing("x", wait_secs=500)}}
    with engine.clock.held():
        engine.put(stack, slow, wait=False, further=guard())
        # Its time counts from then on.
        engine.wait_for(lambda: any(row.name == "slow" and "until" in str(row.token) for row in engine.rows(stack)))
        with engine.heard():
            send(engine, alert("resolved"))
        engine.clock.pass_(500)
        bakes(engine, stack)
        engine.clock.pass_(BAKE)
        bakes(engine, stack)
        shown = engine.components.of(Guards).shown([last(engine, stack).id])
        assert shown[last(engine, stack).id]["heard"] == []
        engine.stacks.cancel(engine.who, engine.get(stack), rollback=True)
    engine.settle(stack)


def incidents(engine: Engine) -> list[tuple[str, str, str | None]]:
    """Path, state, and reason or end of each incident."""
    found = engine.store.of(HealingStore).incidents.page("demo", IncidentQuery())
    return [(one.path, one.state.value, str(one.closed_as or one.reason)) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize("goes_back", [True, False])
def test_incidents_of_the_tree(engine: Engine, goes_back: bool) -> None:
    """C8: they wait, busy; of an object that a rollback has replaced they close."""
    policy: Any = {"healing_policy": "2026-11-22", "mode": "auto", "grace": 0, "confirm": {"hold": 0}}
    stack = engine.create(BEFORE)
    healing = engine.components.of(Healing)
    healing.operations.put_policy(engine.who, engine.get(stack), policy)
    with baking(engine, stack, unknown="pass", alerts=[CRITICAL]):
        send(engine, alert(key="a", heatlite_stack="s", heatlite_resource="a"))
        for _ in range(3):
            engine.clock.pass_(60)
            healing.loop.sweep()
        ((path, state, reason),) = incidents(engine)
        assert (path, reason) == ("a", "busy") and state in ("OBSERVED", "CONFIRMED")
        assert not engine.get(stack).status_reason.startswith("Stack UPDATE")
        if goes_back:
            send(engine, alert(**SHOP))
        else:
            engine.clock.pass_(BAKE)
        engine.settle(stack)
        healing.loop.sweep()
        ((path, state, reason),) = incidents(engine)
        assert (state == "CLOSED" and reason == "replaced_by_update") is goes_back


@pytest.mark.slow
def test_suspended_and_fired(engine: Engine) -> None:
    """C1: in each phase; a suspended update goes back when it is fired at."""
    stack = engine.create(BEFORE)
    before = objects(engine, stack)
    with baking(engine, stack, alerts=[CRITICAL]):
        signals = ActionSignals(engine.store, engine.clock)
        signals.signal(engine.who, last(engine, stack), Signal.SUSPEND)
        engine.wait_for(lambda: last(engine, stack).status is ActionStatus.SUSPENDED)
        send(engine, alert(**SHOP))
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before


@pytest.mark.slow
def test_the_deadline_rolls_a_silent_bake_back(engine: Engine) -> None:
    """C5, acceptance 8: whatever the stack says of rollbacks."""
    stack = engine.create(BEFORE, disable_rollback=True, timeout_mins=30)
    before = objects(engine, stack)
    with baking(engine, stack):
        engine.clock.pass_(BAKE + 4000)
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before


@pytest.mark.slow
def test_fired_once(engine: Engine) -> None:
    """C7: a second alert and a cancel start no second rollback."""
    stack = engine.create(BEFORE)
    with baking(engine, stack, alerts=[CRITICAL]):
        send(engine, alert(**SHOP), alert(key="k2", **SHOP))
        send(engine, alert(key="k3", **SHOP))
        assert fired(engine, stack)["key"] == "k"
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert rollbacks(engine, stack) == 1


def slow_to_go(value: str) -> object:
    """Another value needs another object, whose deletion takes a while."""
    return thing(value, update_replace=True, action_wait_secs={"delete": 300})


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_alert_in_a_rollback(engine: Engine, fails: bool) -> None:
    """C7: one that something else has begun goes on, and is not the guard's."""
    stack = engine.create(template(a=slow_to_go("1")))
    before = objects(engine, stack)
    after = {"a": slow_to_go("2"), **({"bad": thing("x", fail=True)} if fails else {})}
    with engine.clock.held():
        engine.put(stack, template(**after), wait=False, disable_rollback=False, further=guard(alerts=[CRITICAL]))
        if not fails:
            bakes(engine, stack)
            engine.stacks.cancel(engine.who, engine.get(stack), rollback=True)
        engine.wait_for(lambda: engine.get(stack).verb is Verb.ROLLBACK)
        with engine.heard():
            send(engine, alert(**SHOP))
        assert phase(engine, stack) == "rollback"
    assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before
    assert fired(engine, stack) is None and last(engine, stack).outputs.guard is None
    assert rollbacks(engine, stack) == 1


@pytest.mark.slow
def test_alert_in_the_clean_up(engine: Engine) -> None:
    """C6: the bake is over, so that nothing more is made."""
    stack = engine.create(template(a=slow_to_go("1"), b=file("1")))
    with engine.clock.held():
        after = template(a=slow_to_go("2"), b=file("2"))
        engine.put(stack, after, wait=False, further=guard(alerts=[CRITICAL], unknown="pass"))
        bakes(engine, stack)
        made = [one.id for one in engine.rows(stack)]
        engine.clock.pass_(BAKE)
        engine.wait_for(lambda: any(one.verb is Verb.DELETE for one in engine.rows(stack)))
        with engine.heard():
            send(engine, alert(**SHOP))
        assert fired(engine, stack) is None and phase(engine, stack) is None
    assert final(engine.settle(stack)) == "UPDATE_COMPLETE"
    assert {one.id for one in engine.rows(stack)} < {*made}
    assert rollbacks(engine, stack) == 0


@pytest.mark.slow
def test_a_retry_has_the_guard_of_its_update(engine: Engine) -> None:
    """Nobody gets round a guard by a cancel and a retry."""
    stack = engine.create(BEFORE)
    before = objects(engine, stack)
    with baking(engine, stack, alerts=[CRITICAL]):
        engine.stacks.cancel(engine.who, engine.get(stack), rollback=False)
        assert final(engine.settle(stack)) == "UPDATE_FAILED"
        assert phase(engine, stack) is None
        engine.stacks.retry(engine.who, engine.get(stack))
        bakes(engine, stack)
        send(engine, alert(**SHOP))
        assert final(engine.settle(stack)) == "ROLLBACK_COMPLETE"
    assert objects(engine, stack) == before


@pytest.mark.slow
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
