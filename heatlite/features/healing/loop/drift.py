"""Incidents of the source `drift`, of episodes that checks have written.

A check writes no incident: it does not hold the root. Nothing runs while the loop opens one, so all that a check has
found counts at once.
"""

from msgspec.structs import replace

from heatlite.core.ids import random_id
from heatlite.features.healing.loop.tree import SlotPlace, WatchedTree
from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.rules.incident import BEFORE_REPAIR
from heatlite.features.healing.store.records import IncidentRecord, ObservationRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState, Mode, Word
from heatlite.store.store import Store


def note_drift(store: Store, tree: WatchedTree, policy_since: float, now: float) -> bool:
    """Open incidents for what checks have found, and count repeated finds.

    Finds from before the policy, or before a lock or suspension ended, are no evidence. Returns True after a change.
    """
    if tree.actions:
        return False
    rows = store.of(HealingStore)
    places = {place.row.id: place for place in tree.places.values()}
    episodes = rows.observations.open(tree.root.project, DRIFT, places)
    known = {one.path: one for one in tree.incidents if one.source == DRIFT}
    opened: list[IncidentRecord] = []
    linked: list[ObservationRecord] = []
    changed = False
    for key, episode in episodes.items():
        place = places[key]
        incident = known.get(place.slot.path)
        if incident is not None:
            is_new = episode.word is Word.FIRING and episode.last_seen > _counted(incident)
            if is_new and incident.state in BEFORE_REPAIR:
                rows.incidents.note_reports([incident.id], episode.last_seen)
                changed = True
        elif _opens(store, tree, place, episode):
            incident = _incident(tree, place, episode, max(policy_since, tree.released_at), now)
            opened.append(incident)
        if incident is not None and episode.incident_id != incident.id:
            path = place.slot.path
            linked.append(replace(episode, incident_id=incident.id, root_id=tree.root.id, path=path))
    rows.incidents.insert_many(opened)
    rows.observations.save_many(linked)
    return changed or bool(opened)


def _counted(incident: IncidentRecord) -> float:
    """Return the time until which finds are counted already, or are no evidence."""
    return max(incident.last_report_at, incident.evidence_after)


def _opens(store: Store, tree: WatchedTree, place: SlotPlace, episode: ObservationRecord) -> bool:
    """Return True if an episode begins an incident.

    The policy, a mute or an earlier incident may say otherwise.
    """
    if tree.policy.at(place.slot.path).drift is Mode.OFF or episode.word is Word.BLIND:
        return False
    if episode.muted_for == (place.row.physical_id or ""):
        return False
    earlier = None if episode.incident_id is None else store.of(HealingStore).incidents.get(episode.incident_id)
    return earlier is None or episode.last_seen > (earlier.closed_at or 0.0)


def _incident(
    tree: WatchedTree, place: SlotPlace, episode: ObservationRecord, evidence_after: float, now: float
) -> IncidentRecord:
    row, slot, found_at = place.row, place.slot, episode.last_seen
    is_stale = found_at <= evidence_after
    return IncidentRecord(
        random_id(), tree.root.project, DRIFT, tree.root.id, row.stack_id, slot.path, slot.member, slot.scope, row.id,
        row.physical_id or "", IncidentState.OBSERVED, now, found_at, due=now,
        evidence_since=None if is_stale else found_at, evidence_after=evidence_after if is_stale else 0.0,
        summary=episode.summary,
    )  # fmt: skip
