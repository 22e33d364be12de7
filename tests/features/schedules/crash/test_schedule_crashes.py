"""Kills of the engine at every commit of what schedules begin.

A new engine finishes the work: one action and one event for each occurrence.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from heatlite.core.status import Cause, state
from heatlite.store.stacks.events import EventQuery
from tests.crash.copies import MAX_COMMITS, begun, copier, kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.crash.scenarios import stack_of
from tests.databases import sqlite
from tests.features.schedules.crash.schedule_victim import end, fall_due, of_stack, prepare, victim


@pytest.mark.slow
def test_killed_at_every_commit(place: Path) -> None:
    (place / "now" / "files").mkdir(parents=True)
    begun(prepare, sqlite(place / "now"), str(place / "now" / "files")).join(240)
    kill_at_commits(copier(place), victim, recover, place / "now" / "files", 6)


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize(
    "commits", [range(2, MAX_COMMITS, 5), pytest.param(range(1, MAX_COMMITS), marks=pytest.mark.thorough)]
)
def test_killed_at_commits_on_postgresql(
    place: Path, prepared: Callable[[], str], commits: Iterable[int]
) -> None:
    """Every fifth commit, if not in a thorough run: on SQLite it is each."""
    kill_at_commits(prepared, victim, recover, place / "now" / "files", 6, commits, LEASE)


def recover(database: str, where: str, lease: float) -> None:
    """A new engine ends all occurrences, each once."""
    server = start(database, lease)
    try:
        fall_due(server)  # one whose change was not committed
        end(server)
        store, root = server.store, stack_of(server)
        found = of_stack(server)
        results = {name: one.last.result.value for name, one in found.items() if one.last is not None}
        assert results == {"sleep": "started", "look": "missed"}, where
        rows = store.database.read("SELECT verb, status FROM action WHERE cause = ?", (Cause.SCHEDULED.value,))
        assert [*rows] == [("SUSPEND", "SUCCEEDED")], where
        events = store.events.list(root.id, EventQuery(sort_dir="asc"), [])
        told = [state(one.verb, one.status) for one in events if one.verb == "SCHEDULE"]
        assert told == ["SCHEDULE_STARTED"], where
        assert state(root.verb, root.status) == "SUSPEND_COMPLETE", where
        assert store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()
