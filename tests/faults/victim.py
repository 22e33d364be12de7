"""An engine on a database server that kills itself at a chosen commit."""

import importlib
import os
import time
from multiprocessing.queues import SimpleQueue
from typing import Any

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.dispatch import ClaimFilter
from heatlite.engine.dispatch.local import LocalDispatcher
from heatlite.store.actions.table import LIVE
from heatlite.wiring import Embedded
from tests.crash.victim import SURVIVED, bomb
from tests.faults.operations import OPERATIONS, ask

FOR_EVER = 10**9
"""More commits than anybody makes."""

CURSORS = {"postgresql": ("psycopg", "Cursor"), "mysql": ("pymysql.cursors", "Cursor")}
"""Scheme of the database → through which class of its driver every COMMIT goes."""


def put_bomb(database: str) -> None:
    """Have every COMMIT of this process count."""
    module, name = CURSORS[database.partition(":")[0]]
    cursor = getattr(importlib.import_module(module), name)
    execute = cursor.execute

    def ticking(self: Any, query: Any, *parameters: Any, **options: Any) -> Any:
        if query == "COMMIT":
            bomb.tick(after=False)
        result = execute(self, query, *parameters, **options)
        if query == "COMMIT":
            bomb.tick(after=True)
        return result

    cursor.execute = ticking


class OfZone(LocalDispatcher):
    """For an engine that takes the work of one zone only: what others have left behind is not for the victim."""

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
    """Do the operation on the stack of that name and die at the chosen commit. Who survives exits with SURVIVED,
    and has `told` how many commits he has made."""
    os.environ["EXAMPLE_FILES"] = files  # who forks it may be older than the test
    put_bomb(settings.database)
    OfZone.zone = name
    wiring.LocalDispatcher = OfZone  # type: ignore[misc]
    server = wiring.embedded(settings)
    bomb.arm(commits, after)
    ask(server, OPERATIONS[operation], name, name)
    wait(server, name)
    if told is not None and bomb.commits_left is not None:
        told.put(commits - bomb.commits_left)
    os._exit(SURVIVED)


def wait(server: Embedded, zone: str) -> None:
    """Until all work of the zone has ended."""
    sql = f"SELECT 1 FROM action WHERE zone = ? AND {LIVE} LIMIT 1"
    end = time.monotonic() + 120
    while server.store.database.read(sql, (zone,)):
        assert time.monotonic() < end, "an action never ended"
        time.sleep(0.01)
