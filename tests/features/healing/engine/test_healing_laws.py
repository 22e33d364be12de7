"""Laws of the healing loop on whole engines: brakes, locks and windows.

Silence and releases begin nothing.
"""

import json
import threading
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from heatlite.core.errors import ActionConflict, ResourceIsLocked
from heatlite.core.ids import random_id
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import Status, Verb
from heatlite.engine.state.group_requests import ScaleIn
from heatlite.features.healing.loop.sweep import HealingLoop
from heatlite.features.healing.parts import Healing as Parts
from heatlite.features.healing.store.records import HealingScopeRecord, ObservationRecord
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState, Word
from tests.engine.conftest import MEMBER, START, Engine, attr, template, thing
from tests.engine.test_groups import group, nested, scaling
from tests.features.healing.engine.test_healing import AUTO, Healing
from tests.tables import few, sampled

OBSERVED, CONFIRMED, MARKED, PROPOSED, REPAIRING, SETTLING, CLOSED = IncidentState
DAY = 86_400.0
LONG = 2 * 3600.0
"""Longer than each time of the policy; test_brake_laws.py has a whole day."""
Release = Callable[[], None]


@pytest.fixture
def healing(engine: Engine) -> Iterator[Healing]:
    """Three members in a group, past their grace time; alerts do not expire."""
    stack = engine.create(template(g=group(3, thing()), other=thing()))
    with engine.clock.held():
        subject = Healing(engine, stack)
        subject.ttl = 10_000_000
        subject.pass_(700)
        yield subject


# -- brakes, and their release -------------------------------------------------------------------------


def by_policy(**fields: object) -> Callable[[Healing], Release]:
    """Return the set-up of a policy that holds; its release is one that does not."""

    def hold(healing: Healing) -> Release:
        healing.policy(**{**AUTO, **fields})
        return lambda: healing.policy(**AUTO)

    return hold


def blind(healing: Healing) -> Release:
    healing.policy(**AUTO)
    now = healing.now
    seen = ObservationRecord(random_id(), "demo", "alertmanager", "NoData", now, now, now, word=Word.BLIND)
    with healing.store.transaction():
        healing.rows.observations.insert_many([seen])

    def release() -> None:
        with healing.store.transaction():
            healing.rows.observations.save_many([replace(seen, is_open=False, ended_at=healing.now)])

    return release


def failed_stack(healing: Healing) -> Release:
    healing.policy(**AUTO)
    healing.engine.put_stack(healing.stack, Verb.UPDATE, Status.FAILED)
    return lambda: (healing.engine.put_stack(healing.stack, Verb.UPDATE, Status.COMPLETE), None)[1]


def suspended_scope(healing: Healing) -> Release:
    healing.policy(**AUTO)

    def save(is_suspended: bool) -> None:
        with healing.store.transaction():
            healing.rows.scopes.save(HealingScopeRecord(healing.stack.id, "g", is_suspended=is_suspended))

    save(True)
    return lambda: save(False)


STOPS: dict[Brake, Callable[[Healing], Release]] = {
    Brake.MODE_OFF: by_policy(mode="off"),
    Brake.SOURCE_NOT_LISTED: by_policy(sources=["grafana"]),
    Brake.STACK_FAILED: failed_stack,
    Brake.SOURCE_BLIND: blind,
    Brake.SCOPE_SUSPENDED: suspended_scope,
    Brake.NO_STEP: by_policy(ladder=[{"step": "rebuild"}]),
}
PACES: dict[Brake, Callable[[Healing], Release]] = {
    Brake.BELOW_MIN: by_policy(min_unhealthy=2),
    Brake.RATE: by_policy(max_repairs={"count": 0, "per": 3600}),
}


@pytest.mark.slow
@pytest.mark.parametrize("brake", [*STOPS, *PACES])
def test_a_brake_holds_and_its_release_begins_nothing(healing: Healing, brake: Brake) -> None:
    release = {**STOPS, **PACES}[brake](healing)
    before, incident = healing.ids(), healing.fire("g/2")
    healing.pass_(300)
    assert healing.told(incident) == ("CONFIRMED" if brake is Brake.SOURCE_BLIND else "MARKED", brake)
    release()
    if brake in STOPS:
        healing.pass_(LONG)
        assert (healing.ids(), healing.updates()) == (before, 0)
        healing.fire("g/2")
    healing.pass_(300)
    assert healing.told(incident)[0] == "SETTLING"


