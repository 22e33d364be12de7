"""Due times of schedules, and the occurrences that count. Pure functions."""

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from heatlite.core.cron import Cron, read_cron, read_zone
from heatlite.features.schedules.store.records import ScheduledTask, ScheduleRecord

ON_TIME = 60
"""Seconds after its window in which an occurrence still counts: no sweep comes at the very end of a window."""

POWER = frozenset({ScheduledTask.SUSPEND, ScheduledTask.RESUME})
"""Tasks of which one undoes the other. Of all that are due together only the latest counts."""

Occurrence: TypeAlias = tuple[ScheduleRecord, float]
"""A schedule and a nominal time."""


def cron_of(schedule: ScheduleRecord) -> Cron:
    """Return the starts of a schedule, without its bounds."""
    return read_cron(schedule.cron, read_zone(schedule.timezone))


def next_due(schedule: ScheduleRecord) -> float | None:
    """Return the first start after `since` within the bounds.

    None: there is none, or the schedule is paused.
    """
    if not schedule.enabled:
        return None
    begin = schedule.since if schedule.starts_at is None else max(schedule.since, math.ceil(schedule.starts_at) - 1)
    found = cron_of(schedule).next_after(begin)
    is_over = found is not None and schedule.ends_at is not None and found > schedule.ends_at
    return None if is_over else found


def latest_due(schedule: ScheduleRecord, now: float) -> float:
    """Return the nominal time of the latest occurrence of a schedule that is due."""
    assert schedule.next_at is not None
    until = now if schedule.ends_at is None else min(now, schedule.ends_at)
    return max(schedule.next_at, cron_of(schedule).last_until(until) or schedule.next_at)


def judged(due: Sequence[ScheduleRecord], now: float) -> tuple[list[Occurrence], list[Occurrence]]:
    """Return the occurrences that are missed, and those that count.

    `due` are all schedules of a stack whose time has come. Of suspend and resume the latest counts, however late it is.
    """
    found = [(one, latest_due(one, now)) for one in due]
    power = sorted(((one, at) for one, at in found if one.task in POWER), key=lambda pair: (pair[1], pair[0].id))
    others = [(one, at) for one, at in found if one.task not in POWER]
    late = [(one, at) for one, at in others if now - at > one.window + ON_TIME]
    return [*power[:-1], *late], [*power[-1:], *_without(others, late)]


def _without(found: Sequence[Occurrence], left_out: Sequence[Occurrence]) -> Iterator[Occurrence]:
    return (one for one in found if one not in left_out)
