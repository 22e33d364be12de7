"""The loop: once a second each engine looks at the incidents that are due.

One tree is one transaction, which holds the root's row and moves incidents by id and version. All that decides is in
rows. So a crash between two writes repeats or loses no decision, and several engines may sweep at once.
"""

import logging
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.errors import DatabaseUnavailable, HeatliteError
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.meter import Meter
from heatlite.core.runtime.timer import for_each
from heatlite.engine.operations.health_marks import row_with_mark
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.state.unit_of_work import resource_event
from heatlite.engine.why.tree import ExplainedTree
from heatlite.features.healing.loop.drift import note_drift
from heatlite.features.healing.loop.examining import ExaminedIncident, examined
from heatlite.features.healing.loop.marks import note_marks
from heatlite.features.healing.loop.repairing import REPAIR_LOOK, Repairing
from heatlite.features.healing.loop.scene import Scene, can_mark, needs_mark
from heatlite.features.healing.loop.scopes import count_failure, judge_new, refresh_breakers
from heatlite.features.healing.loop.storms import storms
from heatlite.features.healing.loop.tree import SlotPlace, WatchedTree, read_tree, tree_of
from heatlite.features.healing.metrics import REPAIR_DURATIONS, REPAIRS
from heatlite.features.healing.reports import API
from heatlite.features.healing.rules.brakes import LONGEST_HOLD, BrakeFacts, Held, mark_brakes, repair_brakes
from heatlite.features.healing.rules.incident import (
    BEFORE_REPAIR,
    IncidentEffect,
    IncidentEvent,
    IncidentMove,
    Wants,
    look,
    marked,
    move,
    pending,
    unseen,
    waits_in,
)
from heatlite.features.healing.rules.policy import DEFAULT, TreePolicy, read_policy
from heatlite.features.healing.store.records import IncidentRecord, RepairRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import UNCONFIRMED, IncidentState, RepairResult
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

MOST_DUE = 100
"""Incidents that one sweep looks at."""

GAP = 600.0
"""Seconds without a sweep of any engine after which new evidence comes first."""

NOTES = 30.0
"""Seconds between two notes that an engine sweeps."""

LONGEST_SUMMARY = 200
"""Characters of the alert in the reason of a mark."""

RESULTS = {
    IncidentEvent.SUCCEEDED: RepairResult.SUCCEEDED,
    IncidentEvent.RECOVERED: RepairResult.SUCCEEDED,
    IncidentEvent.CANCELLED: RepairResult.CANCELLED,
    IncidentEvent.GONE: RepairResult.CANCELLED,
    IncidentEvent.FAILED: RepairResult.FAILED,
}
JUST_CONFIRMED = (IncidentState.OBSERVED, IncidentState.CONFIRMED)
"""States before and after a confirmation. The mark follows at once if nothing holds it."""
LONGEST_REPAIR = 2 * 86400.0
"""Seconds to look back for repairs beyond the times of the policy, most of which begin with the end of a repair."""


