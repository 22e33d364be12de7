"""Each brake alone, and each pair in the order in which they are asked."""

from itertools import combinations

from msgspec.structs import replace

from heatlite.features.healing.rules.brakes import (
    BrakeFacts,
    ScopeFacts,
    is_open,
    mark_brakes,
    next_look,
    repair_brakes,
    repair_cooldown_until,
)
from heatlite.features.healing.rules.policy import MemberLimit, PolicySettings
from heatlite.features.healing.rules.windows import read_window
from heatlite.features.healing.terms import Brake, Mode
from tests.tables import table

NOW = 100_000.0
WINDOW = read_window("0 2 * * sat", "UTC", 7200)
FREE = BrakeFacts(
    NOW,
    settings=PolicySettings(mode=Mode.AUTO),
    scope_settings=PolicySettings(mode=Mode.AUTO),
    scope=ScopeFacts(members=6),
    object_since=1.0,
    evidence_since=2.0,
)


def of_scope(facts: BrakeFacts, **changes: object) -> BrakeFacts:
    return replace(facts, scope=replace(facts.scope, **changes))  # type: ignore[arg-type]


def of_settings(facts: BrakeFacts, **changes: object) -> BrakeFacts:
    return replace(
        facts,
        settings=replace(facts.settings, **changes),  # type: ignore[arg-type]
        scope_settings=replace(facts.scope_settings, **changes),  # type: ignore[arg-type]
    )


def held_by(facts: BrakeFacts, brake: Brake) -> BrakeFacts:
    """Return the facts with what makes a brake hold."""
    match brake:
        case Brake.MODE_OFF:
            return of_settings(facts, mode=Mode.OFF)
        case Brake.SOURCE_NOT_LISTED:
            return of_settings(facts, sources=("grafana",))
        case Brake.SCOPE_SUSPENDED:
            return of_scope(facts, is_suspended=True)
        case Brake.BREAKER_OPEN:
            return of_scope(facts, unhealthy=2)
        case Brake.CANCELLED | Brake.DISPUTED | Brake.CANNOT_LOOK:
            return replace(facts, needs_resolved=brake)
        case Brake.STALE_EVIDENCE:
            return replace(facts, evidence_after=5.0, evidence_since=NOW - 1)
        case Brake.BELOW_MIN:
            return of_settings(facts, min_unhealthy=5)
        case Brake.WINDOW_CLOSED:
            return replace(of_settings(facts, windows=(WINDOW,)), window_open=False, next_window=NOW + 9)
        case Brake.REPAIR_COOLDOWN:
            return of_scope(facts, last_repair_end=NOW - 299)
        case Brake.RATE:
            return of_scope(facts, begun=(NOW - 3, NOW - 2, NOW - 1))
        case Brake.PARALLEL:
            return of_scope(facts, under_repair=1)
        case Brake.AWAITING_APPROVAL:
            return of_settings(facts, mode=Mode.PROPOSE)
        case Brake.IN_GRACE:
            return replace(facts, object_since=NOW - 599)
        case Brake.CONFIRMING:
            return replace(facts, evidence_since=NOW - 59)
        case _:
            name, value = FLAGS[brake]
            return replace(facts, **{name: value})  # type: ignore[arg-type]


FLAGS = {
    Brake.LOCKED: ("is_locked", True),
    Brake.STACK_SUSPENDED: ("is_suspended", True),
    Brake.STACK_FAILED: ("stack_failed", True),
    Brake.SOURCE_BLIND: ("is_blind", True),
    Brake.STORM: ("has_storm", True),
    Brake.RESTRICTED: ("is_restricted", True),
    Brake.NO_CREDENTIAL: ("has_credential", False),
    Brake.NO_STEP: ("has_step", False),
    Brake.BUSY: ("is_busy", True),
    Brake.SPREADS: ("spreads", True),
}
OF_MARK = [
    Brake.LOCKED, Brake.STACK_SUSPENDED, Brake.SOURCE_BLIND, Brake.STORM, Brake.BREAKER_OPEN, Brake.BUSY,
    Brake.IN_GRACE, Brake.CONFIRMING,
]  # fmt: skip
OF_OTHERS = (Brake.IN_GRACE, Brake.CONFIRMING, Brake.INTERNAL_ERROR, Brake.QUOTA)
OF_REPAIR = [brake for brake in Brake if brake not in OF_OTHERS]
ONE_OF = ({Brake.MODE_OFF, Brake.AWAITING_APPROVAL}, {Brake.CANCELLED, Brake.DISPUTED, Brake.CANNOT_LOOK})
"""Brakes of which only one can hold at a time."""


def test_nothing_holds_what_is_free() -> None:
    assert mark_brakes(FREE) == repair_brakes(FREE) == []


