"""From reports, as monitoring systems send them, to repairs: days pass at once."""

# ruff: noqa: F811 - a fixture has the name of its parameter

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.clock import to_text
from heatlite.core.errors import ActionConflict, ResourceIsLocked
from heatlite.core.status import Status, Verb
from heatlite.features.healing.parts import Healing as Parts
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.records import ObservationRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import RepairResult
from heatlite.resources.heat.testing import TestResource
from tests.engine.conftest import MEMBER, Engine, template, thing
from tests.features.healing.engine.test_healing import AUTO, Healing, files, healing  # noqa: F401 - a fixture
from tests.tables import few

REPLACE = [{"step": "replace", "settle": 300}]


def alert(status: str = "firing", key: str = "k", **labels: str) -> dict[str, Any]:
    return {
        "status": status, "labels": {"alertname": "Down", **labels}, "startsAt": "2026-11-02T12:00:00Z",
        "fingerprint": key,
    }  # fmt: skip


def send(engine: Engine, *alerts: dict[str, Any]) -> Counter[str]:
    """Take a request of Alertmanager. Returns the number of reports by result."""
    body: Any = {"version": "4", "alerts": [*alerts]}
    counts = engine.components.of(Parts).intake.take(MEMBER, "alertmanager", body).counts
    return Counter({str(result): number for result, number in counts.items()})


def at(path: str, stack: str = "s", **more: str) -> dict[str, Any]:
    """An alert that names a slot."""
    return alert(key=f"{stack} {path}", heatlite_stack=stack, heatlite_resource=path, **more)


def incident(healing: Healing, path: str) -> str:
    """The id of the open incident of a slot."""
    (found,) = (one.id for one in healing.rows.incidents.open_of_root(healing.stack.id) if one.path == path)
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_a_begin_in_the_future_keeps_no_later_report_out(healing: Healing) -> None:
    """`amtool alert add --end` sends one, and a machine whose clock is ahead."""

    def sent(seconds: float) -> Counter[str]:
        return send(healing.engine, {**at("g/2"), "startsAt": to_text(healing.now + seconds)})

    assert [sent(3600), sent(7200)] == [{"accepted": 1}, {"repeated": 1}]
    healing.engine.clock.pass_(60)
    assert sent(-10) == {"accepted": 1}
    assert sent(-50) == {"ignored": 1}


@pytest.mark.slow
def test_an_outage_spares_all_but_what_was_marked_before(healing: Healing) -> None:
    """A user's update replaces only the member that was marked before it."""
    healing.policy(**{**AUTO, "mode": "off"})
    send(healing.engine, at("g/3"))
    healing.pass_(90)
    assert healing.states()["3"] == "CHECK_FAILED"
    healing.policy(**AUTO)
    assert send(healing.engine, *(at(f"g/{n}") for n in range(6))) == {"accepted": 5, "repeated": 1}
    before = healing.ids()
    healing.pass_(600)
    assert (healing.ids(), healing.updates()) == (before, 0)
    assert {name for name, state in healing.states().items() if state == "CHECK_FAILED"} == {"3"}
    healing.engine.patch(healing.stack)
    assert changed(before, healing.ids()) == {"3"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [20, pytest.param(100, marks=pytest.mark.thorough)])
def test_many_stacks_with_one_server_each(engine: Engine, number: int) -> None:
    """A storm marks nothing, and its acknowledgement neither."""
    stacks = [engine.create(template(a=thing()), name=f"s{n}", wait=False) for n in range(number)]
    stacks = [engine.settle(stack) for stack in stacks]

    def marked() -> int:
        return sum("CHECK" in state for stack in stacks for state in engine.states(stack).values())

    with engine.clock.held():
        subject = Healing(engine, stacks[0])
        subject.pass_(700)
        alerts = [at("a", stack=f"s{n}") for n in range(number)]
        assert send(engine, *alerts) == {"accepted": number}
        subject.pass_(600)
        assert Counter(
            subject.told(one.id) for one in engine.store.of(HealingStore).incidents.page("demo", IncidentQuery())
        ) == {("CONFIRMED", "storm"): number}
        engine.components.of(Parts).intake.acknowledge("demo", "alertmanager")
        subject.pass_(3600)
        assert marked() == 0
        assert Counter(
            subject.told(one.id)[0] for one in engine.store.of(HealingStore).incidents.page("demo", IncidentQuery())
        ) == {"OBSERVED": number}
        assert send(engine, alerts[0]) == {"repeated": 1}
        subject.pass_(30)
        assert marked() == 0
        subject.pass_(60)
        assert marked() == 1


