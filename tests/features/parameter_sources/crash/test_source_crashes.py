"""Kills before each commit: a value and what it came from are there together.

Acceptance 8, law Z3.
"""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from heatlite.core.json import as_map
from heatlite.features.parameter_sources.readings import of_stack
from heatlite.features.parameter_sources.store.store import ReadingStore
from heatlite.wiring import Embedded
from tests.crash.copies import kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.crash.scenarios import settle
from tests.crash.test_every_commit import copies, put_back
from tests.databases import sqlite
from tests.features.parameter_sources.crash.source_victim import begin, change, changed, prepare, victim
from tests.processes import fresh


@pytest.fixture(scope="module")
def victims() -> multiprocessing.context.ForkServerContext:
    return fresh("tests.features.parameter_sources.crash.source_victim")


@pytest.mark.slow
def test_killed_at_every_commit(place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    """Each value but the last is one that was read, and its reading is the newest."""
    (place / "now").mkdir()
    begin(sqlite(place / "now")).close()
    made = copies(place, victims.Process(target=victim, args=(sqlite(place / "now"),)))
    assert len(made) > 8
    seen = set()
    for copy in made:
        put_back(place, copy)
        server = begin(sqlite(place / "now"))
        try:
            seen |= check(server, copy.name)
        finally:
            server.close()
    assert seen == {("a", 1, 1), ("b", 2, 1), ("own", 0, 0)}


def check(server: Embedded, where: str) -> set[tuple[object, int, int]]:
    """Check what a new engine makes of the reader.

    Returns its value, and the numbers of readings that are kept and that hold.
    """
    settle(server)
    found, seen = server.store.stacks.by_name("demo", "reader"), set[tuple[object, int, int]]()
    if found is not None:
        value = as_map(found.environment.get("parameters"))["net"]
        kept, holding = server.store.of(ReadingStore).of_readers([found.id]), of_stack(server.store, found)
        seen.add((value, len(kept), len(holding)))
        assert [one.value for one in holding] == ([] if value == "own" else [value]), where
        assert all(server.store.actions.get(one.action_id) is not None for one in kept), where
    assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    return seen


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
def test_killed_at_every_commit_on_postgresql(place: Path, prepared: Callable[[], str]) -> None:
    def recover(database: str, where: str, lease: float) -> None:
        server = start(database, lease)
        try:
            if check(server, where) == {("a", 1, 1)}:
                change(server)
            assert check(server, where) == {("b", 2, 1)}, where
        finally:
            server.close()

    kill_at_commits(prepared, changed, recover, place / "now" / "files", 4, lease=LEASE)
