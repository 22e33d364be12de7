"""Processes that touch a part of a stack, and die at a chosen commit."""

import os
from functools import partial

from tests.crash.fast_engine import count_transactions, start
from tests.crash.scenarios import SCENARIOS, settle
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole


def prepare(database: str, files: str) -> None:
    """Make an empty database, in a process that leaves no connection behind."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    os._exit(0)


def victim(scenario: str, database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Do a scenario, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    SCENARIOS[scenario].prepare(server)
    bomb.arm(commits, after=False)
    SCENARIOS[scenario].act(server)
    settle(server)
    os._exit(SURVIVED)


VICTIMS = {
    name: partial(victim, name)
    for name in (
        "update of a part",
        "update of a part, rolled back",
        "update of the rest, rolled back",
        "replacement that is asked for",
        "delete that retains",
    )
}
