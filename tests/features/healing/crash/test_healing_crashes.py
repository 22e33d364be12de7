"""Kills of the engine at every commit of a repair.

A new engine finishes the work. No decision is repeated or lost: one object is made, one is deleted, and one repair is
recorded.
"""

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from heatlite.core.status import Verb
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import ClosedAs, IncidentState, RepairResult
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store
from tests.crash.copies import MAX_COMMITS, begun, copier, kill_at_commits
from tests.crash.fast_engine import LEASE, SPEED, start
from tests.crash.scenarios import create, file, settle, stack_of, template
from tests.databases import sqlite
from tests.features.healing.crash.healing_victim import (
    GROUP,
    check,
    drift_victim,
    engine,
    heal,
    prepare,
    put_policy,
    report,
    reporter,
    revert,
    victim,
)
from tests.processes import fresh

EACH = pytest.mark.thorough


@pytest.fixture(autouse=True)
def never_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the victims."""
    monkeypatch.setattr("heatlite.features.healing.loop.sweep.GAP", math.inf)


@pytest.mark.slow
def test_killed_at_every_commit_of_a_repair(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    server = start(sqlite(place / "now"))
    create(server, template(g=GROUP, other=file("other", slow=0)))
    settle(server)
    put_policy(server.store, stack_of(server).id)
    server.close()
    kill_at_commits(copier(place), victim, partial(recover, place), files, 6)


@pytest.mark.slow
@pytest.mark.parametrize("commits", [range(1, MAX_COMMITS, 3), pytest.param(range(1, MAX_COMMITS), marks=EACH)])
def test_killed_at_commits_of_a_drift(place: Path, commits: Iterable[int]) -> None:
    """From the check to the end of the revert: every third, if not thorough."""
    files = place / "now" / "files"
    files.mkdir(parents=True)
    server = start(sqlite(place / "now"))
    create(server, template(g=GROUP))
    settle(server)
    put_policy(server.store, stack_of(server).id)
    server.close()
    next(path for path in files.iterdir() if path.read_text() == "member 1").write_text("from outside")
    kill_at_commits(copier(place), drift_victim, partial(recover_drift, files), files, 6, commits)


def recover_drift(files: Path, database: str, where: str, lease: float) -> None:
    """A new engine ends what was begun: one incident, one repair, no mark."""
    server = start(database, lease)
    store = server.store
    try:
        settle(server)
        if store.actions.last(stack_of(server).id, Verb.CHECK) is None:
            check(server)
        revert(server)
        check(server)
        for _ in range(3):
            server.components.of(Healing).loop.sweep()
        settle(server)
        healing, root = store.of(HealingStore), stack_of(server)
        (incident,) = healing.incidents.page("demo", IncidentQuery())
        (repair,) = healing.repairs.of_root(root.id, 0.0)
        assert (incident.source, incident.path, incident.state) == ("drift", "g/1", IncidentState.CLOSED), where
        assert (repair.step, repair.result) == ("revert", RepairResult.SUCCEEDED), where
        assert [one.after for one in incident.history if one.after in ("MARKED", "REPAIRING")] == ["REPAIRING"], where
        assert sorted(path.read_text() for path in files.iterdir() if path.name != "journal") == [
            "member 0", "member 1", "member 2",
        ], where  # fmt: skip
        assert store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize("commits", [range(3, MAX_COMMITS, 7), pytest.param(range(1, MAX_COMMITS), marks=EACH)])
def test_killed_at_commits_of_a_repair_on_postgresql(
    place: Path, prepared: Callable[[], str], commits: Iterable[int]
) -> None:
    """Every seventh commit, if not in a thorough run: on SQLite it is each."""
    kill_at_commits(prepared, victim, partial(recover, place), place / "now" / "files", 7, commits, LEASE)


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
def test_three_engines_one_of_them_frozen(place: Path, prepared: Callable[[], str]) -> None:
    several_engines(place, prepared(), None)


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize("step", [6, pytest.param(1, marks=EACH)])
def test_three_engines_one_of_them_frozen_and_one_killed(place: Path, prepared: Callable[[], str], step: int) -> None:
    for commit in range(1, MAX_COMMITS, step):
        if not several_engines(place, prepared(), commit):
            assert commit > 4
            return
    pytest.fail("the victim dies for ever")


def several_engines(place: Path, database: str, commit: int | None) -> bool:
    """Have three engines heal.

    One is frozen for two leases, one is killed at a commit. Returns False if it has survived.
    """
    files = str(place / "now" / "files")
    begun(reporter, database, files).join(240)
    *runs, ends = (fresh(engine.__module__).Event() for _ in range(4))
    victims = zip(runs, (ends, None, None), (None, None, commit), strict=True)
    engines = [begun(engine, database, files, LEASE, *one) for one in victims]
    assert runs[0].wait(240)  # frozen while it connects, it would find no database
    store = Store.open(database)
    end = time.monotonic() + 240
    while not store.database.read("SELECT 1 FROM incident WHERE state <> 'OBSERVED'"):
        assert time.monotonic() < end
    store.close()
    os.kill(engines[0].pid, signal.SIGSTOP)
    time.sleep(2 * LEASE / SPEED)
    os.kill(engines[0].pid, signal.SIGCONT)
    ends.set()
    for one in engines:
        one.join(240)
    codes = [one.exitcode for one in engines]
    assert codes[:2] == [0, 0] and codes[2] in (0, -9), codes
    recover(place, database, f"three engines, commit {commit}", LEASE)
    return bool(codes[2] == -9)


def recover(place: Path, database: str, where: str, lease: float) -> None:
    """A new engine leads the incident to its end, once."""
    server = start(database, lease)
    try:
        store, root = server.store, stack_of(server)
        known = store.of(HealingStore).incidents.page("demo", IncidentQuery())
        if [one.state for one in known] in ([], [IncidentState.OBSERVED]):
            report(server)  # who reports has no answer, and sends it again
        heal(server)
        (incident,) = store.of(HealingStore).incidents.page("demo", IncidentQuery())
        (episode,) = store.of(HealingStore).observations.of_incident(incident.id, 10)
        assert episode.is_open, where
        assert (incident.state, incident.closed_as) == (IncidentState.CLOSED, ClosedAs.QUIET), where
        (repair,) = store.of(HealingStore).repairs.of_root(root.id, 0.0)
        assert repair.result is RepairResult.SUCCEEDED
        (group,) = store.stacks.descendants(root)
        events = store.events.list(root.id, EventQuery(sort_dir="asc"), [group.id])
        marks = [one for one in events if (one.verb, one.status) == (Verb.CHECK, "FAILED")]
        assert len(marks) == 1, where
        updates = [one for one in events if (one.physical_id, one.verb) == (root.id, Verb.UPDATE)]
        assert [one.status for one in updates] == ["IN_PROGRESS", "COMPLETE"], where
        rows = store.resources.of(group.id)
        assert sorted(row.name for row in rows) == ["0", "1", "2"]
        files = place / "now" / "files"
        there = {str(path) for path in files.iterdir() if path.name != "journal"}
        assert there == {row.physical_id for row in (*rows, *store.resources.of(root.id)) if row.name != "g"}
        made = (files / "journal").read_text().split()
        assert len(made) == len(set(made)), where
        # A kill may fall between a file and its line in the journal.
        assert len({*made, *(Path(path).name for path in there)}) == 5, where
        assert store.inconsistencies(server.components.clock.now(), 0.0) == [], json.dumps(where)
    finally:
        server.close()
