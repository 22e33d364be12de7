"""Kills before each commit of a group whose members are in a pool.

Another engine ends what has begun. Each member is in the pool then, and no other server. No server that it deletes is
in the pool.
"""

from pathlib import Path
from typing import Any

import pytest

from heatlite.core.status import Status
from heatlite.wiring import Embedded
from tests.crash.pool_victim import VERBS, begin, prepare, victim
from tests.crash.scenarios import settle, stack_of
from tests.crash.test_every_commit import copies, put_back
from tests.databases import sqlite
from tests.engine.test_group_pools import address, in_pool, watched
from tests.processes import fresh
from tests.tables import few


def members(engine: Embedded) -> list[str]:
    """The servers of the group."""
    (group,) = engine.store.stacks.descendants(stack_of(engine))
    rows = engine.store.resources.of(group.id)
    assert group.status is Status.COMPLETE and {row.status for row in rows} == {Status.COMPLETE}
    return [row.physical_id or "" for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("verb", few(["scale_out", "scale_in", "leave", "attach", "detach"]))
def test_killed_at_every_commit(place: Path, verb: str) -> None:
    assert verb in VERBS
    (place / "now").mkdir()
    engine = begin(sqlite(place / "now"))
    prepare(engine, verb)
    engine.close()
    process = fresh("tests.crash.pool_victim").Process(target=victim, args=(sqlite(place / "now"), verb))
    made, seen = copies(place, process), set()
    assert len(made) > 4
    for copy in made:
        put_back(place, copy)
        engine = begin(sqlite(place / "now"))
        simulation: Any = engine.components.engine_services.services.clouds.of("demo").cloud
        try:
            with watched(simulation.simulation):
                settle(engine)
            servers = members(engine)
            addresses = sorted(address(simulation.simulation, key) for key in servers)
            placed = in_pool(simulation.simulation)
            is_placed = placed == addresses
            if verb in ("attach", "detach"):
                assert is_placed or placed == [], copy.name
            else:
                assert is_placed, (copy.name, placed, addresses)
            seen.add((is_placed, len(servers)))
            assert engine.store.inconsistencies(engine.components.clock.now(), 0.0) == [], copy.name
        finally:
            engine.close()
    assert len(seen) == 2, "as before, or as after"
