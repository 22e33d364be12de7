"""Kills at every commit of an update for later that waits for its approval.

It begins at its time, once. Without a decision by then, it ends with its approval.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from tests.crash.copies import MAX_COMMITS, begun, copier, kill_at_commits
from tests.crash.fast_engine import LEASE
from tests.databases import sqlite
from tests.features.approvals.crash.approval_victim import client, prepare
from tests.features.approvals.crash.later_victim import VICTIMS, go, start

LEAST = {True: 6, False: 4}
"""Commits, if it is approved or not."""


@pytest.mark.slow
@pytest.mark.parametrize("is_decided", VICTIMS)
def test_killed_at_every_commit(place: Path, is_decided: bool) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    begun(prepare, sqlite(place / "now"), str(files)).join(240)
    kill_at_commits(copier(place), VICTIMS[is_decided], partial(recover, is_decided), files, LEAST[is_decided])


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize("is_decided", VICTIMS)
@pytest.mark.parametrize(
    "commits", [range(2, MAX_COMMITS, 5), pytest.param(range(1, MAX_COMMITS), marks=pytest.mark.thorough)]
)
def test_killed_at_commits_on_postgresql(
    place: Path, prepared: Callable[[], str], is_decided: bool, commits: Iterable[int]
) -> None:
    """Every fifth commit, if not in a thorough run: on SQLite it is each."""
    files, ends = place / "now" / "files", partial(recover, is_decided)
    kill_at_commits(prepared, VICTIMS[is_decided], ends, files, LEAST[is_decided], commits, LEASE)


def recover(is_decided: bool, database: str, where: str, lease: float) -> None:
    """A new engine ends the request, once."""
    server, clock = start(database, lease)
    try:
        go(server, clock, is_decided)
        heat, path = client(server)
        (found,) = heat.get("/approvals")["approvals"]
        updates = [one for one in heat.get("/actions")["actions"] if one["action"] == "STACK_UPDATE"]
        ended = ("DONE", "SUCCEEDED", "b") if is_decided else ("EXPIRED", "CANCELLED", "a")
        assert [(one["id"], one["status"]) for one in updates] == [(found["action_id"], ended[1])], where
        names = [one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]]
        assert (found["state"], names) == (ended[0], [ended[2]]), where
        events = [one["resource_status"] for one in heat.get(f"{path}/events?limit=100")["events"]]
        told = sorted(one for one in events if one.startswith("APPROVAL"))
        assert told == ["APPROVAL_APPROVED" if is_decided else "APPROVAL_EXPIRED", "APPROVAL_REQUESTED"], where
        assert server.store.inconsistencies(clock.now(), 0.0) == [], where
    finally:
        server.close()
