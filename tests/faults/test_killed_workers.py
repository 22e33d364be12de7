"""kill -9 of a worker around every commit, with another that takes over by lease."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.status import state
from tests.crash.victim import SURVIVED
from tests.faults.judgement import come_to_rest, judge
from tests.faults.operations import OPERATIONS, find, prepare
from tests.faults.victim import FOR_EVER, run
from tests.processes import fresh

LEASE = 6.0
"""Seconds: longer than a busy machine keeps a worker from renewing. A kill waits so long for the other worker."""
AT_ONCE = 3
"""Victims that live at the same time."""

EVERY = {"PostgreSQL": 8, "MariaDB": 30}
"""Of so many kills one is made: tests/crash kills at each commit. Here it is a worker among others, on a server."""

KILLS = [
    pytest.param(server, name, every, id=f"{server}-{name}", marks=getattr(pytest.mark, server.lower()))
    for server, every in EVERY.items()
    for name in OPERATIONS
]


@pytest.fixture(scope="module")
def context() -> multiprocessing.context.ForkServerContext:
    """Processes that start quickly because everything is imported once."""
    return fresh("tests.faults.victim")


@dataclass
class Victims:
    """Starts victims, and waits until all of them are dead."""

    context: multiprocessing.context.ForkServerContext
    settings: Settings
    codes: list[int | None] = field(default_factory=list)
    _alive: list[BaseProcess] = field(default_factory=list)
    _told: "SimpleQueue[int]" = field(init=False)

    def __post_init__(self) -> None:
        self._told = self.context.SimpleQueue()

    def count(self, operation: str, name: str) -> int:
        """Number of commits of an undisturbed operation."""
        self.kill(operation, name, FOR_EVER, True)
        self.bury(0)
        return self._told.get()

    def kill(self, operation: str, name: str, commit: int, after: bool) -> None:
        """Have one try an operation on the stack of that name and die at a commit."""
        told = self._told if commit == FOR_EVER else None
        words = (self.settings, os.environ["EXAMPLE_FILES"], operation, name, commit, after, told)
        victim = self.context.Process(target=run, args=words, daemon=True)
        victim.start()
        self._alive.append(victim)
        self.bury(AT_ONCE - 1)

    def bury(self, most: int) -> None:
        """Wait until no more than `most` are alive."""
        while len(self._alive) > most:
            victim = self._alive.pop(0)
            victim.join(240)
            assert victim.exitcode in (-9, SURVIVED)
            self.codes.append(victim.exitcode)


@pytest.fixture
def settings(url: str) -> Iterator[Settings]:
    yield Settings(database=url, lease_seconds=LEASE)


def kills(commits: int, every: int) -> list[tuple[int, bool]]:
    """At which commits to die, and whether after them."""
    return [(commit, after) for commit in range(1, commits + 1) for after in (False, True)][::every]


@pytest.mark.parametrize(("url", "name", "every"), KILLS, indirect=["url"])
def test_killed_at_every_commit(
    settings: Settings, name: str, every: int, files: Path, context: multiprocessing.context.ForkServerContext
) -> None:
    operation, victims = OPERATIONS[name], Victims(context, settings)
    with closing(wiring.embedded(settings)) as survivor:
        prepare(survivor, operation, "undisturbed", "undisturbed")
        come_to_rest(survivor.store)
        planned = {
            f"{'after' if after else 'before'}-{commit}": (commit, after)
            for commit, after in kills(victims.count(name, "undisturbed"), every)
        }
        for stack in planned:
            prepare(survivor, operation, stack, stack)
        come_to_rest(survivor.store)
        for stack, (commit, after) in planned.items():
            victims.kill(name, stack, commit, after)
        victims.bury(0)
        # The renewal of a lease is a commit, too: a victim on an idle machine may need fewer than the undisturbed run,
        # and of few kills most may come too late.
        assert -9 in victims.codes, "some come as far as the one that nobody disturbed"
        judge(survivor.store, files)
        for stack in planned:
            found = find(survivor, stack)
            if found is None:
                assert operation.before is None  # it was never asked for
            else:
                assert state(found.verb, found.status) in operation.states, stack
