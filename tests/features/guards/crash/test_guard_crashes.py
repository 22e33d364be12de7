"""Kills before each commit of an update that bakes: one end, or one rollback."""

from pathlib import Path

import pytest

from heatlite.core.status import Status, Verb
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded
from tests.crash.copies import copier, kill_at_commits
from tests.crash.fast_engine import start
from tests.crash.scenarios import create, settle, stack_of
from tests.databases import sqlite
from tests.features.guards.crash.guard_victim import BEFORE, take_back, taken_back, update


def rows(server: Embedded) -> dict[str, list[str]]:
    """The ids of the rows in the tree, by stack and name."""
    root, found = stack_of(server), dict[str, list[str]]()
    for one in (root, *server.store.stacks.descendants(root)):
        for row in server.store.resources.of(one.id):
            found.setdefault(f"{one.parent_resource or ''}/{row.name}", []).append(row.id)
    return found


def begun_rollbacks(server: Embedded) -> int:
    events = server.store.events.list(stack_of(server).id, EventQuery())
    return sum((one.verb, one.status) == (Verb.ROLLBACK, Status.IN_PROGRESS) for one in events)


@pytest.mark.slow
@pytest.mark.parametrize("back", [False, True])
def test_killed_at_every_commit(place: Path, back: bool) -> None:
    """Acceptance 5: the update ends once, or goes back once, with the old objects."""
    files = place / "now" / "files"
    files.mkdir(parents=True)
    server = start(sqlite(place / "now"))
    create(server, BEFORE)
    settle(server)
    before = rows(server)
    server.close()

    def recover(database: str, where: str, lease: float = 1e9) -> None:
        server = start(database, lease)
        try:
            running = server.store.actions.live([stack_of(server).id])
            if back and running and running[0].control is None and stack_of(server).verb is Verb.UPDATE:
                take_back(server)
            settle(server)
            stack, after = stack_of(server), rows(server)
            if stack.verb is Verb.CREATE:
                assert after == before, where
            elif back:
                assert (stack.verb, stack.status) == (Verb.ROLLBACK, Status.COMPLETE), where
                assert (after, begun_rollbacks(server)) == (before, 1), where
            else:
                assert (stack.verb, stack.status) == (Verb.UPDATE, Status.COMPLETE), where
                names = ["/a", "/new", "/g", "g/0", "g/1"]
                assert {name: len(ids) for name, ids in after.items()} == dict.fromkeys(names, 1), where
                assert after["/a"] != before["/a"] and after["g/0"] != before["g/0"], where
            assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
        finally:
            server.close()

    kill_at_commits(copier(place), taken_back if back else update, recover, files, 10)
