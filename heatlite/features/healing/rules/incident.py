"""State machine of an incident. Pure: incident and event in, effects out.

The loop asks `pending` for the next event in the order of importance, and `move` for its effects. `look` is the event
of an incident that is due: its brakes are asked.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, StrEnum, auto

from msgspec import Struct
from msgspec.structs import replace

from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.rules.brakes import LONGEST_HOLD, Held, next_look, stops
from heatlite.features.healing.store.records import HistoryLine, IncidentRecord
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState

OBSERVED, CONFIRMED, MARKED, PROPOSED, REPAIRING, SETTLING, CLOSED = IncidentState
MOST_HISTORY = 100
"""Lines of history kept; later ones replace the oldest but the first."""

OF_PLAN = frozenset({Brake.RESTRICTED, Brake.NO_STEP})
"""Stop brakes that only the plan of a repair shows."""

WAITS = frozenset({Brake.AWAITING_APPROVAL, Brake.SPREADS})
"""Brakes that an approval releases."""

REVERT_LOOK = 3600.0
"""Seconds between two looks at a planned revert, which read its objects. A change of the tree is looked at, too."""

BEFORE_REPAIR = frozenset({OBSERVED, CONFIRMED, MARKED, PROPOSED})


class IncidentEvent(StrEnum):
    """Events of an incident."""

    FIRING = "firing"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    RELEASED = "released"
    """A stop brake was released."""
    REPLACED = "replaced"
    """Another operation has replaced or rebuilt the object."""
    GONE = "gone"
    """The slot is gone."""
    CLEARED = "cleared"
    """An operator has taken the mark back or closed the incident."""
    BY_HAND = "by_hand"
    """An operator heals it, or approves its plan."""
    SUCCEEDED = "succeeded"
    """Its repair succeeded."""
    RECOVERED = "recovered"
    """Its repair succeeded, and the alert has resolved."""
    FAILED = "failed"
    """Its repair failed or timed out."""
    CANCELLED = "cancelled"
    """A person has cancelled its repair."""
    SETTLED = "settled"
    """No report came while its repair settled."""
    MARK_LOST = "mark_lost"
    """Another operation than an update has changed the state of the marked row."""
    PLAN_CHANGED = "plan_changed"
    """The plan that it proposes is no longer what would be done."""


class IncidentEffect(Enum):
    """Writes that belong to a move, in its transaction."""

    MARK = auto()
    UNMARK = auto()
    END_REPAIR = auto()
    """Write the end of the repair."""
    MUTE = auto()
    """Mute the keys for this object until they have resolved once."""


class IncidentTransition(Struct, frozen=True):
    """The consequence of an event in a state."""

    state: IncidentState
    effects: frozenset[IncidentEffect] = frozenset()
    closed_as: ClosedAs | None = None
    needs_resolved: Brake | None = None
    demands_evidence: bool = False
    next_step: bool = False


def _closed(closed_as: ClosedAs, *effects: IncidentEffect) -> IncidentTransition:
    return IncidentTransition(CLOSED, frozenset(effects), closed_as)


def _ends(state: IncidentState, closed_as: ClosedAs | None = None, **changes: object) -> IncidentTransition:
    effects = frozenset({IncidentEffect.END_REPAIR})
    return replace(IncidentTransition(state, effects, closed_as), **changes)  # type: ignore[arg-type]


def _before_repair(transition: IncidentTransition, unmarks: bool) -> dict[IncidentState, IncidentTransition]:
    marked = replace(transition, effects=transition.effects | {IncidentEffect.UNMARK}) if unmarks else transition
    return {OBSERVED: transition, CONFIRMED: transition, MARKED: marked, PROPOSED: marked}


TABLE: Mapping[IncidentEvent, Mapping[IncidentState, IncidentTransition]] = {
    IncidentEvent.FIRING: {},
    IncidentEvent.RESOLVED: {
        **_before_repair(_closed(ClosedAs.RESOLVED), unmarks=True),
        SETTLING: _closed(ClosedAs.HEALED),
    },
    IncidentEvent.EXPIRED: _before_repair(_closed(ClosedAs.EXPIRED), unmarks=True),
    IncidentEvent.RELEASED: {
        OBSERVED: IncidentTransition(OBSERVED, demands_evidence=True),
        CONFIRMED: IncidentTransition(OBSERVED, demands_evidence=True),
        MARKED: IncidentTransition(MARKED, demands_evidence=True),
        PROPOSED: IncidentTransition(MARKED, demands_evidence=True),
    },
    IncidentEvent.REPLACED: {
        **_before_repair(_closed(ClosedAs.REPLACED_BY_UPDATE), unmarks=False),
        SETTLING: _closed(ClosedAs.REPLACED_BY_UPDATE),
    },
    IncidentEvent.GONE: {
        **_before_repair(_closed(ClosedAs.GONE), unmarks=False),
        REPAIRING: _ends(CLOSED, ClosedAs.GONE),
        SETTLING: _closed(ClosedAs.GONE),
    },
    IncidentEvent.CLEARED: {
        **_before_repair(_closed(ClosedAs.CLEARED, IncidentEffect.MUTE), unmarks=True),
        SETTLING: _closed(ClosedAs.CLEARED, IncidentEffect.MUTE),
    },
    IncidentEvent.BY_HAND: dict.fromkeys((*BEFORE_REPAIR, SETTLING), IncidentTransition(REPAIRING)),
    IncidentEvent.SUCCEEDED: {REPAIRING: _ends(SETTLING)},
    IncidentEvent.RECOVERED: {REPAIRING: _ends(CLOSED, ClosedAs.HEALED)},
    IncidentEvent.FAILED: {REPAIRING: _ends(MARKED, next_step=True)},
    IncidentEvent.CANCELLED: {REPAIRING: _ends(MARKED, needs_resolved=Brake.CANCELLED)},
    IncidentEvent.SETTLED: {SETTLING: _closed(ClosedAs.QUIET)},
    IncidentEvent.MARK_LOST: {
        MARKED: IncidentTransition(MARKED, frozenset({IncidentEffect.MARK})),
        PROPOSED: IncidentTransition(MARKED, frozenset({IncidentEffect.MARK})),
    },
    IncidentEvent.PLAN_CHANGED: {PROPOSED: IncidentTransition(MARKED)},
}
"""The consequence of each event in each state. An event without one in a state changes nothing."""


class IncidentMove(Struct, frozen=True):
    """An incident after an event, with the writes that belong to it."""

    incident: IncidentRecord
    effects: frozenset[IncidentEffect] = frozenset()


def waits_in(incident: IncidentRecord) -> IncidentState:
    """Return the state in which an incident waits for its repair.

    Drift is no fault: it is never marked.
    """
    return CONFIRMED if incident.source == DRIFT else MARKED


def _for(incident: IncidentRecord, transition: IncidentTransition) -> IncidentTransition:
    """Return a transition as the source of the incident has it."""
    if transition.state is not MARKED or waits_in(incident) is MARKED:
        return transition
    state = OBSERVED if transition.demands_evidence else CONFIRMED
    return replace(transition, state=state, effects=transition.effects - {IncidentEffect.MARK})


def move(incident: IncidentRecord, event: IncidentEvent, now: float, reason: str = "") -> IncidentMove | None:
    """Return the incident after an event; None: nothing changes."""
    transition = TABLE[event].get(incident.state)
    if transition is None:
        return None
    transition = _for(incident, transition)
    effects = transition.effects
    if not incident.is_marked:
        effects -= {IncidentEffect.UNMARK}
    after = replace(
        incident,
        needs_resolved=transition.needs_resolved or incident.needs_resolved,
        step=incident.step + transition.next_step,
        due=now,
        reason=None,
        also=(),
    )
    if IncidentEffect.MARK in effects:
        after = replace(after, is_marked=True)
    if transition.demands_evidence:
        after = replace(after, evidence_after=now, evidence_since=None, reports=0)
    if transition.state is not PROPOSED:
        after = replace(after, plan_digest=None)
    return IncidentMove(_in_state(after, transition, now, reason or event.value), effects)


def _in_state(incident: IncidentRecord, transition: IncidentTransition, now: float, reason: str) -> IncidentRecord:
    if transition.state is CLOSED:
        incident = replace(incident, due=None, closed_at=now, closed_as=transition.closed_as)
    elif transition.state is REPAIRING:
        incident = replace(incident, attempt=incident.attempt + 1)
    return with_state(incident, transition.state, now, reason)


def with_state(incident: IncidentRecord, state: IncidentState, now: float, reason: str) -> IncidentRecord:
    """Return the incident in a state, with a line of history if it is another one."""
    if state is incident.state:
        return incident
    lines = (*incident.history, HistoryLine(now, incident.state.value, state.value, reason))
    if len(lines) > MOST_HISTORY:
        lines = (lines[0], *lines[len(lines) - MOST_HISTORY + 1 :])
    return replace(incident, state=state, history=lines)


class Wants(Enum):
    """The next condition that a due incident waits for."""

    NOTHING = auto()
    MARK = auto()
    REPAIR = auto()
    PROPOSAL = auto()


def look(incident: IncidentRecord, held: Sequence[Held], now: float) -> tuple[IncidentMove | None, Wants]:
    """Return the next state of an incident before a due repair, and its request.

    `held` are the brakes of its next move: of the mark for one that is to be marked, else of the repair. A stop brake
    that held it and is gone demands new evidence first.
    """
    brakes = [one.brake for one in held]
    before = [brake for brake in (incident.reason, *incident.also) if brake is not None]
    released = stops(before) - stops(brakes) - {Brake.STALE_EVIDENCE, Brake.INTERNAL_ERROR} - OF_PLAN
    if released:
        return move(incident, IncidentEvent.RELEASED, now, f"released: {', '.join(sorted(released))}"), Wants.NOTHING
    if incident.state is CONFIRMED and incident.evidence_since is None:
        return move(incident, IncidentEvent.RELEASED, now, "new evidence is demanded"), Wants.NOTHING
    if incident.state is OBSERVED:
        return _look_observed(incident, held, now)
    if incident.state is CONFIRMED and waits_in(incident) is MARKED:
        return (_hold(incident, held, now), Wants.NOTHING) if held else (None, Wants.MARK)
    if stops(brakes) and incident.state is PROPOSED:
        return IncidentMove(held_by(incident, held, now)), Wants.NOTHING
    if brakes and WAITS.issuperset(brakes):
        # It stays due until the proposal is written: this engine may end, or be slow, in between.
        return IncidentMove(replace(_with_brakes(incident, held), due=now)), Wants.PROPOSAL
    return (_hold(incident, held, now), Wants.NOTHING) if held else (None, Wants.REPAIR)


def _look_observed(incident: IncidentRecord, held: Sequence[Held], now: float) -> tuple[IncidentMove | None, Wants]:
    """Confirm the evidence, unless the tree accepts none.

    Other brakes of the mark do not matter.
    """
    unconfirmed = {Brake.LOCKED, Brake.STACK_SUSPENDED, Brake.IN_GRACE, Brake.CONFIRMING}
    waiting = [one for one in held if one.brake in unconfirmed]
    if not waiting:
        confirmed = replace(with_state(incident, CONFIRMED, now, "confirmed"), due=now)
        return IncidentMove(_with_brakes(confirmed, held)), Wants.NOTHING
    return _hold(incident, held, now, waiting), Wants.NOTHING


def _hold(incident: IncidentRecord, held: Sequence[Held], now: float, waiting: Sequence[Held] = ()) -> IncidentMove:
    """Hold an incident until its first reason may end, or until it expires.

    `waiting`: only these reasons count.
    """
    due = next_look(waiting or held, now)
    if incident.ttl is not None:
        due = min(due, max(incident.last_report_at + incident.ttl, now + LONGEST_HOLD))
    return IncidentMove(replace(_with_brakes(incident, held), due=due))


def _with_brakes(incident: IncidentRecord, held: Sequence[Held]) -> IncidentRecord:
    reason, *also = (one.brake for one in held) if held else (None,)
    return replace(incident, reason=reason, also=tuple(brake for brake in also if brake is not None))


def unseen(incident: IncidentRecord) -> IncidentRecord:
    """Return the incident after a look that has failed with an internal error."""
    held = [one for one in (incident.reason, *incident.also) if one not in (None, Brake.INTERNAL_ERROR)]
    return _with_brakes(incident, [Held(Brake.INTERNAL_ERROR), *map(Held, held)])


class Situation(Struct, frozen=True):
    """The present state of an incident's slot, alerts and repair."""

    is_gone: bool = False
    is_replaced: bool = False
    """Another object fills the slot, or the object was made again."""
    is_standing: bool = True
    """An alert stands."""
    is_cleared: bool = False
    """An operator has taken the mark back."""
    lost_mark: bool = False
    """The incident marked the row, and it is no longer CHECK_FAILED."""
    repair: IncidentEvent | None = None
    """SUCCEEDED, FAILED or CANCELLED once the repair has ended."""
    clock_stands: bool = False
    """The tree is locked or suspended: nothing expires."""
    clock_since: float = 0.0
    """End of the last lock or suspension: the time to live begins anew."""
    is_busy: bool = False
    """The tree is busy: the row is not written."""


