"""An engine on a database server that kills itself at a chosen commit."""

import importlib
import os
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from typing import Any

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.errors import CommitUnanswered, DatabaseUnavailable
from heatlite.engine.dispatch import ClaimFilter, Dispatcher
from heatlite.store.actions.table import LIVE
from heatlite.wiring import Embedded
from tests.crash.victim import SURVIVED, bomb
from tests.faults.operations import OPERATIONS, ask
from tests.waiting import eventually

FOR_EVER = 10**9
"""More commits than any operation makes."""


def put_bomb(database: str) -> None:
    """Have every COMMIT of this process count."""
    kind = "postgresql" if database.startswith("postgresql:") else "mariadb"
    connection = importlib.import_module(f"heatlite.store.database.{kind}.connection").Connection
    connection.run = ticking(connection.run, lambda statements: any(sql == "COMMIT" for sql, _ in statements))


def ticking(call: Callable[..., Any], commits: Callable[[Any], bool]) -> Callable[..., Any]:
    """Return a method of a driver that counts the calls whose first argument commits."""

    def ticks(self: Any, given: Any, *others: Any, **options: Any) -> Any:
        is_commit = commits(given)
        if is_commit:
            bomb.tick(after=False)
        result = call(self, given, *others, **options)
        if is_commit:
            bomb.tick(after=True)
        return result

    return ticks


class OfZone(Dispatcher):
    """An engine for the work of one zone only: leftovers of others are not for it."""

    zone = ""

    def __init__(self) -> None:
        super().__init__()
        self.claim_filter = ClaimFilter(zones=frozenset({self.zone}))


def run(
    settings: Settings,
    files: str,
    operation: str,
    name: str,
    commits: int,
    after: bool,
    told: "SimpleQueue[int] | None",
) -> None:
    """Do the operation on the stack and die at the chosen commit.

    A survivor exits with SURVIVED and has `told` its number of commits.
    """
    os.environ["EXAMPLE_FILES"] = files  # who forks it may be older than the test
    put_bomb(settings.database)
    OfZone.zone = name
    wiring.Dispatcher = OfZone  # type: ignore[misc]
    server = wiring.embedded(settings)
    bomb.arm(commits, after)
    eventually(lambda: asked(server, operation, name), "the operation is accepted")
    wait(server, name)
    if told is not None and bomb.commits_left is not None:
        told.put(commits - bomb.commits_left)
    os._exit(SURVIVED)


def asked(server: Embedded, operation: str, name: str) -> bool:
    """Ask for the operation.

    Returns False if it has to be asked for again, as on a busy server.
    """
    try:
        ask(server, OPERATIONS[operation], name, name)
    except CommitUnanswered:
        raise
    except DatabaseUnavailable:
        return False
    return True


def wait(server: Embedded, zone: str) -> None:
    """Until all work of the zone has ended."""
    sql = f"SELECT 1 FROM action WHERE zone = ? AND {LIVE} LIMIT 1"
    eventually(lambda: not server.store.database.read(sql, (zone,)), "the last action ends")
