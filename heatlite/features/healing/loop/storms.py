"""Storms: a source that opens incidents in many slots of a project at once."""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.validation import convert
from heatlite.features.healing.intake.source_document import SourceDocument, StormLimit
from heatlite.features.healing.store.records import HealthSourceRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.store.records import EventRecord
from heatlite.store.store import Store

STORM = "HEALING_STORM"


class Storms(Struct, frozen=True):
    """The storms of some sources."""

    sources: frozenset[str]
    """Sources with a storm."""
    have_ended: bool
    """True if a storm ended just now: then incidents were changed."""


def limit_of(record: HealthSourceRecord) -> StormLimit:
    """Return the limit that the document of a source names, else the default."""
    return StormLimit() if record.document is None else convert(record.document, SourceDocument).storm


def storms(store: Store, project: str, sources: Sequence[str], now: float, root_id: str | None = None) -> Storms:
    """Begin and end the storms of sources by their incidents.

    Call within a transaction. Each root stack with an open incident has the event, and that of `root_id`.
    """
    rows, stormy, ended = store.of(HealingStore), set[str](), False
    for source in sources:
        record = rows.sources.get(project, source) or HealthSourceRecord(project, source)
        limit = limit_of(record)
        begin = max(now - limit.window, record.window_from)
        if record.storm_since is None:
            slots = rows.incidents.count_slots(project, source, begin, only_open=False)
            if slots > limit.least and slots > limit.slots(rows.incidents.count_resources(project, source, begin)):
                stormy.add(source)
                if rows.sources.begin_storm(project, source, now):
                    _write_events(store, project, source, "BEGUN", f"{source} reports {slots} slots at once", now)
            continue
        slots = rows.incidents.count_slots(project, source, 0.0, only_open=True)
        if slots > limit.slots(rows.incidents.count_resources(project, source, 0.0)):
            stormy.add(source)
        elif rows.sources.end_storm(project, source, now):
            # The events first, which lock stacks: the end of an action locks its stack before incidents.
            _write_events(store, project, source, "ENDED", f"{source} reports {slots} slots", now, root_id)
            rows.incidents.demand_evidence(now, source=(project, source))
            ended = True
    return Storms(frozenset(stormy), ended)


def _write_events(
    store: Store, project: str, source: str, status: str, reason: str, now: float, root_id: str | None = None
) -> None:
    """Write one event for each root stack with an open incident of a source.

    `root_id` has one, too.
    """
    events = []
    roots = store.of(HealingStore).incidents.roots_of_source(project, source)
    for one in dict.fromkeys([*roots, *([] if root_id is None else [root_id])]):
        root = store.stacks.get(one)
        if root is not None and root.deleted_at is None:
            events.append(EventRecord(root.id, root.name, "OS::Heat::Stack", root.id, STORM, status, reason[:255], now))
    store.events.append_many(events)
