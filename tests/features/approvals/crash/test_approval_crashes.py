"""Kills at every commit from the request of an update to its end.

A new engine finishes the work: one approval, one action.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.crash.copies import MAX_COMMITS, begun, copier, kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.databases import sqlite
from tests.features.approvals.crash.approval_victim import client, prepare, request, victim


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
    """A new engine ends the update, once."""
    server = start(database, lease)
    try:
        request(server)
        heat, path = client(server)
        (found,) = heat.get("/approvals")["approvals"]
        assert found["state"] == "DONE", where
        updates = [one for one in heat.get("/actions")["actions"] if one["action"] == "STACK_UPDATE"]
        assert [(one["id"], one["status"]) for one in updates] == [(found["action_id"], "SUCCEEDED")], where
        events = [one["resource_status"] for one in heat.get(f"{path}/events?limit=100")["events"]]
        assert [one for one in events if one.startswith("APPROVAL")].count("APPROVAL_REQUESTED") == 1, where
        assert events.count("APPROVAL_APPROVED") == 1, where
        assert [one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]] == ["b"], where
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()
