"""Kills of the engine at every commit of a random scale-in.

A new engine finishes the work. The members that were drawn leave, and no others.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from heatlite.core.json import dump, parse
from heatlite.core.status import Status, Verb
from heatlite.store.records import ActionRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store
from tests.crash.copies import MAX_COMMITS, copier, kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.crash.group_victim import GROUP, MEMBERS, prepare, victim
from tests.crash.scenarios import create, settle, stack_of, template
from tests.databases import sqlite

EACH = pytest.mark.thorough


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
            assert (before, after, len(names)) == (None, None, MEMBERS), where
            return
        assert before.data.deletion is not None and after.data.deletion is not None
        assert parse(dump(after.data.deletion)) == parse(dump(before.data.deletion)), where
        gone = {*before.data.deletion.names}
        assert len(gone) == 2 and names == {str(number) for number in range(MEMBERS)} - gone, where
        events = server.store.events.list(group.id, EventQuery())
        assert {one.resource_name for one in events if one.verb == Verb.DELETE} == gone, where
        assert {*parse(dump(after.outputs))["removed"]} == gone, where  # type: ignore[arg-type]
        assert (group.verb, group.status) == (Verb.UPDATE, Status.COMPLETE), where
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


@pytest.mark.slow
def test_killed_at_every_commit_of_a_random_scale_in(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    server = start(sqlite(place / "now"))
    create(server, template(g=GROUP))
    settle(server)
    server.close()
    kill_at_commits(copier(place), victim, recover_group, files, 4)


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=EACH)])
def test_killed_at_commits_of_a_random_scale_in_on_postgresql(
    place: Path, prepared: Callable[[], str], step: int
) -> None:
    """Every third commit, if not in a thorough run: on SQLite it is each."""
    commits = range(1, MAX_COMMITS, step)
    kill_at_commits(prepared, victim, recover_group, place / "now" / "files", 4, commits, LEASE)
