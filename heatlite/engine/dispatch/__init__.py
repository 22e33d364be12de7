"""Ports between committed actions and the workers that run them.

The thread that commits a change announces it; a dispatcher notifies workers. Workers poll the table once a second, so a
lost announcement costs a second. Slots are the threads that run actions: a worker's own, or those of a Celery worker
(decisions 0008, 0009).
"""

from collections.abc import Callable, Collection
from typing import Protocol

from heatlite.core.records import record
from heatlite.core.status import Kind
from heatlite.store.records import ActionRecord, Announcement


class WorkerPort(Protocol):
    """A worker, as dispatchers and slots see it. Safe for threads."""

    def wake(self) -> None:
        """Look for claimable actions and for controls."""

    def take(self, action_id: str) -> None:
        """Claim this action and run it in this thread.

        Does nothing if it is taken or no slot is free. Returns when the action ends, or waits without a slot.
        """


@record(frozen=True, slots=True)
class ClaimFilter:
    """Limits the actions that a worker claims."""

    kinds: frozenset[Kind] | None = None
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


class Slots(Protocol):
    """Threads that run actions."""

    @property
    def limit(self) -> int:
        """Maximum of actions that run at once."""

    @property
    def claim_filter(self) -> ClaimFilter:
        """Limits of the actions that these threads run."""

    def submit(self, action: ActionRecord, call: Callable[[], None]) -> None:
        """Have a thread call it, as soon as one is free. The call runs the action."""

    def revoked(self) -> Collection[str]:
        """Return the ids of the actions that an operator revoked."""

    def forget_revoked(self, action_id: str) -> None:
        """Drop a revoked id: its action is cancelled."""

    def close(self) -> None:
        """Wait for the calls in progress. Later ones are dropped."""
