"""Writes that release an action, repeated until the database is available."""

import logging
import threading
from collections.abc import Callable

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.engine.execution.termination import Termination
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

RETRY_INTERVAL = 1.0
"""Seconds between two attempts to write."""


class FinalWrites:
    """Requeues and ends actions.

    A write that a newer attempt has made needless is dropped.
    """

    def __init__(
        self, store: Store, clock: Clock, lease: float, termination: Termination, stopping: threading.Event
    ) -> None:
        """`stopping` ends the repetitions: another engine then takes the action over."""
        self._store = store
        self._clock = clock
        self._lease = lease
        self._termination = termination
        self._stopping = stopping

    def requeue(self, action: ActionRecord, reason: str, not_before: float) -> None:
        """Requeue an action, to be claimed at that time (seconds since the epoch)."""
        self._repeat(action, lambda: self._store_retry(action, reason, not_before))

    def give_back(self, action: ActionRecord, reason: str) -> None:
        """Give an action to other engines. It does not count as a retry."""
        self._repeat(action, lambda: self._store_return(action, reason))

    def give_up(self, action: ActionRecord, reason: str) -> None:
        """End an action that no worker can complete."""
        self._repeat(action, lambda: self._termination.give_up(action, reason, self._lease))

    def _store_retry(self, action: ActionRecord, reason: str, not_before: float) -> None:
        with self._store.transaction():
            self._store.moves.requeue(action, reason, self._clock.now(), not_before)

    def _store_return(self, action: ActionRecord, reason: str) -> None:
        with self._store.transaction():
            self._store.claims.give_back(action, self._clock.now(), reason)

    def _repeat(self, action: ActionRecord, write: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                write()
                return
            except Fenced:
                return
            except DatabaseUnavailable as error:
                log.error("action %s: cannot write its state yet, trying again: %s", action.id, error)
                self._stopping.wait(RETRY_INTERVAL)
