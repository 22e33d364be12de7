"""Kills before each commit of an update that takes old objects back, and bakes."""

from pathlib import Path

import pytest

from heatlite.core.status import Status, Verb
from heatlite.engine.state.requests import StackRequest
from tests.crash.copies import copier, kill_at_commits
from tests.crash.fast_engine import start
from tests.crash.scenarios import CALLER, create, settle, stack_of
from tests.databases import sqlite
from tests.features.guards.crash.take_back_victim import BEFORE, FAILED, GUARD, update
from tests.features.guards.crash.test_guard_crashes import rows


@pytest.mark.slow
def test_killed_at_every_commit(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    server = start(sqlite(place / "now"))
    create(server, BEFORE)
    settle(server)
    before = rows(server)
    server.stacks.update(CALLER, stack_of(server), StackRequest(template=FAILED, further=GUARD), existing=False)
    settle(server)
    assert {len(ids) for name, ids in rows(server).items() if name in ("/a", "g/0", "g/1")} == {2}
    server.close()

    def recover(database: str, where: str, lease: float = 1e9) -> None:
        server = start(database, lease)
        try:
            settle(server)
            stack = stack_of(server)
            if stack.status is Status.COMPLETE:
                assert (stack.verb, rows(server)) == (Verb.UPDATE, before), where
            assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
        finally:
            server.close()

    kill_at_commits(copier(place), update, recover, files, 5)
