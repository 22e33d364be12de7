"""Marks by request and of failed checks: reports of the sources `api` and `check`.

Their incidents begin MARKED. Only trees whose policy names the source have them: elsewhere they would wait for ever.
"""

from heatlite.core.ids import random_id
from heatlite.core.status import Status, Verb
from heatlite.features.healing.loop.tree import SlotPlace, WatchedTree
from heatlite.features.healing.reports import API, CHECK
from heatlite.features.healing.rules.incident import BEFORE_REPAIR
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.store.store import Store


def note_marks(store: Store, tree: WatchedTree, policy_since: float, now: float) -> bool:
    """Open incidents for the marks of a tree, and count repeated ones as reports.

    Marks from before the policy, or before a lock or suspension ended, are no evidence. Returns True after a change.
    """
    by_path = {(one.path, one.source): one for one in tree.incidents}
    held = {one.path for one in tree.incidents if one.is_marked}
    opened, noted = [], []
    for path, place in tree.places.items():
        source = source_of(place)
        if source is None or path in held or not tree.policy.at(path).lists(source):
            continue
        marked_at = place.row.state_without_lock.updated_at or now
        known = by_path.get((path, source))
        if known is None:
            opened.append(_incident(tree, place, source, marked_at, max(policy_since, tree.released_at), now))
        elif known.state in BEFORE_REPAIR and marked_at > known.last_report_at:
            noted.append(known.id)
    store.of(HealingStore).incidents.insert_many(opened)
    store.of(HealingStore).incidents.note_reports(noted, now)
    return bool(opened or noted)


def source_of(place: SlotPlace) -> str | None:
    """Return the source of a mark; None: there is none.

    The members of a nested stack decide about its resource.
    """
    state = place.row.state_without_lock
    if place.nested is not None or (state.verb, state.status) != (Verb.CHECK, Status.FAILED):
        return None
    return API if place.row.moved_in is None else CHECK  # an action has written the result of a check


def _incident(
    tree: WatchedTree, place: SlotPlace, source: str, marked_at: float, evidence_after: float, now: float
) -> IncidentRecord:
    row, slot = place.row, place.slot
    is_stale = marked_at <= evidence_after
    return IncidentRecord(
        random_id(), tree.root.project, source, tree.root.id, row.stack_id, slot.path, slot.member, slot.scope, row.id,
        row.physical_id or "", IncidentState.MARKED, now, marked_at, due=now,
        evidence_since=None if is_stale else marked_at, evidence_after=evidence_after if is_stale else 0.0,
        summary=row.status_reason[:255],
    )  # fmt: skip
