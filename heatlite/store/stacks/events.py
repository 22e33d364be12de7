"""Events of stacks: appended and read. Only a renamed resource changes them."""

import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TypeAlias

import peewee
from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import AnyMap, JsonMap, decoder, dump, parse
from heatlite.core.redaction.masking import MASK
from heatlite.store.database.paging import after, directed
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row, Value
from heatlite.store.feature_store import Moved
from heatlite.store.records import EventRecord
from heatlite.store.rows import Codec, Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Event, Stack
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import LargeValues
from heatlite.store.writes.stack_locks import StackLocks


class EventQuery(Struct, frozen=True):
    """A query for a list of events.

    An empty filter accepts all values.
    """

    resource_name: Sequence[str] = ()
    resource_action: Sequence[str] = ()
    resource_status: Sequence[str] = ()
    """COMPLETE and the like, without the action."""
    resource_type: Sequence[str] = ()
    sort_keys: Sequence[str] = ()
    """event_time, resource_type; others are ignored. Empty: order of storing."""
    sort_dir: str = "desc"
    """desc (newest first) or asc."""
    limit: int | None = None
    marker: str | None = None
    """Id of the last event of the page before; an unknown one is ignored."""


ALL_EVENTS = EventQuery()


Numbers: TypeAlias = list[int]
"""Ids of events."""
_Conditions: TypeAlias = list[peewee.ColumnBase]

_SORTED_BY: Mapping[str, peewee.ColumnBase] = {"event_time": Event.created_at, "resource_type": Event.resource_type}

MAX_PROPERTIES = 64 * 1024
"""Limit of an event's properties in characters of JSON; larger ones are left out."""
MAX_RANGES = 50
"""Limit of a filter's values that a list of events looks up one by one."""


def _kept(properties: JsonMap) -> str:
    """Return properties as stored: none if they are too large."""
    text = dump(properties)
    return text if len(text) <= MAX_PROPERTIES else "{}"


_ROWS = Rows(
    EventRecord,
    Event,
    codecs={
        "verb": Codec(str.__str__),
        "status": Codec(str.__str__),
        "properties": Codec(_kept, decoder(AnyMap), "{}", tolerant=parse),
    },
)
_OUTLINE = _ROWS.selected(without=("properties",))


