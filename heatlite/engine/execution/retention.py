"""Deletion of old rows.

These are events, actions, requests, stacks, templates, large values, engines, and rows of features. Settings limit
events and actions by number and age.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from heatlite.core.clock import DAY, Clock
from heatlite.core.config import Settings
from heatlite.store.database.limits import Pace
from heatlite.store.errors import UnreadableSecret
from heatlite.store.stacks.templates import TEMPLATE_GRACE
from heatlite.store.store import Store
from heatlite.store.writes.large_values import LARGE_VALUE_GRACE

log = logging.getLogger(__name__)

SWEEP_INTERVAL = 60.0
"""Seconds between two sweeps."""
ROW_BATCH = 500
"""Maximum of rows deleted per transaction, so that writers wait briefly."""
STACK_BATCH = 20
"""Maximum of stacks deleted per transaction."""
TEMPLATE_BATCH = 50
"""Maximum of templates deleted per transaction; each may have some MB."""
PAUSE = 0.005
"""Seconds between two transactions, for waiting writers."""
MAX_BATCHES = 20
"""Maximum of transactions per call, so that the caller's other jobs are not delayed."""

Key = TypeVar("Key")


class Retention:
    """Deletes old rows in small transactions.

    The choice depends on rows and clock only, so several engines may run it.
    """

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._due = 0.0
        self._head = 0
        """Number of the newest event before the last complete sweep."""
        self._counted = 0
        """The same for the sweep before it: all transactions with earlier events have ended."""

    def sweep(self) -> None:
        """Delete what is due. Call it once a second. Raises DatabaseUnavailable."""
        now = self._clock.now()
        if now < self._due:
            return
        with self._store.database.limits_of(Pace.RETENTION):
            head = self._store.events.head()
            for _ in range(MAX_BATCHES):
                if not self.purge(now):
                    self._due = now + SWEEP_INTERVAL
                    self._counted, self._head = self._head, head
                    return
                time.sleep(PAUSE)

    def purge(self, now: float) -> bool:
        """Delete one batch in a transaction. Returns False if nothing was left to delete."""
        store, settings = self._store, self._settings
        deleted, worked = now - settings.deleted_stack_days * DAY, now - settings.action_days * DAY
        most, locks = settings.max_actions_per_stack, store.limit_locks
        return (
            self._purge_events(now, deleted)
            or self._remove(store.actions.remove, store.actions.older_than(worked, ROW_BATCH))
            or self._remove(store.actions.remove, store.actions.over_limit(most, ROW_BATCH))
            or any(
                self._remove(remove, found)
                for one in store.features
                for remove, found in one.old_rows(settings, now, ROW_BATCH)
            )
            or self._remove(store.audit.remove, store.audit.older_than(now - settings.audit_days * DAY, ROW_BATCH))
            or self._remove(store.audit.remove, store.audit.over_limit(ROW_BATCH))
            or self._remove(store.stacks.remove, store.stacks.deleted_before(deleted, STACK_BATCH))
            or self._remove(locks.forget, locks.names(ROW_BATCH))
            or self._purge_templates(now)
            or self._purge_large_values(now)
            or self._remove(store.services.remove, store.services.silent_since(now - DAY))
        )

    def _purge_events(self, now: float, deleted: float) -> bool:
        """Delete one batch of events. Returns False if nothing was left to delete.

        Those of stacks that were deleted before the time `deleted` go as well.
        """
        events, settings = self._store.events, self._settings
        return (
            self._remove(events.remove, events.older_than(now - settings.event_days * DAY, ROW_BATCH))
            or self._remove(events.remove, events.over_limit(settings.max_events_per_stack, ROW_BATCH, self._counted))
            or self._remove(events.remove, events.of_deleted(deleted, ROW_BATCH))
        )

    def _remove(self, remove: Callable[[Sequence[Key]], object], found: Sequence[Key]) -> bool:
        """Remove the rows found, in a transaction. Returns False if there are none."""
        if found:
            with self._store.transaction():
                remove(found)
        return bool(found)

    def _purge_large_values(self, now: float) -> bool:
        """Check the large values of one batch of trees and of projects."""
        checked = 0
        for values in (self._store.large_values, self._store.project_values):
            for owner in values.unchecked(now - LARGE_VALUE_GRACE, STACK_BATCH):
                try:
                    with self._store.transaction():
                        values.check(owner, now)
                except UnreadableSecret as error:
                    log.error("large values of %s cannot be checked: %s", owner, error.message)
                    with self._store.transaction():
                        values.put_off(owner, now)
                checked += 1
        return checked > 0

    def _purge_templates(self, now: float) -> bool:
        """Mark one batch of newly unused templates, or delete those unused for long."""
        templates = self._store.templates
        found = templates.unreferenced(ROW_BATCH)
        if found:
            with self._store.transaction():
                return templates.mark_unused(found, now) > 0
        found = templates.unused_before(now - TEMPLATE_GRACE, TEMPLATE_BATCH)
        if found:
            with self._store.transaction():
                return templates.remove_unused(found) > 0
        return False
