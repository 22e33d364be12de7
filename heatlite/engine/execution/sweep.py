"""Call the jobs of an engine once a second, and send its heartbeat.

`Worker` gives the jobs.
"""

import logging
import socket
from collections.abc import Callable, Sequence

from heatlite.core.clock import Clock
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.timer import for_each
from heatlite.engine.dispatch import ClaimFilter
from heatlite.store.records import ServiceRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 30.0
"""Seconds between two heartbeats of this engine."""

POLL_INTERVAL = 1.0
"""Seconds between two polls, for lost wake-ups, controls and periodic jobs."""


class Sweep:
    """The jobs that an engine runs once a second."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        owner: str,
        jobs: Sequence[Callable[[], object]],
        limits: Callable[[], ClaimFilter] = ClaimFilter,
    ) -> None:
        """Create the sweep of the engine `owner`.

        A job may raise DatabaseUnavailable. `limits` returns what the engine runs now.
        """
        self._limits = limits
        self._store = store
        self._clock = clock
        self._owner = owner
        self._jobs = jobs
        self._began = clock.now()
        self._sent_at = 0.0

    def poll(self) -> float:
        """Run the jobs, and send a heartbeat if one is due.

        Returns the pause until the next poll, in seconds. Raises DatabaseUnavailable, after the last job.
        """
        now = self._clock.now()
        if now - self._sent_at >= HEARTBEAT_INTERVAL:
            self._sent_at = now
            service = self._service(now)
            with self._store.transaction():
                self._store.services.heartbeat(service)
        for_each(self._jobs, _run_job)
        return POLL_INTERVAL

    def _service(self, now: float) -> ServiceRecord:
        limits = self._limits()
        kinds = None if limits.kinds is None else tuple(sorted(limits.kinds))
        zones = None if limits.zones is None else tuple(sorted(limits.zones))
        return ServiceRecord(self._owner, socket.gethostname(), "heat-engine", self._began, now, kinds, zones)


def _run_job(job: Callable[[], object]) -> None:
    with logged(log, "a job of the sweep: internal error"):
        job()
