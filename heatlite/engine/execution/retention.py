"""Deletion of old rows: events, actions, stacks, templates, engines.

Settings limit events, actions and node actions by number and age.
"""

import time

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.store.stacks.templates import TEMPLATE_GRACE
from heatlite.store.store import Store

DAY = 86_400.0
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


class Retention:
    """Deletes old rows in small transactions.

    The choice depends on rows and clock only, so several engines may run it.
    """

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._due = 0.0

    def sweep(self) -> None:
        """Delete what is due. Call it once a second. Raises DatabaseUnavailable."""
        now = self._clock.now()
        if now < self._due:
            return
        with self._store.database.maintenance_limits():
            for _ in range(MAX_BATCHES):
                if not self.purge(now):
                    self._due = now + SWEEP_INTERVAL
                    return
                time.sleep(PAUSE)

    def purge(self, now: float) -> bool:
        """Delete one batch in a transaction. Returns False if nothing was left to delete."""
        store, settings = self._store, self._settings
        deleted = now - settings.deleted_stack_days * DAY
        events = (
            store.events.older_than(now - settings.event_days * DAY, ROW_BATCH)
            or store.events.over_limit(settings.max_events_per_stack, ROW_BATCH)
            or store.events.of_deleted(deleted, ROW_BATCH)
        )
        if events:
            with store.transaction():
                store.events.remove(events)
            return True
        actions = store.actions.older_than(now - settings.action_days * DAY, ROW_BATCH)
        actions = actions or store.actions.over_limit(settings.max_actions_per_stack, ROW_BATCH)
        if actions:
            with store.transaction():
                store.actions.remove(actions)
            return True
        work = store.node_actions.older_than(now - settings.action_days * DAY, ROW_BATCH)
        work = work or store.node_actions.over_limit(settings.max_actions_per_stack, ROW_BATCH)
        if work:
            with store.transaction():
                store.node_actions.remove(work)
            return True
        if self._purge_incidents(now - settings.incident_days * DAY):
            return True
        stacks = store.stacks.deleted_before(deleted, STACK_BATCH)
        if stacks:
            with store.transaction():
                store.stacks.remove(stacks)
            return True
        if self._purge_templates(now):
            return True
        silent = store.services.silent_since(now - DAY)
        if silent:
            with store.transaction():
                for service_id in silent:
                    store.services.remove(service_id)
        return bool(silent)

    def _purge_incidents(self, before: float) -> bool:
        """Remove one batch of closed incidents, or of ended observations."""
        for rows in (self._store.incidents, self._store.observations):
            found = rows.older_than(before, ROW_BATCH)
            if found:
                with self._store.transaction():
                    rows.remove(found)
                return True
        return False

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
