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


class Dispatcher:
    """Notifies the worker of this process of announcements."""

    def __init__(self) -> None:
        self.claim_filter = ClaimFilter()
        """Limits of the worker of this process, as the settings have them."""
        self.worker: WorkerPort | None = None
        """The worker of this process, while it runs."""

    def announce(self, announcement: Announcement) -> None:  # noqa: ARG002 - for others
        """Notify workers. Called after a commit, by the thread that made it.

        Returns at once and never raises.
        """
        worker = self.worker
        if worker is not None:
            worker.wake()

    def close(self) -> None:
        """Send the remaining announcements and stop."""
