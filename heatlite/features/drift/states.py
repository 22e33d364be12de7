"""Knowledge about the drift of one resource, and what changes it. Pure."""

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.differences import MAX_DIFFERENCES, Difference, Differences


class DriftState(StrEnum):
    """Knowledge about the drift of a resource."""

    DRIFTED = "drifted"
    IN_SYNC = "in_sync"
    UNKNOWN = "unknown"
    """No check could look since one found it in sync, or ever."""
    NOT_CHECKED = "not_checked"
    """No check has compared the object; there is no row."""


DETECTED: Final = "DETECTED"
ENDED: Final = "ENDED"
"""Status of the event when the drift of a resource begins or ends. Its action is DRIFT."""


class DriftRecord(Struct, frozen=True):
    """Drift of one resource."""

    resource_id: str
    project: str
    root_id: str
    stack_id: str
    state: DriftState
    checked_at: float | None = None
    """Time of the last check that could compare; None: none could."""
    since: float | None = None
    """Time of the check that found the first of the present differences."""
    unknown_since: float | None = None
    """Time of the first check that could not look, since the last that could."""
    differences: tuple[Difference, ...] | None = None
    """None: there are none."""
    truncated: bool = False
    number: int = 0
    """The number of differences that are not ignored."""
    ignored: int = 0
    """The number of the others."""

    @property
    def paths(self) -> str:
        """The paths of the differences that count, for the reasons of events."""
        return ", ".join(one.path for one in self.differences or () if not one.ignored)


def compared(record: DriftRecord, found: Differences, now: float) -> DriftRecord:
    """Return a record after a check that could look."""
    since = (record.since or now) if found.counted else None
    state = DriftState.DRIFTED if found.counted else DriftState.IN_SYNC
    record = replace(record, state=state, checked_at=now, since=since, unknown_since=None, truncated=found.truncated)
    return _with(record, found.found)


def unseen(record: DriftRecord, now: float) -> DriftRecord:
    """Return a record after a check that could not look. What was known stays."""
    state = DriftState.DRIFTED if record.number else DriftState.UNKNOWN
    return replace(record, state=state, unknown_since=record.unknown_since or now)


def judged(record: DriftRecord, found: Differences, now: float) -> DriftRecord:
    """Return a record whose differences a new definition judges."""
    after = _with(record, found.found)
    if after.number:
        return replace(after, state=DriftState.DRIFTED, since=record.since or now)
    if record.number and len(found.found) >= MAX_DIFFERENCES:  # more is unknown: the next check decides
        return record
    state = DriftState.IN_SYNC if record.unknown_since is None else DriftState.UNKNOWN
    return replace(after, state=state, since=None)


def updated(record: DriftRecord, names: frozenset[str], is_observed: bool = False) -> DriftRecord:
    """Return a record after an update that has written some properties of the object.

    `is_observed`: it has read the object before, and left only what is ignored.
    """
    known = record.differences or ()
    if is_observed:
        left = tuple(one for one in known if one.ignored)
        return replace(_with(record, left), state=DriftState.IN_SYNC, since=None, unknown_since=None, truncated=False)
    left = tuple(one for one in known if top(one.path) not in names)
    after = _with(record, left)
    if after == record:
        return record
    if after.number or not record.number:
        return after
    if record.truncated:  # more is unknown: the next check decides
        return record
    return replace(after, state=DriftState.IN_SYNC, since=None, unknown_since=None, truncated=False)


def top(path: str) -> str:
    """Return the property that a JSON Pointer leads into."""
    return path.split("/", 2)[1].replace("~1", "/").replace("~0", "~")


def turn(before: DriftRecord | None, after: DriftRecord | None) -> str | None:
    """Return DETECTED or ENDED for a change of a record; None: neither.

    None stands for no record.
    """
    was, is_ = (one is not None and one.number > 0 for one in (before, after))
    return None if was == is_ else DETECTED if is_ else ENDED


def _with(record: DriftRecord, found: tuple[Difference, ...]) -> DriftRecord:
    ignored = sum(one.ignored for one in found)
    return replace(record, differences=found or None, number=len(found) - ignored, ignored=ignored)