def pending(incident: IncidentRecord, situation: Situation, now: float) -> IncidentEvent | None:
    """Return the event that counts most; None: nothing has happened to it but time."""
    state = incident.state
    if situation.is_gone:
        return IncidentEvent.GONE
    if state is REPAIRING:
        if situation.repair is IncidentEvent.SUCCEEDED and not situation.is_standing:
            return IncidentEvent.RECOVERED
        return situation.repair
    if situation.is_replaced:
        return IncidentEvent.REPLACED
    if situation.is_cleared:
        return IncidentEvent.CLEARED
    can_write = not situation.clock_stands and not situation.is_busy
    if not situation.is_standing and (can_write or not incident.is_marked or state is SETTLING):
        return IncidentEvent.RESOLVED
    if state is SETTLING:
        over = incident.settles_until is not None and incident.settles_until <= now
        return IncidentEvent.SETTLED if over else None
    return _pending_write(incident, situation, now) if can_write else None


def _pending_write(incident: IncidentRecord, situation: Situation, now: float) -> IncidentEvent | None:
    """Return the event that changes the row; None: there is none."""
    alive_at = max(incident.last_report_at, situation.clock_since)
    if incident.ttl is not None and alive_at + incident.ttl < now:
        return IncidentEvent.EXPIRED
    return IncidentEvent.MARK_LOST if situation.lost_mark else None


def marked(incident: IncidentRecord, now: float) -> IncidentRecord:
    """Return the incident once it has marked its row."""
    after = replace(incident, is_marked=True, reason=None, also=(), due=now)
    return with_state(after, MARKED, now, "marked")


def proposed(incident: IncidentRecord, digest: str, held: Sequence[Held], now: float) -> IncidentRecord:
    """Return the incident with a plan that waits for approval."""
    after = replace(_with_brakes(incident, held), plan_digest=digest, due=next_look(held, now))
    if incident.source == DRIFT:
        after = replace(after, due=now + REVERT_LOOK)
    return with_state(after, PROPOSED, now, f"proposed: {held[0].brake}")


def held_by(incident: IncidentRecord, held: Sequence[Held], now: float) -> IncidentRecord:
    """Return the incident with brakes that showed only when its repair was to begin."""
    back = with_state(replace(incident, plan_digest=None), waits_in(incident), now, f"held: {held[0].brake}")
    return _hold(back, held, now).incident
