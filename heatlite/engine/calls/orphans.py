"""Orphans: objects that handlers made for an attempt that had lost its action.

A worker may be fenced while its handlers run, and then cannot write the ids of their objects. The action's new owner
finds such an object by name, or makes another. The fenced worker removes the objects that no row knows.
"""

import logging
import threading
from collections.abc import Sequence

from heatlite.core.clock import Clock
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import Status, Verb
from heatlite.engine.calls.handlers import advance
from heatlite.engine.calls.step_execution import HandlerCall
from heatlite.engine.state.database_retry import retry_while_unavailable
from heatlite.store.store import Store

log = logging.getLogger(__name__)

POLL_INTERVAL = 0.5
"""Seconds between two checks whether another attempt has found an object."""


class Orphans:
    """Removes the orphans of one attempt at an action."""

    def __init__(self, store: Store, clock: Clock, meter: Meter, project: str) -> None:
        self._store = store
        self._clock = clock
        self._meter = meter
        self._project = project

    def remove(self, calls: Sequence[HandlerCall], stopping: threading.Event) -> None:
        """Remove the objects of these calls that no row or attempt knows.

        Logs objects that cannot be removed, or not before this engine is `stopping`.
        """
        for call in calls:
            physical_id = call.resource.physical_id
            assert physical_id is not None
            while retry_while_unavailable(self._clock, self._is_sought, call):
                if self._clock.wait(stopping, POLL_INTERVAL):
                    log.warning("resource %s: whether %s is known cannot be waited for", call.row.name, physical_id)
                    break
            else:
                if not retry_while_unavailable(self._clock, self._is_known, physical_id):
                    self._delete(call, stopping)

    def _is_known(self, physical_id: str) -> bool:
        return self._store.resources.has_object(self._project, physical_id)

    def _is_sought(self, call: HandlerCall) -> bool:
        """Return whether another attempt may still find the object."""
        rows = [row for row in self._store.resources.of(call.row.stack_id) if row.id == call.row.id]
        return bool(rows) and rows[0].status is Status.IN_PROGRESS and rows[0].physical_id is None

    def _delete(self, call: HandlerCall, stopping: threading.Event) -> None:
        name, physical_id = call.row.name, call.resource.physical_id
        log.warning("resource %s: made for an attempt that had lost its action, is removed: %s", name, physical_id)
        if not call.resource.has("delete"):
            return
        removal = HandlerCall(call.step, call.row, call.resource, Verb.DELETE)
        while not removal.has_ended:
            advance(removal, self._meter)
            if not removal.has_ended and self._clock.wait(stopping, removal.pause):
                removal.fail("the engine stops")
        if removal.failure is not None:
            log.error("resource %s: is left behind: %s: %s", name, physical_id, removal.failure.text)
