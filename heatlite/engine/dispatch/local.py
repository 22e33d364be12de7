"""Dispatcher within one process."""

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
