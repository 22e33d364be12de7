"""The clock. Tests replace it; all code reads the time here.

A time is a float: seconds since 1970-01-01 UTC. It becomes text only in requests, answers and logs.
"""

import threading
import time
from datetime import UTC, datetime
from math import inf
from typing import overload

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Seconds of the units of a time span."""
DAY = float(UNITS["d"])


class Clock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def wait(self, event: threading.Event, seconds: float, at_most: float = inf) -> bool:
        """Wait until `event` is set or `seconds` have passed. Returns True if it is set.

        `at_most`: seconds that no test clock shortens or prolongs.
        """
        return event.wait(min(seconds, at_most))


@overload
def to_text(moment: float) -> str: ...


@overload
def to_text(moment: float | None) -> str | None: ...


def to_text(moment: float | None) -> str | None:
    """Return ``2026-11-21T02:44:00Z`` for a time, None for None (Heat's form)."""
    if moment is None:
        return None
    # strftime writes years before 1000 with fewer digits, which is not ISO 8601.
    return f"{datetime.fromtimestamp(moment, UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def from_text(text: str) -> float:
    """Parse ISO 8601 to seconds since the epoch. Without a zone it is UTC.

    Raises ValueError, also for a time that `to_text` cannot write: a zone may move it out of the years 1 to 9999.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    seconds = moment.timestamp()
    datetime.fromtimestamp(seconds, UTC)
    return seconds
