"""Dispatching within one process: nothing to install."""

from heatlite.engine.dispatch import Called, Share
from heatlite.store.records import Announcement


class Local:
    """Wakes the worker of this process."""

    def __init__(self) -> None:
        self.share = Share()
        self._worker: Called | None = None

    def announce(self, announcement: Announcement) -> None:  # noqa: ARG002 - a worker looks at the table
        """Wake the worker: it looks what there is."""
        worker = self._worker
        if worker is not None:
            worker.wake()

    def attach(self, worker: Called) -> None:
        """Wake this worker from now on."""
        self._worker = worker

    def detach(self) -> None:
        """Wake it no more."""
        self._worker = None

    def close(self) -> None:
        """Nothing is on its way here."""
