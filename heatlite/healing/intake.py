"""Intake: writes the reports of a request as observations, and opens incidents.

One transaction for a request. It locks no stack, reads no template and calls no cloud. Marks are made by the loop.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound
from heatlite.core.healing import IncidentState, ReportResult, Word
from heatlite.core.ids import random_id
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Verb
from heatlite.healing.formats import Delivery, read_delivery
from heatlite.healing.reports import Outcome, Report, Target
from heatlite.healing.source_document import SourceDocument, default_document, read_document
from heatlite.healing.targets import Targets
from heatlite.healing.tree import Place
from heatlite.store.errors import Duplicate
from heatlite.store.healing.records import HealthSourceRecord, IncidentRecord, ObservationRecord
from heatlite.store.store import Store

MAX_OPEN = 10_000
"""Open incidents of a project."""
MAX_KEPT = 100
"""Results that a source keeps."""
MAX_ANSWERED = 1000
"""Results in an answer."""
RETRIES = 5
"""Times to repeat a request that met another one with the same reports."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The answer to a request."""

    source: str
    received: int
    truncated: int
    outcomes: tuple[Outcome, ...]

    @property
    def counts(self) -> Counter[ReportResult]:
        """The number of reports by result."""
        return Counter(one.result for one in self.outcomes)


