"""An engine on a fast clock, whose commits count."""

import math
import threading
import time
from typing import Any

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters
from heatlite.wiring import Embedded
from tests.crash.victim import bomb

SPEED = 10.0
"""Seconds of the engine's clock for each real one."""
LEASE = 30.0
"""Seconds of the fast clock until another engine takes over."""
EPOCH = 1_700_000_000.0


class FastClock(Clock):
    """Runs faster than the machine's clock, and alike in all processes."""

    def now(self) -> float:
        return EPOCH + (time.time() - EPOCH) * SPEED

    def wait(self, event: threading.Event, seconds: float, at_most: float = math.inf) -> bool:
        return event.wait(min(seconds / SPEED, at_most))


def start(database: str, lease: float = 1e9) -> Embedded:
    return wiring.embedded(Settings(database=database, lease_seconds=lease), clock=FastClock())


def count_transactions() -> None:
    """Have every COMMIT of this process count, on each kind of database."""
    run = Database._run

    def counted(database: Database, sql: str, parameters: Parameters) -> Any:
        if sql == "COMMIT":
            bomb.tick(after=False)
        return run(database, sql, parameters)

    Database._run = counted  # type: ignore[method-assign]
