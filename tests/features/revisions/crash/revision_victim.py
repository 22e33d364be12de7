"""Processes that create, update and undo.

One stands still before each commit, another one ends itself at a chosen one.
"""

import os

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.state.requests import StackRequest
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.wiring import Embedded
from tests.api.conftest import value
from tests.crash.fast_engine import count_transactions, start
from tests.crash.scenarios import CALLER, create, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb, count_commits, pause
from tests.databases import whole

FIRST, SECOND = template(a=value("one")), template(a=value("two"))


def begin(database: str) -> Embedded:
    return wiring.embedded(Settings(database=database))


def update(server: Embedded) -> None:
    create(server, FIRST)
    settle(server)
    server.stacks.update(CALLER, stack_of(server), StackRequest(template=SECOND), existing=False)  # type: ignore[arg-type]
    settle(server)


def undo(server: Embedded) -> None:
    server.components.of(Revisions).undo(CALLER, stack_of(server), UndoRequest(), {"undo": {}})
    settle(server)


def work(server: Embedded) -> None:
    update(server)
    undo(server)


def prepare(database: str, _files: str) -> None:
    """Create and update, in a process that leaves no connection behind."""
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database)
    update(server)
    server.close()
    os._exit(0)


def undone(database: str, _files: str, commits: int, lease: float = 1e9) -> None:
    """Undo, and die before the chosen commit.

    Exits with SURVIVED if that is never reached.
    """
    server = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    undo(server)
    os._exit(SURVIVED)


def victim(database: str) -> None:
    """Do the work. Exits with SURVIVED."""
    count_commits()
    server = begin(database)
    bomb.arm(1, after=False, explode=pause)
    work(server)
    os._exit(SURVIVED)
