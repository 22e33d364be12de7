"""Bodies of schedules. A refusal names all faults at once."""

from collections.abc import Callable, Iterator
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, UnsetType, to_builtins

from heatlite.api.wire import bodies
from heatlite.core.clock import from_text
from heatlite.core.cron import read_cron, read_line, read_zone
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, whole_numbers
from heatlite.core.validation import all_faults, convert
from heatlite.core.wire.base import Body, Time
from heatlite.engine.state.group_requests import Size
from heatlite.features.schedules.operations import WantedSchedule
from heatlite.features.schedules.store.records import ScheduledTask

Name: TypeAlias = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$(?!\n)")]


class ResizeBody(Body, frozen=True):
    """A new size or new limits of a group."""

    resource: Annotated[str, Meta(min_length=1, max_length=1024)]
    """The group, by its path: ``web``, ``shop/web``."""
    min_size: Size | None = None
    """Fewest members from then on, until the template has another number."""
    max_size: Size | None = None
    """Most members from then on, as ``min_size``."""
    desired_capacity: Size | None = None
    """Number of members. It is cut at the limits."""


class TaskBody(Body, frozen=True):
    """One task by its name, with its options."""

    suspend: bodies.Nothing | UnsetType = UNSET
    """``{}``: suspend the stack."""
    resume: bodies.Nothing | UnsetType = UNSET
    """``{}``: resume it."""
    check: bodies.Nothing | UnsetType = UNSET
    """``{}``: check it."""
    resize: ResizeBody | UnsetType = UNSET
    """Change the size of a group, or its limits."""


class ScheduleBody(Body, frozen=True):
    """A schedule."""

    name: Name
    """Name, unique in the stack: 1 to 64 letters, digits, ``_``, ``.`` and ``-``."""
    cron: Annotated[str, Meta(max_length=255)]
    """Times as a line of cron: minute, hour, day of month, month, day of week."""
    do: TaskBody
    """The task: one of ``suspend``, ``resume``, ``check``, ``resize``."""
    timezone: Annotated[str, Meta(max_length=255)] = "UTC"
    """Time zone of the IANA database, such as ``Europe/Vienna``."""
    starts_at: Time | None = None
    """Nothing happens before this time: ISO 8601."""
    ends_at: Time | None = None
    """Nothing happens after this time: ISO 8601."""
    enabled: bool = True
    """``false``: paused."""
    window: Annotated[int, Meta(ge=0, le=86_400)] = 3600
    """Seconds in which a busy stack is waited for.

    So late a missed one may begin, too, unless it is the latest of suspend and resume.
    """


def schedule(value: Json) -> WantedSchedule:
    """Return the schedule of a body. Raises HTTPBadRequest with all its faults."""
    value = whole_numbers(value)
    found = all_faults(value, ScheduleBody)
    if isinstance(value, dict):
        found += _faults(value)
    if found:
        raise HTTPBadRequest(" ".join(found))
    given = convert(value, ScheduleBody)
    ((task, options),) = to_builtins(given.do).items()
    return WantedSchedule(
        given.name,
        read_line(given.cron),
        given.timezone,
        ScheduledTask(task),
        options,
        given.window,
        given.enabled,
        _time(given.starts_at),
        _time(given.ends_at),
    )


def _faults(given: dict[str, Json]) -> Iterator[str]:
    """Yield the faults that no schema tells. Leaves out what is of the wrong kind."""
    readers: tuple[tuple[str, Callable[[str], object]], ...] = (("cron", _line), ("timezone", read_zone))
    for name, read in readers:
        value = given.get(name)
        try:
            if isinstance(value, str):
                read(value)
        except ValueError as error:
            yield f"{error}."
    do = given.get("do")
    if isinstance(do, dict) and len(do) != 1:
        yield f"do: needs one of: {', '.join(TaskBody.__struct_fields__)}."
    resize = do.get("resize") if isinstance(do, dict) else None
    if isinstance(resize, dict):
        yield from _size_faults(resize)
    try:
        begin, end = _time(given.get("starts_at")), _time(given.get("ends_at"))
    except (ValueError, OverflowError):
        return
    if begin is not None and end is not None and end <= begin:
        yield "ends_at: has to be later than starts_at."


def _size_faults(given: dict[str, Json]) -> Iterator[str]:
    low, high, size = (given.get(key) for key in ("min_size", "max_size", "desired_capacity"))
    if low is None and high is None and size is None:
        yield "do.resize: needs min_size, max_size or desired_capacity."
    if isinstance(low, int) and isinstance(high, int) and low > high:
        yield "do.resize: min_size is above max_size."


def _line(value: str) -> str:
    """Return a line that starts some day. Raises ValueError."""
    line = read_line(value)
    if not read_cron(line, read_zone("UTC")).ever_starts:
        raise ValueError(f"cron: {line} never comes: there is no such day")
    return line


def _time(value: Json) -> float | None:
    return from_text(value) if isinstance(value, str) else None
