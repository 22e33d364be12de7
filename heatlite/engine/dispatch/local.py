"""Dispatcher within one process, and the threads that run actions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from heatlite.engine.dispatch import ClaimFilter, WorkerPort
from heatlite.store.records import Announcement


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


class Slots:
    """Threads that run actions."""

    def __init__(self, limit: int, claim_filter: Callable[[], ClaimFilter]) -> None:
        """Create them. `claim_filter` returns the limits of what they run now."""
        self.limit = limit
        """Maximum of actions that run at once."""
        self.claim_filter = claim_filter
        self._threads = ThreadPoolExecutor(limit, "engine")

    def submit(self, call: Callable[[], None]) -> None:
        """Have a thread call it, as soon as one is free."""
        self._threads.submit(call)

    def close(self) -> None:
        """Wait for all calls."""
        self._threads.shutdown(wait=True)
