"""Kills before each commit of a check that finds drift, and of a revert.

Law 1.3: one event when the drift of a resource begins, and one when it ends.
"""

import multiprocessing
import os
from collections import Counter
from pathlib import Path

import pytest

from heatlite.core.status import Verb
from heatlite.features.drift.store.store import DriftStore
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded
from tests.crash.scenarios import settle, stack_of
from tests.crash.test_every_commit import copies, objects, put_back, start
from tests.databases import sqlite
from tests.features.drift.crash.drift_victim import PATHS, check, prepare, revert, victim
from tests.processes import fresh


@pytest.fixture(scope="module")
def victims() -> multiprocessing.context.ForkServerContext:
    return fresh("tests.features.drift.crash.drift_victim")


def told(server: Embedded) -> dict[str, int]:
    """The number of the resources with each course of events of drift."""
    root = stack_of(server)
    below = [one.id for one in server.store.stacks.descendants(root)]
    courses: dict[tuple[str, str], str] = {}
    for event in server.store.events.list(root.id, EventQuery(sort_dir="asc", limit=10_000), below):
        if event.verb == "DRIFT":
            key = event.stack_id, event.resource_name
            courses[key] = f"{courses.get(key, '')} {event.status}".strip()
    return Counter(courses.values())


def drifted(server: Embedded) -> int:
    return server.store.of(DriftStore).counts("demo").drifted


def recover(folder: Path, verb: Verb) -> None:
    """A new engine finishes what was begun, or begins what was not."""
    server, reverts = start(folder), verb is Verb.UPDATE
    try:
        settle(server)
        if server.store.actions.last(stack_of(server).id, verb) is None:
            (revert if reverts else check)(server)
        action, stack = server.store.actions.last(stack_of(server).id, verb), stack_of(server)
        assert action is not None
        assert (stack.verb, stack.status) == (verb, "COMPLETE")
        if reverts:
            assert sorted(action.outputs.reverted or ()) == PATHS
            assert {Path(one).read_text() for one in objects(folder)} == {"as stored"}
        course, left = ("DETECTED ENDED", 0) if reverts else ("DETECTED", len(PATHS))
        for _ in range(2):
            assert (told(server), drifted(server)) == ({course: len(PATHS)}, left)
            check(server)
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.parametrize("verb", [Verb.CHECK, Verb.UPDATE])
def test_killed_at_every_commit(
    verb: Verb, place: Path, victims: multiprocessing.context.ForkServerContext
) -> None:
    (place / "now" / "files").mkdir(parents=True)
    server, reverts = start(place), verb is Verb.UPDATE
    prepare(server, place / "now" / "files")
    if reverts:
        check(server)
    server.close()
    words = (sqlite(place / "now"), os.environ["EXAMPLE_FILES"], reverts)
    made = copies(place, victims.Process(target=victim, args=words))
    assert len(made) > 4
    for copy in made:
        put_back(place, copy)
        recover(place, verb)