class Events:
    """Events of all stacks."""

    def __init__(self, encryption: FieldEncryption, large_values: LargeValues) -> None:
        self._encryption, self._database = encryption, encryption.database
        self._locks = StackLocks(self._database)
        self._table = Table(encryption, _ROWS, stack="stack_id", large_values=large_values)

    def append_many(self, records: Sequence[EventRecord]) -> None:
        """Store events in their order. Those of sealed stacks have masked property values.

        Their stacks are locked first. So the events of a stack are committed in the order of their ids, and a reader
        that goes on from the last one misses none.
        """
        stack_ids = {record.stack_id for record in records}
        self._locks.take(stack_ids)
        sealed = self._encryption.sealed_stacks(stack_ids)
        if sealed:
            records = [
                replace(one, properties=dict.fromkeys(one.properties, MASK)) if one.stack_id in sealed else one
                for one in records
            ]
        self._table.insert(records)

    def move(self, moved: Moved) -> None:
        """Change the places of events."""
        for some in chunks(moved.nested if moved.source.root_id != moved.target.root_id else ()):
            found = self._table.select(f"WHERE stack_id IN ({marks(some)})", some)
            self._table.update(found)  # their large values are those of another tree now
        rest = f"WHERE stack_id = ? AND resource_name IN ({marks(moved.names)})"
        if moved.source.root_id == moved.target.root_id:
            moved.rename(self._database, "event", "resource_name")
            return
        found = self._table.select(rest, (moved.source.stack_id, *moved.names))
        sealed = self._encryption.sealed_stacks([moved.target.stack_id])
        self._table.update(
            [
                replace(
                    one,
                    stack_id=moved.target.stack_id,
                    resource_name=moved.names[one.resource_name],
                    properties=dict.fromkeys(one.properties, MASK) if sealed else one.properties,
                )
                for one in found
            ]
        )

    def after(
        self, stack_id: str, number: int, limit: int, query: EventQuery = ALL_EVENTS
    ) -> list[EventRecord]:
        """Return a stack's first events after a number that pass the query's filters."""
        conditions = [Event.stack_id == stack_id, Event.id > number]
        return self._table.records(self._page(_ROWS.selected(), conditions, query, [Event.id.asc()], limit))

    def list(self, stack_id: str, query: EventQuery, nested: Sequence[str] = ()) -> list[EventRecord]:
        """Return a page of events of a stack and of `nested` stacks, without properties."""
        if query.limit == 0:
            return []
        descending = query.sort_dir == "desc"
        order = [*(_SORTED_BY[key] for key in query.sort_keys if key in _SORTED_BY), Event.id]
        # A list of ids: with a subquery PostgreSQL reads all events.
        within = Event.stack_id.in_([stack_id, *nested]) if nested else Event.stack_id == stack_id
        conditions: _Conditions = [within]
        marker = event_number(query.marker)
        if marker is not None:
            for keys in self._database.select(Event.select(*order).where(within, Event.id == marker)):
                conditions.append(after(order, keys, descending))
        page = self._page(_OUTLINE, conditions, query, list(directed(order, descending)), query.limit)
        return _ROWS.records(page)

    def _page(
        self,
        columns: Sequence[peewee.Node],
        conditions: Sequence[peewee.ColumnBase],
        query: EventQuery,
        order: Sequence[peewee.Node],
        limit: int | None,
    ) -> Sequence[Row]:
        """Return rows that pass the query's filters.

        Filters of names, actions and statuses read the first rows of each range of an index. So a filter without a
        match reads no event. Most stacks have events with the values that the indexes leave out.
        """
        conditions = [*conditions, *_filters(query)]
        ranges = _ranges(query)
        if len(ranges) < 2:
            select = Event.select(*columns).where(*conditions, *ranges)
            return self._database.select(select.order_by(*order).limit(limit))
        firsts = [Event.select(Event.id).where(*conditions, one).order_by(*order).limit(limit) for one in ranges]
        # A subquery each, since a part of a UNION has no ORDER BY on SQLite.
        parts = [peewee.Select([first.alias(f"range{n}")], [peewee.SQL("id")]) for n, first in enumerate(firsts)]
        found = reduce(operator.add, parts).alias("found")
        select = Event.select(*columns).join(found, on=found.c.id == Event.id).order_by(*order).limit(limit)
        return self._database.select(select)

    def heads(self, stack_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of each stack's newest event."""
        out: dict[str, int] = {}
        for some in chunks(stack_ids):
            select = Event.select(Event.stack_id, peewee.fn.MAX(Event.id)).where(Event.stack_id.in_(some))
            out.update(self._database.select(select.group_by(Event.stack_id)))
        return out

    def head(self) -> int:
        """Return the number of the newest event of all stacks; 0 if there is none."""
        ((newest,),) = self._read("SELECT MAX(id) FROM event")
        return newest or 0

    def numbered(self, number: int) -> EventRecord | None:
        """Return an event of any stack, without properties."""
        rows = self._database.select(Event.select(*_OUTLINE).where(Event.id == number))
        return next(iter(_ROWS.records(rows)), None)

    def before(self, number: int, moment: float) -> int:
        """Return the last event before `number` that is as old as `moment`.

        0 if none is.
        """
        sql = "SELECT id FROM event WHERE id < ? AND created_at <= ? ORDER BY id DESC LIMIT 1"
        return next((one for (one,) in self._read(sql, number, moment)), 0)

    def of_project(self, project: str, number: int, limit: int) -> Sequence[tuple[EventRecord, str]]:
        """Return a project's first events after a number, with names of stacks.

        They have no properties.
        """
        select = Event.select(*_OUTLINE, Stack.name).join(Stack, on=Stack.id == Event.stack_id)
        after_it = select.where(Stack.project == project, Event.id > number).order_by(Event.id).limit(limit)
        rows = self._database.select(after_it)
        return [*zip(_ROWS.records([row[:-1] for row in rows]), [row[-1] for row in rows], strict=True)]

    def older_than(self, moment: float, limit: int) -> Numbers:
        """Return events from before a moment, oldest first. They are stored by age."""
        oldest = self._read("SELECT id, created_at FROM event ORDER BY id LIMIT ?", limit)
        return [number for number, created_at in oldest if created_at < moment]

    def over_limit(self, most: int, limit: int, since: int = 0) -> Numbers:
        """Return the oldest events of a stack that has more than `most`.

        Only stacks with an event after the number `since` are counted.
        """
        for (stack_id,) in self._crowded(most, since):
            # Not so many of the oldest: another engine may be removing them.
            events = Event.select(Event.id).where(Event.stack_id == stack_id)
            kept = events.order_by(Event.id.desc()).limit(1).offset(most - 1)
            for (first,) in self._database.select(kept):
                old = events.where(Event.id < first).order_by(Event.id).limit(limit)
                return [number for (number,) in self._database.select(old)]
        return []

    def _crowded(self, most: int, since: int) -> Sequence[Row]:
        """Return the first stack's id with too many events and one after `since`."""
        crowded = "GROUP BY stack_id HAVING COUNT(id) > ? ORDER BY stack_id LIMIT 1"
        if not since:
            return self._read(f"SELECT stack_id FROM event {crowded}", most)
        # For a plain column SQLite reads the whole index of stacks.
        distinct = "SELECT DISTINCT COALESCE(stack_id, '') FROM event WHERE id > ?"
        grown = [str(one) for (one,) in self._read(distinct, since)]
        for some in chunks(sorted(grown)):
            counted = f"SELECT stack_id FROM event WHERE stack_id IN ({marks(some)}) {crowded}"
            if found := self._read(counted, *some, most):
                return found
        return ()

    def of_deleted(self, moment: float, limit: int) -> Numbers:
        """Return events of stacks deleted before a moment."""
        events = "SELECT event.id FROM event JOIN stack ON stack.id = event.stack_id WHERE stack.deleted_at < ? LIMIT ?"
        return [number for (number,) in self._read(events, moment, limit)]

    def _read(self, sql: str, *parameters: Value) -> Sequence[Row]:
        """Return rows of plain SQL, which each sweep builds faster than with peewee."""
        return self._database.read(sql, parameters)

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove events by their ids."""
        self._database.change(Event.delete().where(Event.id.in_(numbers)))

    def get(self, stack_id: str, event_id: str) -> EventRecord | None:
        """Return an event of a stack, with its properties."""
        number = event_number(event_id)
        if number is None:
            return None
        mine = Event.select(*_ROWS.selected()).where(Event.stack_id == stack_id, Event.id == number)
        return next(iter(self._table.records(self._database.select(mine))), None)


def _filters(query: EventQuery) -> list[peewee.ColumnBase]:
    return [
        column.in_(list(values))
        for column, values in (
            (Event.resource_name, query.resource_name),
            (Event.verb, query.resource_action),
            (Event.status, query.resource_status),
            (Event.resource_type, query.resource_type),
        )
        if values
    ]


def _ranges(query: EventQuery) -> list[peewee.ColumnBase]:
    """Return the conditions of the index ranges that hold all matching events.

    Empty if the filters have no index, or too many values.
    """
    for column, common, values in (
        (Event.resource_name, (), query.resource_name),
        (Event.status, ("COMPLETE", "IN_PROGRESS"), query.resource_status),
        (Event.verb, ("CREATE",), query.resource_action),
    ):
        wanted = sorted(set(values))
        if 0 < len(wanted) <= MAX_RANGES and not set(common).intersection(wanted):
            # SQLite uses an index of some rows for the same words only.
            indexed = [column != peewee.SQL(f"'{value}'") for value in common]
            return [reduce(operator.and_, [column == value, *indexed]) for value in wanted]
    return []


def event_number(event_id: str | None) -> int | None:
    """Return an event's number from its id; None for an impossible id."""
    if event_id is None or not (event_id.isascii() and event_id.isdecimal()) or len(event_id) > 18:
        return None
    return int(event_id)
