"""Process that creates, updates and undoes. It stands still before each commit."""

import os

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.state.requests import Request
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.wiring import Embedded
from tests.api.conftest import value
from tests.crash.scenarios import CALLER, create, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb, count_commits, pause

FIRST, SECOND = template(a=value("one")), template(a=value("two"))


def begin(database: str) -> Embedded:
    return wiring.embedded(Settings(database=database))


def work(server: Embedded) -> None:
    create(server, FIRST)
    settle(server)
    server.stacks.update(CALLER, stack_of(server), Request(template=SECOND), existing=False)  # type: ignore[arg-type]
    settle(server)
    server.components.of(Revisions).undo(CALLER, stack_of(server), UndoRequest(), {"undo": {}})
    settle(server)


def victim(database: str) -> None:
    """Do the work. Exits with SURVIVED."""
    count_commits()
    server = begin(database)
    bomb.arm(1, after=False, explode=pause)
    work(server)
    os._exit(SURVIVED)
