"""Wire shapes of health: the key `health` of stacks and resources. Pure functions."""

from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.core.wire.base import shown
from heatlite.core.wire.resources import HealthOfResource, ResourceHealth
from heatlite.store.records import HealthNote, HealthRecord, ResourceRecord


def of_resource(row: ResourceRecord, notes: Sequence[HealthNote], nested: bool = False) -> JsonMap:
    """Return the key of a resource; empty if there is nothing to say.

    `notes` are those on it, oldest first.
    `nested`: its object is a nested stack, whose failed check is that of its members.
    """
    worst = next((one for one in notes if one.unhealthy), None)
    if worst is not None:
        return _of_note("unhealthy", worst)
    now, known = row.state_without_lock, row.health
    is_unknown = known is not None and known.since is not None
    if (now.verb, now.status) == (Verb.CHECK, Status.FAILED) and not (nested and is_unknown):
        return _key("unhealthy", now.updated_at, now.status_reason)
    if is_unknown:
        return of_record(known)
    return _of_note("suspected", notes[0]) if notes else {}


def state_of(row: ResourceRecord, notes: Sequence[HealthNote], nested: bool) -> str | None:
    """Return the state of health that `of_resource` shows; None: it shows none."""
    found = of_resource(row, notes, nested).get("health")
    return str(found["state"]) if isinstance(found, dict) else None


def of_record(record: HealthRecord | None) -> JsonMap:
    """Return the key of a resource in a plan; empty unless its health is unknown."""
    if record is None or record.since is None:
        return {}
    return _key("unknown", record.since, record.reason, source="check")


def _of_note(state: str, note: HealthNote) -> JsonMap:
    return _key(state, note.since, note.reason, note.source, note.incident)


def _key(
    state: str, since: float | None, reason: str, source: str | None = None, incident: str | None = None
) -> JsonMap:
    health = ResourceHealth(state=state, since=to_text(since), source=source, reason=reason, incident=incident)
    return shown(HealthOfResource(health=health))
