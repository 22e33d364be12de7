"""Objects that handlers have made for an attempt that had lost its action by then.

A worker that was frozen past its lease, or that the database was away for, may be fenced while it calls handlers, and
cannot write any more what they have made. Whoever has the action now has found such an object by its name, or has made
one of its own; or the action has ended. What nobody knows of is removed by whoever has made it.
"""

import logging
import threading
from collections.abc import Sequence
from functools import partial

from heatlite.core.clock import Clock
from heatlite.core.status import Status, Verb
from heatlite.engine.state.database_retry import patiently
from heatlite.engine.steps.step import Work, advance
from heatlite.store.store import Store

log = logging.getLogger(__name__)

LOOK = 0.5
"""Seconds between two looks whether another attempt has found an object."""


class Strays:
    """Sees to what the handlers of one project's stack have made and nobody has written."""

    def __init__(self, store: Store, clock: Clock, project: str) -> None:
        self._store = store
        self._clock = clock
        self._project = project

    def remove(self, works: Sequence[Work], stopping: threading.Event) -> None:
        """Remove the objects of these works that no row knows, once no other attempt looks for them. Raises nothing of
        the types'; what cannot be removed, or not before this engine is `stopping`, is told in the log."""
        for work in works:
            physical_id = work.resource.physical_id
            assert physical_id is not None
            while patiently(self._clock, partial(self._is_sought, work)):
                if self._clock.wait(stopping, LOOK):
                    log.warning("resource %s: whether %s is known cannot be waited for", work.row.name, physical_id)
                    break
            else:
                if not patiently(self._clock, partial(self._is_known, physical_id)):
                    self._delete(work, stopping)

    def _is_known(self, physical_id: str) -> bool:
        return self._store.resources.has_object(self._project, physical_id)

    def _is_sought(self, work: Work) -> bool:
        """Whether another attempt may yet find the object."""
        rows = [row for row in self._store.resources.of(work.row.stack_id) if row.id == work.row.id]
        return bool(rows) and rows[0].status is Status.IN_PROGRESS and rows[0].physical_id is None

    def _delete(self, work: Work, stopping: threading.Event) -> None:
        name, physical_id = work.row.name, work.resource.physical_id
        log.warning("resource %s: made for an attempt that had lost its action, is removed: %s", name, physical_id)
        removal = Work(work.step, work.row, work.resource, Verb.DELETE, done=not work.resource.has("delete"))
        while not removal.ended:
            advance(removal)
            if not removal.ended and self._clock.wait(stopping, removal.pause):
                removal.failure = "the engine stops"
        if removal.failure is not None:
            log.error("resource %s: is left behind: %s: %s", name, physical_id, removal.failure)
