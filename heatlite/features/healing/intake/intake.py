"""Intake: writes the reports of a request as observations, and opens incidents.

One transaction for a request. It locks no stack, reads no template and calls no cloud. Marks are made by the loop.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, RequestLimitExceeded, Unavailable
from heatlite.core.ids import random_id
from heatlite.core.json import Json, JsonMap
from heatlite.core.runtime.bulkhead import Bulkhead
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import Verb
from heatlite.core.validation import convert
from heatlite.engine.state.conflict_rules import Operation
from heatlite.features.healing.intake.formats import MAX_DETAIL, Delivery, read_delivery
from heatlite.features.healing.intake.source_document import SourceDocument, default_document
from heatlite.features.healing.intake.targets import ReportTargets
from heatlite.features.healing.loop.tree import SlotPlace
from heatlite.features.healing.metrics import REPORTS
from heatlite.features.healing.reports import OWN_SOURCES, AlertReport, Delivered, ReportOutcome, SeenReport, Watcher
from heatlite.features.healing.store.records import HealthSourceRecord, IncidentRecord, ObservationRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState, ReportResult, Word
from heatlite.store.errors import Duplicate
from heatlite.store.records import SuppressedRecord
from heatlite.store.store import Store

MAX_OPEN = 10_000
"""Open incidents of a project."""
MAX_OPEN_EPISODES = 50_000
"""Open episodes of a project."""
MAX_EPISODES = 100_000
"""Episodes of a project. Beyond it, those that ended first are removed."""
MAX_KEPT = 100
"""Results that a source keeps."""
MAX_SOURCES = 100
"""Sources of a project."""
RETRIES = 5
"""Times to repeat a request that met another one with the same reports."""
BUSY_SECONDS = 5.0
"""Seconds that a request waits while reports hold half of the threads."""
REPORTED = "A report of {} was answered with 200 and ignored."
AUTHOR: JsonMap = {"roles": ["member"]}
"""Author of a mark to replay. Sources have no roles; a replay has no more rights than its own caller."""


class Taken(Struct, frozen=True):
    """The answer to a request."""

    source: str
    received: int
    truncated: int
    outcomes: tuple[ReportOutcome, ...]

    @property
    def counts(self) -> Counter[ReportResult]:
        """The number of reports by result."""
        return Counter(one.result for one in self.outcomes)


class Intake:
    """Takes reports of monitoring systems."""

    def __init__(self, store: Store, clock: Clock, threads: int, meter: Meter) -> None:
        """Take reports in at most half of the `threads` that answer requests."""
        self._store = store
        self._rows = store.of(HealingStore)
        self._clock = clock
        self._meter = meter
        self.watchers: list[Watcher] = []
        """Parts of features that follow the reports."""
        self.turns = Bulkhead(max(1, threads // 2), threads // 4, BUSY_SECONDS, _busy)

    def document(self, project: str, source: str) -> tuple[HealthSourceRecord, SourceDocument]:
        """Return a source and its document.

        Raises EntityNotFound for one that was never configured.
        """
        record = self._rows.sources.get(project, source)
        document = default_document(source)
        if record is not None and record.document is not None:
            document = convert(record.document, SourceDocument)
        if document is None:
            raise EntityNotFound(entity="Health source", name=source)
        return record or HealthSourceRecord(project, source), document

    def blind_since(self, project: str, source: str) -> float | None:
        """Return the time from which a source sees no target; None: it sees."""
        return self._rows.observations.blind_since(project, source)

    def configure(self, project: str, source: str, document: Json) -> None:
        """Replace the document of a source. Raises HTTPBadRequest, RequestLimitExceeded.

        None: return it to its defaults, or remove it.
        """
        if document is not None:
            if source in OWN_SOURCES:
                raise HTTPBadRequest(f"The engine reports as {source} itself. Choose another name.")
            convert(document, SourceDocument)
        sources = self._rows.sources
        with self._store.transaction():
            if document is None and default_document(source) is None:
                if not sources.delete(project, source):
                    raise EntityNotFound(entity="Health source", name=source)
                return
            self._store.limit_locks.take(f"sources of {project}")
            if sources.get(project, source) is None and sources.count(project) >= MAX_SOURCES:
                raise RequestLimitExceeded(message=f"the project has {MAX_SOURCES} sources of reports. Delete one.")
            sources.put_document(project, source, document if isinstance(document, dict) else None)

    def acknowledge(self, project: str, source: str) -> None:
        """End the storm of a source.

        Its window counts from now on, and incidents need new evidence.
        """
        if source not in OWN_SOURCES:
            self.document(project, source)
        now = self._clock.now()
        with self._store.transaction():
            self._rows.sources.acknowledge(project, source, now)
            self._rows.incidents.demand_evidence(now, source=(project, source))

    def take(self, context: Context, source: str, body: Json) -> Taken:
        """Take the reports of one request.

        Raises HTTPBadRequest, EntityNotFound, and Unavailable while reports hold too many threads.
        """
        with self.turns.turn():
            record, document = self.document(context.project, source)
            delivery = read_delivery(document, body)
            for _ in range(RETRIES):
                with suppress(Duplicate):  # another request with the same reports was faster: they are known now
                    return self._take(context.project, record, document, delivery)
        raise _busy()

    def _take(self, project: str, record: HealthSourceRecord, document: SourceDocument, delivery: Delivery) -> Taken:
        now = self._clock.now()
        with self._store.transaction():
            begun = replace(delivery, reports=tuple(_begun(one, now) for one in delivery.reports))
            taking = _Taking(self._store, project, record.name, document, now, begun)
            taking.run()
            for watcher in self.watchers:
                watcher.reported(taking.delivered())
            outcomes = tuple(taking.outcomes)
            told = [_kept(one, now) for one in outcomes if one.result is not ReportResult.REPEATED]
            self._rows.sources.reported(project, record.name, now, told[-MAX_KEPT:], MAX_KEPT)
        taken = Taken(record.name, len(delivery.reports), delivery.truncated, outcomes)
        for result, count in taken.counts.items():
            self._meter.count(REPORTS, document.format, result, number=count)
        return taken


class _Taking:
    """One request within its transaction."""

    def __init__(
        self, store: Store, project: str, source: str, document: SourceDocument, now: float, delivery: Delivery
    ) -> None:
        self.store, self.project, self.source = store, project, source
        self._rows = store.of(HealingStore)
        self.document, self.now, self.delivery = document, now, delivery
        self.outcomes: list[ReportOutcome] = []

    def run(self) -> None:
        """Work out each report in turn, then write all."""
        reports = [one for one in self.delivery.reports if isinstance(one, AlertReport)]
        self._targets = ReportTargets(
            self.store, self.project, [one for one in reports if one.word is not Word.RESOLVED]
        )
        # Not all episodes of the keys: an alarm that flaps has had any number of them.
        given = {(one.key, one.starts_at) for one in reports if one.starts_at is not None}
        known = self._rows.observations.at(self.project, self.source, given)
        current = self._rows.observations.open(self.project, self.source, (one.key for one in reports))
        for prefix in self._prefixes(reports):
            found = self._rows.observations.open_with_prefix(self.project, self.source, prefix)
            current.update((one.key, one) for one in found)
        # Before incidents, as the loop does. A mute that comes meanwhile would be overwritten.
        held = self._rows.observations.lock((*known, *current.values()))
        self._open = {one.key: one for one in held if one.is_open}
        self._episodes = {(one.key, one.starts_at): one for one in held}
        self._before = dict(self._episodes)
        self._suppressed: dict[str, tuple[SuppressedRecord, float]] = {}
        self._incidents = self._known_incidents(reports)
        self._known = {*self._incidents.values()}
        self._new_incidents: list[IncidentRecord] = []
        self._noted: list[str] = []
        self._woken: list[str] = []
        self._room: int | None = None
        self._opened = 0
        for index, one in enumerate(self.delivery.reports):
            self.outcomes += [one] if isinstance(one, ReportOutcome) else self._report(index, one)
        if self.delivery.lists_all is not None:
            self._end_unlisted(self.delivery.lists_all)
        self._write()

    def delivered(self) -> Delivered:
        """Return the reports as others follow them."""
        reports = [one for one in self.delivery.reports if isinstance(one, AlertReport)]
        seen = [
            SeenReport(one.key, one.word, one.summary, one.given, self._root(one), one.is_ignored, one.is_prefix)
            for one in reports
        ]
        return Delivered(self.project, self.source, self.now, self.document.ttl, seen, self.delivery.lists_all)

    def _root(self, report: AlertReport) -> str | None:
        """Return the root of the tree that has the target of a firing report."""
        if report.word is not Word.FIRING or report.is_prefix:
            return None
        place = self._targets.find(report, self.document.marks_member).place
        return None if place is None else place.stacks[0].id

    def _prefixes(self, reports: Sequence[AlertReport]) -> set[str]:
        """Return the begins of keys that the request is about."""
        prefixes = {one.key for one in reports if one.is_prefix}
        return prefixes if self.delivery.lists_all is None else {*prefixes, self.delivery.lists_all}

    def _known_incidents(self, reports: Sequence[AlertReport]) -> dict[tuple[str, str], str]:
        """Return the open incidents of the slots that are reported, by root and path."""
        firing = [one for one in reports if one.word is Word.FIRING and not one.is_ignored]
        places = [self._targets.find(one, self.document.marks_member).place for one in firing]
        slots = {(one.stacks[0].id, one.slot.path, self.source) for one in places if one is not None}
        found = self._rows.incidents.open_of_slots(sorted(slots))
        return {(root_id, path): one for (root_id, path, _), one in found.items()}

    def _write(self) -> None:
        changed = [one for place, one in self._episodes.items() if self._before.get(place) != one]
        # One open episode for each key: close the earlier one first.
        known = [one for one in changed if (one.key, one.starts_at) in self._before]
        new = [one for one in changed if (one.key, one.starts_at) not in self._before]
        # The count locks. Before rows are written, so that no two requests wait for each other.
        surplus = self._counted[1] + len(new) - MAX_EPISODES if new else 0
        self._rows.observations.save_many(sorted(known, key=lambda one: one.is_open))
        self._rows.incidents.insert_many(self._new_incidents)
        self._rows.observations.insert_many(new)
        if surplus > 0:
            self._rows.observations.delete_many(self._rows.observations.oldest_ended(self.project, surplus))
        self._rows.incidents.note_reports(list(dict.fromkeys(self._noted)), self.now)
        self._rows.incidents.wake(list(dict.fromkeys(self._woken)), self.now)
        for entry, locked_at in sorted(self._suppressed.values(), key=lambda one: one[0].root_id):
            self.store.suppressed.add(entry, locked_at)

    def _report(self, index: int, report: AlertReport) -> list[ReportOutcome]:
        if report.is_prefix:
            return self._of_all_open(index, report)
        if report.is_ignored:
            return [ReportOutcome(index, report.key, ReportResult.IGNORED)]
        match report.word:
            case Word.RESOLVED:
                return [self._resolved(index, report)]
            case Word.BLIND:
                return [self._blind(index, report)]
            case _:
                return [self._firing(index, report)]

    def _of_all_open(self, index: int, report: AlertReport) -> list[ReportOutcome]:
        """Apply a report to all open episodes of an alarm."""
        keys = [key for key in self._open if key.startswith(report.key)]
        reports = [replace(report, key=key, is_prefix=False) for key in keys]
        return [self._report(index, one)[0] for one in reports] or [
            ReportOutcome(index, report.key, ReportResult.IGNORED)
        ]

    def _end_unlisted(self, prefix: str) -> None:
        """End the open episodes that a request would list if they were not over."""
        listed = {one.key for one in self.delivery.reports}
        for key in [key for key in self._open if key.startswith(prefix) and key not in listed]:
            self.outcomes.append(self._resolved(len(self.delivery.reports), AlertReport(key, Word.RESOLVED)))

    # -- the words of a source -----------------------------------------------------------------------

    def _resolved(self, index: int, report: AlertReport) -> ReportOutcome:
        episode = self._open.get(report.key)
        if episode is None:
            return ReportOutcome(index, report.key, ReportResult.IGNORED, detail="nothing was open")
        if not self.document.unmarks:
            detail = "the source keeps marks"
            return ReportOutcome(index, report.key, ReportResult.IGNORED, episode.incident_id, detail=detail)
        self._save(replace(episode, word=Word.RESOLVED, is_open=False, last_seen=self.now, ended_at=self.now))
        if episode.incident_id is not None:
            self._woken.append(episode.incident_id)
        return ReportOutcome(index, report.key, ReportResult.CLEARED, episode.incident_id)

    def _blind(self, index: int, report: AlertReport) -> ReportOutcome:
        episode = self._open.get(report.key)
        if episode is None:
            if self._is_full():
                return ReportOutcome(index, report.key, ReportResult.OVERFLOW)
            found = self._targets.find(report, self.document.marks_member).place
            root, path = ("", "") if found is None else (found.stacks[0].id, found.slot.path)
            episode = self._episode(report, report.starts_at or self.now, None, root or None, path)
        self._save(replace(episode, word=Word.BLIND, last_seen=self.now))
        return ReportOutcome(index, report.key, ReportResult.BLIND, episode.incident_id)

    def _firing(self, index: int, report: AlertReport) -> ReportOutcome:
        current = self._open.get(report.key)
        starts_at = report.starts_at or (current.starts_at if current is not None else self.now)
        if current is not None and starts_at < current.starts_at:
            return ReportOutcome(index, report.key, ReportResult.IGNORED, detail="a later episode is open")
        found = self._targets.find(report, self.document.marks_member)
        place = found.place
        if place is None:
            return ReportOutcome(index, report.key, found.result, detail=found.detail)
        without = self._without_incident(index, report, place, current)
        if without is not None:
            return without
        target, root_id, path = _target(place), place.stacks[0].id, place.slot.path
        is_over = current is None and self._is_full()
        incident = None if is_over else self._incident(place, report)
        if incident is None:
            return ReportOutcome(index, report.key, ReportResult.OVERFLOW, target=target)
        is_known = current is not None and current.starts_at == starts_at and current.incident_id == incident
        if current is not None and current.starts_at != starts_at:
            self._save(replace(current, is_open=False, ended_at=self.now))
        episode = self._episodes.get((report.key, starts_at))
        if episode is None:
            self._save(self._episode(report, starts_at, incident, root_id, path))
        else:
            again = replace(episode, last_seen=self.now, reports=episode.reports + 1, word=Word.FIRING, is_open=True)
            again = replace(again, incident_id=incident, root_id=root_id, path=path)
            self._save(replace(again, ended_at=None, muted_for=None))
        result = ReportResult.REPEATED if is_known else ReportResult.ACCEPTED
        return ReportOutcome(index, report.key, result, incident, target)

    def _without_incident(
        self, index: int, report: AlertReport, place: SlotPlace, current: ObservationRecord | None
    ) -> ReportOutcome | None:
        """Return the outcome of a report that opens no incident; None: it opens one."""
        held = _held(place)
        if held is not None:
            if held is ReportResult.SUPPRESSED:
                self._note_suppressed(place)
            return ReportOutcome(index, report.key, held, target=_target(place))
        if current is not None and current.muted_for == (place.row.physical_id or ""):
            self._save(replace(current, last_seen=self.now, reports=current.reports + 1))
            return ReportOutcome(index, report.key, ReportResult.MUTED, target=_target(place))
        if not place.row.physical_id and (place.stacks[0].id, place.slot.path) not in self._incidents:
            return ReportOutcome(index, report.key, ReportResult.UNKNOWN, detail="the resource has no object")
        return None

    def _note_suppressed(self, place: SlotPlace) -> None:
        """List the mark that a locked stack has refused, once for each slot and lock."""
        for depth, stack in enumerate(place.stacks):
            if stack.lock is not None:
                path = place.slot.path.split("/", depth)[-1]
                mark: JsonMap = {"resource": path, "mark_unhealthy": True, "resource_status_reason": self.source}
                entry = SuppressedRecord(
                    stack.id, self.now, Operation.MARK.value, path, self.source, REPORTED.format(self.source),
                    "PATCH", "/resources", {"marks": [mark]}, root_id=place.stacks[0].id, author=AUTHOR,
                    effect={"marks": [mark]},
                )  # fmt: skip
                self._suppressed[place.slot.path] = entry, stack.lock.locked_at
                return

    # -- rows ----------------------------------------------------------------------------------------

    def _incident(self, place: SlotPlace, report: AlertReport) -> str | None:
        """Return the open incident of a slot, or open one. None: the project has too many."""
        root_id, path = place.stacks[0].id, place.slot.path
        known = self._incidents.get((root_id, path))
        if known is not None:
            if known in self._known:
                self._noted.append(known)
            return known
        if self._room is None:
            self._room = MAX_OPEN - self._counted[2]
        if self._room <= 0:
            return None
        self._room -= 1
        new = IncidentRecord(
            random_id(), self.project, self.source, root_id, place.row.stack_id, path, place.slot.member,
            place.slot.scope, place.row.id, place.row.physical_id or "", IncidentState.OBSERVED, self.now, self.now,
            evidence_since=self.now, ttl=self.document.ttl, due=self.now, summary=report.summary,
        )  # fmt: skip
        self._incidents[root_id, path] = new.id
        self._new_incidents.append(new)
        return new.id

    def _episode(
        self, report: AlertReport, starts_at: float, incident: str | None, root_id: str | None, path: str
    ) -> ObservationRecord:
        return ObservationRecord(
            random_id(), self.project, self.source, report.key, starts_at, self.now, self.now,
            word=report.word, incident_id=incident, root_id=root_id, path=path, summary=report.summary,
        )  # fmt: skip

    @cached_property
    def _counted(self) -> tuple[int, int, int]:
        """Numbers of open and of all episodes, and of open incidents, before this request.

        No other request adds any until the transaction ends.
        """
        self.store.limit_locks.take(f"reports of {self.project}")
        return (*self._rows.observations.count(self.project), self._rows.incidents.count_open(self.project))

    def _is_full(self) -> bool:
        """Return True if the project may have no further open episode."""
        return self._counted[0] + self._opened >= MAX_OPEN_EPISODES

    def _save(self, episode: ObservationRecord) -> None:
        self._opened += episode.is_open - (episode.key in self._open)
        self._episodes[episode.key, episode.starts_at] = episode
        if episode.is_open:
            self._open[episode.key] = episode
        elif self._open.get(episode.key) is not None and self._open[episode.key].id == episode.id:
            del self._open[episode.key]


def _busy() -> Unavailable:
    return Unavailable(service="The intake of reports", reason="too many requests report at once")


def _begun(report: AlertReport | ReportOutcome, now: float) -> AlertReport | ReportOutcome:
    """Return a report without a begin that is still to come.

    It would keep all reports until then out.
    """
    if isinstance(report, AlertReport) and report.starts_at is not None and report.starts_at > now:
        return replace(report, starts_at=None)
    return report


def _held(place: SlotPlace) -> ReportResult | None:
    """Return the result of a report on a locked or suspended resource.

    None: the report is evidence.
    """
    if any(stack.locked for stack in place.stacks):
        return ReportResult.SUPPRESSED
    states = [place.row.state_without_lock.verb, *(stack.state_without_lock[0] for stack in place.stacks)]
    return ReportResult.SUSPENDED if Verb.SUSPEND in states else None


def _target(place: SlotPlace) -> JsonMap:
    stack, object_id = place.stacks[-1], place.row.physical_id or ""
    return {
        "stack_name": stack.name, "stack_id": stack.id, "path": place.slot.path, "physical_resource_id": object_id,
    }  # fmt: skip


def _kept(outcome: ReportOutcome, now: float) -> JsonMap:
    when, detail = to_text(now), outcome.detail[:MAX_DETAIL]
    return {"time": when, "key": outcome.key, "result": outcome.result, "detail": detail}
