"""Kills before each commit: a value and what it came from are there together.

Acceptance 8, law Z3.
"""

import multiprocessing
from pathlib import Path

import pytest

from heatlite.core.json import as_map
from heatlite.features.parameter_sources.readings import of_stack
from heatlite.features.parameter_sources.store.store import ReadingStore
from tests.crash.scenarios import settle
from tests.crash.test_every_commit import copies, put_back
from tests.databases import sqlite
from tests.features.parameter_sources.crash.source_victim import begin, victim
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
            settle(server)
            found = server.store.stacks.by_name("demo", "reader")
            if found is not None:
                value = as_map(found.environment.get("parameters"))["net"]
                kept, holding = server.store.of(ReadingStore).of_readers([found.id]), of_stack(server.store, found)
                seen.add((value, len(kept), len(holding)))
                assert [one.value for one in holding] == ([] if value == "own" else [value]), copy.name
                assert all(server.store.actions.get(one.action_id) is not None for one in kept), copy.name
            assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], copy.name
        finally:
            server.close()
    assert seen == {("a", 1, 1), ("b", 2, 1), ("own", 0, 0)}
