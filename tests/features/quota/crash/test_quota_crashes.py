"""Kills before each commit: no reservation survives its action."""

import multiprocessing
from pathlib import Path

import pytest

from heatlite.features.quota.store.store import QuotaStore
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.wiring import Embedded
from tests.crash.scenarios import settle
from tests.crash.test_every_commit import copies, put_back
from tests.databases import sqlite
from tests.features.quota.crash.quota_victim import begin, victim
from tests.processes import fresh


@pytest.fixture(scope="module")
def victims() -> multiprocessing.context.ForkServerContext:
    return fresh("tests.features.quota.crash.quota_victim")


def reservations(server: Embedded) -> tuple[int, int]:
    """The number of all rows, and of those whose action has not ended."""
    store = server.store.of(QuotaStore)
    ((every,),) = store.database.read("SELECT COUNT(*) FROM quota_reservation", ())
    places = store.database.read("SELECT DISTINCT place FROM quota_reservation", ())
    return int(str(every)), sum(len(store.open(str(place))) for (place,) in places)


@pytest.mark.slow
def test_killed_at_every_commit(place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    (place / "now").mkdir()
    begin(sqlite(place / "now")).close()
    made = copies(place, victims.Process(target=victim, args=(sqlite(place / "now"),)))
    assert len(made) > 10
    seen = set()
    for copy in made:
        put_back(place, copy)
        server = begin(sqlite(place / "now"))
        try:
            every, alive = reservations(server)
            assert every == alive, copy.name
            seen.add(every)
            settle(server)
            assert reservations(server) == (0, 0), copy.name
            assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], copy.name
            for stack in server.store.stacks.list("demo", StackQuery()):
                assert stack.status == "COMPLETE", copy.name
        finally:
            server.close()
    assert seen == {0, 1}
