"""Brakes: reasons not to mark and not to repair. Pure: facts in, brakes out.

They are in the order in which they are asked.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from heatlite.features.healing.rules.policy import MOST_DOUBLINGS, PolicySettings
from heatlite.features.healing.terms import STOP_BRAKES, Brake, Mode

LONGEST_HOLD = 60.0
"""Seconds after which a held incident is looked at again, at the latest."""


class Held(Struct, frozen=True):
    """A brake that holds."""

    brake: Brake
    until: float | None = None
    """Time at which it is known to end."""


class ScopeFacts(Struct, frozen=True):
    """Facts of the scope of an incident."""

    members: int = 1
    unhealthy: int = 1
    """Members with an open incident, a failed row, or under repair or settling."""
    under_repair: int = 0
    """Members that a repair works on, or whose repair settles."""
    is_suspended: bool = False
    failures: int = 0
    """Failed repairs in a row."""
    last_repair_end: float | None = None
    begun: tuple[float, ...] = ()
    """Begins of its repairs, earliest first."""


class BrakeFacts(Struct, frozen=True):
    """Facts of one incident, read in the transaction that would move it."""

    now: float
    source: str = "alertmanager"
    settings: PolicySettings = PolicySettings()
    """Settings of its path."""
    scope_settings: PolicySettings = PolicySettings()
    """Settings of its scope."""
    scope: ScopeFacts = ScopeFacts()
    is_locked: bool = False
    """A stack on the path is locked."""
    is_suspended: bool = False
    """The stack or the resource is suspended."""
    stack_failed: bool = False
    """The last change of the root failed and was no repair."""
    is_blind: bool = False
    has_storm: bool = False
    is_busy: bool = False
    """An action holds the tree, or the row is in progress."""
    is_restricted: bool = False
    has_credential: bool = True
    has_step: bool = True
    object_since: float = 0.0
    """Time at which the object was made, changed, unlocked or resumed last."""
    settles_until: float = 0.0
    """End of the time in which the last repair of the slot has to prove itself."""
    evidence_since: float | None = None
    evidence_after: float = 0.0
    reports: int = 1
    needs_resolved: Brake | None = None
    step_any_time: bool = False
    """The step needs no window."""
    window_open: bool = True
    next_window: float | None = None
    spreads: bool = False
    """The repair would touch more than the member."""


def is_open(facts: BrakeFacts) -> bool:
    """Return True if the breaker of the scope is open."""
    return facts.scope.unhealthy > facts.scope_settings.max_unhealthy.of(facts.scope.members)


def mark_brakes(facts: BrakeFacts) -> list[Held]:
    """Return the brakes that hold the mark of an incident of a source."""
    return [*_tree(facts), *_sight(facts), *_breaker(facts), *_busy(facts), *_confirmation(facts)]


def repair_brakes(facts: BrakeFacts, is_approved: bool = False) -> list[Held]:
    """Return the brakes that hold the repair of an incident.

    `is_approved`: an operator has approved its plan.
    """
    return [*_stops(facts), *_paces(facts, is_approved)]


def _stops(facts: BrakeFacts) -> Iterator[Held]:
    if facts.settings.mode_of(facts.source) is Mode.OFF:
        yield Held(Brake.MODE_OFF)
    if not facts.settings.lists(facts.source):
        yield Held(Brake.SOURCE_NOT_LISTED)
    yield from _tree(facts)
    if facts.stack_failed:
        yield Held(Brake.STACK_FAILED)
    yield from _sight(facts)
    if facts.scope.is_suspended:
        yield Held(Brake.SCOPE_SUSPENDED)
    yield from _breaker(facts)
    if facts.is_restricted:
        yield Held(Brake.RESTRICTED)
    if facts.needs_resolved is not None:
        yield Held(facts.needs_resolved)
    if not facts.has_credential:
        yield Held(Brake.NO_CREDENTIAL)
    if not facts.has_step:
        yield Held(Brake.NO_STEP)
    yield from _evidence(facts)


def _paces(facts: BrakeFacts, is_approved: bool) -> Iterator[Held]:
    scope, settings = facts.scope, facts.scope_settings
    yield from _busy(facts)
    if scope.unhealthy < settings.min_unhealthy:
        yield Held(Brake.BELOW_MIN)
    if facts.settings.windows and not facts.window_open and not facts.step_any_time:
        yield Held(Brake.WINDOW_CLOSED, facts.next_window)
    cooled = repair_cooldown_until(scope, settings)
    if cooled is not None and facts.now < cooled:
        yield Held(Brake.REPAIR_COOLDOWN, cooled)
    recent = [begun for begun in scope.begun if begun > facts.now - settings.repairs_per]
    if len(recent) >= settings.max_repairs:
        # The earliest of the last `max_repairs` has to leave the period.
        frees = recent[-settings.max_repairs] + settings.repairs_per if settings.max_repairs else None
        yield Held(Brake.RATE, frees)
    if scope.under_repair >= max(1, settings.parallel.of(scope.members)):
        yield Held(Brake.PARALLEL)
    if facts.spreads and not is_approved:
        yield Held(Brake.SPREADS)
    if facts.settings.mode_of(facts.source) is Mode.PROPOSE and not is_approved:
        yield Held(Brake.AWAITING_APPROVAL)


def repair_cooldown_until(scope: ScopeFacts, settings: PolicySettings) -> float | None:
    """Return the end of the pause after the last repair of a scope.

    It doubles with each failure in a row.
    """
    if scope.last_repair_end is None:
        return None
    return scope.last_repair_end + settings.cooldown * float(2 ** min(scope.failures, MOST_DOUBLINGS))


def _tree(facts: BrakeFacts) -> Iterator[Held]:
    if facts.is_locked:
        yield Held(Brake.LOCKED)
    if facts.is_suspended:
        yield Held(Brake.STACK_SUSPENDED)


def _sight(facts: BrakeFacts) -> Iterator[Held]:
    if facts.is_blind:
        yield Held(Brake.SOURCE_BLIND)
    if facts.has_storm:
        yield Held(Brake.STORM)


def _breaker(facts: BrakeFacts) -> Iterator[Held]:
    if is_open(facts):
        yield Held(Brake.BREAKER_OPEN)


def _busy(facts: BrakeFacts) -> Iterator[Held]:
    if facts.is_busy:
        yield Held(Brake.BUSY)


def _evidence(facts: BrakeFacts) -> Iterator[Held]:
    """Hold a marked incident whose evidence was demanded again.

    It is held until the new evidence has stood for the hold.
    """
    if facts.evidence_after <= 0.0:
        return
    if facts.evidence_since is None:
        yield Held(Brake.STALE_EVIDENCE)
    elif facts.now < facts.evidence_since + facts.settings.hold:
        yield Held(Brake.STALE_EVIDENCE, facts.evidence_since + facts.settings.hold)


def _confirmation(facts: BrakeFacts) -> Iterator[Held]:
    """Hold an incident whose evidence is too young, or whose object is."""
    settled = max(facts.object_since + facts.settings.grace, facts.settles_until)
    if facts.now < settled:
        yield Held(Brake.IN_GRACE, settled)
    if facts.evidence_since is None or facts.reports < facts.settings.reports:
        yield Held(Brake.CONFIRMING)
        return
    confirmed = max(facts.evidence_since, settled) + facts.settings.hold
    if facts.now < confirmed:
        yield Held(Brake.CONFIRMING, confirmed)


def next_look(held: Sequence[Held], now: float) -> float:
    """Return the time of the next check of a held incident.

    That is when its first reason may end.
    """
    until = held[0].until if held else None
    if until is not None and held[0].brake is Brake.WINDOW_CLOSED:
        return until
    return now + LONGEST_HOLD if until is None else max(now, min(until, now + LONGEST_HOLD))


def stops(brakes: Sequence[Brake]) -> frozenset[Brake]:
    """Return those of the brakes whose release needs new evidence."""
    return STOP_BRAKES.intersection(brakes)
