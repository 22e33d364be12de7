"""The store of healing: one attribute for each kind of row."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from heatlite.core.clock import DAY
from heatlite.core.config import Settings
from heatlite.core.ids import random_id
from heatlite.core.runtime.meter import Gauge
from heatlite.features.healing.feature import HealingSettings
from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.store import moves
from heatlite.features.healing.store.incidents import Incidents
from heatlite.features.healing.store.observations import Observations
from heatlite.features.healing.store.records import IncidentRecord, ObservationRecord
from heatlite.features.healing.store.repairs import HealingPolicies, HealingScopes, HealingSweeps, Repairs
from heatlite.features.healing.store.sources import HealthSources, HealthTokens
from heatlite.features.healing.store.tables import MODELS
from heatlite.features.healing.terms import (
    DEFAULT_SOURCES,
    OPEN_INCIDENTS,
    UNCONFIRMED,
    UNHEALTHY,
    Brake,
    IncidentState,
    Word,
)
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, HealthTable, Moved, ObjectNews, OldRows
from heatlite.store.records import EventRecord, HealthNote, ResourceRecord
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.large_values import ProjectValues

RULES = (
    ConsistencyRule(
        "an open incident has a time to look at it, and one under repair its action",
        "incident",
        "SELECT id, state FROM incident WHERE state <> 'CLOSED' AND (due IS NULL OR open_key IS NULL)"
        " OR state = 'REPAIRING' AND action_id IS NULL",
    ),
    ConsistencyRule(
        "a closed incident is looked at no more",
        "incident",
        "SELECT id, state FROM incident WHERE state = 'CLOSED' AND (due IS NOT NULL OR open_key IS NOT NULL)",
    ),
    ConsistencyRule(
        "a repair that has not ended belongs to an incident under repair",
        "repair",
        "SELECT id, incident_id FROM repair WHERE ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM incident"
        " WHERE incident.id = repair.incident_id AND incident.state = 'REPAIRING')",
    ),
)


HELD = "its incident {0} is {1}. Wait for its end (heatlite incident show {0}), or close it."
"""Reason why a resource stays in its place."""


class HealingStore(FeatureStore):
    """Sources of reports, observations, incidents, policies and repairs."""

    tables = MODELS
    of_stacks = {"healing_policy": "root_id", "healing_scope": "root_id", "repair": "root_id"}
    rules = RULES
    health = HealthTable(
        "incident",
        stands=f"due IS NOT NULL AND state <> '{IncidentState.SETTLING}' AND source <> '{DRIFT}'",
        unhealthy=f"state IN ({', '.join(repr(str(one)) for one in sorted(UNHEALTHY))})",
        held="reason IS NOT NULL",
        suspended="SELECT root_id FROM healing_scope WHERE is_suspended",
    )
    decisions = (f"SELECT COUNT(*) FROM incident WHERE project = ? AND state = '{IncidentState.PROPOSED}'",)

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        database = self.database
        self.sources = HealthSources(database)
        self.tokens = HealthTokens(database)
        self.observations = Observations(encryption)
        self.incidents = Incidents(encryption)
        self.policies = HealingPolicies(database)
        self.scopes = HealingScopes(database)
        self.repairs = Repairs(database)
        self.sweeps = HealingSweeps(database)

    def objects_seen(self, news: ObjectNews) -> Sequence[EventRecord]:
        # Episodes only. Incidents are opened by the loop, which holds the root.
        ended = [key for key, (_, differences) in news.judged.items() if not differences.counted]
        known = self.observations.open(news.project, DRIFT, [*news.compared, *news.unseen, *ended])
        found = {key: row for key, (row, differences) in news.compared.items() if differences.counted}
        after = [drift_episode(one, news.time, one.key in found, one.key in news.unseen) for one in known.values()]
        self.observations.save_many(after)
        new = [row for key, row in found.items() if key not in known]
        if new and self._heals_drift(news.root_id):
            self.observations.insert_many([_begun(news, row) for row in new])
        return ()

    def _heals_drift(self, root_id: str) -> bool:
        stored = self.policies.get(root_id)
        if stored is None:
            return False
        from heatlite.features.healing.rules.policy import read_policy  # with time zones, which few commands need

        return read_policy(stored.document).heals_drift

    def tree_changed(self, root_id: str, now: float) -> None:
        self.incidents.wake_tree(root_id, now)

    def tree_checked(self, root_id: str, now: float) -> None:
        self.policies.wake(root_id, now)

    def resource_marked(self, root_id: str, is_unhealthy: bool, now: float) -> None:
        self.policies.wake(root_id, now)
        self.incidents.wake_tree(root_id, now)

    def resources_moved(self, moved: Moved) -> None:
        moves.move(self.database, moved)

    def held(self, resource_ids: Sequence[str]) -> dict[str, str]:
        busy = (IncidentState.REPAIRING, IncidentState.SETTLING)
        found = (one for one in self.incidents.open_of_resources(resource_ids) if one.state in busy)
        return {one.resource_id: HELD.format(one.id, one.state) for one in found}

    def health_of(self, resource_ids: Sequence[str]) -> list[HealthNote]:
        return notes(self.incidents.open_of_resources(resource_ids))

    def health_in(self, root_id: str) -> list[HealthNote]:
        return notes(self.incidents.open_of_root(root_id))

    def gauges(self) -> Iterator[Gauge]:
        states, reasons = self.incidents.count_by_state(), self.incidents.count_by_reason()
        opened, suspended = self.scopes.counts()
        last = self.sources.last_reports()
        yield Gauge(
            "heatlite_incidents",
            "Open incidents, by state.",
            ("state",),
            {(state,): states.get(state, 0) for state in OPEN_INCIDENTS},
        )
        yield Gauge(
            "heatlite_healing_held",
            "Held incidents, by the first reason.",
            ("reason",),
            {(brake,): reasons.get(brake, 0) for brake in Brake},
        )
        yield Gauge(
            "heatlite_healing_scopes",
            "Scopes whose breaker is open, or that are suspended after failed repairs.",
            ("state",),
            {("open",): opened, ("suspended",): suspended},
        )
        yield Gauge(
            "heatlite_health_storms",
            "Sources that report many resources at once, so that nothing is marked or repaired.",
            (),
            {(): len(self.sources.storms())},
        )
        yield Gauge(
            "heatlite_health_last_report_timestamp_seconds",
            "Time of the last request of a source, by format; 0: there was none.",
            ("format",),
            {(form,): last.get(form, 0.0) for form in DEFAULT_SOURCES},
        )

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        closed = now - settings.of(HealingSettings).incident_days * DAY
        yield self.observations.delete_many, self.observations.left_by_incidents(closed, limit)
        yield self.incidents.delete_many, self.incidents.older_than(closed, limit)
        yield self.observations.delete_many, self.observations.older_than(closed, limit)


def drift_episode(episode: ObservationRecord, now: float, differs: bool, is_unseen: bool) -> ObservationRecord:
    """Return an open episode of drift after a check."""
    if is_unseen:
        return replace(episode, word=Word.BLIND, last_seen=now)
    if differs:
        return replace(episode, word=Word.FIRING, last_seen=now, reports=episode.reports + 1)
    return replace(episode, word=Word.RESOLVED, is_open=False, last_seen=now, ended_at=now)


def _begun(news: ObjectNews, row: ResourceRecord) -> ObservationRecord:
    # The loop knows the path. Until then the id of the row stands for it: "" would be a source that sees nothing.
    return ObservationRecord(
        random_id(), news.project, DRIFT, row.id, news.time, news.time, news.time, root_id=news.root_id, path=row.id,
        summary="differs from its definition",
    )  # fmt: skip


def notes(incidents: Sequence[IncidentRecord]) -> list[HealthNote]:
    """Return the notes of open incidents; a settling one has none."""
    return [
        HealthNote(one.resource_id, one.state in UNHEALTHY, one.created_at, one.source, one.summary, one.id)
        for one in incidents
        if one.state in UNHEALTHY | UNCONFIRMED and one.source != DRIFT  # drift is no fault
    ]
