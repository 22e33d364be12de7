"""Begins what is due by schedules: a job of each engine (decision 0041)."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby

from msgspec.structs import replace

from heatlite.core.clock import Clock, to_text
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    ActionInProgress,
    DatabaseUnavailable,
    HeatliteError,
    ResourceIsLocked,
    Unavailable,
    wire_name,
)
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.meter import Meter
from heatlite.core.runtime.timer import for_each
from heatlite.core.status import MAX_REASON, Cause
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.features.schedules.due import judged, next_due
from heatlite.features.schedules.metrics import OCCURRENCES
from heatlite.features.schedules.store.records import LastOccurrence, OccurrenceResult, ScheduleRecord
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.features.schedules.tasks import Tasks
from heatlite.store.errors import Fenced
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

AFTER_FAILURE = 600.0
"""Seconds until the next look at the schedules of a stack after an internal error."""
PASSING = (ActionConflict, ActionInProgress, ResourceIsLocked, Unavailable)
"""Errors of a busy stack, or of a service that is away: the occurrence waits within its window."""


class ScheduleSweep:
    """Begins the occurrences that are due, and ends those that cannot begin."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        meter: Meter,
        tasks: Tasks,
        author_of: Callable[[ScheduleRecord, StackRecord], Context],
    ) -> None:
        """`author_of` returns the user who set a schedule, with the present rights."""
        self._store = store
        self._rows = store.of(SchedulesStore)
        self._clock = clock
        self._meter = meter
        self._tasks = tasks
        self._author_of = author_of

    def run(self, due: Sequence[ScheduleRecord]) -> None:
        """Begin what is due. Raises DatabaseUnavailable, after the last stack."""
        by_stack = sorted(due, key=lambda one: one.stack_id)
        for_each([stack_id for stack_id, _ in groupby(by_stack, lambda one: one.stack_id)], self._see_to)

    def recompute(self) -> None:
        """Compute all due times anew. Zone data may have changed since they were written."""
        for record in self._rows.enabled():
            with logged(log, "schedule %s: cannot compute its next time", record.id):
                next_at = next_due(record)
                if next_at != record.next_at:
                    with self._store.transaction():
                        self._rows.settle(record, record.last, record.since, next_at)

    def _see_to(self, stack_id: str) -> None:
        # One stack must not keep the others from their times: this machine may not know a time zone.
        with logged(log, "cannot look at the schedules of stack %s", stack_id) as look:
            self._of_stack(stack_id)
        if look.failed:
            now = self._clock.now()
            with self._store.transaction():
                self._rows.postpone(stack_id, now, now + AFTER_FAILURE)

    def _of_stack(self, stack_id: str) -> None:
        """Begin or end the due occurrences of one stack, those that are missed first.

        So a kill between them lets no missed one count.
        """
        stack, now = self._store.stacks.get(stack_id), self._clock.now()
        if stack is None or stack.deleted_at is not None:
            with self._store.transaction():
                self._rows.stacks_removed([stack_id])
            return
        missed, counting = judged(self._rows.due(now, stack_id), now)
        for record, nominal in missed:
            self._end(stack, record, nominal, OccurrenceResult.MISSED)
        for record, nominal in counting:
            self._begin(stack, record, nominal)

    def _begin(self, stack: StackRecord, record: ScheduleRecord, nominal: float) -> None:
        try:
            author = self._author_of(record, stack)
            queued = list[str]()
            claim = partial(self._claim, stack, record, nominal, queued)
            context = replace(author, cause=Cause.SCHEDULED, queued=queued, claim=claim)
            self._tasks.begin(context, stack, record.task, record.options)
        except Fenced:
            return  # another engine was faster, or the schedule was changed
        except DatabaseUnavailable:
            raise
        except PASSING as error:
            if self._clock.now() - nominal >= record.window:
                self._end(stack, record, nominal, OccurrenceResult.SKIPPED, error)
            return
        except HeatliteError as error:
            self._end(stack, record, nominal, OccurrenceResult.REFUSED, error)
            return
        self._meter.count(OCCURRENCES, OccurrenceResult.STARTED.value)

    def _claim(self, stack: StackRecord, record: ScheduleRecord, nominal: float, queued: Sequence[str]) -> None:
        """Take an occurrence, in the transaction that writes its action. Raises Fenced."""
        if not self._settled(stack, record, nominal, OccurrenceResult.STARTED, action_id=next(iter(queued), None)):
            raise Fenced(record.id)

    def _end(
        self,
        stack: StackRecord,
        record: ScheduleRecord,
        nominal: float,
        result: OccurrenceResult,
        error: HeatliteError | None = None,
    ) -> None:
        """End an occurrence that begins nothing, unless another engine was faster."""
        with self._store.transaction():
            held = self._store.stacks.lock(stack.id)
            is_ended = held is not None and self._settled(held, record, nominal, result, error)
        if is_ended:
            self._meter.count(OCCURRENCES, result.value)

    def _settled(
        self,
        stack: StackRecord,
        record: ScheduleRecord,
        nominal: float,
        result: OccurrenceResult,
        error: HeatliteError | None = None,
        action_id: str | None = None,
    ) -> bool:
        """Write the result of an occurrence with the next due time and an event."""
        now = self._clock.now()
        last = LastOccurrence(nominal, now, result, None if error is None else wire_name(error), action_id)
        if not self._rows.settle(record, last, nominal, next_due(replace(record, since=nominal))):
            return False
        if result is not OccurrenceResult.MISSED:
            text = f"Schedule {record.name} ({record.task} at {to_text(nominal)})"
            text += "" if error is None else f": {error.message}"
            event = stack_event(stack, now)
            event = replace(event, verb="SCHEDULE", status=result.upper(), status_reason=text[:MAX_REASON])
            self._store.events.append_many([event])
        return True
