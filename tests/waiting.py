"""Waiting for what another thread or process does."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 240
"""Seconds before a test that waits fails. Long, because the machine may be busy."""
FIRST_PAUSE, LAST_PAUSE = 0.005, 0.05

Found = TypeVar("Found")


def eventually(happened: Callable[[], Found | None], what: str = "it happens", seconds: float = PATIENCE) -> Found:
    """Call `happened` until it returns a true value, and return that.

    The pauses grow: many tests that wait at once would else take the processors from what they wait for.
    """
    started = time.monotonic()
    while True:
        found = happened()
        if found:
            return found
        waited = time.monotonic() - started
        assert waited < seconds, f"never happened: {what}"
        time.sleep(min(max(waited / 3, FIRST_PAUSE), LAST_PAUSE))
