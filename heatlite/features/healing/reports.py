"""Reports of monitoring systems, independent of their format, and their results.

The public module of healing: a watcher of another feature follows the reports, in the transaction that takes them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from heatlite.core.errors import EntityNotFound
from heatlite.core.json import JsonMap
from heatlite.features.healing.terms import ReportResult, Word

if TYPE_CHECKING:
    from heatlite.api.components import Components

API, CHECK = "api", "check"
"""Sources of marks by request and of failed checks. A policy must name them, and their incidents do not expire."""

DRIFT = "drift"
"""Source of what a check finds to differ. A policy has a mode of its own for it; nothing is marked."""

OWN_SOURCES = frozenset({API, CHECK, DRIFT})
"""Sources without an intake."""

DEFAULT_TTL = 21600
"""Seconds without a report after which an incident expires."""


class AlertReport(Struct, frozen=True):
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
    given: Mapping[str, Mapping[str, str]] = {}
    """``labels`` and ``annotations`` of the alert."""
    is_prefix: bool = False
    """True if the report is about all open episodes whose key begins with `key`."""


class ReportOutcome(Struct, frozen=True):
    """The result of one report."""

    index: int
    key: str
    result: ReportResult
    incident: str | None = None
    target: JsonMap | None = None
    """Slot that the report is about, and the object that fills it now."""
    detail: str = ""


class SeenReport(Struct, frozen=True):
    """One report of a source."""

    key: str
    word: Word
    summary: str
    given: Mapping[str, Mapping[str, str]]
    """``labels`` and ``annotations``."""
    root_id: str | None
    """Root of the tree that has the target of a firing report; None: it has no target."""
    is_ignored: bool
    """True if the document of the source leaves it out."""
    is_prefix: bool
    """True if it is about all reports whose key begins with `key`."""


class Delivered(Struct, frozen=True):
    """The reports of one request."""

    project: str
    source: str
    received_at: float
    ttl: int
    """Seconds for which a report stands without another one."""
    reports: Sequence[SeenReport]
    lists_all: str | None
    """Begin of the keys of which all that fire are reported: the others have recovered."""


class Watcher(Protocol):
    """Part of a feature that follows reports."""

    def reported(self, delivered: Delivered) -> None:
        """Take part in the transaction that takes reports."""


def watch(components: "Components", watcher: Watcher) -> None:
    """Have a watcher follow all reports that this process takes."""
    from heatlite.features.healing.parts import Healing

    components.of(Healing).intake.watchers.append(watcher)


def has_source(components: "Components", project: str, source: str) -> bool:
    """Return whether a project has a source of reports."""
    from heatlite.features.healing.parts import Healing

    try:
        components.of(Healing).intake.document(project, source)
    except EntityNotFound:
        return False
    return True