class Intake:
    """Takes reports of monitoring systems."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def document(self, project: str, source: str) -> tuple[HealthSourceRecord, SourceDocument]:
        """Return a source and its document.

        Raises EntityNotFound for one that was never configured.
        """
        record = self._store.health_sources.get(project, source)
        document = default_document(source)
        if record is not None and record.document is not None:
            document = read_document(record.document)
        if document is None:
            raise EntityNotFound(entity="Health source", name=source)
        return record or HealthSourceRecord(project, source), document

    def configure(self, project: str, source: str, document: Json) -> None:
        """Replace the document of a source. Raises HTTPBadRequest.

        None: return it to its defaults, or remove it.
        """
        if document is not None:
            read_document(document)
        with self._store.transaction():
            record = self._store.health_sources.get(project, source) or HealthSourceRecord(project, source)
            if document is None and default_document(source) is None:
                if not self._store.health_sources.delete(project, source):
                    raise EntityNotFound(entity="Health source", name=source)
                return
            kept = document if isinstance(document, dict) else None
            self._store.health_sources.save(replace(record, document=kept))

    def acknowledge(self, project: str, source: str) -> None:
        """End the storm of a source.

        Its window counts from now on, and incidents need new evidence.
        """
        record, _ = self.document(project, source)
        now = self._clock.now()
        with self._store.transaction():
            self._store.health_sources.save(replace(record, storm_since=None, window_from=now))
            self._store.incidents.demand_evidence(now, source=(project, source))

    def take(self, context: Context, source: str, body: Json) -> Taken:
        """Take the reports of one request. Raises HTTPBadRequest, EntityNotFound."""
        record, document = self.document(context.project, source)
        delivery = read_delivery(document, body)
        for attempt in range(RETRIES):
            try:
                return self._take(context.project, record, document, delivery)
            except Duplicate:  # another request with the same reports was faster: they are known now
                if attempt + 1 == RETRIES:
                    raise
        raise AssertionError("unreachable")

    def _take(
        self, project: str, record: HealthSourceRecord, document: SourceDocument, delivery: Delivery
    ) -> Taken:
        now = self._clock.now()
        with self._store.transaction():
            taking = _Taking(self._store, project, record.name, document, now, delivery)
            taking.run()
            outcomes = tuple(taking.outcomes)
            told = [_kept(one, now) for one in outcomes if one.result is not ReportResult.REPEATED]
            current = self._store.health_sources.get(project, record.name) or record
            results = (*current.results, *told)[-MAX_KEPT:]
            self._store.health_sources.save(replace(current, last_report_at=now, results=results))
        return Taken(record.name, len(delivery.reports), delivery.truncated, outcomes)


@dataclass
class _Taking:
    """One request within its transaction."""

    store: Store
    project: str
    source: str
    document: SourceDocument
    now: float
    delivery: Delivery
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self) -> None:
        """Work out each report in turn, then write all."""
        reports = [one for one in self.delivery.reports if isinstance(one, Report)]
        self._targets = Targets(self.store, self.project, [one for one in reports if one.word is not Word.RESOLVED])
        keys = list(dict.fromkeys(one.key for one in reports))
        self._episodes = {
            (one.key, one.starts_at): one for one in self.store.observations.at(self.project, self.source, keys)
        }
        self._open = {one.key: one for one in self._episodes.values() if one.is_open}
        self._before = dict(self._episodes)
        self._incidents: dict[str, dict[str, str]] = {}  # open ones of the source: root → path → id
        self._known: set[str] = set()
        self._new_incidents: list[IncidentRecord] = []
        self._noted: list[str] = []
        self._woken: list[str] = []
        self._room = MAX_OPEN - self.store.incidents.count_open(self.project)
        for index, one in enumerate(self.delivery.reports):
            self.outcomes += [one] if isinstance(one, Outcome) else self._report(index, one)
        self._write()

    def _write(self) -> None:
        changed = [one for place, one in self._episodes.items() if self._before.get(place) != one]
        # One open episode for each key: close the earlier one first.
        known = [one for one in changed if (one.key, one.starts_at) in self._before]
        self.store.observations.save_many(sorted(known, key=lambda one: one.is_open))
        self.store.incidents.insert_many(self._new_incidents)
        self.store.observations.insert_many([one for one in changed if (one.key, one.starts_at) not in self._before])
        self.store.incidents.note_reports(list(dict.fromkeys(self._noted)), self.now)
        self.store.incidents.wake(list(dict.fromkeys(self._woken)), self.now)

    def _report(self, index: int, report: Report) -> list[Outcome]:
        if report.is_prefix:
            return self._of_all_open(index, report)
        if report.is_ignored:
            return [Outcome(index, report.key, ReportResult.IGNORED)]
        match report.word:
            case Word.RESOLVED:
                return [self._resolved(index, report)]
            case Word.BLIND:
                return [self._blind(index, report)]
            case _:
                return [self._firing(index, report)]

    def _of_all_open(self, index: int, report: Report) -> list[Outcome]:
        """Apply a report to all open episodes of an alarm."""
        prefix, source = report.key, self.source
        found = self.store.observations.open_with_prefix(self.project, source, prefix)
        for one in found:
            self._episodes.setdefault((one.key, one.starts_at), one)
            self._before.setdefault((one.key, one.starts_at), one)
            self._open.setdefault(one.key, one)
        reports = [replace(report, key=one.key, is_prefix=False) for one in found]
        return [self._report(index, one)[0] for one in reports] or [Outcome(index, prefix, ReportResult.IGNORED)]

    # -- the words of a source -----------------------------------------------------------------------

    def _resolved(self, index: int, report: Report) -> Outcome:
        episode = self._open.get(report.key)
        if episode is None:
            return Outcome(index, report.key, ReportResult.IGNORED, detail="nothing was open")
        if not self.document.unmarks:
            detail = "the source keeps marks"
            return Outcome(index, report.key, ReportResult.IGNORED, episode.incident_id, detail=detail)
        self._save(replace(episode, word=Word.RESOLVED, is_open=False, last_seen=self.now, ended_at=self.now))
        if episode.incident_id is not None:
            self._woken.append(episode.incident_id)
        return Outcome(index, report.key, ReportResult.CLEARED, episode.incident_id)

    def _blind(self, index: int, report: Report) -> Outcome:
        episode = self._open.get(report.key)
        if episode is None:
            found = self._targets.find(report, self.document.marks_member).place
            root, path = ("", "") if found is None else (found.stacks[0].id, found.slot.path)
            episode = self._episode(report, report.starts_at or self.now, None, root or None, path)
        self._save(replace(episode, word=Word.BLIND, last_seen=self.now))
        return Outcome(index, report.key, ReportResult.BLIND, episode.incident_id)

    def _firing(self, index: int, report: Report) -> Outcome:
        current = self._open.get(report.key)
        starts_at = report.starts_at or (current.starts_at if current is not None else self.now)
        if current is not None and starts_at < current.starts_at:
            return Outcome(index, report.key, ReportResult.IGNORED, detail="a later episode is open")
        found = self._targets.find(report, self.document.marks_member)
        place = found.place
        if place is None:
            return Outcome(index, report.key, found.result, detail=found.detail)
        target = _target(place)
        held = _held(place)
        if held is not None:
            return Outcome(index, report.key, held, target=target)
        if current is not None and current.muted_for == place.row.physical_id:
            self._save(replace(current, last_seen=self.now, reports=current.reports + 1))
            return Outcome(index, report.key, ReportResult.MUTED, target=target)
        incident = self._incident(place, report)
        if incident is None:
            return Outcome(index, report.key, ReportResult.OVERFLOW, target=target)
        is_known = current is not None and current.starts_at == starts_at and current.incident_id == incident
        if current is not None and current.starts_at != starts_at:
            self._save(replace(current, is_open=False, ended_at=self.now))
        episode = self._episodes.get((report.key, starts_at))
        if episode is None:
            self._save(self._episode(report, starts_at, incident, target.root_id, target.path))
        else:
            again = replace(episode, last_seen=self.now, reports=episode.reports + 1, word=Word.FIRING, is_open=True)
            again = replace(again, incident_id=incident, root_id=target.root_id, path=target.path)
            self._save(replace(again, ended_at=None, muted_for=None))
        result = ReportResult.REPEATED if is_known else ReportResult.ACCEPTED
        return Outcome(index, report.key, result, incident, target)

    # -- rows ----------------------------------------------------------------------------------------

    def _incident(self, place: Place, report: Report) -> str | None:
        """Return the open incident of a slot, or open one. None: the project has too many."""
        root_id, path = place.stacks[0].id, place.slot.path
        if root_id not in self._incidents:
            found = self.store.incidents.open_of_root(root_id)
            self._incidents[root_id] = {one.path: one.id for one in found if one.source == self.source}
            self._known.update(self._incidents[root_id].values())
        known = self._incidents[root_id].get(path)
        if known is not None:
            if known in self._known:
                self._noted.append(known)
            return known
        if self._room <= 0:
            return None
        self._room -= 1
        new = IncidentRecord(
            random_id(), self.project, self.source, root_id, place.row.stack_id, path, place.slot.member,
            place.slot.scope, place.row.id, place.row.physical_id or "", IncidentState.OBSERVED, self.now, self.now,
            evidence_since=self.now, ttl=self.document.ttl, due=self.now, summary=report.summary,
        )  # fmt: skip
        self._incidents[root_id][path] = new.id
        self._new_incidents.append(new)
        return new.id

    def _episode(
        self, report: Report, starts_at: float, incident: str | None, root_id: str | None, path: str
    ) -> ObservationRecord:
        return ObservationRecord(
            random_id(), self.project, self.source, report.key, starts_at, self.now, self.now,
            word=report.word, incident_id=incident, root_id=root_id, path=path, summary=report.summary,
        )  # fmt: skip

    def _save(self, episode: ObservationRecord) -> None:
        self._episodes[episode.key, episode.starts_at] = episode
        if episode.is_open:
            self._open[episode.key] = episode
        elif self._open.get(episode.key) is not None and self._open[episode.key].id == episode.id:
            del self._open[episode.key]


def _held(place: Place) -> ReportResult | None:
    """Return the result of a report on a locked or suspended resource.

    None: the report is evidence.
    """
    if any(stack.locked for stack in place.stacks):
        return ReportResult.SUPPRESSED
    states = [place.row.state_without_lock.verb, *(stack.state_without_lock[0] for stack in place.stacks)]
    return ReportResult.SUSPENDED if Verb.SUSPEND in states else None


def _target(place: Place) -> Target:
    stack, row = place.stacks[-1], place.row
    slot = place.slot
    return Target(
        place.stacks[0].id, stack.id, stack.name, slot.path, slot.member, slot.scope, row.id, row.physical_id or ""
    )


def _kept(outcome: Outcome, now: float) -> JsonMap:
    return {"time": to_text(now), "key": outcome.key, "result": outcome.result, "detail": outcome.detail}


def answer(taken: Taken) -> JsonMap:
    """Return the answer to a request: repeated reports last."""
    listed: Sequence[Outcome] = sorted(taken.outcomes, key=lambda one: one.result is ReportResult.REPEATED)
    return {
        "source": taken.source,
        "received": taken.received,
        "truncated": taken.truncated,
        "counts": {str(result): count for result, count in sorted(taken.counts.items())},
        "results": [_shown(one) for one in listed[:MAX_ANSWERED]],
    }


def _shown(outcome: Outcome) -> JsonMap:
    target = outcome.target
    return {
        "index": outcome.index,
        "key": outcome.key,
        "result": str(outcome.result),
        "incident": outcome.incident,
        "target": None
        if target is None
        else {
            "stack_name": target.stack_name,
            "stack_id": target.stack_id,
            "path": target.path,
            "physical_resource_id": target.physical_id,
        },
        "detail": outcome.detail,
    }
