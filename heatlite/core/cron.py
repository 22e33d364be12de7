"""Cron lines in a time zone, as Debian's cron reads them.

`cronsim` finds the local times of a line. This module finds the moments of those times (decision 0041).
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from msgspec import Struct

FIELDS = ("minute", "hour", "day of month", "month", "day of week")
"""Fields of a line. `cronsim` would read a sixth as seconds."""
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SOME_DAY = datetime.fromisoformat("2000-01-01")


class Cron(Struct, frozen=True):
    """The starts of a cron line in a time zone. Moments are seconds since the epoch."""

    line: str
    zone: ZoneInfo
    follows_clocks: bool
    """True if it starts whenever clocks show a time of the line.

    Else each time has one start: the first if clocks show it twice, the first moment after the gap if they skip it.
    """

    @property
    def ever_starts(self) -> bool:
        """True if some year has a start. February 30 never comes."""
        return next(self._times(SOME_DAY), None) is not None

    def next_after(self, moment: float) -> float | None:
        """Return the first start after a moment; None: there is none in fifty years."""
        local = datetime.fromtimestamp(moment, self.zone)
        found = list[float]()
        # Clocks may show again what they have shown before the moment.
        for time in self._times(_naive(local) - _repeat(local.replace(fold=0)) * (not local.fold)):
            found += [start for start in self._starts(time) if start > moment]
            if found and time.replace(tzinfo=self.zone).timestamp() > moment:
                break
        return min(found, default=None)

    def last_until(self, moment: float) -> float | None:
        """Return the last start until a moment; None: there is none in fifty years."""
        local = datetime.fromtimestamp(moment // 1, self.zone)
        found = list[float]()
        # Later times may have been shown before the moment.
        for time in self._times(_naive(local) + _repeat(local.replace(fold=0)) * local.fold + SECOND, reverse=True):
            found += [start for start in self._starts(time) if start <= moment]
            if found and time.replace(tzinfo=self.zone, fold=1).timestamp() <= moment:
                break
        return max(found, default=None)

    def _times(self, start: datetime, reverse: bool = False) -> Iterator[datetime]:
        """Return the local times of the line after, or before, a time."""
        try:
            yield from CronSim(self.line, start, reverse)
        except (CronSimError, OverflowError):
            return  # no such day, or the year 10000

    def _starts(self, time: datetime) -> Sequence[float]:
        """Return the starts at a local time, in order."""
        if self._is_shown(time):
            first, second = (time.replace(tzinfo=self.zone, fold=fold).timestamp() for fold in (0, 1))
            return [first, second] if self.follows_clocks and first != second else [first]
        if self.follows_clocks:
            return []
        while not self._is_shown(time):
            time += MINUTE
        return [time.replace(tzinfo=self.zone).timestamp()]

    def _is_shown(self, time: datetime) -> bool:
        """Return whether clocks show a time."""
        moment = time.replace(tzinfo=self.zone).timestamp()
        return _naive(datetime.fromtimestamp(moment, self.zone)) == time


def _naive(local: datetime) -> datetime:
    return local.replace(tzinfo=None, fold=0)


def _repeat(local: datetime) -> timedelta:
    """Return by how much clocks go back after they have shown a time first.

    0: they show it once.
    """
    before, after = local.utcoffset(), local.replace(fold=1).utcoffset()
    assert before is not None
    assert after is not None
    return before - after


def read_line(line: str) -> str:
    """Return a cron line of five fields. Raises ValueError."""
    fields = line.split()
    if len(fields) != len(FIELDS):
        raise ValueError(f"cron has {len(fields)} fields instead of {len(FIELDS)}: {', '.join(FIELDS)}")
    for at, (field, name) in enumerate(zip(fields, FIELDS, strict=True)):
        alone = ["*"] * len(FIELDS)
        alone[at] = field
        try:
            CronSim(" ".join(alone), SOME_DAY)
        except (CronSimError, ValueError):
            raise ValueError(f"cron: {field!r} is no {name}") from None
    return " ".join(fields)


def read_zone(name: str) -> ZoneInfo:
    """Return the time zone of the IANA database. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, ValueError):
        raise ValueError(f"there is no time zone {name!r}; use a name like Europe/Vienna") from None


def read_cron(line: str, zone: ZoneInfo) -> Cron:
    """Return the starts of a cron line by law of Debian's cron. Raises ValueError.

    With a wildcard in minute or hour it follows the clocks: hourly stays hourly.
    """
    line = read_line(line)
    return Cron(line, zone, any(field.startswith("*") for field in line.split()[:2]))
