"""Kills before and after a commit that several marks share."""

from pathlib import Path

import pytest

from heatlite.core.config import Settings
from heatlite.core.status import Status, Verb
from heatlite.store.audit import AuditQuery
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded, embedded
from tests.crash.marks_victim import MARKED, TEMPLATE, run
from tests.crash.scenarios import create, settle, stack_of
from tests.crash.victim import SURVIVED
from tests.databases import sqlite
from tests.processes import fresh

EXISTING = [name for name in MARKED if name != "missing"]


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A database with the stack."""
    url = sqlite(tmp_path)
    server = embedded(Settings(database=url))
    create(server, TEMPLATE)
    settle(server)
    server.close()
    return url


def kill(database: str, answered: Path, after: bool, commits: int = 1) -> int | None:
    answered.touch()
    process = fresh("tests.crash.marks_victim").Process(target=run, args=(database, answered, after, commits))
    process.start()
    process.join(240)
    return process.exitcode


def marked(server: Embedded) -> set[str]:
    rows = server.store.resources.of(stack_of(server).id)
    return {row.name for row in rows if (row.verb, row.status) == (Verb.CHECK, Status.FAILED)}


def told(server: Embedded) -> list[str | None]:
    events = server.store.events.list(stack_of(server).id, EventQuery(sort_dir="asc"), [])
    return [event.resource_name for event in events if event.verb == Verb.CHECK]


def recorded(server: Embedded) -> list[str | None]:
    rows = server.store.audit.page("demo", AuditQuery(operation=("resource:mark_unhealthy",)))
    return [row.resource for row in reversed(rows)]


@pytest.mark.share(1)
@pytest.mark.parametrize("after", [False, True])
def test_all_marks_of_a_commit_are_kept_or_none(after: bool, database: str, tmp_path: Path) -> None:
    answered = tmp_path / "answered"
    assert kill(database, answered, after) == -9
    assert answered.read_text() == "", "an answer comes after the commit"
    server = embedded(Settings(database=database))
    try:
        settle(server)
        kept = EXISTING if after else []
        assert marked(server) == {*kept}
        assert told(server) == kept
        assert recorded(server) == kept
    finally:
        server.close()


def test_marks_that_live_are_answered_and_recorded(database: str, tmp_path: Path) -> None:
    answered = tmp_path / "answered"
    assert kill(database, answered, after=False, commits=100) == SURVIVED
    assert sorted(answered.read_text().splitlines()) == sorted([*(f"{name} 200" for name in EXISTING), "missing 404"])
    server = embedded(Settings(database=database))
    try:
        assert marked(server) == {*EXISTING}
        assert told(server) == EXISTING
        assert sorted(map(str, recorded(server))) == sorted(MARKED), "also the one that was refused"
    finally:
        server.close()
