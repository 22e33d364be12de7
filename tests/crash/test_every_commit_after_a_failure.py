"""Kills at every commit after a failure: a takeover continues the attempt.

The stack comes to the same end as without, with the same objects and the same events: what has failed is not tried
again, let alone replaced, and what was under way ends. A retry by the user still replaces it.
"""

import multiprocessing
import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from heatlite.core.status import Status, Verb, state
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded
from tests.crash.scenarios import CALLER, FAILURES, release, settle, stack_of, update
from tests.crash.test_every_commit import copies, objects, place, put_back, start, victims
from tests.crash.victim import STOPPED, SURVIVED, fail
from tests.databases import sqlite
from tests.tables import sampled

__all__ = ["place", "victims"]

MAX_COMMITS = 60
"""More than any has; a victim that is still stopped there has lost its way."""
CUTS = [(name, how) for name in FAILURES for how in ("kill", "stop")]
"""Before a commit is after the one before it: an engine is killed before each, and stopped in good order after each."""


@dataclass
class End:
    """Final state of a tree of stacks; a row is known by its path from the root."""

    stacks: dict[str, str]
    rows: list[str]
    objects: dict[str, str]
    """Path of the row → what its file says."""
    events: Counter[str]


def paths(server: Embedded) -> dict[str, StackRecord]:
    """The stacks of the tree by path; members of groups by their names."""
    root = stack_of(server)
    tree = {root.id: "s"}
    found = {"s": root}
    for stack in server.store.stacks.descendants(root):
        tree[stack.id] = f"{tree[stack.parent_id or root.id]}/{stack.parent_resource}"
        found[tree[stack.id]] = stack
    return found


def end_of(server: Embedded, place: Path) -> End:
    end = End({}, [], {}, Counter())
    known: set[str] = set()
    for path, stack in paths(server).items():
        end.stacks[path] = f"{state(stack.verb, stack.status)}: {stack.status_reason}"
        for row in server.store.resources.of(stack.id):
            end.rows.append(f"{path}.{row.name} {state(row.verb, row.status)}: {row.status_reason}")
            made = None if row.physical_id is None else Path(row.physical_id)
            if made is not None and made.is_absolute() and made.exists():
                known.add(str(made))
                end.objects[f"{path}.{row.name}"] = made.read_text()
        for event in server.store.events.list(stack.id, EventQuery()):
            name = "stack" if event.physical_id == stack.id else event.resource_name
            end.events[f"{path}.{name} {state(event.verb, event.status)}: {event.status_reason}"] += 1
    assert objects(place) == known, "each object has a row"
    end.rows.sort()
    return end


def undisturbed(place: Path, name: str) -> End:
    server = start(place)
    try:
        FAILURES[name].act(server)
        settle(server)
        return end_of(server, place)
    finally:
        server.close()


def taken_over(place: Path, name: str) -> End:
    """A new engine continues; then the user tries again, and removes the stack."""
    server = start(place)
    try:
        settle(server)
        stack, end = stack_of(server), end_of(server, place)
        assert state(stack.verb, stack.status) == FAILURES[name].end
        release(server)
        if stack.status is Status.FAILED and stack.verb in (Verb.CREATE, Verb.UPDATE):
            update(server, None)
            settle(server)
        if stack.lock is not None:
            server.components.maintenance.unlock(CALLER, stack)
            settle(server)
        server.stacks.delete(CALLER, stack_of(server))
        settle(server)
        stack = stack_of(server)
        assert state(stack.verb, stack.status) == state(Verb.DELETE, Status.COMPLETE)
        assert not objects(place)
        return end
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), sampled(CUTS, 3, pytest.mark.thorough))
def test_the_end_is_the_same(
    name: str, how: str, place: Path, victims: multiprocessing.context.ForkServerContext
) -> None:
    (place / "now" / "files").mkdir(parents=True)
    server = start(place)
    FAILURES[name].prepare(server)
    server.close()
    shutil.copytree(place / "now", place / "prepared")
    wanted = undisturbed(place, name)
    shutil.rmtree(place / "now")
    shutil.copytree(place / "prepared", place / "now")
    words = (sqlite(place / "now"), os.environ["EXAMPLE_FILES"], name)
    if how == "kill":
        _, *made = copies(place, victims.Process(target=fail, args=(*words, 1, how)))  # at first it is not known yet
        assert made
        for number, copy in enumerate(made):
            put_back(place, copy)
            assert taken_over(place, name) == wanted, f"killed before commit {number + 2} from the failure on"
        return
    for commit in range(1, MAX_COMMITS):
        victim = victims.Process(target=fail, args=(*words, commit, how))
        victim.start()
        victim.join(240)
        assert victim.exitcode in (STOPPED, SURVIVED), f"commit {commit}: exit code {victim.exitcode}"
        assert taken_over(place, name) == wanted, f"stopped at commit {commit} from the failure on"
        if victim.exitcode == SURVIVED:
            assert commit > 1
            return
        shutil.rmtree(place / "now")
        shutil.copytree(place / "prepared", place / "now")
    pytest.fail("the victim ends for ever")