@pytest.mark.slow
def test_a_repair_that_a_person_cancels_is_not_begun_again(engine: Engine) -> None:
    """Not before the alert has resolved once."""
    stack = engine.create(template(a=thing(action_wait_secs={"create": 60}), b=thing()))
    with engine.clock.held():
        healing = Healing(engine, stack)
        healing.pass_(700)
        healing.policy(**AUTO)
        incident = healing.fire("a")
        while healing.told(incident)[0] != "REPAIRING":
            engine.clock.pass_(30)
            healing.loop.sweep()
        engine.begun(lambda: len(engine.rows(stack)) == 3)
        for operation in (engine.lock, engine.suspend):
            with pytest.raises((ResourceIsLocked, ActionConflict)):
                operation(stack, wait=False)
        engine.cancel(stack, rollback=False, wait=False)
        healing.sweep(1)  # the cancelled creation ends before its time has passed
        healing.pass_(300)
        assert healing.told(incident) == ("MARKED", "cancelled")
        healing.fire("a")
        healing.pass_(7200)
        assert (healing.told(incident), healing.updates()) == (("MARKED", "cancelled"), 1)


# -- locks and suspensions -----------------------------------------------------------------------------


def reached(healing: Healing, state: IncidentState) -> tuple[str, Release]:
    """Lead an incident to a state.

    Returns it, and the release of the brake that keeps it there.
    """
    release: Release = lambda: None  # noqa: E731
    if state is CONFIRMED:
        release = blind(healing)
    elif state in (PROPOSED, SETTLING):
        healing.policy(**{**AUTO, "mode": "propose" if state is PROPOSED else "auto"})
    incident = healing.fire("g/2")
    healing.pass_(30 if state is OBSERVED else 90)
    assert healing.incident(incident).state is state
    return incident, release


def calls(healing: Healing, since: int) -> list[str]:
    """Return the starts of work on members, except of locks and suspensions.

    Each call of a handler follows one.
    """
    kinds = ("LOCK", "UNLOCK", "SUSPEND", "RESUME")
    begun = [line for line in healing.engine.told(healing.group, since) if line.endswith("IN_PROGRESS")]
    return [line for line in begun if not line.split()[1].startswith(kinds)]


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["lock", "suspend"])
@pytest.mark.parametrize("state", sampled([OBSERVED, CONFIRMED, MARKED, PROPOSED], 2, pytest.mark.thorough))
def test_after_a_lock_nothing_is_done_before_a_new_report(
    healing: Healing, state: IncidentState, operation: str
) -> None:
    incident, release = reached(healing, state)
    engine, stack, before = healing.engine, healing.stack, healing.ids()
    since = engine.now_on(healing.group)
    engine.lock(stack) if operation == "lock" else engine.suspend(stack)
    release()
    healing.policy(**AUTO)
    healing.pass_(120)
    engine.unlock(stack) if operation == "lock" else engine.resume(stack)
    healing.pass_(LONG)
    assert (calls(healing, since), healing.ids(), healing.updates()) == ([], before, 0)
    if state in (MARKED, PROPOSED):
        assert healing.states()["2"] == "CHECK_FAILED"
    healing.fire("g/2")
    healing.pass_(30)
    assert (calls(healing, since), healing.updates()) == ([], 0)
    if engine.get(stack).status is Status.FAILED:  # what is marked cannot be suspended, as in Heat
        assert (operation, healing.told(incident)[1]) == ("suspend", "stack_suspended")
        return
    healing.pass_(300)
    assert healing.told(incident)[0] == "SETTLING"
    assert healing.updates() == 1


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["lock", "suspend"])
def test_what_settles_goes_on_under_a_lock(healing: Healing, operation: str) -> None:
    incident, _ = reached(healing, SETTLING)
    engine, stack, before, since = healing.engine, healing.stack, healing.ids(), healing.engine.now_on(healing.group)
    engine.lock(stack) if operation == "lock" else engine.suspend(stack)
    healing.pass_(1200)
    assert healing.told(incident) == ("CLOSED", "quiet")
    engine.unlock(stack) if operation == "lock" else engine.resume(stack)
    healing.pass_(LONG)
    assert (calls(healing, since), healing.ids(), healing.updates()) == ([], before, 1)


# -- windows -------------------------------------------------------------------------------------------

OPENING = START - START % DAY + DAY + 7200


def waits_for_window(healing: Healing, duration: int = 3600) -> str:
    """Return an incident that waits for the opening, a minute before it."""
    healing.policy(**AUTO, windows=[{"cron": "0 2 * * *", "duration": duration}])
    incident = healing.fire("g/2")
    healing.pass_(OPENING - healing.now - 60)
    assert healing.told(incident) == ("MARKED", "window_closed")
    assert healing.incident(incident).due == OPENING
    return incident


def restart(healing: Healing) -> None:
    healing.engine.close()
    healing.engine.open()
    healing.store, healing.loop = healing.engine.store, healing.engine.components.of(Parts).loop


@pytest.mark.slow
def test_a_window_opens_once_though_all_processes_restart_in_it(healing: Healing) -> None:
    incident = waits_for_window(healing)
    healing.engine.clock.pass_(61)
    restart(healing)
    healing.sweep(2)
    restart(healing)
    healing.pass_(2 * 3600)
    assert (healing.told(incident), healing.updates()) == (("CLOSED", "quiet"), 1)