def test_a_report_keeps_the_mute_of_an_incident_that_is_closed_meanwhile(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request that closes it follows that of the report, and has to look again."""
    healing.stop_own_sweep()
    send(healing.engine, at("g/2"))
    found = incident(healing, "g/2")
    observations = healing.engine.components.of(Parts).intake._store.of(HealingStore).observations
    save, has_read, goes_on = observations.save_many, threading.Event(), threading.Event()

    def late(records: Sequence[ObservationRecord]) -> None:
        has_read.set()
        goes_on.wait(60)
        save(records)

    monkeypatch.setattr(observations, "save_many", late)

    def close() -> None:
        try:
            healing.engine.components.of(Parts).operations.close(MEMBER, found, "the probe is wrong")
        except ActionConflict:
            healing.engine.components.of(Parts).operations.close(MEMBER, found, "the probe is wrong")
        finally:
            healing.store.close()

    def report() -> Counter[str]:
        try:
            return send(healing.engine, at("g/2"))
        finally:
            healing.store.close()

    with ThreadPoolExecutor(2) as pool:
        reported = pool.submit(report)
        assert has_read.wait(60)
        closed = pool.submit(close)
        wait([closed], 0.5)
        goes_on.set()
        assert reported.result() == {"repeated": 1}
        closed.result()
    monkeypatch.undo()
    assert healing.told(found) == ("CLOSED", "cleared")
    assert send(healing.engine, at("g/2")) == {"muted": 1}


def own(healing: Healing, status: str) -> None:
    """Take a report of the generic format on a member."""
    report: Any = {"key": "k", "status": status, "stack": "s", "resource": "g/2"}
    healing.engine.components.of(Parts).intake.take(MEMBER, "generic", {"reports": [report]})


@pytest.mark.slow
@pytest.mark.parametrize("mode", few(["off", "propose"]))
def test_a_source_that_cannot_see_a_marked_target_holds_its_incident(healing: Healing, mode: str) -> None:
    healing.policy(mode=mode)
    own(healing, "unhealthy")
    healing.pass_(90)
    found = incident(healing, "g/2")
    own(healing, "unknown")
    healing.pass_(180)
    state, reason = healing.told(found)
    assert (state, "source_blind" in (reason, *healing.incident(found).also)) == ("MARKED", True)
    assert healing.states()["2"] == "CHECK_FAILED"
    own(healing, "healthy")
    healing.sweep()
    assert healing.told(found) == ("CLOSED", "resolved")


@pytest.mark.slow
def test_a_source_that_cannot_see_a_repaired_target_tells_no_recovery(healing: Healing) -> None:
    healing.policy(**AUTO, grace=300)
    own(healing, "unhealthy")
    healing.pass_(90)
    found = incident(healing, "g/2")
    assert healing.told(found)[0] == "SETTLING"
    own(healing, "unknown")
    healing.pass_(100)
    assert healing.told(found)[0] == "SETTLING"
    healing.pass_(300)
    assert healing.told(found) == ("CLOSED", "quiet")


@pytest.mark.slow
def test_alerts_on_a_replaced_object(healing: Healing) -> None:
    """By id they are stale; by slot they lead to the next step after `settle`."""
    healing.policy(**AUTO, ladder=[*REPLACE, *REPLACE])
    old = healing.engine.row(healing.group, "2").physical_id or ""
    by_id, by_slot = alert(key="id", instance_id=old), at("g/2")
    assert send(healing.engine, by_slot) == {"accepted": 1}
    healing.pass_(90)
    first = incident(healing, "g/2")
    assert healing.told(first)[0] == "SETTLING"
    after = healing.ids()
    assert send(healing.engine, by_id, by_slot) == {"stale": 1, "repeated": 1}
    healing.pass_(200)
    assert (healing.told(first)[0], healing.ids(), healing.updates()) == ("SETTLING", after, 1)
    assert set(healing.states().values()) == {"CREATE_COMPLETE"}
    healing.pass_(200)
    assert healing.told(first) == ("CLOSED", "quiet")
    assert send(healing.engine, by_id, by_slot) == {"stale": 1, "accepted": 1}
    healing.pass_(30)
    assert healing.updates() == 1, "the hold begins anew"
    healing.pass_(800)
    second = healing.rows.repairs.of_root(healing.stack.id, 0.0)[-1]
    assert (healing.updates(), second.path, second.position) == (2, "g/2", 1)
    assert changed(after, healing.ids()) == {"2"}


@pytest.mark.slow
@pytest.mark.parametrize("later", ["another source", "the same after it has resolved"])
def test_a_report_while_a_repair_settles_has_no_effect(healing: Healing, later: str) -> None:
    """It needs another one after `settle`, which leads to the next step."""
    healing.policy(**{**AUTO, "grace": 0, "confirm": {"hold": 0}}, ladder=[*REPLACE, *REPLACE])
    send(healing.engine, at("g/2"))
    healing.sweep()
    assert healing.told(incident(healing, "g/2"))[0] == "SETTLING"
    after = healing.ids()
    if later == "another source":
        again = {"key": "g/2", "status": "unhealthy", "stack": "s", "resource": "g/2"}

        def report() -> Counter[str]:
            counts = healing.engine.components.of(Parts).intake.take(MEMBER, "generic", {"reports": [again]}).counts
            return Counter({str(result): number for result, number in counts.items()})
    else:
        send(healing.engine, {**at("g/2"), "status": "resolved"})
        healing.sweep()
        assert healing.rows.incidents.open_of_root(healing.stack.id) == []

        def report() -> Counter[str]:
            return send(healing.engine, {**at("g/2"), "startsAt": "2026-11-03T12:00:00Z"})

    assert report() == {"accepted": 1}
    healing.pass_(1000)
    assert (healing.ids(), healing.updates()) == (after, 1)
    assert set(healing.states().values()) == {"CREATE_COMPLETE"}
    assert report() == {"repeated": 1}
    healing.sweep()
    second = healing.rows.repairs.of_root(healing.stack.id, 0.0)[-1]
    assert (healing.updates(), second.path, second.position) == (2, "g/2", 1)
    assert changed(after, healing.ids()) == {"2"}


def test_the_report_that_was_missing_marks_with_the_next_look(healing: Healing) -> None:
    healing.policy(mode="off", confirm={"hold": 0, "reports": 3})
    for _ in range(2):
        send(healing.engine, at("g/2"))
        healing.sweep(2)
        assert healing.told(incident(healing, "g/2")) == ("OBSERVED", "confirming")
    send(healing.engine, at("g/2"))
    healing.sweep(1)
    assert healing.told(incident(healing, "g/2"))[0] == "MARKED"


@pytest.mark.slow
def test_a_lock_that_is_longer_than_the_time_to_live_keeps_the_mark(healing: Healing) -> None:
    healing.policy(mode="off")
    send(healing.engine, at("g/2"))
    healing.pass_(90)
    found = incident(healing, "g/2")
    healing.engine.lock(healing.stack)
    healing.pass_(30_000)
    healing.engine.unlock(healing.stack)
    healing.pass_(10_000)
    assert (healing.told(found), healing.states()["2"]) == (("MARKED", "mode_off"), "CHECK_FAILED")
    healing.pass_(15_000)
    assert (healing.told(found), healing.states()["2"]) == (("CLOSED", "expired"), "CHECK_COMPLETE")


@pytest.mark.slow
def test_a_stack_that_is_busy_for_minutes(healing: Healing) -> None:
    """A report is accepted at once. The mark follows when the stack is free."""
    stack = healing.engine.put_stack(healing.stack, Verb.UPDATE, Status.IN_PROGRESS)
    assert send(healing.engine, at("g/2")) == {"accepted": 1}
    healing.pass_(300)
    found = incident(healing, "g/2")
    assert (healing.told(found), healing.states()["2"]) == (("CONFIRMED", "busy"), "CREATE_COMPLETE")
    healing.engine.put_stack(stack, Verb.UPDATE, Status.COMPLETE)
    healing.pass_(60)
    assert (healing.told(found), healing.states()["2"]) == (("MARKED", "mode_off"), "CHECK_FAILED")


# -- locks and suspensions in each state -----------------------------------------------------------------

BEFORE: dict[str, tuple[dict[str, object], float]] = {
    "OBSERVED": (AUTO, 30),
    "CONFIRMED": ({**AUTO, "max_unhealthy": 0}, 90),
    "MARKED": ({**AUTO, "mode": "off"}, 90),
    "PROPOSED": ({**AUTO, "mode": "propose"}, 90),
}
"""A policy, and the seconds after a report, that lead to each state before a repair."""
UNABLE = [("MARKED", "suspend"), ("PROPOSED", "suspend")]
"""Marked resources cannot be suspended."""
LOCKS = ("lock", "unlock"), ("suspend", "resume")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The handlers that were called, but those of the lock and suspension themselves."""
    called: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        before: Callable[..., Any] = getattr(TestResource, name)

        def call(self: TestResource, *arguments: Any) -> Any:
            called.append(name)
            return before(self, *arguments)

        return call

    for verb in ("create", "update", "delete", "check"):
        monkeypatch.setattr(TestResource, f"handle_{verb}", noted(f"handle_{verb}"))
    return called


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "words"), [(state, words) for state in BEFORE for words in LOCKS if (state, words[0]) not in UNABLE]
)
def test_nothing_follows_a_lock_without_a_new_report(
    healing: Healing,
    calls: list[str],
    state: str,
    words: tuple[str, str],
) -> None:
    policy, seconds = BEFORE[state]
    healing.policy(**policy)
    send(healing.engine, at("g/2"))
    healing.pass_(seconds)
    found = incident(healing, "g/2")
    assert healing.told(found)[0] == state
    marked = healing.states()["2"]
    calls.clear()
    getattr(healing.engine, words[0])(healing.stack)
    healing.policy(**AUTO)
    healing.pass_(1000)
    late = send(healing.engine, at("g/2"))
    assert late == {{"lock": "suppressed", "suspend": "suspended"}[words[0]]: 1}
    getattr(healing.engine, words[1])(healing.stack)
    healing.pass_(3000)
    assert calls == []
    if state in ("MARKED", "PROPOSED"):
        assert (marked, healing.states()["2"]) == ("CHECK_FAILED", "CHECK_FAILED")
    assert send(healing.engine, at("g/2")) == {"repeated": 1}
    healing.pass_(30)
    assert (calls, healing.updates()) == ([], 0)
    healing.pass_(90)
    assert (healing.told(found)[0], healing.updates()) == ("SETTLING", 1)
    assert sorted(calls) == ["handle_create", "handle_delete"]


