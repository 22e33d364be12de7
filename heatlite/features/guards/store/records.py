"""Records of guards."""

import hashlib
from collections.abc import Mapping
from typing import Self

from msgspec import Struct

from heatlite.core.json import AnyMap, canonical


class FiredAlert(Struct, frozen=True):
    """The alert that has taken an update back."""

    source: str
    key: str
    summary: str
    received_at: float


class StandingAlert(Struct, frozen=True):
    """An alert that is not over."""

    id: str
    """Digest of project, source and key."""
    project: str
    source: str
    key: str
    expires_at: float
    summary: str
    given: AnyMap
    """``labels`` and ``annotations``."""
    root_id: str | None

    @classmethod
    def of(
        cls,
        project: str,
        source: str,
        key: str,
        expires_at: float,
        summary: str,
        given: Mapping[str, Mapping[str, str]],
        root_id: str | None,
    ) -> Self:
        """Return the alert of a key."""
        texts: AnyMap = {table: {**values} for table, values in given.items()}
        return cls(alert_id(project, source, key), project, source, key, expires_at, summary, texts, root_id)


def alert_id(project: str, source: str, key: str) -> str:
    """Return the digest that stands for a key of a source."""
    return hashlib.sha256(canonical([project, source, key]).encode()).hexdigest()


class GuardRecord(Struct, frozen=True):
    """The guard of one update."""

    action_id: str
    project: str
    root_id: str
    document: AnyMap
    """The guard as the inputs of the action show it."""
    is_open: bool = True
    """True while the update may be taken back."""
    bakes_until: float | None = None
    """Time at which the bake ends; None: the changes are not made yet."""
    ended_at: float | None = None
    """Time at which the action has ended."""
    fired: FiredAlert | None = None
    heard: tuple[str, ...] = ()
    """Sources that have reported since the end of the changes."""
