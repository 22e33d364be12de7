"""The healing loop on a whole engine: from reports in the database to repairs."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    DatabaseUnavailable,
    EntityNotFound,
    HTTPBadRequest,
    InvalidStackState,
    NotSupported,
    PlanChanged,
    ResourceNotFound,
    StackLocked,
)
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.state.group_requests import Criteria, DeleteMembers, Leave, ScaleIn, ScaleOut, SizeRequest
from heatlite.features.healing.by_hand import HealRequest
from heatlite.features.healing.errors import HealingHeld, PolicyChanged
from heatlite.features.healing.loop.sweep import HealingLoop
from heatlite.features.healing.loop.tree import read_tree
from heatlite.features.healing.parts import Healing as Parts
from heatlite.features.healing.rules.policy import DEFAULT
from heatlite.features.healing.store.records import (
    HealingPolicyRecord,
    HealingScopeRecord,
    IncidentRecord,
    ObservationRecord,
)
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IGNORABLE, Brake, IncidentState, RepairResult, Word
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, START, Engine, template, thing
from tests.engine.test_groups import group, nested
from tests.tables import few, sampled

OBSERVED, CONFIRMED, MARKED, PROPOSED, REPAIRING, SETTLING, CLOSED = IncidentState
AUTO: JsonMap = {"mode": "auto", "cooldown": 0, "max_repairs": {"count": 100, "per": 3600}}


class Healing:
    """A stack, its alerts, and the loop that looks at them when the test says so."""

    def __init__(self, engine: Engine, stack: StackRecord) -> None:
        self.engine = engine
        self.store = engine.store
        self.rows = engine.store.of(HealingStore)
        self.stack = stack
        self.loop = engine.components.of(Parts).loop
        self.ttl = 21600

    @property
    def now(self) -> float:
        return self.engine.clock.now()

    def policy(self, **fields: object) -> None:
        document: JsonMap = {"healing_policy": "2026-11-22", **fields}  # type: ignore[dict-item]
        with self.store.transaction():
            self.rows.policies.put(HealingPolicyRecord(self.stack.id, document, 1, "mia", self.now))

    def fire(self, path: str, source: str = "alertmanager", key: str = "") -> str:
        """Take a firing report as the intake does. Returns the id of the incident."""
        with self.store.transaction():
            found = self.rows.incidents.open_of_slots([(self.stack.id, path, source)])
            for known in found.values():
                self.rows.incidents.note_reports([known], self.now)
                return known
            tree = read_tree(self.store, self.engine.get(self.stack), DEFAULT, self.now, 0.0)
            place = tree.places[path]
            incident = IncidentRecord(
                random_id(), "demo", source, self.stack.id, place.row.stack_id, path, place.slot.member,
                place.slot.scope, place.row.id, place.row.physical_id or "", OBSERVED, self.now, self.now,
                evidence_since=self.now, ttl=self.ttl, due=self.now, summary="ServerDown: no answer",
            )  # fmt: skip
            self.rows.incidents.insert_many([incident])
            episode = ObservationRecord(
                random_id(), "demo", source, key or f"{self.stack.name} {path}", self.now, self.now, self.now,
                incident_id=incident.id, root_id=self.stack.id, path=path,
            )  # fmt: skip
            self.rows.observations.insert_many([episode])
        return incident.id

    def resolve(self, incident_id: str) -> None:
        """Take a resolved report as the intake does."""
        with self.store.transaction():
            episodes = self.rows.observations.of_incident(incident_id, 100)
            ended = [replace(one, word=Word.RESOLVED, is_open=False, ended_at=self.now) for one in episodes]
            self.rows.observations.save_many(ended)
            self.rows.incidents.wake([incident_id], self.now)

    def stop_own_sweep(self) -> None:
        """Leave it to the test when a sweep sees what has happened."""
        worker = self.engine.server.worker
        assert worker is not None
        for job in worker._due:
            job.stop()

    def sweep(self, times: int = 6) -> None:
        """Have the loop look, and let what it begins end."""
        for _ in range(times):
            self.loop.sweep()
            self.engine.wait_for(lambda: not self.store.actions.live_of_root(self.stack.id))
            self.engine.clock.pass_(1.0)

    def pass_(self, seconds: float) -> None:
        """Let time go on in small steps, each with a sweep."""
        until = self.now + seconds
        step = 100.0 if seconds < 4000 else 500.0
        while self.now < until:
            self.engine.clock.pass_(min(step, until - self.now))
            self.sweep(1)
        self.sweep()

    def incident(self, incident_id: str) -> IncidentRecord:
        found = self.rows.incidents.get(incident_id)
        assert found is not None
        return found

    def told(self, incident_id: str) -> tuple[str, str | None]:
        found = self.incident(incident_id)
        why = found.closed_as if found.state is CLOSED else found.reason
        return found.state.value, None if why is None else why.value

    @property
    def group(self) -> StackRecord:
        return nested(self.engine, self.stack)

    def ids(self) -> dict[str, str]:
        """Ids of the members' rows."""
        return self.engine.ids(self.group)

    def states(self) -> dict[str, str]:
        return self.engine.states(self.group)

    def updates(self) -> int:
        """The number of updates of the root that were repairs."""
        return len({one.action_id for one in self.rows.repairs.of_root(self.stack.id, 0.0)})


@pytest.fixture
def healing(engine: Engine) -> Iterator[Healing]:
    """Six members in a group, old enough to be trusted."""
    stack = engine.create(template(g=group(6, thing()), other=thing()))
    with engine.clock.held():
        subject = Healing(engine, stack)
        subject.pass_(700)
        yield subject


@pytest.mark.slow
def test_one_of_six_is_marked_replaced_and_closed(healing: Healing) -> None:
    healing.policy(**AUTO)
    before = healing.ids()
    incident = healing.fire("g/2")
    healing.sweep()
    assert healing.told(incident) == ("OBSERVED", "confirming")
    assert healing.ids() == before
    healing.pass_(60)
    assert healing.told(incident)[0] == "SETTLING"
    after = healing.ids()
    assert {name for name in before if before[name] != after[name]} == {"2"}
    assert set(healing.states().values()) == {"CREATE_COMPLETE"}
    (repair,) = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert (repair.member, repair.scope, repair.result) == ("g/2", "g", RepairResult.SUCCEEDED)
    action = healing.store.actions.get(repair.action_id)
    assert action is not None and action.inputs.heal is not None
    assert (action.verb, action.status, action.requested_by) == (Verb.UPDATE, ActionStatus.SUCCEEDED, "healing")
    healing.resolve(incident)
    healing.sweep()
    assert healing.told(incident) == ("CLOSED", "healed")
    moves = [line.after for line in healing.incident(incident).history]
    assert moves == ["CONFIRMED", "MARKED", "REPAIRING", "SETTLING", "CLOSED"]


def test_the_mark_has_its_reason_and_one_event(healing: Healing) -> None:
    begin = healing.engine.now_on(healing.group)
    incident = healing.fire("g/2")
    healing.pass_(90)
    row = next(row for row in healing.engine.rows(healing.group) if row.name == "2")
    assert row.status_reason == f"alertmanager: ServerDown: no answer (incident {incident})"
    assert healing.engine.told(healing.group, begin) == ["2 CHECK_FAILED"]
    assert healing.told(incident) == ("MARKED", "mode_off")


@pytest.mark.parametrize("mode", few(["off", "propose"]))
def test_nothing_is_replaced_without_leave(healing: Healing, mode: str) -> None:
    healing.policy(**{**AUTO, "mode": mode})
    before = healing.ids()
    incident = healing.fire("g/2")
    healing.pass_(300)
    assert healing.ids() == before
    expected = {"off": ("MARKED", "mode_off"), "propose": ("PROPOSED", "awaiting_approval")}
    assert healing.told(incident) == expected[mode]
    assert (healing.incident(incident).plan_digest is not None) == (mode == "propose")


