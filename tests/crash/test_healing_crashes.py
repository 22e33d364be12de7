"""Kills of the engine at every commit of a repair, and of a random scale-in.

A new engine finishes the work. No decision is repeated or lost: one object is made, one is deleted, and one repair is
recorded. The drawn members leave.
"""

import json
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.extras import MissingLibrary
from heatlite.core.json import dump, parse
from heatlite.core.status import Status, Verb
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import ClosedAs, IncidentState, RepairResult
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.records import ActionRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store
from tests.crash import group_victim
from tests.crash.healing_victim import (
    GROUP,
    LEASE,
    SPEED,
    engine,
    heal,
    prepare,
    put_policy,
    report,
    reporter,
    start,
    victim,
)
from tests.crash.scenarios import create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY, SERVERS, sqlite
from tests.processes import fresh
from tests.thorough import THOROUGH

MAX_COMMITS = 80


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of the database and of the objects."""
    monkeypatch.setattr("heatlite.features.healing.loop.sweep.GAP", math.inf)  # as in the victims
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("EXAMPLE_FILES", str(Path(folder) / "now" / "files"))
        yield Path(folder)


@pytest.mark.full
def test_killed_at_every_commit_of_a_repair(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    database = sqlite(place / "now")
    server = start(database)
    create(server, template(g=GROUP, other=file("other", slow=0)))
    settle(server)
    put_policy(server.store, stack_of(server).id)
    server.close()
    shutil.copytree(place / "now", place / "prepared")
    for commit in range(1, MAX_COMMITS):
        shutil.rmtree(place / "now")
        shutil.copytree(place / "prepared", place / "now")
        process = begun(victim, database, str(files), commit)
        process.join(240)
        assert process.exitcode in (-9, SURVIVED), f"commit {commit}: exit code {process.exitcode}"
        recover(database, place, f"commit {commit}")
        if process.exitcode == SURVIVED:
            assert commit > 6
            return
    pytest.fail("the victim dies for ever")


@pytest.fixture
def prepared(place: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Yield a function that replaces the last copy of a prepared database.

    It returns the URL of the new copy, on PostgreSQL.
    """
    found, name = SERVERS[Dialect.POSTGRESQL], f"heatlite_crash_{os.getpid()}"
    with ExitStack() as ends:
        try:
            template_url = ends.enter_context(found.database(f"{name}_prepared"))
        except (DatabaseUnavailable, MissingLibrary) as error:
            pytest.skip(f"no PostgreSQL to test with ({found.variable} names one): {error}")
        admin = Database(os.environ.get(found.variable, found.loopback))
        ends.callback(admin.close)
        drop = partial(admin.peewee.execute_sql, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        ends.callback(drop)
        files = place / "now" / "files"
        files.mkdir(parents=True)
        begun(getattr(request, "param", prepare), template_url, str(files)).join(240)
        shutil.copytree(place / "now", place / "prepared")

        def copy() -> str:
            drop()
            admin.peewee.execute_sql(f"CREATE DATABASE {name} TEMPLATE {name}_prepared")
            shutil.rmtree(place / "now")
            shutil.copytree(place / "prepared", place / "now")
            return template_url.removesuffix("_prepared")

        yield copy


def begun(target: Callable[..., None], *arguments: object) -> Any:
    process = fresh("tests.crash.healing_victim").Process(target=target, args=arguments)
    process.start()
    return process


@pytest.mark.full
def test_killed_at_commits_of_a_repair_on_postgresql(place: Path, prepared: Callable[[], str]) -> None:
    """Every commit in the thorough run, else every seventh: on SQLite it is each."""
    for commit in range(1, MAX_COMMITS) if THOROUGH else range(3, MAX_COMMITS, 7):
        database = prepared()
        process = begun(victim, database, str(place / "now" / "files"), commit, LEASE)
        process.join(240)
        assert process.exitcode in (-9, SURVIVED), f"commit {commit}: exit code {process.exitcode}"
        recover(database, place, f"commit {commit}", LEASE)
        if process.exitcode == SURVIVED:
            assert commit > 7
            return
    pytest.fail("the victim dies for ever")


@pytest.mark.full
def test_three_engines_one_of_them_frozen(place: Path, prepared: Callable[[], str]) -> None:
    several_engines(place, prepared(), None)


@pytest.mark.full
def test_three_engines_one_of_them_frozen_and_one_killed(place: Path, prepared: Callable[[], str]) -> None:
    """The kill is at every commit in the thorough run, else at some."""
    for commit in range(1, MAX_COMMITS, 1 if THOROUGH else 6):
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
    *runs, ends = (fresh("tests.crash.healing_victim").Event() for _ in range(4))
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
    recover(database, place, f"three engines, commit {commit}", LEASE)
    return bool(codes[2] == -9)


def recover(database: str, place: Path, where: str, lease: float = 1e9) -> None:
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


def drawn(store: Store) -> ActionRecord | None:
    """Return the scale-in; None: it was never accepted."""
    found = store.database.read("SELECT id FROM action WHERE inputs LIKE ?", ['%"scale_in"%'])
    return store.actions.get(found[0][0]) if found else None


def recover_group(database: str, where: str, lease: float = 1e9) -> None:
    """A new engine ends what has begun, and decides nothing anew."""
    store = Store.open(database)
    before = drawn(store)
    store.close()
    server = start(database, lease)
    try:
        settle(server)
        after, (group,) = drawn(server.store), server.store.stacks.descendants(stack_of(server))
        names = {row.name for row in server.store.resources.of(group.id)}
        if before is None or after is None:
            assert (before, after, len(names)) == (None, None, group_victim.MEMBERS), where
            return
        assert before.data.deletion is not None and after.data.deletion is not None
        assert parse(dump(after.data.deletion)) == parse(dump(before.data.deletion)), where
        gone = {*before.data.deletion.names}
        assert len(gone) == 2 and names == {str(number) for number in range(group_victim.MEMBERS)} - gone, where
        events = server.store.events.list(group.id, EventQuery())
        assert {one.resource_name for one in events if one.verb == Verb.DELETE} == gone, where
        assert {*parse(dump(after.outputs))["removed"]} == gone, where  # type: ignore[arg-type]
        assert (group.verb, group.status) == (Verb.UPDATE, Status.COMPLETE), where
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


def killed_at(commit: int, database: str, files: Path, lease: float = 1e9) -> bool:
    """Kill a victim at a commit, then recover. Returns False if it has survived."""
    process = begun(group_victim.victim, database, str(files), commit, lease)
    process.join(240)
    assert process.exitcode in (-9, SURVIVED), f"commit {commit}: exit code {process.exitcode}"
    recover_group(database, f"commit {commit}", lease)
    return bool(process.exitcode != SURVIVED)


@pytest.mark.full
def test_killed_at_every_commit_of_a_random_scale_in(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    database = sqlite(place / "now")
    server = start(database)
    create(server, template(g=group_victim.GROUP))
    settle(server)
    server.close()
    shutil.copytree(place / "now", place / "prepared")
    for commit in range(1, MAX_COMMITS):
        shutil.rmtree(place / "now")
        shutil.copytree(place / "prepared", place / "now")
        if not killed_at(commit, database, files):
            assert commit > 4
            return
    pytest.fail("the victim dies for ever")


@pytest.mark.full
@pytest.mark.parametrize("prepared", [group_victim.prepare], indirect=True)
def test_killed_at_commits_of_a_random_scale_in_on_postgresql(place: Path, prepared: Callable[[], str]) -> None:
    """Every commit in the thorough run, else every third: on SQLite it is each."""
    for commit in range(1, MAX_COMMITS, 1 if THOROUGH else 3):
        if not killed_at(commit, prepared(), place / "now" / "files", LEASE):
            assert commit > 4
            return
    pytest.fail("the victim dies for ever")
