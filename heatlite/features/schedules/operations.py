"""Operations on the schedules of a stack."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, StackNotFound, abbreviated
from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.engine.admission.admission import audit
from heatlite.engine.admission.caller_context import context_to_json
from heatlite.features.schedules.delegations import Delegations
from heatlite.features.schedules.due import next_due
from heatlite.features.schedules.store.records import ScheduledTask, ScheduleRecord
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.features.schedules.tasks import Tasks
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

MAX_SCHEDULES = 100
"""Schedules of a stack."""


class WantedSchedule(Struct, frozen=True):
    """A schedule as a caller wants it, with a valid line and zone."""

    name: str
    cron: str
    timezone: str
    task: ScheduledTask
    options: JsonMap
    window: int
    enabled: bool
    starts_at: float | None
    ends_at: float | None


class ScheduleOperations:
    """Reads and changes schedules."""

    def __init__(self, store: Store, clock: Clock, tasks: Tasks, delegations: Delegations) -> None:
        self._store = store
        self._rows = store.of(SchedulesStore)
        self._clock = clock
        self._tasks = tasks
        self._delegations = delegations

    def list(self, stack: StackRecord) -> list[ScheduleRecord]:
        """Return the schedules of a stack, by name."""
        return self._rows.of_stack(stack.id)

    def get(self, stack: StackRecord, name: str) -> ScheduleRecord:
        """Return a schedule by its id or name. Raises EntityNotFound."""
        found = self._rows.get(stack.id, name)
        if found is None:
            known = abbreviated([one.name for one in self._rows.of_stack(stack.id)]) or "none"
            raise EntityNotFound(f"The Schedule ({name}) could not be found. Stack {stack.name} has: {known}.")
        return found

    def add(self, context: Context, stack: StackRecord, wanted: WantedSchedule) -> ScheduleRecord:
        """Add a schedule to a root stack.

        Raises HTTPBadRequest for a nested stack, a name that is taken or one schedule too many, Forbidden for a caller
        who may not do it at once, NoCredential, StackNotFound.
        """
        record = self._record(new_id(), context, stack, wanted)
        with self._delegated(context, stack, wanted) as credential, self._store.transaction():
            self._lock(stack)
            known = self._rows.of_stack(stack.id)
            if len(known) >= MAX_SCHEDULES:
                raise HTTPBadRequest(f"Stack {stack.name} has {MAX_SCHEDULES} schedules. Delete one first.")
            _check_name(record, known)
            self._rows.insert(record)
            self._delegations.put(stack.id, record.id, credential)
        audit.info("schedule stack=%s request=add name=%s by=%s", stack.id, record.name, context.user)
        return record

    def put(self, context: Context, stack: StackRecord, name: str, wanted: WantedSchedule) -> ScheduleRecord:
        """Replace a schedule. The caller is its author from now on.

        Raises EntityNotFound, and as `add`.
        """
        with self._delegated(context, stack, wanted) as credential, self._store.transaction():
            self._lock(stack)
            before = self.get(stack, name)
            record = self._record(before.id, context, stack, wanted)
            if before.last is not None:  # a clock that jumped back repeats nothing
                since = max(record.since, before.last.due)
                record = replace(record, last=before.last, since=since)
                record = replace(record, next_at=next_due(record))
            _check_name(record, self._rows.of_stack(stack.id))
            self._rows.replace(record)
            self._delegations.put(stack.id, record.id, credential)
        audit.info("schedule stack=%s request=put name=%s by=%s", stack.id, record.name, context.user)
        return record

    def delete(self, context: Context, stack: StackRecord, name: str) -> None:
        """Remove a schedule; its running action goes on.

        Raises EntityNotFound, StackNotFound.
        """
        with self._store.transaction():
            self._lock(stack)
            record = self.get(stack, name)
            self._rows.delete(record.id)
            self._delegations.release(record.id)
        audit.info("schedule stack=%s request=delete name=%s by=%s", stack.id, name, context.user)

    @contextmanager
    def _delegated(self, context: Context, stack: StackRecord, wanted: WantedSchedule) -> Iterator[JsonMap | None]:
        """Check the rights to a task, and delegate them."""
        if stack.root_id is not None:
            raise HTTPBadRequest(f"Stack {stack.name} is nested: only its root has schedules, stack {stack.root_id}.")
        self._tasks.check_rights(context, wanted.task)
        with self._delegations.delegated(context, stack) as credential:
            self._tasks.check_rights(self._delegations.caller_now(context, stack, credential), wanted.task)
            yield credential

    def _record(self, schedule_id: str, context: Context, stack: StackRecord, wanted: WantedSchedule) -> ScheduleRecord:
        """Return the row of a wanted schedule."""
        record = ScheduleRecord(
            schedule_id,
            stack.project,
            stack.id,
            wanted.name,
            wanted.cron,
            wanted.timezone,
            wanted.task,
            wanted.options,
            wanted.window,
            wanted.enabled,
            context.user,
            context_to_json(context),
            self._clock.now(),
            wanted.starts_at,
            wanted.ends_at,
        )
        return replace(record, next_at=next_due(record))

    def _lock(self, stack: StackRecord) -> None:
        held = self._store.stacks.lock(stack.id)
        if held is None or held.deleted_at is not None or held.verb is Verb.DELETE:
            raise StackNotFound(name=stack.name)


def _check_name(record: ScheduleRecord, known: list[ScheduleRecord]) -> None:
    if any(one.name == record.name and one.id != record.id for one in known):
        raise HTTPBadRequest(f"name: the stack has a schedule {record.name} already. Choose another name.")
