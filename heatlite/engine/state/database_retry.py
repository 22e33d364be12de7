"""Retries while the database is unavailable.

SQLite's writers first wait for each other (`Turns.take`). A call that is not repeated here ends the attempt of an
action with DatabaseUnavailable, and `FinalWrites.requeue` queues the action again. `FinalWrites` and the timer
repeat their own work. A request answers 503.
"""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple, Unpack

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.errors import UnreadableSecret

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds between two attempts while the database is unavailable (locked, disk full)."""

Given = TypeVarTuple("Given")
Answer = TypeVar("Answer")


def retry_while_unavailable(
    clock: Clock, ask: Callable[[Unpack[Given]], Answer], *given: *Given
) -> Answer:
    """Call `ask` until the database is available, and return its result.

    `ask` must change nothing if it raises. A running step is not aborted because its result cannot be written: the next
    attempt would run it twice. Raises UnreadableSecret.
    """
    while True:
        try:
            return ask(*given)
        except DatabaseUnavailable as error:
            wait_until_retry(clock, error)


def wait_until_retry(clock: Clock, error: DatabaseUnavailable) -> None:
    """Log an outage and wait before the next attempt. Raises UnreadableSecret."""
    if isinstance(error, UnreadableSecret):
        raise error  # a key does not come back as a database does
    log.warning("the database is unavailable, trying again: %s", error)
    clock.wait(threading.Event(), RETRY)
