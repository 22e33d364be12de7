"""Answers about guards."""

from enum import StrEnum

from heatlite.core.clock import to_text
from heatlite.core.wire.base import Answer, Time
from heatlite.features.guards.store.records import FiredAlert


class GuardPhase(StrEnum):
    """Phases of an update with a guard."""

    UPDATE = "update"
    """The changes are not made yet."""
    BAKE = "bake"
    ROLLBACK = "rollback"


class FiredGuard(Answer, frozen=True):
    """The alert that has taken an update back."""

    source: str
    """Name of the source of reports."""
    key: str
    """Key of the alert there."""
    summary: str
    """Text of the alert."""
    received_at: Time
    """Time of the report."""


class StackGuard(Answer, frozen=True):
    """The guard of the update that runs."""

    phase: GuardPhase
    """``update``: its changes are not made yet; ``bake``: it waits before its clean-up; ``rollback``."""
    until: Time | None
    """End of the bake, or ``null`` before it."""
    heard: list[str]
    """Sources of reports that were heard since the end of the changes."""
    fired: FiredGuard | None
    """The alert that has taken the update back, or ``null``."""


def view(fired: FiredAlert) -> FiredGuard:
    """Return what answers show of an alert."""
    return FiredGuard(
        source=fired.source, key=fired.key, summary=fired.summary, received_at=to_text(fired.received_at)
    )
