"""Maintenance windows: cron lines in a time zone, each with a duration.

A window is open in [start, start + duration), in elapsed time. A start that the clock skips is the first moment after
the gap. A start that occurs twice is the first of both.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(\*|[0-9a-z]+)(?:-([0-9a-z]+))?(?:/([0-9]+))?")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
MOST_DAYS = 9 * 366
"""Days to look ahead: February 29 may be eight years away."""


class Cron(Struct, frozen=True):
    """A cron line of five fields, as Vixie's cron reads it."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either_day: bool
    """True if both days are restricted: then one of both is enough."""

    def on(self, day: date) -> bool:
        """Return True if it starts on a day."""
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month or of_week if self.either_day else of_month and of_week

    @property
    def ever_starts(self) -> bool:
        """True if some year has a day on which it starts. February 30 never comes."""
        longest = max(monthrange(2000, month)[1] for month in self.months)
        return self.either_day or min(self.days) <= longest


class Window(Struct, frozen=True):
    """A time in which repairs may begin."""

    cron: Cron
    duration: int
    zone: ZoneInfo

    def opened_at(self, now: float) -> float | None:
        """Return the start of the window that is open; None: it is closed."""
        day = datetime.fromtimestamp(now, self.zone).date() + timedelta(days=1)
        first = datetime.fromtimestamp(now - self.duration, self.zone).date() - timedelta(days=1)
        while day >= first:
            for start in sorted(self._starts(day), reverse=True):
                if start <= now:
                    return start if now < start + self.duration else None
            day -= timedelta(days=1)
        return None

    def next_start(self, now: float) -> float | None:
        """Return the next start after a moment; None: there is none in the next years."""
        day = datetime.fromtimestamp(now, self.zone).date() - timedelta(days=1)
        for _ in range(MOST_DAYS):
            later = [start for start in self._starts(day) if start > now]
            if later:
                return min(later)
            day += timedelta(days=1)
        return None

    def _starts(self, day: date) -> Iterator[float]:
        if self.cron.on(day):
            for hour in self.cron.hours:
                for minute in self.cron.minutes:
                    yield _moment(datetime.combine(day, time(hour, minute)), self.zone)


def opened_at(windows: Sequence[Window], now: float) -> float | None:
    """Return the start of the open window that started last; None: all are closed."""
    return max((start for start in (window.opened_at(now) for window in windows) if start is not None), default=None)


def next_start(windows: Sequence[Window], now: float) -> float | None:
    """Return the next start of any window after a moment."""
    return min((start for start in (window.next_start(now) for window in windows) if start is not None), default=None)


def parse_cron(text: str) -> Cron:
    """Read a cron line of five fields with names, lists, ranges and steps.

    Raises ValueError.
    """
    fields = text.lower().split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"cron has {len(fields)} fields instead of 5: minute, hour, day of month, month, day of week")
    minutes, hours, days, months, weekdays = (
        frozenset(_values(field, *described)) for field, described in zip(fields, _FIELDS, strict=True)
    )
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    sunday_first = frozenset(day % 7 for day in weekdays)
    return Cron(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, sunday_first, either)


def _values(field: str, what: str, lowest: int, highest: int, names: tuple[str, ...]) -> Iterator[int]:
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"cron: {part!r} is no {what}")
        first, last, step = match.groups()
        if first == "*":
            if last is not None:
                raise ValueError(f"cron: {part!r} is no {what}")
            begin, end = lowest, highest
        else:
            begin = _number(first, what, lowest, highest, names)
            end = begin if last is None and step is None else highest
            end = end if last is None else _number(last, what, lowest, highest, names)
        if begin > end or step is not None and int(step) == 0:
            raise ValueError(f"cron: {part!r} is no {what}")
        yield from range(begin, end + 1, int(step or 1))


def _number(text: str, what: str, lowest: int, highest: int, names: tuple[str, ...]) -> int:
    number = names.index(text) + (1 if names is _MONTHS else 0) if text in names else -1
    number = int(text) if text.isdigit() else number
    if not lowest <= number <= highest:
        raise ValueError(f"cron: {text!r} is no {what}: {lowest} to {highest}")
    return number


def _moment(local: datetime, zone: ZoneInfo) -> float:
    """Return the time at which clocks of a zone show a local time first, or skip it."""
    before = local.replace(tzinfo=zone, fold=0)
    moment = before.timestamp()
    if datetime.fromtimestamp(moment, zone).replace(tzinfo=None, fold=0) == local:
        return moment
    # In a gap the offset before it leads to a time after it, and the offset after it to one before it.
    low, high = local.replace(tzinfo=zone, fold=1).timestamp(), moment
    offset = datetime.fromtimestamp(low, zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, UTC).astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return high