@pytest.mark.slow
def test_a_window_opens_once_for_two_engines(healing: Healing) -> None:
    incident = waits_for_window(healing)
    engine = healing.engine
    other = HealingLoop(healing.store, engine.clock, engine.settings, engine.components.repairs, Meter())
    engine.clock.pass_(61)
    for _ in range(4):
        threads = [threading.Thread(target=loop.sweep) for loop in (healing.loop, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.clock.pass_(1)
    healing.sweep()
    assert (healing.told(incident)[0], healing.updates()) == ("SETTLING", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "closed_as"), few([("update", "replaced_by_update"), ("unmark", "cleared"), ("silence", "expired")])
)
def test_an_incident_that_waits_for_its_window_ends_before_it(healing: Healing, event: str, closed_as: str) -> None:
    """The loop looks at once after a change of the tree."""
    healing.ttl = 3600
    healing.policy(**AUTO, windows=[{"cron": "0 2 * * *", "duration": 3600}])
    incident = healing.fire("g/2")
    healing.sweep()
    healing.pass_(120)
    assert healing.told(incident) == ("MARKED", "window_closed")
    match event:
        case "update":
            healing.engine.patch(healing.stack)
        case "unmark":
            healing.engine.mark(healing.group, "2", unhealthy=False)
        case _:
            healing.pass_(3600)
    healing.sweep(2)
    assert healing.told(incident) == ("CLOSED", closed_as)
    assert healing.now < OPENING - 3600


@pytest.mark.slow
def test_a_window_that_passed_while_nothing_ran_is_passed(healing: Healing) -> None:
    incident = waits_for_window(healing, duration=600)
    healing.engine.clock.pass_(3600)
    healing.sweep(1)
    healing.fire("g/2")
    healing.pass_(300)
    assert healing.told(incident) == ("MARKED", "window_closed")
    assert healing.incident(incident).due == OPENING + DAY
    healing.pass_(LONG)
    assert healing.updates() == 0


# -- trees and groups ----------------------------------------------------------------------------------


def actions_of(engine: Engine, stack_id: str) -> list[str]:
    found = engine.store.database.read("SELECT verb FROM action WHERE stack_id = ? ORDER BY created_at", [stack_id])
    return [str(verb) for (verb,) in found]


@pytest.mark.slow
def test_a_member_of_a_template_in_a_group_in_a_group(engine: Engine) -> None:
    """Repairs are one update from the root; siblings get no action.

    A lock on the path holds the update. A lock off the path does not.
    """
    files = {"pair.yaml": json.dumps(template(x=thing("v"), y=thing(attr("x", "output"))))}
    stack = engine.create(template(g=group(2, group(2, {"type": "pair.yaml"}))), files=files)
    with engine.clock.held():
        healing = Healing(engine, stack)
        healing.pass_(700)
        healing.policy(**AUTO)
        level = {name: nested(engine, healing.group, name) for name in ("0", "1")}
        pair, sibling = (nested(engine, level["1"], name) for name in ("0", "1"))
        engine.lock(pair)
        incident = healing.fire("g/1/0/x")
        healing.pass_(120)
        assert healing.told(incident) == ("OBSERVED", "locked")
        engine.unlock(pair)
        engine.lock(level["0"])
        before = engine.ids(pair)
        seen = {one.id: actions_of(engine, one.id) for one in (stack, sibling, level["0"])}
        healing.pass_(700)
        healing.fire("g/1/0/x")
        healing.pass_(300)
        assert healing.told(incident)[0] == "SETTLING"
        assert (healing.incident(incident).member, healing.incident(incident).scope) == ("g/1/0", "g/1")
        after = engine.ids(pair)
        assert {name for name in before if before[name] != after[name]} == {"x"}
        assert actions_of(engine, stack.id) == [*seen[stack.id], "UPDATE"]
        for one in (sibling, level["0"]):
            assert actions_of(engine, one.id) == seen[one.id]
        engine.unlock(level["0"])


def test_a_marked_member_leaves_first_and_its_incident_is_gone(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), low=1, high=9, desired_capacity=3)))
    with engine.clock.held():
        healing = Healing(engine, stack)
        healing.pass_(700)
        before = healing.ids()
        youngest = max(engine.rows(healing.group), key=lambda row: (row.created_at, row.name)).name
        incident = healing.fire(f"g/{youngest}")
        healing.pass_(120)
        assert healing.told(incident)[0] == "MARKED"
        engine.components.groups.change(MEMBER, engine.get(stack), "g", ScaleIn(1))
        engine.settle(healing.group)
        healing.pass_(120)
        assert healing.told(incident) == ("CLOSED", ClosedAs.GONE)
        del before[youngest]
        assert healing.ids() == before