@pytest.mark.slow
@pytest.mark.parametrize("words", LOCKS)
def test_a_lock_while_a_repair_settles(
    healing: Healing,
    calls: list[str],
    words: tuple[str, str],
) -> None:
    healing.policy(**AUTO)
    send(healing.engine, at("g/2"))
    healing.pass_(90)
    found = incident(healing, "g/2")
    assert healing.told(found)[0] == "SETTLING"
    calls.clear()
    getattr(healing.engine, words[0])(healing.stack)
    send(healing.engine, at("g/2"))
    healing.pass_(700)
    assert healing.told(found) == ("CLOSED", "quiet")
    getattr(healing.engine, words[1])(healing.stack)
    healing.pass_(3000)
    assert (calls, healing.updates()) == ([], 1)
    send(healing.engine, at("g/2"))
    healing.pass_(30)
    assert calls == []
    healing.pass_(90)
    assert healing.updates() == 2


# -- repairs that run for a while ------------------------------------------------------------------------


@pytest.fixture
def slow(engine: Engine) -> Iterator[Healing]:
    """A resource whose creation takes some seconds."""
    stack = engine.create(template(a=thing(action_wait_secs={"create": 5})))
    with engine.clock.held():
        subject = Healing(engine, stack)
        subject.pass_(700)
        subject.policy(**AUTO)
        yield subject


