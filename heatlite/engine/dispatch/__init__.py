"""Ports between committed actions and the workers that run them.

The thread that commits a change announces it; a dispatcher notifies workers. Workers poll the table once a second, so a
lost announcement costs a second (decisions 0008, 0009).
"""

from typing import Protocol

from msgspec import Struct

from heatlite.core.status import WorkKind
from heatlite.store.records import Announcement


class WorkerPort(Protocol):
    """A worker, as dispatchers and slots see it. Safe for threads."""

    def wake(self) -> None:
        """Look for claimable actions and for controls."""

    def take(self, action_id: str) -> None:
        """Claim this action and run it, if a slot is free. Returns at once."""


class ClaimFilter(Struct, frozen=True):
    """Limits the actions that a worker claims."""

    kinds: frozenset[WorkKind] | None = None
    """None: all."""
    zones: frozenset[str] | None = None
    """None: all zones. Actions without a zone are for every worker."""


class Dispatcher(Protocol):
    """Notifies workers of announcements."""

    claim_filter: ClaimFilter
    """Limits of the worker of this process, as the settings have them."""

    def announce(self, announcement: Announcement) -> None:
        """Notify workers. Called after a commit, by the thread that made it.

        Returns at once and never raises.
        """

    def attach(self, worker: WorkerPort) -> None:
        """Register the worker of this process."""

    def detach(self) -> None:
        """Remove the worker of this process."""

    def close(self) -> None:
        """Send the remaining announcements and stop."""

