"""Reports of monitoring systems, independent of their format, and their results."""

from msgspec import Struct

from heatlite.core.json import JsonMap
from heatlite.features.healing.terms import ReportResult, Word

API, CHECK = "api", "check"
"""Sources of marks by request and of failed checks. A policy must name them, and their incidents do not expire."""

DEFAULT_TTL = 21600
"""Seconds without a report after which an incident expires."""


class Report(Struct, frozen=True):
    """One alert in one request."""

    key: str
    """The same for a problem and its end."""
    word: Word
    starts_at: float | None = None
    """Begin of the episode; None: the report joins the open one, or opens one at receipt."""
    physical_id: str | None = None
    stack: str | None = None
    """Name or id of a stack."""
    resource: str | None = None
    """Name, or path below the stack."""
    summary: str = ""
    """Text of the mark, without control characters, at most 255 characters."""
    is_ignored: bool = False
    """True for a report that the source's document leaves out, and for an end without a recovery."""
    is_prefix: bool = False
    """True if the report is about all open episodes whose key begins with `key`."""


class Outcome(Struct, frozen=True):
    """The result of one report."""

    index: int
    key: str
    result: ReportResult
    incident: str | None = None
    target: JsonMap | None = None
    """Slot that the report is about, and the object that fills it now."""
    detail: str = ""