def until(healing: Healing, state: str) -> str:
    """Let time go on until an incident is in a state; return its id."""
    found: list[str] = []

    def reached() -> bool:
        healing.loop.sweep()
        found[:] = [one.id for one in healing.rows.incidents.page("demo", IncidentQuery(state=(state,)))]
        if not found:
            healing.engine.clock.pass_(5)
        return bool(found)

    healing.engine.wait_for(reached)
    return found[0]


@pytest.mark.slow
def test_a_repair_that_a_person_has_cancelled(slow: Healing) -> None:
    """It is not repeated before the alert has resolved once."""
    send(slow.engine, at("a"))
    found = until(slow, "REPAIRING")
    slow.engine.begun(lambda: len(slow.engine.rows(slow.stack)) == 2)
    with pytest.raises(ResourceIsLocked):
        slow.engine.lock(slow.stack)
    slow.engine.cancel(slow.stack, rollback=False)
    slow.pass_(90)
    assert slow.told(found) == ("MARKED", "cancelled")
    for _ in range(12):
        assert send(slow.engine, at("a")) == {"repeated": 1}
        slow.pass_(600)
    assert (slow.told(found), slow.updates()) == (("MARKED", "cancelled"), 1)
    assert send(slow.engine, {**at("a"), "status": "resolved"}) == {"cleared": 1}
    slow.pass_(60)
    assert slow.told(found) == ("CLOSED", "resolved")
    assert send(slow.engine, {**at("a"), "startsAt": "2026-11-03T12:00:00Z"}) == {"accepted": 1}
    assert until(slow, "SETTLING") != found
    assert slow.updates() == 2


