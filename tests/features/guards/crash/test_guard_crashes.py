"""Kills before each commit of an update that bakes: one end, or one rollback."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from heatlite.core.status import Verb, state
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded
from tests.crash.copies import MAX_COMMITS, begun, copier, kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.crash.scenarios import settle, stack_of
from tests.databases import sqlite
from tests.features.guards.crash.guard_victim import (
    COURSES,
    VICTIMS,
    leave,
    prepare,
    prepare_restore,
    restore,
    take_back,
)
from tests.tables import few


def rows(server: Embedded) -> dict[str, list[str]]:
    """The ids of the rows in the tree, by stack and name."""
    root, found = stack_of(server), dict[str, list[str]]()
    for one in (root, *server.store.stacks.descendants(root)):
        for row in server.store.resources.of(one.id):
            found.setdefault(f"{one.parent_resource or ''}/{row.name}", []).append(row.id)
    return found


def begun_rollbacks(server: Embedded) -> int:
    events = server.store.events.list(stack_of(server).id, EventQuery())
    return sum(state(one.verb, one.status) == "ROLLBACK_IN_PROGRESS" for one in events)


def known(copy: Callable[[], str]) -> dict[str, list[str]]:
    """The rows before the update."""
    server = start(copy())
    found = rows(server)
    server.close()
    return found


def recover(course: str, before: dict[str, list[str]], database: str, where: str, lease: float) -> None:
    """A new engine ends the update once, or takes it back once, with the old objects."""
    server = start(database, lease)
    try:
        _, comes = COURSES[course]
        running = server.store.actions.live([stack_of(server).id])
        if comes is not leave and running and running[0].control is None and _may_bake(server):
            comes(server)
        settle(server)
        stack, after = stack_of(server), rows(server)
        if stack.verb is Verb.CREATE:
            assert after == before, where
        elif course == "fired":
            assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", where
            assert (after, begun_rollbacks(server)) == (before, 1), where
        else:
            assert (state(stack.verb, stack.status), begun_rollbacks(server)) == ("UPDATE_COMPLETE", 0), where
            names = ["/a", "/new", "/g", "g/0", "g/1"]
            assert {name: len(ids) for name, ids in after.items()} == dict.fromkeys(names, 1), where
            assert after["/a"] != before["/a"] and after["g/0"] != before["g/0"], where
        if stack.verb is not Verb.CREATE:
            last = server.store.actions.last(stack.id, Verb.UPDATE)
            assert last is not None and last.outputs.guard is not None, where
            assert last.outputs.guard.result == {"passes": "unknown", "heard": "passed"}.get(course, course), where
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


def _may_bake(server: Embedded) -> bool:
    """True if what bakes goes on, and its bake has not ended."""
    (action,) = server.store.actions.live([stack_of(server).id])
    guard = action.data.guard
    return stack_of(server).verb in (Verb.UPDATE, Verb.RESTORE) and (guard is None or guard.ended is None)


@pytest.mark.slow
@pytest.mark.parametrize("course", COURSES)
def test_killed_at_every_commit(place: Path, course: str) -> None:
    """Acceptance 5.

    Every third commit of the update that looks each 15 s whether it was heard.
    """
    files = place / "now" / "files"
    files.mkdir(parents=True)
    begun(prepare, sqlite(place / "now"), str(files)).join(240)
    copy = copier(place)
    commits = range(1, MAX_COMMITS, 3 if course == "heard" else 1)
    kill_at_commits(copy, VICTIMS[course], partial(recover, course, known(copy)), files, 10, commits)


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize("course", few([*COURSES]))
@pytest.mark.parametrize(
    "commits", [range(3, MAX_COMMITS, 5), pytest.param(range(1, MAX_COMMITS), marks=pytest.mark.thorough)]
)
def test_killed_at_commits_on_postgresql(
    place: Path, prepared: Callable[[], str], course: str, commits: Iterable[int]
) -> None:
    """Every fifth commit, if not in a thorough run: on SQLite it is each."""
    victim, ends = VICTIMS[course], partial(recover, course, known(prepared))
    kill_at_commits(prepared, victim, ends, place / "now" / "files", 10, commits, LEASE)


def recover_restore(before: dict[str, list[str]], database: str, where: str, lease: float) -> None:
    """A new engine takes the restore back once, with the objects that were there."""
    server = start(database, lease)
    try:
        running = server.store.actions.live([stack_of(server).id])
        if running and running[0].control is None and _may_bake(server):
            take_back(server)
        settle(server)
        stack = stack_of(server)
        assert rows(server) == before, where
        if stack.verb is not Verb.UPDATE:
            assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", where
            assert begun_rollbacks(server) == 1, where
            last = server.store.actions.last(stack.id, Verb.RESTORE)
            assert last is not None and last.outputs.guard is not None, where
            assert last.outputs.guard.result == "fired", where
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


@pytest.mark.slow
def test_a_restore_killed_at_every_commit(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    begun(prepare_restore, sqlite(place / "now"), str(files)).join(240)
    copy = copier(place)
    kill_at_commits(copy, restore, partial(recover_restore, known(copy)), files, 10)


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare_restore], indirect=True)
@pytest.mark.parametrize(
    "commits", [range(3, MAX_COMMITS, 5), pytest.param(range(1, MAX_COMMITS), marks=pytest.mark.thorough)]
)
def test_a_restore_killed_at_commits_on_postgresql(
    place: Path, prepared: Callable[[], str], commits: Iterable[int]
) -> None:
    """Every fifth commit, if not in a thorough run: on SQLite it is each."""
    ends = partial(recover_restore, known(prepared))
    kill_at_commits(prepared, restore, ends, place / "now" / "files", 10, commits, LEASE)
