"""Expiry of stacks: warnings, the end, and what holds it. Pure functions."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import JsonMap

LEAST_AHEAD = 60
"""Seconds between a request and the time that it sets, and between a warning and the end."""
LEAST_AFTER_RELEASE = 3600
"""Seconds that a stack has at least after its release, or after a downtime over its time."""
PATIENCE = 3600
"""Seconds for which a running action is waited for."""
LOOK_AGAIN = 60
"""Seconds between two looks at what holds an expiry."""


class Then(StrEnum):
    """The action of an expiry."""

    DELETE = "delete"
    SUSPEND = "suspend"


class ExpiryState(StrEnum):
    """State of an expiry."""

    PENDING = "pending"
    """No warning was sent for its time."""
    WARNED = "warned"
    DONE = "done"
    """It has begun its action."""
    HELD = "held"
    """A lock, a protection or the like was in the way. After the release the stack gets a new time."""


class ExpiryRecord(Struct, frozen=True):
    """The expiry of a root stack. Times are seconds since the epoch."""

    stack_id: str
    project: str
    expires_at: float
    task: Then
    warn_before: tuple[int, ...]
    """Seconds before the time at which a warning is sent."""
    set_by: str
    author: JsonMap
    """The user who set it, as `caller_context` stores callers."""
    state: ExpiryState = ExpiryState.PENDING
    code: str | None = None
    """Type of the error that holds it."""
    due: float | None = None
    """Time of the next look at it; None once it is done."""
    version: int = 0
    """Number of changes. A change names the one that it has seen."""


def scheduled(record: ExpiryRecord, now: float) -> ExpiryRecord:
    """Return a new expiry with the time of its first look.

    A time nearer than the shortest warning warns at once.
    """
    is_near = record.expires_at - min(record.warn_before) <= now
    return replace(record, due=now if is_near else _next(record, now))


def warned(record: ExpiryRecord, now: float) -> ExpiryRecord:
    """Return an expiry after a warning."""
    return replace(record, state=ExpiryState.WARNED, code=None, due=_next(record, now))


def renewed(record: ExpiryRecord, now: float) -> ExpiryRecord:
    """Return an expiry with a later time, of which a warning is sent with the change."""
    at = now + max(min(record.warn_before), LEAST_AFTER_RELEASE)
    return warned(replace(record, expires_at=at), now)


def held(record: ExpiryRecord, code: str, now: float) -> ExpiryRecord:
    """Return an expiry that something is in the way of."""
    return replace(record, state=ExpiryState.HELD, code=code, due=now + LOOK_AGAIN)


def waits(record: ExpiryRecord, now: float) -> ExpiryRecord | None:
    """Return an expiry that waits for a running action; None: it has waited enough."""
    if now >= record.expires_at + PATIENCE:
        return None
    return replace(record, due=min(now + LOOK_AGAIN, record.expires_at + PATIENCE))


def done(record: ExpiryRecord) -> ExpiryRecord:
    """Return an expiry that has begun its action."""
    return replace(record, state=ExpiryState.DONE, code=None, due=None)


def _next(record: ExpiryRecord, now: float) -> float:
    """Return the time of the next warning, else that of the expiry."""
    warnings = (record.expires_at - before for before in record.warn_before)
    return min((at for at in warnings if at > now), default=record.expires_at)