@table("brake", OF_MARK)
def test_each_brake_alone_holds_the_mark(brake: Brake) -> None:
    follows = [Brake.CONFIRMING] if brake is Brake.IN_GRACE else []  # the hold begins when grace ends
    assert [held.brake for held in mark_brakes(held_by(FREE, brake))] == [brake, *follows]


@table("brake", OF_REPAIR)
def test_each_brake_alone_holds_the_repair(brake: Brake) -> None:
    assert [held.brake for held in repair_brakes(held_by(FREE, brake))] == [brake]


def pairs(brakes: list[Brake]) -> list[tuple[Brake, Brake]]:
    return [pair for pair in combinations(brakes, 2) if not any(set(pair) <= one for one in ONE_OF)]


@table(("first", "second"), pairs(OF_REPAIR))
def test_the_first_of_each_pair_is_the_reason(first: Brake, second: Brake) -> None:
    both = held_by(held_by(FREE, second), first)
    if {first, second} == {Brake.BREAKER_OPEN, Brake.BELOW_MIN}:
        both = of_scope(both, unhealthy=4)
    assert [held.brake for held in repair_brakes(both)] == [first, second]


@table(("first", "second"), pairs(OF_MARK))
def test_the_first_of_each_pair_holds_the_mark(first: Brake, second: Brake) -> None:
    facts = held_by(held_by(FREE, second), first)
    brakes = [held.brake for held in mark_brakes(facts)]
    assert brakes[0] is first
    assert second in brakes


def test_approval_releases_what_waits_for_it() -> None:
    facts = held_by(held_by(FREE, Brake.SPREADS), Brake.AWAITING_APPROVAL)
    assert repair_brakes(facts, is_approved=True) == []
    assert [one.brake for one in repair_brakes(held_by(facts, Brake.LOCKED), is_approved=True)] == [Brake.LOCKED]


@table(
    ("limit", "members", "allowed"),
    [("30%", 1, 1), ("30%", 2, 1), ("40%", 2, 1), ("30%", 6, 1), ("30%", 10, 3), ("0%", 10, 0), (0, 10, 0), (4, 2, 4)],
)
def test_the_breaker_allows_at_least_one_by_per_cent(limit: str | int, members: int, allowed: int) -> None:
    assert MemberLimit.read(limit).of(members) == allowed
    facts = of_settings(of_scope(FREE, members=members, unhealthy=allowed), max_unhealthy=MemberLimit.read(limit))
    assert not is_open(facts)
    assert is_open(of_scope(facts, unhealthy=allowed + 1))


def test_an_outage_of_a_third_opens_the_breaker_of_four_members_or_more() -> None:
    assert [is_open(of_scope(FREE, members=n, unhealthy=max(1, -(-n // 3)))) for n in (1, 2, 3, 4, 6, 9)] == [
        False, False, False, True, True, True
    ]  # fmt: skip


def test_pauses_double_with_failures() -> None:
    settings = PolicySettings(cooldown=300)
    assert [repair_cooldown_until(ScopeFacts(failures=n, last_repair_end=0.0), settings) for n in range(4)] == [
        300.0, 600.0, 1200.0, 2400.0
    ]  # fmt: skip
    assert repair_cooldown_until(ScopeFacts(), settings) is None


def test_a_rate_is_free_when_the_earliest_leaves_the_period() -> None:
    (held,) = repair_brakes(of_scope(FREE, begun=(NOW - 3700, NOW - 30, NOW - 20, NOW - 10)))
    assert (held.brake, held.until) == (Brake.RATE, NOW - 30 + 3600)
    assert repair_brakes(of_scope(FREE, begun=(NOW - 3700, NOW - 3600, NOW - 20, NOW - 10))) == []


def test_grace_and_hold_follow_each_other() -> None:
    young = replace(FREE, object_since=NOW - 590, evidence_since=NOW - 300)
    held = mark_brakes(young)
    assert [(one.brake, one.until) for one in held] == [
        (Brake.IN_GRACE, NOW + 10),
        (Brake.CONFIRMING, NOW + 70),
    ]
    assert next_look(held, NOW) == NOW + 10
    settling = mark_brakes(replace(FREE, settles_until=NOW + 30))
    assert [(one.brake, one.until) for one in settling] == [(Brake.IN_GRACE, NOW + 30), (Brake.CONFIRMING, NOW + 90)]
    missing = mark_brakes(replace(FREE, evidence_since=None))
    assert [one.brake for one in missing] == [Brake.CONFIRMING]
    assert [one.brake for one in mark_brakes(of_settings(FREE, reports=2))] == [Brake.CONFIRMING]
    assert mark_brakes(replace(of_settings(FREE, reports=2), reports=2)) == []
