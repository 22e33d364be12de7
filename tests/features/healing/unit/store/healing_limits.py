"""Limits of rows of healing, with clients at once, on every database.

Test modules take these tests over; they bring `store`.
"""

import pytest

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.runtime.meter import Meter
from heatlite.features.healing.api import sources
from heatlite.features.healing.intake import intake
from heatlite.features.healing.intake.intake import Intake
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import ReportResult
from heatlite.store.store import Store
from tests.unit.store.limit_behaviour import CLIENTS, MOST, ROUNDS, Server, check
from tests.unit.store.store_behaviour import a_resource, a_stack, insert


def test_intake_tokens_of_a_project(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_TOKENS", MOST)
    check(
        api.store,
        lambda project, _: api.request(project, "POST", "/health_tokens", {"name": "a"}),
        api.store.of(HealingStore).tokens.count,
    )


def test_sources_of_reports_of_a_project(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_SOURCES", MOST)
    reports = Intake(store, Clock(), CLIENTS, Meter())

    def configure(project: str, number: int) -> None:
        reports.configure(project, f"source{number}", {"format": "alertmanager"})

    check(store, configure, store.of(HealingStore).sources.count)


@pytest.mark.parametrize("limit", ["MAX_OPEN", "MAX_OPEN_EPISODES"])
def test_open_incidents_and_episodes_of_a_project(store: Store, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(intake, limit, MOST)
    reports = Intake(store, Clock(), 2 * CLIENTS, Meter())  # half of the threads take reports
    for project in (f"p{number}" for number in range(ROUNDS)):
        insert(store, stack := a_stack(project=project))
        with store.transaction():
            store.resources.insert_many([
                a_resource(f"r{number}", stack_id=stack.id, physical_id=f"object-{project}-{number}")
                for number in range(CLIENTS)
            ])

    def report(project: str, number: int) -> bool:
        labels = {"alertname": "Down", "instance_id": f"object-{project}-{number}"}
        alert = {"status": "firing", "labels": labels, "startsAt": "2026-11-02T12:00:00Z", "fingerprint": str(number)}
        taken = reports.take(Context(project), "alertmanager", {"version": "4", "alerts": [alert]})
        (outcome,) = taken.outcomes
        assert outcome.result in (ReportResult.ACCEPTED, ReportResult.OVERFLOW)
        return outcome.result is ReportResult.ACCEPTED

    check(store, report, store.of(HealingStore).incidents.count_open)
