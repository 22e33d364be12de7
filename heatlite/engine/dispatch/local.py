"""Dispatcher and slots within one process."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from heatlite.engine.dispatch import ClaimFilter, WorkerPort
from heatlite.store.records import ActionRecord, Announcement


class LocalDispatcher:
    """Wakes the worker of this process."""

    def __init__(self) -> None:
        self.claim_filter = ClaimFilter()
        self._worker: WorkerPort | None = None

    def announce(self, announcement: Announcement) -> None:  # noqa: ARG002 - the worker polls the table
        """Wake the worker, which polls the table."""
        worker = self._worker
        if worker is not None:
            worker.wake()

    def attach(self, worker: WorkerPort) -> None:
        """Register the worker to wake."""
        self._worker = worker

    def detach(self) -> None:
        """Remove the worker."""
        self._worker = None

    def close(self) -> None:
        """Do nothing: no announcement is ever pending."""


class ThreadSlots:
    """Runs actions in threads of its own."""

    def __init__(self, limit: int, claim_filter: ClaimFilter) -> None:
        self.limit = limit
        self.claim_filter = claim_filter
        self._threads = ThreadPoolExecutor(limit, "engine")

    def submit(self, action: ActionRecord, call: Callable[[], None]) -> None:  # noqa: ARG002 - shown nowhere
        """Have a thread call it."""
        self._threads.submit(call)

    def revoked(self) -> Collection[str]:
        """Return nothing: there is no remote control."""
        return ()

    def forget_revoked(self, action_id: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Wait for all calls."""
        self._threads.shutdown(wait=True)
