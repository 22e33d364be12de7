"""What is not kept for good: events, actions and node actions beyond the number and the age that an installation keeps,
deleted stacks, templates that no stack refers to, engines that have not been heard of for long."""

import time

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.store.stacks.templates import TEMPLATE_GRACE
from heatlite.store.store import Store

DAY = 86_400.0
EVERY = 60.0
"""Seconds between two looks."""
BATCH = 500
"""Rows that one transaction removes: nobody who writes waits for more than that."""
STACKS = 20
"""Stacks that one transaction removes."""
TEMPLATES = 50
"""Templates that one transaction removes; each may be of some MB."""
PAUSE = 0.005
"""Seconds between two transactions: those who wait come first."""
MOST = 20
"""Transactions in a row; the rest has time until the next second, for the caller has other things to see to."""


class Retention:
    """Removes a little at a time. Which rows go depends on rows and clock alone, so several engines may do it."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._due = 0.0

    def sweep(self) -> None:
        """Called once a second; does nothing most of the time. Raises DatabaseUnavailable."""
        now = self._clock.now()
        if now < self._due:
            return
        with self._store.database.maintenance_limits():
            for _ in range(MOST):
                if not self.purge(now):
                    self._due = now + EVERY
                    return
                time.sleep(PAUSE)

    def purge(self, now: float) -> bool:
        """One transaction; whether there was anything to remove."""
        store, settings = self._store, self._settings
        deleted = now - settings.deleted_stack_days * DAY
        events = (
            store.events.older_than(now - settings.event_days * DAY, BATCH)
            or store.events.over_limit(settings.max_events_per_stack, BATCH)
            or store.events.of_deleted(deleted, BATCH)
        )
        if events:
            with store.transaction():
                store.events.remove(events)
            return True
        actions = store.actions.older_than(now - settings.action_days * DAY, BATCH)
        actions = actions or store.actions.over_limit(settings.max_actions_per_stack, BATCH)
        if actions:
            with store.transaction():
                store.actions.remove(actions)
            return True
        work = store.node_actions.older_than(now - settings.action_days * DAY, BATCH)
        work = work or store.node_actions.over_limit(settings.max_actions_per_stack, BATCH)
        if work:
            with store.transaction():
                store.node_actions.remove(work)
            return True
        stacks = store.stacks.deleted_before(deleted, STACKS)
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

    def _purge_templates(self, now: float) -> bool:
        """One transaction: note which templates have become unused, or delete those that have been for long."""
        templates = self._store.templates
        found = templates.unreferenced(BATCH)
        if found:
            with self._store.transaction():
                return templates.mark_unused(found, now) > 0
        found = templates.unused_before(now - TEMPLATE_GRACE, TEMPLATES)
        if found:
            with self._store.transaction():
                return templates.remove_unused(found) > 0
        return False
