"""The list of all that will happen by itself: a function for each kind.

A page of the list asks each of them and merges the answers. So each has the order of the list, and its own index.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from itertools import islice
from typing import TypeAlias

import peewee
from msgspec import Struct

from heatlite.core.json import JsonMap, parse
from heatlite.core.status import ActionStatus, Verb
from heatlite.features.schedules.store.tables import Expiry, Schedule
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Row
from heatlite.store.tables.actions import Action
from heatlite.store.tables.stacks import Stack


class UpcomingEntry(Struct, frozen=True):
    """Something that will happen by itself."""

    kind: str
    id: str
    """The id of the schedule or action, else that of the stack."""
    name: str
    stack_name: str
    stack_id: str
    do: JsonMap
    next_at: float | None
    owner: str
    cron: str | None = None
    timezone: str | None = None
    enabled: bool = True


class ListPlace(Struct, frozen=True, order=True):
    """The place of an entry in the list."""

    next_at: float
    """Infinite for one without a time."""
    kind: str
    id: str


class EntryQuery(Struct, frozen=True):
    """A page of one kind of entries of a project's live stacks."""

    project: str
    stack_id: str | None
    """Of this stack and those nested in it; None: of all."""
    after: tuple[float, str] | None
    """Time and id after which it begins; an infinite time for entries without one."""
    limit: int


Source: TypeAlias = Callable[[Database, EntryQuery], Iterator[UpcomingEntry]]
"""Yields the entries of a kind: by time and id, those without a time last."""

NO_ID, LAST_ID = "", "z" * 36
"""Ids before and after all others."""


def place_of(entry: UpcomingEntry) -> ListPlace:
    """Return the place of an entry."""
    return ListPlace(math.inf if entry.next_at is None else entry.next_at, entry.kind, entry.id)


def upcoming(
    database: Database, project: str, stack_id: str | None, after: ListPlace | None, limit: int
) -> list[UpcomingEntry]:
    """Return a page of what will happen, the next first."""
    found = []
    for kind, source in SOURCES.items():
        bound = None
        if after is not None:
            bound = after.next_at, after.id if kind == after.kind else NO_ID if kind > after.kind else LAST_ID
        found.append(source(database, EntryQuery(project, stack_id, bound, limit)))
    return [*islice(merge(*found, key=place_of), limit)]


def schedules(database: Database, query: EntryQuery) -> Iterator[UpcomingEntry]:
    """Yield the schedules, also those that are paused."""
    columns = (
        Schedule.id, Schedule.name, Stack.name, Stack.id, Schedule.task, Schedule.options, Schedule.next_at,
        Schedule.created_by, Schedule.cron, Schedule.timezone, Schedule.enabled,
    )  # fmt: skip
    select = Schedule.select(*columns).join(Stack, on=(Stack.id == Schedule.stack_id))
    for row in _page(database, select, query, Schedule.next_at, Schedule.id):
        schedule_id, name, stack_name, stack_id, task, options, next_at, owner, cron, timezone, enabled = row
        done = {task: parse(options)}
        place = (schedule_id, name, stack_name, stack_id, done, next_at, owner)
        yield UpcomingEntry("schedule", *place, cron, timezone, bool(enabled))


def actions(database: Database, query: EntryQuery) -> Iterator[UpcomingEntry]:
    """Yield the actions that wait for their time, without those of a series."""
    return _scheduled("action", database, query, Action.interval == 0)


def series(database: Database, query: EntryQuery) -> Iterator[UpcomingEntry]:
    """Yield the next actions of series."""
    return _scheduled("series", database, query, Action.interval > 0)


def _scheduled(
    kind: str, database: Database, query: EntryQuery, condition: peewee.ColumnBase
) -> Iterator[UpcomingEntry]:
    columns = (Action.id, Stack.name, Stack.id, Action.verb, Action.not_before, Action.requested_by)
    select = Action.select(*columns).join(Stack, on=(Stack.id == Action.stack_id))
    select = select.where(Action.status == ActionStatus.INIT, Action.not_before.is_null(False), condition)
    found = _page(database, select, query, Action.not_before, Action.id)
    for action_id, stack_name, stack_id, verb, at, owner in found:
        word = Verb(verb).lower()
        yield UpcomingEntry(
            kind, action_id, f"stack_{word}_{stack_id[-8:]}", stack_name, stack_id, {word: {}}, at, owner
        )


def lock_expiries(database: Database, query: EntryQuery) -> Iterator[UpcomingEntry]:
    """Yield the ends of maintenance locks."""
    columns = (Stack.id, Stack.name, Stack.lock_expires_at, Stack.locked_by)
    select = Stack.select(*columns).where(Stack.lock_expires_at.is_null(False))
    for stack_id, name, at, owner in _page(database, select, query, Stack.lock_expires_at, Stack.id):
        yield UpcomingEntry("lock_expiry", stack_id, name, name, stack_id, {"unlock": {}}, at, owner)


def expiries(database: Database, query: EntryQuery) -> Iterator[UpcomingEntry]:
    """Yield the ends of stacks, also those that are held."""
    columns = (Stack.id, Stack.name, Expiry.task, Expiry.expires_at, Expiry.set_by)
    select = Expiry.select(*columns).join(Stack, on=(Stack.id == Expiry.stack_id)).where(Expiry.due.is_null(False))
    for stack_id, name, task, at, owner in _page(database, select, query, Expiry.expires_at, Stack.id):
        yield UpcomingEntry("expiry", stack_id, name, name, stack_id, {task: {}}, at, owner)


SOURCES: Mapping[str, Source] = {
    "action": actions,
    "expiry": expiries,
    "lock_expiry": lock_expiries,
    "schedule": schedules,
    "series": series,
}
"""Kinds of entries. A further kind is one function here."""


def _page(
    database: Database, select: peewee.Select, query: EntryQuery, time: peewee.Field, key: peewee.Field
) -> Iterator[Row]:
    """Yield the rows of a page, by time and key."""
    select = select.where(Stack.project == query.project, Stack.deleted_at.is_null())
    if query.stack_id is not None:
        select = select.where((Stack.id == query.stack_id) | (Stack.root_id == query.stack_id))
    if query.after is not None:
        at, after_id = query.after
        if at == math.inf:
            select = select.where(time.is_null(), key > after_id)
        else:
            select = select.where((time > at) | (time == at) & (key > after_id) | time.is_null())
    yield from database.select(select.order_by(time.is_null(), time, key).limit(query.limit))