class HealingLoop:
    """Moves the incidents that are due."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, repairs: Repairs, meter: Meter) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._clock = clock
        self._meter = meter
        self._with_keystone = settings.auth is Auth.KEYSTONE
        self.repairing = Repairing(store, repairs)
        self._noted = 0.0

    def sweep(self) -> None:
        """Look at the incidents that are due.

        Raises DatabaseUnavailable, after the last tree: another process may hold the row of one only.
        """
        now = self._clock.now()
        if not 0 <= now - self._noted < NOTES:
            self._note_sweep(now)
        for_each(self._rows.incidents.due_roots(now, MOST_DUE), partial(self._look_at, now))

    def _look_at(self, now: float, root_id: str) -> None:
        # One tree must not keep the others from their repairs.
        with logged(log, "cannot look at the incidents of stack %s", root_id) as look:
            self._see_to(root_id)
        if look.failed:
            later = now + LONGEST_HOLD
            with self._store.transaction():
                self._rows.incidents.postpone(root_id, now, later)
                self._rows.policies.postpone(root_id, now, later)
            with self._store.transaction():
                for incident in self._rows.incidents.open_of_root(root_id):
                    if incident.due == later and incident.state in BEFORE_REPAIR:
                        self._rows.incidents.move(unseen(incident))

    def _note_sweep(self, now: float) -> None:
        """Note that an engine sweeps. After a gap all incidents need new evidence."""
        with self._store.transaction():
            last = self._rows.sweeps.last()
            if self._rows.sweeps.swept(now, last) and last is not None and now - last > GAP:
                self._rows.incidents.demand_evidence(now)
        self._noted = now

    # -- one tree ------------------------------------------------------------------------------------

    def _see_to(self, root_id: str) -> None:
        """Move the due incidents of a tree, then begin the repairs that nothing holds."""
        now = self._clock.now()
        with self._store.transaction():
            root = self._store.stacks.lock(root_id)
            scene = None if root is None or root.deleted_at is not None else self.scene(root, now)
            if scene is None:
                left = self._rows.incidents.open_of_root(root_id)
                for incident in left:
                    self.apply(None, incident, IncidentEvent.GONE, now)
                self._end_storms(left, now)
                self._rows.policies.delete(root_id)
                return
            scene = self._with_marks(scene)
            wanting = [one.id for one in scene.tree.incidents if one.due is not None and one.due <= now]
            places = map(scene.place, (one for one in scene.tree.incidents if one.id in wanting))
            # Before incidents, as the end of an action does.
            self._store.stacks.locks.take(place.row.stack_id for place in places if place is not None)
            wanting = [one for one in wanting[:MOST_DUE] if self._step(scene, one)]
            self.judge_after_closing(scene, now)
        if wanting:
            self._begin_repairs(root_id, wanting)

    def _with_marks(self, scene: Scene) -> Scene:
        """Take new marks by request and of checks as reports. Returns the tree with them."""
        root = scene.tree.root
        due = self._rows.policies.due(root.id)
        if due is None or due > scene.now:
            return scene
        stored = self._rows.policies.get(root.id)
        if scene.tree.actions:
            self._rows.policies.postpone(root.id, scene.now, scene.now + REPAIR_LOOK)  # drift waits for their end
        else:
            self._rows.policies.looked(root.id, due)
        since = 0.0 if stored is None else stored.updated_at
        changed = note_marks(self._store, scene.tree, since, scene.now)
        changed = note_drift(self._store, scene.tree, since, scene.now) or changed
        return self.scene(root, scene.now) if changed else scene

    def _begin_repairs(self, root_id: str, wanting: Sequence[str]) -> None:
        now = self._clock.now()

        def attempt(known: ExaminedIncident) -> None:
            with self._store.transaction():
                root = self._store.stacks.lock(root_id)
                if root is not None and root.deleted_at is None:
                    self.repairing.begin(self.scene(root, now), wanting, known)

        try:
            examined(self.repairing.repairs, attempt)
        except DatabaseUnavailable:
            raise
        except HeatliteError as error:
            log.warning("a repair of stack %s cannot begin: %s", root_id, error)
            with self._store.transaction():
                self._store.stacks.lock(root_id)
                self.repairing.hold(wanting, error, now)

    def scene(self, root: StackRecord, now: float) -> Scene:
        """Read a tree.

        Storms and breakers are judged first, since they may demand evidence.
        """
        policy = self.policy(root.id)
        tree = self._read(root, policy, now)
        due = {one.source for one in tree.incidents if one.due is not None and one.due <= now}
        sources = sorted(due - {API})  # operators make no storm
        stormy = storms(self._store, root.project, sources, now)
        if refresh_breakers(self._store, tree, now) or stormy.have_ended:
            tree = self._read(root, policy, now)
        return self._scene(tree, stormy.sources, now)

    def glance(self, of: ExplainedTree, incidents: Sequence[IncidentRecord], storms: frozenset[str]) -> Scene:
        """Read the rest of a tree without changing anything.

        `storms` are the sources that have one.
        """
        policy = self.policy(of.root.id)
        since = of.now - LONGEST_REPAIR - policy.longest_period
        tree = tree_of(self._store, of.stacks, of.live, incidents, policy, since, of.rows)
        return self._scene(tree, storms, of.now)

    def _scene(self, tree: WatchedTree, storms: frozenset[str], now: float) -> Scene:
        root = tree.root
        blind: dict[str, frozenset[str]] = {}

        def blind_of(source: str) -> frozenset[str]:
            if source not in blind:
                blind[source] = self._rows.observations.blind_paths(root.project, source, root.id)
            return blind[source]

        standing = self._rows.observations.standing([incident.id for incident in tree.incidents])
        has_credential = not self._with_keystone or self._store.credentials.of(root.id) is not None
        return Scene(self._store, tree, now, standing, blind_of, storms, has_credential)

    def _read(self, root: StackRecord, policy: TreePolicy, now: float) -> WatchedTree:
        return read_tree(self._store, root, policy, now, LONGEST_REPAIR + policy.longest_period)

    def tree(self, root: StackRecord, now: float) -> WatchedTree:
        """Read a tree without changing anything."""
        return self._read(root, self.policy(root.id), now)

    def policy(self, root_id: str) -> TreePolicy:
        """Return the policy of a tree."""
        stored = self._rows.policies.get(root_id)
        return DEFAULT if stored is None else read_policy(stored.document)

    # -- one incident --------------------------------------------------------------------------------

    def _step(self, scene: Scene, incident_id: str) -> bool:
        """Move one incident. Returns True if nothing holds its repair or its proposal."""
        incident, now = next(one for one in scene.tree.incidents if one.id == incident_id), scene.now
        event = pending(incident, scene.situation(incident), now)
        if event is not None:
            self.apply(scene, incident, event, now)
            return False
        place = scene.place(incident)
        if place is None or incident.state not in BEFORE_REPAIR:
            later = now + REPAIR_LOOK if incident.state is IncidentState.REPAIRING else incident.settles_until
            self._rows.incidents.move(replace(incident, due=later or now + REPAIR_LOOK))
            return False
        judged = judge_new(self._store, scene.tree, incident, now)
        if judged.step != incident.step and incident.state is IncidentState.MARKED:
            self._rows.incidents.move(judged)
            return False
        incident = judged
        if _has_old_evidence(incident, scene) and not scene.is_locked(place):
            self.apply(scene, incident, IncidentEvent.RELEASED, now)
            return False
        facts = scene.facts(incident, place, self.repairing.any_time(scene, incident))
        brakes = _brakes(incident, facts)
        result, wants = look(incident, brakes, now)
        if result is not None and not self._rows.incidents.move(result.incident):
            return False
        if result is not None and (incident.state, result.incident.state) == JUST_CONFIRMED:
            incident = replace(result.incident, version=result.incident.version + 1)
            result, wants = look(incident, _brakes(incident, facts), now)
            if result is not None:
                self._rows.incidents.move(result.incident)
        if wants is Wants.MARK:
            self._mark(incident, place, now)
        return wants in (Wants.REPAIR, Wants.PROPOSAL)

    def _mark(self, incident: IncidentRecord, place: SlotPlace, now: float) -> None:
        """Write the mark with its incident."""
        if not can_mark(place.row):
            self._rows.incidents.move(replace(incident, due=now + REPAIR_LOOK))
        elif not _is_unmarked(place):
            # Another mark is there already; only that one may be taken back.
            self._rows.incidents.move(replace(marked(incident, now), is_marked=False))
        elif self._rows.incidents.move(marked(incident, now)):
            self._write_mark(incident, place, True, now)

    def _write_mark(self, incident: IncidentRecord, place: SlotPlace, unhealthy: bool, now: float) -> None:
        text = f"{incident.source}: {incident.summary}"[:LONGEST_SUMMARY] + f" (incident {incident.id})"
        if not unhealthy:
            text = f"{incident.source}: no longer reported (incident {incident.id})"
        row = row_with_mark(place.row, unhealthy, text, now)
        self._store.resources.save_many([row])
        self._store.events.append_many([resource_event(replace(row, status_reason=text), now)])

    def apply(
        self, scene: Scene | None, incident: IncidentRecord, event: IncidentEvent, now: float, reason: str = ""
    ) -> None:
        """Write a move with all that belongs to it. Call with the root's row locked."""
        result = move(incident, event, now, reason)
        if result is None:
            return
        place = None if scene is None else scene.place(incident)
        after = result.incident
        if IncidentEffect.END_REPAIR in result.effects and place is not None and scene is not None:
            after = self._after_repair(scene, after, event, place)
        if IncidentEffect.MUTE in result.effects:
            self._rows.observations.lock(self._rows.observations.open_of_incident(incident.id))
        if not self._rows.incidents.move(after):
            return  # a report came meanwhile: the next sweep decides
        if IncidentEffect.END_REPAIR in result.effects:
            self._end_repair(scene, after, event, now)
        if place is not None and scene is not None:
            self._write_effects(scene, incident, place, result, now)

    def _write_effects(
        self, scene: Scene, incident: IncidentRecord, place: SlotPlace, result: IncidentMove, now: float
    ) -> None:
        if IncidentEffect.MARK in result.effects and can_mark(place.row):
            self._write_mark(incident, place, True, now)
        is_ours = place.row.id == incident.resource_id and not _is_unmarked(place)
        if IncidentEffect.UNMARK in result.effects and is_ours:
            others = [one for one in scene.tree.incidents if one.path == incident.path and one.id != incident.id]
            heir = next(filter(needs_mark, others), None)
            if heir is None:
                self._write_mark(incident, place, False, now)
            else:
                self._rows.incidents.take_over_mark(heir.id)
        if IncidentEffect.MUTE in result.effects:
            self.mute(incident)

    def mute(self, incident: IncidentRecord) -> None:
        """Mute the keys of an incident for its object, until they have resolved once."""
        self._rows.observations.mute(incident.id, incident.physical_id)

    def _after_repair(
        self, scene: Scene, after: IncidentRecord, event: IncidentEvent, place: SlotPlace
    ) -> IncidentRecord:
        """Return the incident with the object that the repair has left."""
        row = place.row
        is_marked = after.is_marked and row.id == after.resource_id and not _is_unmarked(place)
        after = replace(after, resource_id=row.id, physical_id=row.physical_id or "", is_marked=is_marked)
        if event not in (IncidentEvent.SUCCEEDED, IncidentEvent.RECOVERED):
            return replace(after, settles_until=None)
        settings = scene.tree.policy.at(after.path)
        until = scene.now + settings.settles(after.source, after.step)
        return replace(after, settles_until=until, due=until if event is IncidentEvent.SUCCEEDED else None)

    def _end_repair(self, scene: Scene | None, incident: IncidentRecord, event: IncidentEvent, now: float) -> None:
        for repair in self._rows.repairs.of_incidents([incident.id]):
            if repair.ended_at is None:
                failed = event is IncidentEvent.FAILED
                ended = replace(repair, ended_at=now, result=RESULTS[event], settles_until=incident.settles_until)
                self._rows.repairs.save(replace(ended, is_failure=failed))
                if failed and scene is not None:
                    count_failure(self._store, scene.tree, ended, now)
                self._store.database.after_commit(partial(self._measure, repair, RESULTS[event], now))

    def _measure(self, repair: RepairRecord, result: RepairResult, now: float) -> None:
        self._meter.count(REPAIRS, repair.step, result)
        self._meter.observe(REPAIR_DURATIONS, repair.step, seconds=now - repair.begun_at)

    def judge_after_closing(self, scene: Scene, now: float) -> None:
        """Judge storms and breakers again if incidents of a tree were closed.

        Once none is left, no sweep does. The next report would end what has long been over, and not be evidence.
        """
        left = self._rows.incidents.open_of_root(scene.tree.root.id)
        if len(left) == len(scene.tree.incidents):
            return
        self._end_storms(scene.tree.incidents, now)
        if left:
            self._rows.incidents.wake([left[0].id], now)
        else:
            # The scopes of the scene are from before it was judged.
            scopes = self._rows.scopes.of_root(scene.tree.root.id)
            refresh_breakers(self._store, replace(scene.tree, incidents=(), scopes=scopes), now)

    def _end_storms(self, closed: Sequence[IncidentRecord], now: float) -> None:
        """End the storms of the sources of closed incidents, unless others keep them up."""
        sources = {(one.project, one.source) for one in closed}
        for stormy in self._rows.sources.storms() if closed else ():
            if (stormy.project, stormy.name) in sources:
                storms(self._store, stormy.project, [stormy.name], now, closed[0].root_id)


def _brakes(incident: IncidentRecord, facts: BrakeFacts) -> list[Held]:
    """Return the brakes of an incident's next move: its mark or its repair."""
    before_mark = incident.state in UNCONFIRMED and incident.state is not waits_in(incident)
    return mark_brakes(facts) if before_mark else repair_brakes(facts)


def _has_old_evidence(incident: IncidentRecord, scene: Scene) -> bool:
    """Return True if a lock, a suspension or a settling ended after the evidence."""
    settled_at = scene.tree.settles_until(incident.path)
    ended_at = max(scene.tree.released_at, settled_at if settled_at <= scene.now else 0.0)
    if ended_at <= max(incident.evidence_after, incident.created_at):
        return False
    return incident.evidence_since is None or incident.evidence_since <= ended_at


def _is_unmarked(place: SlotPlace) -> bool:
    state = place.row.state_without_lock
    return f"{state.verb}_{state.status}" != "CHECK_FAILED"
