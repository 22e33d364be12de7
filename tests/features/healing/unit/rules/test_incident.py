"""The state machine of an incident: each event in each state."""


from msgspec.structs import replace

from heatlite.features.healing.rules.brakes import Held
from heatlite.features.healing.rules.incident import (
    MOST_HISTORY,
    IncidentEvent,
    Situation,
    Wants,
    look,
    move,
    pending,
    with_state,
)
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.terms import Brake, IncidentState
from tests.tables import table

OBSERVED, CONFIRMED, MARKED, PROPOSED, REPAIRING, SETTLING, CLOSED = IncidentState
NOW = 1000.0


def incident(state: IncidentState, **changes: object) -> IncidentRecord:
    record = IncidentRecord(
        "i", "acme", "alertmanager", "root", "stack", "web/0", "web/0", "web", "row", "vm-1", state, 1.0, 1.0,
        evidence_since=1.0, ttl=21600, due=NOW, is_marked=state in (MARKED, PROPOSED), plan_digest="digest",
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


NOTHING = dict.fromkeys(IncidentState, "")
BEFORE = (OBSERVED, CONFIRMED, MARKED, PROPOSED)

EXPECTED: dict[IncidentEvent, dict[IncidentState, str]] = {
    IncidentEvent.FIRING: {},
    IncidentEvent.RESOLVED: {
        OBSERVED: "CLOSED resolved",
        CONFIRMED: "CLOSED resolved",
        MARKED: "CLOSED resolved UNMARK",
        PROPOSED: "CLOSED resolved UNMARK",
        SETTLING: "CLOSED healed",
    },
    IncidentEvent.EXPIRED: {
        OBSERVED: "CLOSED expired",
        CONFIRMED: "CLOSED expired",
        MARKED: "CLOSED expired UNMARK",
        PROPOSED: "CLOSED expired UNMARK",
    },
    IncidentEvent.RELEASED: {
        OBSERVED: "OBSERVED evidence",
        CONFIRMED: "OBSERVED evidence",
        MARKED: "MARKED evidence",
        PROPOSED: "MARKED evidence",
    },
    IncidentEvent.REPLACED: dict.fromkeys((*BEFORE, SETTLING), "CLOSED replaced_by_update"),
    IncidentEvent.GONE: {**dict.fromkeys((*BEFORE, SETTLING), "CLOSED gone"), REPAIRING: "CLOSED gone END_REPAIR"},
    IncidentEvent.CLEARED: {
        OBSERVED: "CLOSED cleared MUTE",
        CONFIRMED: "CLOSED cleared MUTE",
        MARKED: "CLOSED cleared MUTE UNMARK",
        PROPOSED: "CLOSED cleared MUTE UNMARK",
        SETTLING: "CLOSED cleared MUTE",
    },
    IncidentEvent.BY_HAND: dict.fromkeys((*BEFORE, SETTLING), "REPAIRING"),
    IncidentEvent.SUCCEEDED: {REPAIRING: "SETTLING END_REPAIR"},
    IncidentEvent.RECOVERED: {REPAIRING: "CLOSED healed END_REPAIR"},
    IncidentEvent.FAILED: {REPAIRING: "MARKED END_REPAIR next"},
    IncidentEvent.CANCELLED: {REPAIRING: "MARKED END_REPAIR cancelled"},
    IncidentEvent.SETTLED: {SETTLING: "CLOSED quiet"},
    IncidentEvent.MARK_LOST: {MARKED: "MARKED MARK", PROPOSED: "MARKED MARK"},
    IncidentEvent.PLAN_CHANGED: {PROPOSED: "MARKED"},
}


@table("state", IncidentState)
@table("event", IncidentEvent)
def test_each_event_in_each_state(event: IncidentEvent, state: IncidentState) -> None:
    before = incident(state)
    result = move(before, event, NOW)
    expected = EXPECTED[event].get(state)
    if expected is None:
        assert result is None
        return
    assert result is not None
    after = result.incident
    told = [after.state.value]
    told += [after.closed_as.value] if after.closed_as else []
    told += sorted(effect.name for effect in result.effects)
    told += ["evidence"] if after.evidence_after == NOW and after.evidence_since is None else []
    told += ["next"] if after.step == before.step + 1 else []
    told += [after.needs_resolved.value] if after.needs_resolved else []
    assert told == expected.split()
    assert (after.due is None, after.closed_at is not None) == (after.state is CLOSED, after.state is CLOSED)
    assert [line.after for line in after.history] == ([] if after.state is state else [after.state.value])
    assert (after.plan_digest is None) == (after.state is not PROPOSED)


def test_an_unmarked_incident_takes_back_no_mark() -> None:
    result = move(incident(MARKED, is_marked=False), IncidentEvent.RESOLVED, NOW)
    assert result is not None and result.effects == frozenset()


def test_history_keeps_its_first_line() -> None:
    record = incident(OBSERVED)
    for number in range(150):
        record = with_state(record, (CONFIRMED, OBSERVED)[number % 2], float(number), "x")
    assert len(record.history) == MOST_HISTORY
    assert (record.history[0].time, record.history[-1].time) == (0.0, 149.0)


LOOKS = [
    (OBSERVED, [Brake.LOCKED, Brake.IN_GRACE], "OBSERVED", Wants.NOTHING),
    (OBSERVED, [Brake.CONFIRMING], "OBSERVED", Wants.NOTHING),
    (OBSERVED, [Brake.BREAKER_OPEN], "CONFIRMED", Wants.NOTHING),
    (OBSERVED, [], "CONFIRMED", Wants.NOTHING),
    (CONFIRMED, [Brake.BUSY], "CONFIRMED", Wants.NOTHING),
    (CONFIRMED, [], None, Wants.MARK),
    (MARKED, [Brake.MODE_OFF], "MARKED", Wants.NOTHING),
    (MARKED, [Brake.REPAIR_COOLDOWN, Brake.AWAITING_APPROVAL], "MARKED", Wants.NOTHING),
    (MARKED, [Brake.AWAITING_APPROVAL], "MARKED", Wants.PROPOSAL),
    (MARKED, [Brake.SPREADS, Brake.AWAITING_APPROVAL], "MARKED", Wants.PROPOSAL),
    (MARKED, [], None, Wants.REPAIR),
    (PROPOSED, [Brake.AWAITING_APPROVAL], "PROPOSED", Wants.PROPOSAL),
    (PROPOSED, [Brake.LOCKED], "MARKED", Wants.NOTHING),
]


@table(("state", "brakes", "after", "wants"), LOOKS)
def test_an_incident_that_is_due(state: IncidentState, brakes: list[Brake], after: str | None, wants: Wants) -> None:
    result, wanted = look(incident(state), [Held(brake) for brake in brakes], NOW)
    assert wanted is wants
    assert (None if result is None else result.incident.state.value) == after
    if result is not None and brakes:
        assert (result.incident.reason, *result.incident.also) == tuple(brakes)


def test_a_window_is_the_next_time_to_look() -> None:
    for ttl, due in ((None, 99_000.0), (200_000, 99_000.0), (21_600, 21_601.0), (900, NOW + 60)):
        result, _ = look(incident(MARKED, ttl=ttl), [Held(Brake.WINDOW_CLOSED, 99_000.0)], NOW)
        assert result is not None and result.incident.due == due, "it expires at the end of its time to live"
    result, _ = look(incident(MARKED), [Held(Brake.REPAIR_COOLDOWN, NOW + 5)], NOW)
    assert result is not None and result.incident.due == NOW + 5
    result, _ = look(incident(MARKED), [Held(Brake.RATE, NOW + 5000)], NOW)
    assert result is not None and result.incident.due == NOW + 60


@table("state", BEFORE)
def test_the_release_of_a_stop_brake_demands_evidence(state: IncidentState) -> None:
    record = incident(state, reason=Brake.BUSY, also=(Brake.LOCKED,))
    result, wants = look(record, [], NOW)
    assert result is not None and wants is Wants.NOTHING
    assert (result.incident.evidence_after, result.incident.evidence_since) == (NOW, None)
    result, wants = look(incident(state, reason=Brake.BUSY), [], NOW)
    assert result is None or result.incident.evidence_since is not None


SITUATIONS = [
    (OBSERVED, Situation(), 2.0, None),
    (OBSERVED, Situation(is_gone=True, is_replaced=True), 2.0, IncidentEvent.GONE),
    (OBSERVED, Situation(is_replaced=True, is_standing=False), 2.0, IncidentEvent.REPLACED),
    (OBSERVED, Situation(is_standing=False, clock_stands=True), 2.0, IncidentEvent.RESOLVED),
    (MARKED, Situation(is_standing=False), 2.0, IncidentEvent.RESOLVED),
    (MARKED, Situation(is_standing=False, is_busy=True), 2.0, None),
    (MARKED, Situation(is_standing=False, clock_stands=True), 2.0, None),
    (MARKED, Situation(), 30_000.0, IncidentEvent.EXPIRED),
    (MARKED, Situation(clock_stands=True), 30_000.0, None),
    (MARKED, Situation(clock_since=9_000.0), 30_000.0, None),
    (MARKED, Situation(clock_since=9_000.0), 31_000.0, IncidentEvent.EXPIRED),
    (MARKED, Situation(lost_mark=True), 2.0, IncidentEvent.MARK_LOST),
    (MARKED, Situation(lost_mark=True, is_cleared=True, clock_stands=True), 2.0, IncidentEvent.CLEARED),
    (MARKED, Situation(lost_mark=True, is_busy=True), 2.0, None),
    (REPAIRING, Situation(is_replaced=True, is_standing=False), 30_000.0, None),
    (REPAIRING, Situation(repair=IncidentEvent.SUCCEEDED), 2.0, IncidentEvent.SUCCEEDED),
    (REPAIRING, Situation(repair=IncidentEvent.SUCCEEDED, is_standing=False), 2.0, IncidentEvent.RECOVERED),
    (REPAIRING, Situation(repair=IncidentEvent.FAILED, is_standing=False), 2.0, IncidentEvent.FAILED),
    (SETTLING, Situation(), 2.0, None),
    (SETTLING, Situation(), 600.0, IncidentEvent.SETTLED),
    (SETTLING, Situation(is_standing=False), 600.0, IncidentEvent.RESOLVED),
]


@table(("state", "situation", "now", "event"), SITUATIONS)
def test_what_has_happened(state: IncidentState, situation: Situation, now: float, event: IncidentEvent | None) -> None:
    assert pending(incident(state, settles_until=500.0), situation, now) is event


def test_an_incident_without_time_to_live_never_expires() -> None:
    assert pending(incident(MARKED, ttl=None), Situation(), 1e9) is None
