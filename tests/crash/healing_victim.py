"""A process that leads an incident to its end, and ends itself at a chosen commit."""

import os
import threading
import time

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.wiring import Embedded
from tests.crash.scenarios import settle, stack_of
from tests.crash.victim import SURVIVED, bomb, count_commits

SPEED = 10.0
"""Seconds of the engine's clock for each real one."""
EPOCH = 1_700_000_000.0


class FastClock(Clock):
    """Runs faster than the machine's clock, and alike in all processes."""

    def now(self) -> float:
        return EPOCH + (time.time() - EPOCH) * SPEED

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds / SPEED)


def start(database: str) -> Embedded:
    return wiring.embedded(Settings(database=database, lease_seconds=1e9), clock=FastClock())


def heal(server: Embedded) -> None:
    """Sweep until the incident is closed and nothing runs."""
    end = time.monotonic() + 60
    while server.store.incidents.open_of_root(stack_of(server).id):
        assert time.monotonic() < end, server.store.incidents.get("i")
        server.components.healing.sweep()
        time.sleep(0.01)
    settle(server)


def victim(database: str, files: str, commits: int, after: bool) -> None:
    """Heal, and die at the chosen commit; exit with SURVIVED if it is never reached."""
    os.environ["EXAMPLE_FILES"] = files
    count_commits()
    bomb.arm(commits, after)
    heal(start(database))
    os._exit(SURVIVED)
