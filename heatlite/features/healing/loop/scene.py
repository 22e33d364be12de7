"""Facts of incidents, collected from a tree for the state machine and the brakes."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from msgspec import Struct

from heatlite.core.actions.check_tally import CheckCounts
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Status, Verb
from heatlite.features.healing.loop.tree import SlotPlace, WatchedTree
from heatlite.features.healing.reports import API, CHECK, DRIFT
from heatlite.features.healing.rules.brakes import BrakeFacts
from heatlite.features.healing.rules.incident import IncidentEvent, Situation, waits_in
from heatlite.features.healing.rules.slots import drift_scope
from heatlite.features.healing.rules.windows import next_start, opened_at
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.terms import Brake, IncidentState, SecondOpinion
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.store import Store

MADE = frozenset({Verb.CREATE, Verb.ADOPT, Verb.UPDATE, Verb.ROLLBACK, Verb.RESTORE})
"""Verbs that make or change an object."""

HOLDS_MARK = frozenset({IncidentState.MARKED, IncidentState.PROPOSED})
"""States in which an incident needs the mark of its row, though another one may have set it."""

OPINION = 300.0
"""Seconds for which a second opinion counts; one that the object is healthy counts until the alert resolves."""

CANNOT_MARK = frozenset({Verb.INIT, Verb.DELETE, Verb.SUSPEND})


class Scene(Struct, frozen=True, dict=True):
    """A tree and its reports at one moment."""

    store: Store
    tree: WatchedTree
    now: float
    standing: Mapping[str, bool]
    """By incident with episodes: True if one of them is open."""
    blind: Callable[[str], Collection[str]]
    """Return the paths of the tree at which a source cannot see; "" is the whole tree."""
    storms: frozenset[str]
    """Sources with a storm."""
    has_credential: bool = True

    @cached_property
    def busy_stacks(self) -> frozenset[str]:
        """Ids of stacks that an action holds."""
        return frozenset(action.stack_id for action in self.tree.actions)

    def place(self, incident: IncidentRecord) -> SlotPlace | None:
        """Return the place of an incident; None: it is gone."""
        return self.tree.places.get(incident.path)

    def situation(self, incident: IncidentRecord) -> Situation:
        """Return what has become of an incident."""
        place = self.place(incident)
        repair = self._repair(incident)
        works = incident.state is IncidentState.REPAIRING
        if place is None or self.tree.is_going:
            return Situation(is_gone=not works or repair is not None or self.tree.is_going)
        row, is_busy = place.row, self.is_busy(place)
        lost = needs_mark(incident) and not is_busy and _has_lost_mark(row)
        return Situation(
            is_replaced=not is_busy and _is_replaced(incident, row),
            is_cleared=lost and row.moved_in is None,
            is_standing=_stands(incident, row, self.standing.get(incident.id, True)),
            lost_mark=lost,
            repair=repair,
            clock_stands=self.is_locked(place) or self.is_suspended(place),
            clock_since=self.tree.released_at,
            is_busy=is_busy,
        )

    def _repair(self, incident: IncidentRecord) -> IncidentEvent | None:
        """Return the end of the repair of an incident; None while it runs."""
        if incident.state is not IncidentState.REPAIRING:
            return None
        action = None if incident.action_id is None else self.store.actions.get(incident.action_id)
        if action is None:
            return IncidentEvent.FAILED
        if action.status not in ENDED_ACTIONS:
            return None
        ends = {ActionStatus.SUCCEEDED: IncidentEvent.SUCCEEDED, ActionStatus.CANCELLED: IncidentEvent.CANCELLED}
        return ends.get(action.status, IncidentEvent.FAILED)

    def facts(self, incident: IncidentRecord, place: SlotPlace, any_time: bool = False) -> BrakeFacts:
        """Return the facts that the brakes of an incident are asked with."""
        tree, now = self.tree, self.now
        settings = tree.policy.at(incident.path)
        scope = drift_scope(incident.scope) if incident.source == DRIFT else incident.scope
        open_since = opened_at(settings.windows, now)
        return BrakeFacts(
            now=now,
            source=incident.source,
            settings=settings,
            scope_settings=tree.policy.of_scope(incident.scope),
            scope=tree.scope_facts(scope, now),
            is_locked=self.is_locked(place),
            is_suspended=self.is_suspended(place),
            stack_failed=tree.stack_failed,
            is_blind=self._is_blind(incident),
            has_storm=incident.source in self.storms,
            is_busy=self.is_busy(place),
            has_credential=self.has_credential,
            object_since=self.object_since(place),
            settles_until=tree.settles_until(incident.path),
            evidence_since=incident.evidence_since,
            evidence_after=incident.evidence_after,
            reports=incident.reports,
            needs_resolved=incident.needs_resolved or self._doubt(incident),
            step_any_time=any_time,
            window_open=open_since is not None,
            next_window=next_start(settings.windows, now) if settings.windows and open_since is None else None,
        )

    def _is_blind(self, incident: IncidentRecord) -> bool:
        """Return True if the source of an incident cannot see its target.

        A check is blind if it could not look at most objects of the tree.
        """
        if incident.source == CHECK:
            tally = None if self.last_check is None else self.last_check.outputs.checked
            return tally is not None and 2 * tally.unknown > tally.healthy + tally.unhealthy + tally.unknown
        return not {"", incident.path}.isdisjoint(self.blind(incident.source))

    @cached_property
    def last_check(self) -> ActionRecord | None:
        """Last check of the root."""
        return self.store.actions.last(self.tree.root.id, Verb.CHECK)

    def needs_opinion(self, incident: IncidentRecord) -> bool:
        """Return True if the type has to be asked before an incident is repaired."""
        if incident.source == DRIFT:  # the plan of a revert looks itself
            return False
        wanted = self.tree.policy.at(incident.path).second_opinion is SecondOpinion.CHECK
        return wanted and self._opinion(incident) is None

    def _opinion(self, incident: IncidentRecord) -> CheckCounts | None:
        """Return the result of the check for a second opinion.

        None: there is no recent one.
        """
        if incident.action_id is None or self.tree.policy.at(incident.path).second_opinion is not SecondOpinion.CHECK:
            return None
        action = self.store.actions.get(incident.action_id)
        if action is None or action.verb is not Verb.CHECK or action.status not in ENDED_ACTIONS:
            return None
        tally = action.outputs.checked or CheckCounts()
        is_recent = action.created_at + OPINION > self.now
        return tally if is_recent or tally.healthy and not tally.unhealthy else None

    def _doubt(self, incident: IncidentRecord) -> Brake | None:
        """Return the brake of a second opinion that does not agree."""
        tally = self._opinion(incident)
        if tally is None or tally.unhealthy:
            return None
        return Brake.DISPUTED if tally.healthy and not tally.unknown else Brake.CANNOT_LOOK

    def is_locked(self, place: SlotPlace) -> bool:
        """Return True if a stack on the path, or the nested stack of the row, is locked."""
        stacks = place.stacks if place.nested is None else (*place.stacks, place.nested)
        return any(one.locked for one in stacks)

    def is_suspended(self, place: SlotPlace) -> bool:
        """Return True if a stack on the path or the resource is suspended."""
        verbs = [one.state_without_lock[0] for one in place.stacks]
        return Verb.SUSPEND in verbs or place.row.state_without_lock.verb is Verb.SUSPEND

    def is_busy(self, place: SlotPlace) -> bool:
        """Return True if an action holds the tree, or the row is in progress."""
        stacks_busy = any(one.status is Status.IN_PROGRESS for one in place.stacks)
        return bool(self.busy_stacks) or stacks_busy or place.row.status is Status.IN_PROGRESS

    def object_since(self, place: SlotPlace) -> float:
        """Return the time at which an object was made, changed, unlocked or resumed last."""
        row = place.row
        state = row.state_without_lock
        changed = state.updated_at if state.verb in MADE else None
        return max(row.created_at, changed or 0.0, self.tree.released_at)


def needs_mark(incident: IncidentRecord) -> bool:
    """Return True if an incident needs the mark of its row."""
    return incident.state in HOLDS_MARK and waits_in(incident) is IncidentState.MARKED


def can_mark(row: ResourceRecord) -> bool:
    """Return True if a row can be marked now."""
    return row.physical_id is not None and row.status is not Status.IN_PROGRESS and row.verb not in CANNOT_MARK


def _stands(incident: IncidentRecord, row: ResourceRecord, is_reported: bool) -> bool:
    """Return True while a report stands.

    That of a request or a check stands while the row is marked. `is_reported` is that of other sources.
    """
    if incident.source in (API, CHECK) and incident.state in HOLDS_MARK:
        return not _has_lost_mark(row) or row.state_without_lock.status is not Status.COMPLETE
    return is_reported


def _is_replaced(incident: IncidentRecord, row: ResourceRecord) -> bool:
    """Return True if another operation has replaced or rebuilt an incident's object."""
    if row.id != incident.resource_id or (row.physical_id or "") != incident.physical_id:
        return True
    state = row.state_without_lock
    return needs_mark(incident) and state.verb in MADE and state.status is Status.COMPLETE


def _has_lost_mark(row: ResourceRecord) -> bool:
    """Return True if a row lost its CHECK_FAILED mark while its object stayed."""
    state = row.state_without_lock
    return (state.verb, state.status) != (Verb.CHECK, Status.FAILED) and can_mark(row) and not row.is_locked