def test_a_proposal_does_not_wait_for_the_engine_that_wanted_it(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may end, or be slow, between its two transactions."""
    healing.policy(**{**AUTO, "mode": "propose"})
    incident = healing.fire("g/2")
    with monkeypatch.context() as patch:
        patch.setattr(HealingLoop, "_begin_repairs", lambda *_: None)
        healing.pass_(90)
        assert healing.told(incident) == ("MARKED", "awaiting_approval")
    healing.sweep(1)
    assert healing.told(incident) == ("PROPOSED", "awaiting_approval")


@pytest.mark.slow
def test_an_outage_of_the_monitoring_marks_nothing(healing: Healing) -> None:
    healing.policy(**AUTO)
    begin = healing.engine.now_on(healing.stack)
    incidents = [healing.fire(f"g/{number}") for number in range(6)]
    healing.pass_(600)
    before = healing.ids()
    assert {healing.told(one) for one in incidents} == {("CONFIRMED", "storm")}
    assert Brake.BREAKER_OPEN in healing.incident(incidents[0]).also
    assert set(healing.states().values()) == {"CREATE_COMPLETE"}
    told = healing.engine.told(healing.stack, begin)
    assert [line for line in told if "BREAKER" in line] == ["g HEALING_BREAKER_OPEN"]
    assert [line for line in told if "STORM" in line] == ["s HEALING_STORM_BEGUN"]
    healing.engine.patch(healing.stack)
    assert healing.ids() == before


@pytest.mark.slow
def test_a_tree_whose_row_is_held_keeps_no_other_waiting(healing: Healing, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process may hold it."""
    first = healing.fire("g/1")
    healing.engine.clock.pass_(1.0)
    other = Healing(healing.engine, healing.engine.create(template(g=group(2, thing())), name="other"))
    second = other.fire("g/1")
    healing.stop_own_sweep()
    with healing.store.transaction():
        healing.rows.incidents.wake([first], healing.now - 1.0)
        healing.rows.incidents.wake([second], healing.now)
    lock = healing.loop._store.stacks.lock

    def locking(stack_id: str) -> StackRecord | None:
        if stack_id == healing.stack.id:
            raise DatabaseUnavailable(reason="lock timeout")
        return lock(stack_id)

    monkeypatch.setattr(healing.loop._store.stacks, "lock", locking)
    with pytest.raises(DatabaseUnavailable, match="lock timeout"):
        healing.loop.sweep()
    assert (healing.incident(first).due or 0.0) < healing.now < (healing.incident(second).due or 0.0)


@pytest.mark.slow
def test_a_report_soon_after_a_storm_begins_no_other(healing: Healing) -> None:
    healing.policy(**AUTO)
    incidents = [healing.fire(f"g/{number}") for number in range(5)]
    healing.sweep()
    for one in incidents:
        healing.resolve(one)
    healing.sweep()
    told = [line for line in healing.engine.told(healing.stack) if "STORM" in line]
    assert told == ["s HEALING_STORM_BEGUN", "s HEALING_STORM_ENDED"]
    incident = healing.fire("g/5", key="later")
    healing.pass_(120)
    assert healing.told(incident)[0] == "SETTLING"
    assert told == [line for line in healing.engine.told(healing.stack) if "STORM" in line]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["resolved at once", "closed by hand"])
def test_a_breaker_closes_with_the_last_incident(healing: Healing, end: str) -> None:
    """The next report is evidence: no release of an old breaker takes it away."""
    healing.policy(**AUTO)
    incidents = [healing.fire("g/1"), healing.fire("g/2")]
    if end == "resolved at once":  # before any sweep has seen that they are two
        for one in incidents:
            healing.resolve(one)
        healing.sweep(1)
    else:
        healing.sweep(1)
        for one in incidents:
            healing.engine.components.of(Parts).operations.close(MEMBER, one, "both are well")
    assert healing.rows.scopes.counts() == (0, 0)
    told = [line for line in healing.engine.told(healing.stack) if "BREAKER" in line]
    assert [line.rpartition("_")[2] for line in told] == ["OPEN", "CLOSED"]
    incident = healing.fire("g/3")
    healing.pass_(90)
    assert healing.told(incident)[0] == "SETTLING"


def test_a_breaker_closes_though_rows_that_nobody_reports_have_failed(healing: Healing) -> None:
    failed = [replace(row, status=Status.FAILED) for row in healing.engine.rows(healing.group)[:2]]
    with healing.store.transaction():
        healing.store.resources.save_many(failed)
    incident = healing.fire("g/5")
    healing.sweep(1)
    assert healing.rows.scopes.counts() == (1, 0)
    healing.resolve(incident)
    healing.sweep(1)
    assert healing.rows.scopes.counts() == (0, 0)


def test_scopes_of_a_deleted_stack_do_not_count(healing: Healing) -> None:
    with healing.store.transaction():
        record = HealingScopeRecord(healing.stack.id, "g", open_since=healing.now, is_suspended=True)
        healing.rows.scopes.save(record)
    assert healing.rows.scopes.counts() == (1, 1)
    healing.engine.delete(healing.stack)
    assert healing.rows.scopes.counts() == (0, 0)


@pytest.mark.slow
def test_after_an_outage_nothing_happens_without_a_new_report(healing: Healing) -> None:
    healing.policy(**AUTO)
    incidents = [healing.fire(f"g/{number}") for number in range(3)]
    healing.pass_(120)
    assert {healing.told(one) for one in incidents} == {("CONFIRMED", "breaker_open")}
    healing.resolve(incidents[0])
    healing.resolve(incidents[1])
    healing.pass_(3600)
    assert healing.told(incidents[2]) == ("OBSERVED", "confirming")
    told = healing.engine.told(healing.stack)
    assert [line for line in told if "BREAKER" in line] == ["g HEALING_BREAKER_OPEN", "g HEALING_BREAKER_CLOSED"]
    healing.fire("g/2")
    healing.pass_(30)
    assert healing.told(incidents[2]) == ("OBSERVED", "confirming")
    healing.pass_(60)
    assert healing.told(incidents[2])[0] == "SETTLING"


def test_resolved_before_the_hold_leaves_no_trace(healing: Healing) -> None:
    begin, rows = healing.engine.now_on(healing.group), healing.engine.rows(healing.group)
    incident = healing.fire("g/2")
    healing.pass_(30)
    healing.resolve(incident)
    healing.pass_(120)
    assert healing.told(incident) == ("CLOSED", "resolved")
    assert healing.engine.rows(healing.group) == rows
    assert healing.engine.told(healing.group, begin) == []


