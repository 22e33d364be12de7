"""Maintenance windows: cron lines in a time zone, each with a duration.

A window is open in [start, start + duration), in elapsed time. A start that the clock skips is the first moment after
the gap. A start that occurs twice is the first of both.
"""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.cron import Cron, read_line, read_zone


class Window(Struct, frozen=True):
    """A time in which repairs may begin."""

    cron: Cron
    duration: int

    def opened_at(self, now: float) -> float | None:
        """Return the start of the window that is open; None: it is closed."""
        start = self.cron.last_until(now)
        return start if start is not None and now < start + self.duration else None


def read_window(line: str, timezone: str, duration: int) -> Window:
    """Return the window of a cron line. Raises ValueError."""
    return Window(Cron(read_line(line), read_zone(timezone), follows_clocks=False), duration)


def opened_at(windows: Sequence[Window], now: float) -> float | None:
    """Return the start of the open window that started last; None: all are closed."""
    return max((start for start in (window.opened_at(now) for window in windows) if start is not None), default=None)


def next_start(windows: Sequence[Window], now: float) -> float | None:
    """Return the next start of any window after a moment."""
    return min((start for start in (one.cron.next_after(now) for one in windows) if start is not None), default=None)
