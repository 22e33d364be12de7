"""Periodic work of an engine: heartbeat, leases, jobs."""

import logging
import socket
import threading
from collections.abc import Callable, Collection, Sequence

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
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
        self, store: Store, clock: Clock, owner: str, stopped: threading.Event, jobs: Sequence[Callable[[], object]]
    ) -> None:
        """`stopped` ends the sweep of the engine `owner`. A job may raise DatabaseUnavailable."""
        self._store = store
        self._clock = clock
        self._owner = owner
        self._stopped = stopped
        self._jobs = jobs
        self._began = clock.now()

    def run(self) -> None:
        """Run the jobs and send heartbeats until the engine has stopped."""
        sent_at = 0.0
        while not self._stopped.is_set():
            try:
                now = self._clock.now()
                if now - sent_at >= HEARTBEAT_INTERVAL:
                    sent_at = now
                    service = ServiceRecord(self._owner, socket.gethostname(), "heat-engine", self._began, now)
                    with self._store.transaction():
                        self._store.services.heartbeat(service)
                for job in self._jobs:
                    job()
            except DatabaseUnavailable as error:
                log.warning("cannot run the periodic jobs: %s", error)
            except Exception:
                # An error in one job must not end the others.
                log.exception("a periodic job failed")
            self._stopped.wait(POLL_INTERVAL)
        self._store.close()


def renew_leases(store: Store, owner: str, action_ids: Collection[str], until: float) -> None:
    """Renew leases until that time (seconds since the epoch). Raises DatabaseUnavailable after the last one."""
    with store.transaction():
        skipped = store.claims.heartbeat(owner, action_ids, until)
    failed: DatabaseUnavailable | None = None
    for action_id in skipped:
        try:
            with store.transaction():
                store.claims.heartbeat_one(owner, action_id, until)
        except DatabaseUnavailable as error:  # a frozen process may hold this row's lock
            failed = error
    if failed is not None:
        raise failed


def run_cleanup(store: Store, call: Callable[[], None]) -> None:
    """Run the clean-up of an ended attempt; log its failure."""
    try:
        call()
    except Exception:
        log.exception("clean-up after an attempt failed")
    finally:
        store.close()
