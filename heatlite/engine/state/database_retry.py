"""Waiting for a database that is away."""

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable

log = logging.getLogger(__name__)

RETRY = 1.0
"""Seconds until a database that is away (locked, disk full) is asked again."""

Answer = TypeVar("Answer")


def retry_while_unavailable(clock: Clock, ask: Callable[[], Answer]) -> Answer:
    """Call `ask` until the database is available, and return its result.

    `ask` must change nothing if it raises.

    A running step must not be given up because its result cannot be written: it would run twice.
    """
    while True:
        try:
            return ask()
        except DatabaseUnavailable as error:
            log.warning("the database is unavailable, trying again: %s", error)
            clock.wait(threading.Event(), RETRY)