@pytest.mark.slow
def test_resolved_after_the_mark_takes_it_back(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    assert healing.states()["2"] == "CHECK_FAILED"
    healing.resolve(incident)
    healing.sweep()
    assert healing.told(incident) == ("CLOSED", "resolved")
    assert healing.states()["2"] == "CHECK_COMPLETE"


def test_a_mark_by_hand_is_not_taken_back(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(30)
    healing.engine.mark(healing.group, "2")
    healing.resolve(incident)
    healing.sweep()
    assert healing.told(incident) == ("CLOSED", "resolved")
    assert healing.states()["2"] == "CHECK_FAILED"


@pytest.mark.slow
def test_a_mark_expires_without_reports(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    with healing.store.transaction():
        assert healing.rows.incidents.move(replace(healing.incident(incident), ttl=600))
    healing.pass_(700)
    assert healing.told(incident) == ("CLOSED", "expired")
    assert healing.states()["2"] == "CHECK_COMPLETE"


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "after"), [("lock", 30), ("lock", 90), ("suspend", 30)])
def test_a_lock_or_suspension_is_followed_by_nothing_without_a_new_report(
    healing: Healing, operation: str, after: float
) -> None:
    """`after`: observed, or marked and held."""
    incident = healing.fire("g/2")
    healing.pass_(after)
    engine, before = healing.engine, healing.ids()
    engine.lock(healing.stack) if operation == "lock" else engine.suspend(healing.stack)
    healing.policy(**AUTO)
    healing.pass_(120)
    assert healing.told(incident)[1] in ("locked", "stack_suspended")
    engine.unlock(healing.stack) if operation == "lock" else engine.resume(healing.stack)
    healing.pass_(1800)
    assert healing.ids() == before
    if after == 90:
        assert healing.told(incident) == ("MARKED", "stale_evidence")
        assert healing.states()["2"] == "CHECK_FAILED"
    healing.fire("g/2")
    healing.pass_(30)
    assert healing.ids() == before
    healing.pass_(90)
    assert healing.told(incident)[0] == "SETTLING"
    assert healing.updates() == 1


@pytest.mark.slow
def test_a_lock_that_no_sweep_has_seen_demands_a_new_report(healing: Healing) -> None:
    healing.policy(**AUTO, **{"grace": 0})
    incident = healing.fire("g/2")
    healing.engine.clock.pass_(50)
    healing.engine.lock(healing.stack)
    healing.engine.unlock(healing.stack)
    healing.pass_(900)
    assert healing.told(incident) == ("OBSERVED", "confirming")


@pytest.mark.slow
def test_a_user_update_closes_the_incident(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    healing.engine.patch(healing.stack)
    healing.sweep()
    healing.pass_(60)
    assert healing.told(incident) == ("CLOSED", "replaced_by_update")
    assert set(healing.states().values()) == {"CREATE_COMPLETE"}


def test_deletion_closes_all(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.engine.delete(healing.stack)
    healing.pass_(60)
    assert healing.told(incident) == ("CLOSED", "gone")


def test_scale_in_closes_the_incident_of_the_member_that_goes(healing: Healing) -> None:
    incident = healing.fire("g/5")
    healing.engine.put(healing.stack, template(g=group(5, thing()), other=thing()))
    healing.pass_(60)
    assert healing.told(incident) == ("CLOSED", "gone")


@pytest.mark.slow
def test_a_member_whose_repair_settles_does_not_leave(healing: Healing) -> None:
    """Others leave, and the incident of one that leaves ends as of one that goes."""
    healing.policy(**AUTO)
    engine = healing.engine

    def leave(member: str) -> None:
        engine.components.leaving.leave(engine.who, engine.get(healing.stack), "g", Leave((member,)))

    other = healing.fire("g/4")
    healing.sweep()
    leave("4")
    healing.pass_(60)
    assert healing.told(other) == ("CLOSED", "gone")
    incident = healing.fire("g/2")
    healing.sweep()
    healing.pass_(60)
    assert healing.told(incident)[0] == "SETTLING"
    with pytest.raises(ActionConflict, match=f"cannot leave now: its incident {incident} is SETTLING"):
        leave("2")
    healing.resolve(incident)
    healing.sweep()
    leave("2")
    assert healing.ids().keys() == {"0", "1", "3", "5"}


@pytest.mark.slow
def test_a_window_opens_once(healing: Healing) -> None:
    opening = START - START % 86400 + 86400 + 7200
    healing.ttl = 200_000
    healing.policy(**AUTO, windows=[{"cron": "0 2 * * *", "duration": 3600}])
    incident = healing.fire("g/2")
    healing.pass_(120)
    assert healing.told(incident) == ("MARKED", "window_closed")
    assert healing.incident(incident).due == opening
    healing.pass_(opening - healing.now - 60)
    assert healing.updates() == 0
    healing.pass_(120)
    assert healing.told(incident)[0] == "SETTLING"
    healing.pass_(3600)
    assert healing.updates() == 1


@pytest.mark.slow
def test_after_an_hour_without_engines_a_new_report_comes_first(healing: Healing) -> None:
    opening = START - START % 86400 + 86400 + 7200
    healing.ttl = 200_000
    healing.policy(**AUTO, windows=[{"cron": "0 2 * * *", "duration": 3600}])
    incident = healing.fire("g/2")
    healing.pass_(opening - healing.now - 1800)
    healing.engine.clock.pass_(2400)  # no engine sweeps
    healing.pass_(600)
    assert healing.told(incident) == ("MARKED", "stale_evidence")
    healing.fire("g/2")
    healing.pass_(120)
    assert healing.told(incident)[0] == "SETTLING"


@pytest.mark.slow
def test_trouble_soon_after_a_repair_goes_on_with_the_next_step(healing: Healing) -> None:
    healing.policy(**AUTO, ladder=[{"step": "replace", "settle": 60}, {"step": "replace", "settle": 60}])
    first = healing.fire("g/2")
    healing.pass_(90)
    assert healing.told(first)[0] == "SETTLING"
    healing.fire("g/2")  # within the settle: no effect
    healing.pass_(120)
    assert healing.told(first) == ("CLOSED", "quiet")
    assert healing.updates() == 1
    with healing.store.transaction():  # the episode still stands, so the key is free only once it has ended
        episodes = healing.rows.observations.of_incident(first, 100)
        healing.rows.observations.save_many([replace(one, is_open=False) for one in episodes])
    second = healing.fire("g/2", key="again")
    healing.sweep()
    assert healing.incident(second).step == 1
    assert healing.rows.scopes.of_root(healing.stack.id)["g"].failures == 1


@pytest.mark.slow
def test_a_rule_limits_repairs_for_longer_than_the_rest_of_the_policy(healing: Healing) -> None:
    limit: JsonMap = {"match": "g", "max_repairs": {"count": 1, "per": 604_800}, "min_healthy": 604_800}
    healing.policy(**{**AUTO, "rules": [limit]})
    first = healing.fire("g/2")
    healing.pass_(90)
    healing.resolve(first)
    healing.sweep()
    assert healing.told(first) == ("CLOSED", "healed")
    healing.engine.clock.pass_(3 * 86400.0)
    healing.sweep(1)
    again = healing.fire("g/2")
    healing.pass_(90)
    assert healing.told(again) == ("MARKED", "rate")
    assert healing.incident(again).step == 1, "the repair has failed: it did not help for long enough"


@pytest.mark.slow
def test_of_two_marked_members_one_is_repaired_at_a_time(healing: Healing) -> None:
    healing.policy(**AUTO, max_unhealthy=3)
    one = healing.fire("g/1")
    healing.engine.clock.pass_(1)
    two = healing.fire("g/2")
    before = healing.ids()
    healing.pass_(60)
    assert healing.told(one)[0] == "SETTLING"
    assert (healing.told(two), healing.states()["2"]) == (("MARKED", "parallel"), "CHECK_FAILED")
    after = healing.ids()
    assert {name for name in before if before[name] != after[name]} == {"1"}
    healing.engine.patch(healing.stack)
    healing.pass_(90)
    assert healing.told(two) == ("CLOSED", "replaced_by_update")
    assert healing.updates() == 1


@pytest.mark.slow
def test_two_at_a_time_share_one_update(healing: Healing) -> None:
    healing.policy(**AUTO, max_unhealthy=3, parallel=2)
    incidents = [healing.fire(f"g/{number}") for number in range(3)]
    healing.pass_(90)
    assert sorted(healing.told(one)[0] for one in incidents) == ["MARKED", "SETTLING", "SETTLING"]
    assert healing.updates() == 1


def test_a_busy_stack_is_marked_when_it_is_free(healing: Healing) -> None:
    stack = healing.engine.put_stack(healing.stack, Verb.UPDATE, Status.IN_PROGRESS)
    incident = healing.fire("g/2")
    healing.pass_(300)
    assert healing.told(incident) == ("CONFIRMED", "busy")
    healing.engine.put_stack(stack, Verb.UPDATE, Status.COMPLETE)
    healing.pass_(60)
    assert healing.told(incident) == ("MARKED", "mode_off")


@pytest.mark.slow
def test_a_hundred_single_servers_are_a_storm(engine: Engine) -> None:
    stacks = [engine.create(template(a=thing()), name=f"s{number}") for number in range(12)]
    with engine.clock.held():
        subjects = [Healing(engine, stack) for stack in stacks]
        subjects[0].pass_(700)
        incidents = [subject.fire("a") for subject in subjects]
        subjects[0].pass_(600)
        assert {subjects[0].told(one) for one in incidents} == {("CONFIRMED", "storm")}
        source = engine.store.of(HealingStore).sources.get("demo", "alertmanager")
        assert source is not None and source.storm_since is not None
        for one in incidents[:9]:
            subjects[0].resolve(one)
        subjects[0].pass_(600)
        source = engine.store.of(HealingStore).sources.get("demo", "alertmanager")
        assert source is not None and source.storm_since is None
        assert {subjects[0].told(one) for one in incidents[9:]} == {("OBSERVED", "confirming")}
        assert not any("CHECK" in state for one in subjects for state in engine.states(one.stack).values())


def a_file(healing: Healing) -> StackRecord:
    """A stack with one real object, old enough to be trusted."""
    return files(healing, 1)


def files(healing: Healing, number: int) -> StackRecord:
    """A stack with some real objects, old enough to be trusted."""
    made = {"type": "Example::Local::File", "properties": {"content": "x"}}
    with_file = template(**dict.fromkeys("abcde"[:number], made), **({"b": thing()} if number == 1 else {}))
    healing.stack = healing.engine.create(with_file, name="files", wait=False)
    healing.sweep(20)
    healing.stack = healing.engine.settle(healing.stack)
    healing.pass_(700)
    return healing.stack


@pytest.mark.slow
def test_repairs_that_fail_suspend_the_scope(healing: Healing, plugins: Path) -> None:
    a_file(healing)
    healing.policy(**{**AUTO, "cooldown": 100}, give_up_after=2)
    incident = healing.fire("a")
    away = plugins.rename(plugins.with_name("away"))
    healing.pass_(90)
    assert healing.told(incident) == ("MARKED", "cooldown")
    assert healing.incident(incident).step == 1
    healing.pass_(60)
    assert healing.updates() == 1, "the pause doubles with each failure"
    healing.pass_(200)
    assert healing.told(incident) == ("MARKED", "scope_suspended")
    assert healing.updates() == 2
    healing.pass_(3600)
    assert healing.updates() == 2
    away.rename(plugins)
    healing.engine.components.of(Parts).operations.acknowledge(MEMBER, healing.stack, "type:Example::Local::File")
    healing.pass_(600)
    assert healing.told(incident) == ("MARKED", "stale_evidence")
    healing.fire("a")
    healing.pass_(90)
    assert healing.told(incident)[0] == "SETTLING"
    assert healing.updates() == 3


def approve(healing: Healing, incident: str, digest: str) -> None:
    healing.engine.components.of(Parts).operations.approve(MEMBER, incident, digest)


@pytest.mark.slow
def test_a_repair_that_spreads_waits_for_approval(healing: Healing) -> None:
    config = {"type": "OS::Heat::RandomString", "properties": {"salt": {"get_attr": ["a", "output"]}}}
    healing.stack = healing.engine.create(template(a=thing(), b=config), name="spreads", wait=False)
    healing.sweep(5)
    healing.pass_(700)
    healing.policy(**AUTO)
    incident = healing.fire("a")
    healing.pass_(90)
    assert healing.told(incident) == ("PROPOSED", "spreads")
    digest = healing.incident(incident).plan_digest
    assert digest is not None
    approve(healing, incident, digest)
    healing.sweep()
    assert healing.told(incident)[0] == "SETTLING"


@pytest.mark.slow
def test_a_repair_of_an_id_within_a_text(healing: Healing) -> None:
    text = {"str_replace": {"template": "x-N", "params": {"N": {"get_resource": "a"}}}}
    user = {"type": "OS::Heat::SoftwareConfig", "properties": {"config": text}}
    source = {"type": "OS::Heat::RandomString"}
    healing.stack = healing.engine.create(template(a=source, b=user), name="texts", wait=False)
    healing.sweep(5)
    healing.pass_(700)
    healing.policy(**AUTO)
    incident = healing.fire("a")
    healing.pass_(90)
    assert healing.told(incident) == ("PROPOSED", "spreads")


@pytest.mark.slow
def test_a_look_that_fails_is_told_and_repeated(healing: Healing, monkeypatch: pytest.MonkeyPatch) -> None:
    healing.policy(**AUTO)
    incident = healing.fire("g/2")
    with monkeypatch.context() as patch:
        patch.setattr(Repairs, "_plan", lambda *_: 1 // 0)
        healing.pass_(90)
        assert healing.told(incident) == ("MARKED", "internal_error")
        healing.engine.lock(healing.stack)
        healing.pass_(90)
        assert healing.told(incident) == ("MARKED", "locked")
        healing.engine.unlock(healing.stack)
        healing.pass_(90)
        healing.fire("g/2")
        healing.pass_(90)
        assert healing.told(incident) == ("MARKED", "internal_error")
    healing.pass_(90)
    assert healing.told(incident)[0] == "SETTLING"


@pytest.mark.slow
def test_a_proposed_plan_is_carried_out_once_it_is_approved(healing: Healing) -> None:
    healing.policy(**{**AUTO, "mode": "propose"})
    incident = healing.fire("g/2")
    healing.pass_(90)
    digest = healing.incident(incident).plan_digest
    assert digest is not None
    with pytest.raises(PlanChanged):
        approve(healing, incident, "other")
    healing.engine.lock(healing.group)
    with pytest.raises(HealingHeld, match="locked"):
        approve(healing, incident, digest)
    healing.engine.unlock(healing.group)
    healing.pass_(120)
    assert healing.told(incident) == ("MARKED", "stale_evidence")
    healing.fire("g/2")
    healing.pass_(90)
    digest = healing.incident(incident).plan_digest
    assert digest is not None
    before = healing.ids()
    approve(healing, incident, digest)
    healing.sweep()
    assert healing.told(incident)[0] == "SETTLING"
    after = healing.ids()
    assert {name for name in before if before[name] != after[name]} == {"2"}
    assert "approved by mia: replace" in [line.reason for line in healing.incident(incident).history]
    with pytest.raises(InvalidStackState):
        approve(healing, incident, digest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "held"),
    few(
        [
            ({"mode": "off"}, ("MARKED", "mode_off")),
            ({"mode": "propose"}, ("PROPOSED", "awaiting_approval")),
            ({"ladder": [{"step": "reboot"}]}, ("MARKED", "no_step")),
        ]
    ),
)
def test_a_repair_takes_nothing_along_that_has_other_settings(
    healing: Healing, rule: JsonMap, held: tuple[str, str]
) -> None:
    """A rule exempts the data of each member, or has a person decide about it."""
    engine, files = healing.engine, {"pair.yaml": json.dumps(template(server=thing(), data=thing()))}
    healing.stack = engine.create(template(g=group(3, {"type": "pair.yaml"})), name="pairs", wait=False, files=files)
    healing.sweep(8)
    healing.pass_(700)
    healing.policy(**AUTO, rules=[{"match": "g/*/data", **rule}])
    member = nested(engine, healing.group, "1")
    before = engine.ids(member)
    server, data = healing.fire("g/1/server"), healing.fire("g/1/data")
    healing.pass_(120)
    assert {name for name, one in engine.ids(member).items() if one != before[name]} == {"server"}
    assert engine.states(member)["data"] == "CHECK_FAILED"
    assert healing.told(server) == ("SETTLING", None)
    assert healing.told(data)[0] == "MARKED"
    healing.resolve(server)
    healing.pass_(700)
    assert healing.told(server) == ("CLOSED", "healed")
    assert engine.ids(member)["data"] == before["data"]
    assert healing.told(data) == held
    if held[0] == "PROPOSED":
        digest = healing.incident(data).plan_digest
        assert digest is not None
        approve(healing, data, digest)
        healing.sweep()
        assert engine.ids(member)["data"] != before["data"]


def proposal(healing: Healing) -> tuple[str, str]:
    """Report a member until its repair is proposed. Returns incident and digest."""
    incident = healing.fire("g/2")
    healing.pass_(90)
    digest = healing.incident(incident).plan_digest
    assert digest is not None
    return incident, digest


@pytest.mark.slow
def test_a_proposal_whose_alert_has_resolved_is_not_approved(healing: Healing) -> None:
    healing.policy(**{**AUTO, "mode": "propose"})
    incident, digest = proposal(healing)
    healing.resolve(incident)
    with pytest.raises(ActionConflict, match="proposes no repair any more: resolved"):
        approve(healing, incident, digest)
    healing.sweep()
    assert healing.told(incident) == ("CLOSED", "resolved")
    assert healing.updates() == 0


@pytest.mark.slow
def test_an_acknowledgement_of_a_scope_that_works_takes_no_proposal_back(healing: Healing) -> None:
    healing.policy(**{**AUTO, "mode": "propose"})
    with healing.store.transaction():
        healing.rows.scopes.save(HealingScopeRecord(healing.stack.id, "g", failures=1))
    incident, digest = proposal(healing)
    healing.engine.components.of(Parts).operations.acknowledge(MEMBER, healing.stack, "g")
    assert healing.rows.scopes.of_root(healing.stack.id)["g"].failures == 0
    healing.sweep()
    approve(healing, incident, digest)


def test_a_held_approval_tells_how_to_repair_all_the_same(healing: Healing) -> None:
    healing.policy(**{**AUTO, "mode": "propose"})
    incident, digest = proposal(healing)
    healing.policy(**{**AUTO, "mode": "propose"}, windows=[{"cron": "0 0 1 1 *", "duration": 3600}])
    with pytest.raises(HealingHeld, match="or ignore it: heatlite heal --ignore window_closed s g/2"):
        approve(healing, incident, digest)


@pytest.mark.slow
def test_a_proposal_beyond_steps_that_a_type_cannot_do_is_approved(healing: Healing) -> None:
    healing.policy(**{**AUTO, "mode": "propose"}, ladder=LADDER)
    incident, digest = proposal(healing)
    approve(healing, incident, digest)
    healing.sweep()
    assert healing.told(incident)[0] == "SETTLING"
    (repair,) = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert (repair.step, repair.position) == (RepairStep.REPLACE, 2)


@pytest.mark.slow
def test_the_step_that_is_left_waits_for_its_window(healing: Healing) -> None:
    ladder: list[JsonMap] = [{"step": "reboot", "any_time": True}, {"step": "replace"}]
    healing.policy(**AUTO, ladder=ladder, windows=[{"cron": "0 0 1 1 *", "duration": 3600}])
    incident = healing.fire("g/2")
    healing.pass_(90)
    assert healing.told(incident) == ("MARKED", "window_closed"), "no proposal that nobody may approve"
    healing.resolve(incident)
    healing.sweep()
    assert healing.told(incident) == ("CLOSED", "resolved")


def test_an_incident_that_is_closed_by_hand_is_muted(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    operations = healing.engine.components.of(Parts).operations
    operations.close(MEMBER, incident, "the probe is wrong")
    assert healing.told(incident) == ("CLOSED", "cleared")
    assert healing.states()["2"] == "CHECK_COMPLETE"
    (episode,) = operations.alerts(incident)
    assert episode.muted_for == healing.incident(incident).physical_id
    assert healing.incident(incident).history[-1].reason == "closed by mia: the probe is wrong"
    with pytest.raises(InvalidStackState):
        operations.close(MEMBER, incident, "")
    with pytest.raises(EntityNotFound):
        operations.close(Context("other"), incident, "")


@pytest.mark.slow
def test_a_policy_that_is_put_starts_nothing(healing: Healing) -> None:
    operations = healing.engine.components.of(Parts).operations
    incident = healing.fire("g/2")
    healing.pass_(300)
    assert healing.told(incident) == ("MARKED", "mode_off")
    operations.put_policy(MEMBER, healing.stack, {"healing_policy": "2026-11-22", **AUTO})
    healing.pass_(3600)
    assert healing.told(incident) == ("MARKED", "stale_evidence")
    with pytest.raises(PolicyChanged):
        operations.put_policy(MEMBER, healing.stack, {"healing_policy": "2026-11-22", "version": 7})
    with pytest.raises(HTTPBadRequest, match="nested"):
        operations.put_policy(MEMBER, healing.group, {"healing_policy": "2026-11-22"})
    operations.put_policy(MEMBER, healing.stack, {"healing_policy": "2026-11-22", "version": 1})
    operations.delete_policy(MEMBER, healing.stack)
    with pytest.raises(EntityNotFound):
        operations.delete_policy(MEMBER, healing.stack)
    shown = operations.overview(healing.engine.get(healing.stack))
    assert shown.policy is None
    scope = next(one for one in shown.scopes if one.scope == "g")
    assert (scope.facts.members, scope.facts.unhealthy, scope.facts.under_repair) == (6, 1, 0)


@pytest.mark.slow
def test_deletion_during_a_repair_leaves_nothing(healing: Healing, plugins: Path) -> None:
    healing.stop_own_sweep()
    stack = a_file(healing)
    healing.policy(**AUTO)
    incident = healing.fire("a")
    while healing.told(incident)[0] != "REPAIRING":
        healing.engine.clock.pass_(30)
        healing.loop.sweep()
    healing.engine.delete(stack, wait=False)
    healing.sweep(20)
    assert healing.told(incident) == ("CLOSED", "gone")
    assert [path.name for path in plugins.iterdir() if path.name != "journal"] == []


@pytest.mark.slow
def test_two_engines_begin_one_repair(healing: Healing) -> None:
    healing.policy(**AUTO)
    healing.fire("g/2")
    healing.engine.clock.pass_(100)
    loops = [healing.loop, HealingLoop(healing.store, healing.engine.clock, healing.engine.settings,
                                       healing.engine.components.repairs, Meter())]  # fmt: skip
    for _ in range(8):
        threads = [threading.Thread(target=loop.sweep) for loop in loops]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    healing.sweep()
    assert healing.updates() == 1


@pytest.mark.slow
def test_a_mark_that_is_taken_back_by_hand_closes_the_incident(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    healing.engine.mark(healing.group, "2", unhealthy=False)
    healing.pass_(60)
    assert healing.told(incident) == ("CLOSED", "cleared")
    assert healing.states()["2"] == "CHECK_COMPLETE"
    (episode,) = healing.engine.components.of(Parts).operations.alerts(incident)
    assert episode.muted_for == healing.incident(incident).physical_id


@pytest.mark.slow
def test_a_mark_stays_after_a_check_that_finds_the_object(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    healing.engine.check(healing.stack)
    healing.sweep(2)
    assert healing.told(incident) == ("MARKED", "mode_off")
    assert healing.states()["2"] == "CHECK_FAILED"


@pytest.mark.slow
def test_a_member_in_a_group_in_a_group_is_repaired_from_the_root(healing: Healing) -> None:
    engine = healing.engine
    healing.stack = engine.create(template(g=group(2, group(2, thing()))), name="deep", wait=False)
    healing.sweep(8)
    healing.pass_(700)
    healing.policy(**AUTO)
    groups = {name: nested(engine, healing.group, name) for name in ("0", "1")}
    before = {name: engine.ids(stack) for name, stack in groups.items()}
    engine.lock(groups["1"])
    incident = healing.fire("g/1/0")
    healing.pass_(120)
    assert healing.told(incident) == ("OBSERVED", "locked")
    engine.unlock(groups["1"])
    engine.lock(groups["0"])
    begin = engine.now_on(groups["0"])
    healing.fire("g/1/0")
    healing.pass_(700)
    healing.fire("g/1/0")
    healing.pass_(120)
    assert healing.told(incident)[0] == "SETTLING"
    assert (healing.incident(incident).member, healing.incident(incident).scope) == ("g/1/0", "g/1")
    after = {name: engine.ids(stack) for name, stack in groups.items()}
    assert after["0"] == before["0"]
    assert {name for name in before["1"] if before["1"][name] != after["1"][name]} == {"0"}
    assert engine.told(groups["0"], begin) == []
    engine.unlock(groups["0"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(12), 4, pytest.mark.thorough))
def test_no_history_breaks_a_brake(healing: Healing, seed: int) -> None:
    """Limits hold in random histories, and each mark has its incident.

    A history has reports, time, locks, updates, scalings and deletions.
    """
    draw = Random(seed)
    healing.policy(mode="auto", cooldown=0, max_unhealthy=2, parallel=1, max_repairs={"count": 2, "per": 3600})
    engine, locked, begun = healing.engine, False, 0
    for number in range(25):
        path = f"g/{draw.choice(sorted(healing.ids()))}"
        match draw.choice((*["fire"] * 3, "resolve", *["wait"] * 3, "lock", "update", "scale", "drop")):
            case "fire" if not locked:
                healing.fire(path, draw.choice(("alertmanager", "grafana")), key=f"{path} {number}")
            case "resolve":
                for one in healing.rows.incidents.open_of_root(healing.stack.id):
                    if one.path == path:
                        healing.resolve(one.id)
            case "wait":
                healing.pass_(draw.choice((30, 90, 400, 900)))
            case "lock":
                (engine.unlock if locked else engine.lock)(healing.stack)
                locked = not locked
            case "update" if not locked:
                engine.patch(healing.stack)
            case "scale" if not locked:
                change(healing, ScaleOut(1) if len(healing.ids()) < 5 else ScaleIn(1, Criteria.RANDOM))
            case "drop" if not locked and len(healing.ids()) > 3:
                change(healing, DeleteMembers((path.removeprefix("g/"),), reduce=draw.random() < 0.5))
        healing.sweep(2)
        incidents = healing.rows.incidents.open_of_root(healing.stack.id)
        marked = {one.resource_id for one in incidents if one.is_marked}
        assert all(one.due is not None or one.action_id is not None for one in incidents)
        rows = engine.rows(healing.group)
        assert {row.id for row in rows if row.state_without_lock.verb is Verb.CHECK} <= marked | {
            row.id for row in rows if row.state_without_lock.status is Status.COMPLETE
        }
        assert len({(one.path, one.source) for one in incidents}) == len(incidents)
        assert len({one.member for one in incidents if one.state in (REPAIRING, SETTLING)}) <= 1
        rows_of = healing.rows.repairs.of_root(healing.stack.id, 0.0)  # one for each source
        repairs = [*{(one.action_id, one.member): one for one in rows_of}.values()]
        for one in repairs:
            assert sum(one.begun_at - 3600 < other.begun_at <= one.begun_at for other in repairs) <= 2
        if len(repairs) > begun:
            begun = len(repairs)
            assert len({one.member for one in incidents}) <= 2 and not locked
    assert healing.store.inconsistencies(healing.now, 0.0) == []
    if locked:
        engine.unlock(healing.stack)
    engine.delete(healing.stack)
    healing.pass_(60)
    assert healing.rows.incidents.open_of_root(healing.stack.id) == []
    assert healing.store.inconsistencies(healing.now, 0.0) == []


def change(healing: Healing, request: SizeRequest) -> None:
    """Change the size of the group."""
    healing.engine.components.groups.change(MEMBER, healing.engine.get(healing.stack), "g", request)
    healing.sweep(1)


@pytest.mark.slow
def test_a_protected_resource_is_not_repaired_until_it_is_reported_again(healing: Healing) -> None:
    healing.policy(**AUTO)
    protection = healing.engine.components.protection
    protection.protect(MEMBER, healing.group, "2", None)
    before = healing.ids()
    incident = healing.fire("g/2")
    for _ in range(5):
        healing.pass_(200)
        assert healing.told(incident) == ("MARKED", "restricted")
    protection.unprotect(MEMBER, healing.group, "2", None)
    healing.pass_(400)
    assert healing.told(incident) == ("MARKED", "stale_evidence")
    assert healing.ids() == before
    healing.fire("g/2")
    healing.pass_(120)
    assert healing.told(incident)[0] == "SETTLING"


def test_a_tree_that_cannot_be_read_is_looked_at_later(healing: Healing) -> None:
    incident = healing.fire("g/2")
    with healing.store.transaction():
        record = HealingPolicyRecord(healing.stack.id, {"healing_policy": "broken"}, 1, "mia", healing.now)
        healing.rows.policies.put(record)
    now = healing.now
    healing.loop.sweep()
    assert healing.incident(incident).due == now + 60


@pytest.mark.slow
def test_a_mark_of_two_sources_goes_with_the_last(healing: Healing) -> None:
    first = healing.fire("g/2")
    healing.pass_(90)
    begin = healing.engine.now_on(healing.group)
    second = healing.fire("g/2", source="grafana")
    healing.pass_(90)
    assert (healing.told(first)[0], healing.told(second)[0]) == ("MARKED", "MARKED")
    healing.resolve(first)
    healing.sweep()
    assert healing.told(first) == ("CLOSED", "resolved")
    assert healing.states()["2"] == "CHECK_FAILED"
    assert healing.engine.told(healing.group, begin) == []
    healing.resolve(second)
    healing.sweep()
    assert healing.states()["2"] == "CHECK_COMPLETE"


@pytest.mark.slow
def test_a_mark_by_hand_that_came_first_stays(healing: Healing) -> None:
    healing.engine.mark(healing.group, "2")
    incident = healing.fire("g/2")
    healing.pass_(90)
    assert healing.told(incident)[0] == "MARKED"
    healing.resolve(incident)
    healing.sweep()
    assert healing.told(incident) == ("CLOSED", "resolved")
    assert healing.states()["2"] == "CHECK_FAILED"
    again = healing.fire("g/2", key="again")
    healing.pass_(90)
    healing.engine.mark(healing.group, "2", unhealthy=False)
    healing.pass_(60)
    assert healing.told(again) == ("CLOSED", "cleared")


# -- by hand -----------------------------------------------------------------------------------------


def heal(healing: Healing, *resources: str, **options: object) -> None:
    asked = HealRequest(resources, **options)  # type: ignore[arg-type]
    healing.engine.components.of(Parts).by_hand.heal(MEMBER, healing.engine.get(healing.stack), asked, {"heal": None})


def mark(healing: Healing, member: str) -> None:
    healing.engine.components.health.mark(MEMBER, healing.group, member, True, "smoke")


@pytest.mark.slow
def test_what_is_marked_is_repaired_by_hand(healing: Healing) -> None:
    with pytest.raises(InvalidStackState, match="Nothing is marked"):
        heal(healing)
    healing.policy(**AUTO)
    mark(healing, "2")
    before = healing.ids()
    heal(healing)
    healing.sweep()
    after = healing.ids()
    assert {name for name in before if before[name] != after[name]} == {"2"}
    (incident,) = healing.rows.incidents.open_of_root(healing.stack.id)
    assert (incident.source, incident.path, incident.state) == ("api", "g/2", SETTLING)
    (repair,) = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert (repair.member, repair.result) == ("g/2", RepairResult.SUCCEEDED)
    healing.pass_(700)
    assert healing.told(incident.id) == ("CLOSED", "quiet")


@pytest.mark.slow
def test_brakes_hold_a_repair_by_hand_unless_they_are_ignored(healing: Healing) -> None:
    incident = healing.fire("g/2")
    healing.pass_(90)
    with pytest.raises(HealingHeld, match="mode_off"):
        heal(healing, "g/2")
    assert healing.updates() == 0
    healing.policy(**{**AUTO, "mode": "propose", "cooldown": 3600})
    with pytest.raises(HealingHeld, match="parallel"):
        heal(healing, "g/1", "g/2")
    with pytest.raises(ResourceNotFound):
        heal(healing, "g/9")
    heal(healing, "g/2")  # an order is an approval
    healing.sweep()
    assert healing.told(incident)[0] == "SETTLING"
    with pytest.raises(HealingHeld, match="cooldown, parallel"):
        heal(healing, "g/1")
    before = healing.ids()
    heal(healing, "g/1", ignore=frozenset({Brake.REPAIR_COOLDOWN, Brake.PARALLEL, Brake.BREAKER_OPEN}))
    healing.sweep()
    after = healing.ids()
    assert {name for name in before if before[name] != after[name]} == {"1"}


@pytest.mark.slow
def test_a_lock_on_the_path_refuses_a_repair_by_hand_and_is_told(healing: Healing) -> None:
    healing.policy(**AUTO)
    healing.engine.lock(healing.group)
    with pytest.raises(StackLocked):
        heal(healing, "g/2", ignore=IGNORABLE)
    told = [one.request for one in healing.store.suppressed.list(healing.stack.id)]
    assert told == ["heal"]
    assert healing.rows.incidents.open_of_root(healing.stack.id) == []
    heal(healing, "other")  # off the path
    healing.sweep()
    assert healing.updates() == 1


@pytest.mark.slow
def test_a_repair_of_what_is_marked_tells_that_it_is_locked(healing: Healing) -> None:
    mark(healing, "2")
    healing.engine.lock(healing.group)
    stack = healing.engine.get(healing.stack)
    with pytest.raises(InvalidStackState, match=r"All that is marked in stack s is locked: g/2\."):
        healing.engine.components.of(Parts).by_hand.plan(stack, HealRequest())
    with pytest.raises(InvalidStackState, match="is locked: g/2"):
        heal(healing)
    healing.engine.unlock(healing.group)
    healing.engine.components.health.mark(MEMBER, healing.group, "2", False, "")
    with pytest.raises(InvalidStackState, match="Nothing is marked"):
        heal(healing)


def test_a_named_step_and_a_changed_plan(healing: Healing) -> None:
    healing.policy(**AUTO)
    with pytest.raises(PlanChanged):
        heal(healing, "g/2", plan_digest="other")
    with pytest.raises(NotSupported):
        heal(healing, "g/2", step=RepairStep.REBUILD)
    assert healing.updates() == 0


@pytest.mark.slow
def test_a_repair_by_hand_skips_steps_that_a_type_cannot_do(healing: Healing) -> None:
    healing.policy(**AUTO, ladder=LADDER)
    mark(healing, "2")
    plan = healing.engine.components.of(Parts).by_hand.plan(healing.stack, HealRequest())
    heal(healing, plan_digest=plan.digest)
    (repair,) = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert (repair.path, repair.step, repair.position) == ("g/2", RepairStep.REPLACE, 2)


@pytest.mark.slow
def test_many_repairs_by_hand_are_no_storm(healing: Healing) -> None:
    healing.policy(**{**AUTO, "max_unhealthy": "100%", "parallel": 6})
    for member in "01234":
        heal(healing, f"g/{member}")
        healing.sweep(2)
    assert healing.updates() == 5


@pytest.mark.slow
def test_a_repair_by_hand_follows_one_whose_end_no_sweep_has_seen(healing: Healing) -> None:
    healing.stop_own_sweep()
    healing.policy(**AUTO)
    heal(healing, "g/2")
    healing.engine.wait_for(lambda: not healing.store.actions.live_of_root(healing.stack.id))
    (incident,) = healing.rows.incidents.open_of_root(healing.stack.id)
    assert incident.state is REPAIRING
    with pytest.raises(HealingHeld, match="parallel"):  # it settles
        heal(healing, "g/2")
    heal(healing, "g/2", ignore=frozenset({Brake.PARALLEL}))
    healing.sweep()
    first, second = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert (first.result, second.result) == (RepairResult.SUCCEEDED, RepairResult.SUCCEEDED)


@pytest.mark.slow
def test_a_report_may_come_with_the_end_of_a_repair_that_another_follows(
    healing: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    healing.stop_own_sweep()
    healing.policy(**AUTO)
    heal(healing, "g/2")
    healing.engine.wait_for(lambda: not healing.store.actions.live_of_root(healing.stack.id))
    incidents = healing.rows.incidents
    move = incidents.move

    def move_after_a_report(record: IncidentRecord) -> bool:
        incidents.note_reports([record.id], healing.now)
        return move(record)

    with monkeypatch.context() as patch:
        patch.setattr(incidents, "move", move_after_a_report)
        with pytest.raises(ActionConflict, match="has not ended yet"):
            heal(healing, "g/2", ignore=frozenset({Brake.PARALLEL}))
    heal(healing, "g/2", ignore=frozenset({Brake.PARALLEL}))


@pytest.mark.slow
def test_an_incident_whose_repair_has_ended_unseen_is_not_closed_in_silence(healing: Healing) -> None:
    healing.stop_own_sweep()
    healing.policy(**AUTO)
    heal(healing, "g/2")
    healing.engine.wait_for(lambda: not healing.store.actions.live_of_root(healing.stack.id))
    (incident,) = healing.rows.incidents.open_of_root(healing.stack.id)
    operations = healing.engine.components.of(Parts).operations
    with pytest.raises(ActionConflict, match=r"is REPAIRING.*try again"):
        operations.close(MEMBER, incident.id, "it is well")
    healing.sweep(1)
    operations.close(MEMBER, incident.id, "it is well")
    assert healing.told(incident.id) == ("CLOSED", "cleared")


# -- marks by request and of checks --------------------------------------------------------------------


@pytest.mark.slow
def test_a_mark_by_request_is_repaired_where_the_policy_names_it(healing: Healing) -> None:
    healing.policy(**AUTO)
    mark(healing, "1")
    healing.pass_(600)
    assert (healing.rows.incidents.open_of_root(healing.stack.id), healing.updates()) == ([], 0)
    healing.policy(**AUTO, sources=["api"], max_unhealthy=2)
    healing.engine.clock.pass_(1)
    mark(healing, "2")
    before = healing.ids()
    healing.sweep()
    (first, second) = healing.rows.incidents.open_of_root(healing.stack.id)
    told = {one.path: (healing.told(one.id), one.source, one.summary) for one in (first, second)}
    assert told["g/1"] == (("MARKED", "stale_evidence"), "api", "smoke")  # the policy came after that mark
    assert told["g/2"][0][0] == "SETTLING"
    assert {name for name, one in healing.ids().items() if before[name] != one} == {"2"}
    healing.pass_(1200)
    mark(healing, "1")
    healing.sweep()
    healing.pass_(90)
    assert {name for name, one in healing.ids().items() if before[name] != one} == {"1", "2"}


def test_a_mark_by_request_that_is_taken_back_closes_its_incident(healing: Healing) -> None:
    healing.policy(mode="off", sources=["api"])
    mark(healing, "2")
    healing.sweep()
    (incident,) = healing.rows.incidents.open_of_root(healing.stack.id)
    assert healing.told(incident.id) == ("MARKED", "mode_off")
    healing.engine.mark(healing.group, "2", unhealthy=False)
    healing.pass_(90)
    assert healing.told(incident.id) == ("CLOSED", "cleared")


@pytest.mark.slow
def test_a_second_opinion_holds_what_the_type_calls_healthy(healing: Healing) -> None:
    healing.policy(**AUTO, second_opinion="check")
    incident = healing.fire("g/2")
    healing.pass_(120)
    healing.sweep(6)
    assert healing.told(incident) == ("MARKED", "disputed")
    assert healing.states()["2"] == "CHECK_FAILED"
    healing.pass_(3600)
    assert (healing.told(incident), healing.updates()) == (("MARKED", "disputed"), 0)
    heal(healing, "g/2", ignore=frozenset({Brake.DISPUTED}))
    healing.sweep()
    assert healing.told(incident)[0] == "SETTLING"


@pytest.mark.slow
def test_a_second_opinion_is_asked_about_each_resource_of_a_member(healing: Healing, plugins: Path) -> None:
    """A resource that its check finds healthy is not replaced with a broken one."""
    engine, file = healing.engine, {"type": "Example::Local::File", "properties": {"content": "x"}}
    files = {"pair.yaml": json.dumps(template(server=file, data=file))}
    healing.stack = engine.create(template(g=group(4, {"type": "pair.yaml"})), name="pairs", wait=False, files=files)
    healing.sweep(20)
    healing.pass_(700)
    healing.policy(**AUTO, second_opinion="check")
    member = nested(engine, healing.group, "1")
    before = engine.ids(member)
    Path(str(engine.row(member, "server").physical_id)).unlink()
    server, data = healing.fire("g/1/server"), healing.fire("g/1/data")
    healing.pass_(120)
    healing.sweep(12)
    assert (healing.told(server), healing.told(data)) == (("SETTLING", None), ("MARKED", "disputed"))
    assert {name for name, one in engine.ids(member).items() if one != before[name]} == {"server"}


@pytest.mark.slow
def test_a_failed_check_is_repaired_where_the_policy_names_it(healing: Healing, plugins: Path) -> None:
    stack = files(healing, 5)
    healing.policy(**AUTO, sources=["check"], second_opinion="check")
    path_of = {name: Path(str(healing.engine.row(stack, name).physical_id)) for name in "abcde"}
    before = healing.engine.ids(stack)
    for name in "abc":  # most of them: another file system is more likely
        path_of[name].rename(path_of[name].with_suffix(".away"))
    healing.engine.check(stack)
    healing.pass_(120)
    assert (healing.rows.incidents.open_of_root(stack.id), healing.updates()) == ([], 0)
    assert set(healing.engine.states(stack).values()) == {"CREATE_COMPLETE", "CHECK_COMPLETE"}
    for name in "ab":
        path_of[name].with_suffix(".away").rename(path_of[name])
    healing.engine.check(stack)
    healing.sweep(12)
    (incident,) = healing.rows.incidents.open_of_root(stack.id)
    assert (incident.source, incident.path, incident.state) == ("check", "c", SETTLING)
    after = healing.engine.ids(stack)
    assert {name for name in before if before[name] != after[name]} == {"c"}


LADDER = [{"step": "reboot", "settle": 60}, {"step": "rebuild", "settle": 60}, {"step": "replace", "settle": 60}]


def again(healing: Healing, incident: str, path: str) -> str:
    """Report a slot again after its incident has closed as quiet.

    The intake opens another incident.
    """
    assert healing.told(incident) == ("CLOSED", "quiet")
    with healing.store.transaction():
        episodes = healing.rows.observations.of_incident(incident, 100)
        healing.rows.observations.save_many([replace(one, is_open=False) for one in episodes])
    return healing.fire(path, key=f"after {incident}")


def of_a_phoenix(healing: Healing) -> None:
    phoenix = {"type": "Test::Phoenix", "properties": {"value": "v"}}
    healing.stack = healing.engine.create(template(p=phoenix), name="phoenix", wait=False)
    healing.sweep(5)
    healing.pass_(700)
    healing.policy(**{**AUTO, "grace": 0, "give_up_after": 9}, ladder=LADDER)


@pytest.mark.slow
def test_a_reboot_that_helps_is_followed_by_nothing(healing: Healing) -> None:
    of_a_phoenix(healing)
    before = healing.engine.row(healing.stack, "p")
    incident = healing.fire("p")
    healing.pass_(90)
    after = healing.engine.row(healing.stack, "p")
    assert (after.id, after.physical_id) == (before.id, before.physical_id)
    assert (after.verb, after.status) == (Verb.UPDATE, Status.COMPLETE)
    assert after.data == {"rebuilt": 0, "rebooted": 1}
    healing.resolve(incident)
    healing.pass_(7200)
    assert healing.told(incident) == ("CLOSED", "healed")
    assert (healing.updates(), healing.engine.row(healing.stack, "p")) == (1, after)


@pytest.mark.slow
def test_the_ladder_goes_on_at_the_next_report_after_the_step_has_settled(healing: Healing) -> None:
    of_a_phoenix(healing)
    before = healing.engine.row(healing.stack, "p")
    incident = healing.fire("p")
    healing.pass_(60)
    healing.fire("p")  # while it settles: no effect
    healing.pass_(3000)
    assert healing.updates() == 1, "silence leads to nothing"
    incident = again(healing, incident, "p")
    healing.pass_(600)
    assert healing.engine.row(healing.stack, "p").data == {"rebuilt": 1, "rebooted": 1}
    assert healing.engine.row(healing.stack, "p").physical_id == before.physical_id
    incident = again(healing, incident, "p")
    healing.pass_(70)
    assert healing.engine.row(healing.stack, "p").physical_id != before.physical_id
    steps = [one.step for one in healing.rows.repairs.of_root(healing.stack.id, 0.0)]
    assert steps == [RepairStep.REBOOT, RepairStep.REBUILD, RepairStep.REPLACE]


@pytest.mark.slow
def test_steps_that_a_type_cannot_do_are_skipped_with_a_note(healing: Healing) -> None:
    healing.policy(**AUTO, ladder=LADDER)
    incident = healing.fire("g/2")
    healing.pass_(60)
    assert healing.told(incident)[0] == "SETTLING"
    line = next(one for one in healing.incident(incident).history if one.after == "REPAIRING")
    assert line.reason == "repair begun: replace; the type cannot reboot, rebuild"
    (repair,) = healing.rows.repairs.of_root(healing.stack.id, 0.0)
    assert (repair.step, repair.position) == (RepairStep.REPLACE, 2)
