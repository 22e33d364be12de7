"""Time. Tests hold it; everything else reads it here.

A time is a float: seconds since 1970-01-01 UTC. It becomes text only at the edges.
"""

import threading
import time
from datetime import UTC, datetime


class Clock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set or `seconds` have passed; tell whether it is set."""
        return event.wait(seconds)


def to_text(moment: float | None) -> str | None:
    """``2026-11-21T02:44:00Z``, or None (Heat's form on the wire)."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def from_text(text: str) -> float:
    """Seconds since the epoch from ISO 8601; a time without a zone is UTC.

    Raises ValueError.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
