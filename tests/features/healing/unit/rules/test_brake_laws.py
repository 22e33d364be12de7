"""Brakes and the state machine together.

A held incident is not repaired. The release of a brake begins nothing.
"""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from heatlite.features.healing.rules.brakes import BrakeFacts, mark_brakes, repair_brakes
from heatlite.features.healing.rules.incident import OF_PLAN, Wants, look
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.terms import STOP_BRAKES, Brake, IncidentState
from tests.features.healing.unit.rules.test_brakes import FREE, NOW, OF_MARK, OF_REPAIR, held_by, of_scope, pairs
from tests.features.healing.unit.rules.test_incident import incident
from tests.tables import table

OBSERVED, CONFIRMED, MARKED, PROPOSED, *_ = IncidentState
BEGINS = {Wants.MARK, Wants.REPAIR, Wants.PROPOSAL}
WAITS_FOR_APPROVAL = {Brake.SPREADS, Brake.AWAITING_APPROVAL}
DAY = 86_400.0


def looked(one: IncidentRecord, facts: BrakeFacts) -> tuple[IncidentRecord, Wants]:
    """Look at an incident as the loop does. The evidence is the incident's."""
    asked = replace(
        facts,
        evidence_since=one.evidence_since,
        evidence_after=one.evidence_after,
        reports=one.reports,
        needs_resolved=one.needs_resolved or facts.needs_resolved,
    )
    if facts.evidence_after or facts.evidence_since != FREE.evidence_since:  # the brake is one of the evidence
        asked = facts
    held = mark_brakes(asked) if one.state in (OBSERVED, CONFIRMED) else repair_brakes(asked)
    result, wants = look(one, held, asked.now)
    return one if result is None else result.incident, wants


def open_incident(state: IncidentState) -> IncidentRecord:
    return incident(state, evidence_since=FREE.evidence_since, reports=1)


def told(one: IncidentRecord) -> tuple[Brake | None, ...]:
    return (one.reason, *one.also)


def both(first: Brake, second: Brake) -> BrakeFacts:
    facts = held_by(held_by(FREE, second), first)
    return of_scope(facts, unhealthy=4) if {first, second} == {Brake.BREAKER_OPEN, Brake.BELOW_MIN} else facts


def test_what_nothing_holds_is_marked_and_repaired() -> None:
    assert looked(open_incident(CONFIRMED), FREE)[1] is Wants.MARK
    assert looked(open_incident(MARKED), FREE)[1] is Wants.REPAIR


@table("brake", OF_REPAIR)
def test_a_brake_alone_allows_no_repair_and_is_the_reason(brake: Brake) -> None:
    after, wants = looked(open_incident(MARKED), held_by(FREE, brake))
    assert wants is (Wants.PROPOSAL if brake in WAITS_FOR_APPROVAL else Wants.NOTHING)
    assert told(after) == (brake,)


@table("brake", OF_MARK)
def test_a_brake_alone_allows_no_mark_and_is_the_reason(brake: Brake) -> None:
    after, wants = looked(open_incident(CONFIRMED), held_by(FREE, brake))
    assert wants is Wants.NOTHING
    assert told(after)[0] is brake


@table(("first", "second"), pairs(OF_REPAIR))
def test_of_two_brakes_the_first_is_the_reason_and_the_other_in_also(first: Brake, second: Brake) -> None:
    after, wants = looked(open_incident(MARKED), both(first, second))
    assert wants is (Wants.PROPOSAL if {first, second} <= WAITS_FOR_APPROVAL else Wants.NOTHING)
    assert told(after) == (first, second)


@table(("first", "second"), pairs(OF_MARK))
def test_of_two_brakes_of_the_mark_the_other_is_in_also(first: Brake, second: Brake) -> None:
    after, wants = looked(open_incident(CONFIRMED), both(first, second))
    assert wants is Wants.NOTHING
    assert told(after)[0] is first and second in after.also


def releases() -> Iterator[tuple[Brake, IncidentState]]:
    """Yield each stop brake that facts show, in each state that it holds.

    The brakes of a plan and after an error are in the engine's tests.
    """
    for brake in sorted(STOP_BRAKES - OF_PLAN - {Brake.INTERNAL_ERROR}):
        yield from ((brake, state) for state in (MARKED, PROPOSED))
        yield from ((brake, state) for state in (OBSERVED, CONFIRMED) if brake in OF_MARK)


@pytest.mark.slow
@table(("brake", "state"), list(releases()))
def test_a_released_stop_brake_begins_nothing_within_a_day(brake: Brake, state: IncidentState) -> None:
    one, wants = looked(open_incident(state), held_by(FREE, brake))
    assert wants not in BEGINS
    if brake is Brake.STALE_EVIDENCE:
        one = replace(one, evidence_after=NOW, evidence_since=None)
    now = NOW
    while now < NOW + DAY:
        now += 300
        one, wants = looked(one, replace(FREE, now=now))
        assert wants not in BEGINS
        assert one.state in (OBSERVED, MARKED)
    reported = replace(one, evidence_since=now, reports=1)
    for later, begins in ((1.0, False), (59.0, False), (60.0, True)):
        facts = replace(FREE, now=now + later)
        after, wants = looked(reported, facts)
        after, wants = looked(after, facts) if after.state is CONFIRMED else (after, wants)
        assert (wants in BEGINS) is begins, later
