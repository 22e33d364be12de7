"""Writes that release an action, repeated until the database is available."""

import logging
import threading
from collections.abc import Callable

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.engine.execution.execution import Execution
from heatlite.engine.execution.termination import Termination
from heatlite.store.errors import Fenced
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

INTERNAL_ERROR = "Internal error of the engine; its log has the details"
TAKEN_OVER = (
    "Taken over {} times without progress: each engine that carried it out ended or froze."
    " Fix the cause, then retry or delete the stack."
)

RETRY_INTERVAL = 1.0
"""Seconds between two attempts to write."""
MAX_RETRY_DELAY = 60.0
"""Seconds before a retry of an action, at most."""


class FinalWrites:
    """Requeues and ends actions.

    A write that a newer attempt has made needless is dropped.
    """

    def __init__(
        self, store: Store, clock: Clock, settings: Settings, termination: Termination, stopping: threading.Event
    ) -> None:
        """`stopping` ends the repetitions: another engine then takes the action over."""
        self._store = store
        self._clock = clock
        self._settings = settings
        self._termination = termination
        self._stopping = stopping

    def requeue(self, action: ActionRecord, reason: str) -> float | None:
        """Requeue an action after a conflict or an outage; end it after too many retries.

        Returns the time of the retry, in seconds since the epoch; None: it has ended.
        """
        log.warning("action %s: requeued: %s", action.id, reason)
        limit = self._settings.execution_retry_limit
        if action.retries >= limit:
            self.give_up(action, f"Failed {limit + 1} times: {reason}")
            return None
        not_before = self._clock.now() + min(2.0**action.retries, MAX_RETRY_DELAY)
        self._repeat(action, lambda: self._store_retry(action, reason, not_before))
        return not_before

    def leave(self, action: ActionRecord, reason: str) -> float:
        """Leave an action to other engines, which may have a key that this one lacks.

        It does not count as a retry. Returns the time at which this engine tries it again.
        """
        log.error("action %s: left to other engines: %s", action.id, reason)
        until = self._store.claims.put_off(action.id, self._clock.now())
        self._repeat(action, lambda: self._store_return(action, reason))
        return until

    def give_up(self, action: ActionRecord, reason: str) -> None:
        """End an action that no worker can complete."""
        self._repeat(action, lambda: self._termination.give_up(action, reason, self._settings.lease_seconds))

    def give_up_taken_over(self, action: ActionRecord) -> None:
        """End an action that was taken over too often without progress."""
        log.error("action %s: taken over too often without progress", action.id)
        self.give_up(action, TAKEN_OVER.format(self._settings.takeover_limit))

    def end_broken(self, action: ActionRecord, execution: Execution | None) -> float | None:
        """End an action after an internal error, or have another attempt roll it back.

        Returns the time of that attempt. None: there is none.
        """
        data = None if execution is None else execution.fail(INTERNAL_ERROR)
        if data is None:
            self.give_up(action, INTERNAL_ERROR)
            return None
        now = self._clock.now()
        self._repeat(action, lambda: self._store_stop(action, data, now))
        return now

    def _store_stop(self, action: ActionRecord, data: ActionData, now: float) -> None:
        with self._store.transaction():
            found = self._store.actions.get(action.id)
            if found is None:
                raise Fenced(action.id)
            # The broken attempt may not know its last commits.
            last = replace(action, commits=found.commits)
            self._store.claims.begin_commit(last, now, self._settings.lease_seconds, data)
            self._store.moves.requeue(action, INTERNAL_ERROR, now, now)

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