@pytest.mark.slow
@pytest.mark.parametrize("by_id", [True, False])
def test_three_repairs_that_fail(healing: Healing, plugins: Path, by_id: bool) -> None:
    """Their scope is suspended until it is acknowledged and reported."""
    stack = files(healing, 1)
    dead = healing.engine.row(stack, "a").physical_id or ""  # stays until another object has been made
    reported = alert(instance_id=dead) if by_id else at("a", "files")
    healing.policy(mode="auto", cooldown=100)
    away = plugins.rename(plugins.with_name("away"))
    send(healing.engine, reported)
    for _ in range(12):
        healing.pass_(100)
    failing = incident(healing, "a")
    assert healing.told(failing) == ("MARKED", "scope_suspended")
    repairs = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert [one.result for one in repairs] == [RepairResult.FAILED] * 3
    pauses = [later.begun_at - (one.ended_at or 0.0) for one, later in pairwise(repairs)]
    assert [200 <= pauses[0] < 400, 400 <= pauses[1] < 800] == [True, True]
    assert send(healing.engine, reported) == {"repeated": 1}
    assert send(healing.engine, at("b", "files")) == {"accepted": 1}
    healing.pass_(3600)
    assert (healing.told(failing), healing.updates()) == (("MARKED", "scope_suspended"), 4)
    assert healing.rows.repairs.of_root(healing.stack.id, 0.0)[-1].path == "b"
    away.rename(plugins)
    healing.engine.components.of(Parts).operations.acknowledge(MEMBER, healing.stack, "type:Example::Local::File")
    healing.pass_(3600)
    assert (healing.told(failing), healing.updates()) == (("MARKED", "stale_evidence"), 4)
    send(healing.engine, reported)
    healing.pass_(90)
    assert (healing.told(failing)[0], healing.updates()) == ("SETTLING", 5)
