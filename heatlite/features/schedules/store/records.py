"""Records of schedules."""

from enum import StrEnum

from msgspec import Struct

from heatlite.core.json import JsonMap


class OccurrenceResult(StrEnum):
    """Result of an occurrence."""

    STARTED = "started"
    REFUSED = "refused"
    """By a lock, a protection, a right that was lost or the like."""
    SKIPPED = "skipped"
    """The stack was busy, or a service away, for longer than the window."""
    MISSED = "missed"
    """No engine ran at its time."""


class ScheduledTask(StrEnum):
    """Task of a schedule."""

    SUSPEND = "suspend"
    RESUME = "resume"
    CHECK = "check"
    RESIZE = "resize"


class LastOccurrence(Struct, frozen=True):
    """The last occurrence of a schedule that has ended or begun an action."""

    due: float
    """The nominal time."""
    at: float
    """The time at which it began or ended."""
    result: OccurrenceResult
    code: str | None = None
    """The error of a refused or skipped one."""
    action_id: str | None = None
    """The action that it began; None if there was nothing to do."""


class ScheduleRecord(Struct, frozen=True):
    """A schedule of a root stack. Times are seconds since the epoch."""

    id: str
    project: str
    stack_id: str
    name: str
    cron: str
    timezone: str
    task: ScheduledTask
    options: JsonMap
    """Options of the task, as given."""
    window: int
    enabled: bool
    created_by: str
    author: JsonMap
    """The user who set it, as `caller_context` stores callers."""
    since: float
    """Only starts after this time count: the time of the last change, or the nominal time of the last occurrence."""
    starts_at: float | None = None
    ends_at: float | None = None
    next_at: float | None = None
    """The first start after `since` within the bounds; None: there is none, or it is paused."""
    last: LastOccurrence | None = None
