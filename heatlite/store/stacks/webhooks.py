"""Delivery state of each stack's events to each of its webhooks.

The events themselves are the outbox; a row has the position in it.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence

import peewee

from heatlite.core.json import Json, canonical
from heatlite.store.database.database import Database
from heatlite.store.database.sql import marks
from heatlite.store.records import WebhookRecord
from heatlite.store.tables.stacks import Event, Sink, Stack

MAX_DUE = 100
"""Webhooks in one result of `due`."""

ALL_STACKS = ""
"""Stack id in the row of a webhook of all stacks."""


def webhook_digest(sink: Json) -> str | None:
    """Return the digest of an event sink's type and target; None if it is no webhook."""
    if not isinstance(sink, Mapping) or sink.get("type") != "webhook":
        return None
    return hashlib.sha256(canonical([sink["type"], sink["target"]]).encode()).hexdigest()


class Webhooks:
    """Webhooks of stacks, from `event_sinks` of environments and of the installation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, stack_id: str, sinks: Sequence[Json]) -> None:
        """Add those of the sinks that are new to a stack, for events from now on."""
        for digest in filter(None, map(webhook_digest, sinks)):
            known = (Sink.stack_id == stack_id) & (Sink.digest == digest)
            if not self._database.select(Sink.select(Sink.position).where(known)):
                self._insert(stack_id, digest, self._newest(Event.stack_id == stack_id))

    def stacks_without(self, digest: str) -> list[str]:
        """Return the stacks that lack a webhook of all stacks.

        `ALL_STACKS` comes first if the webhook is new.
        """
        have = Sink.alias()
        own = have.select(have.stack_id).where(have.stack_id == Stack.id, have.digest == digest)
        stacks = self._database.select(Stack.select(Stack.id).where(~peewee.fn.EXISTS(own)))
        new = [] if self._since(digest) else [ALL_STACKS]
        return [*new, *(stack_id for (stack_id,) in stacks)]

    def add_global(self, digest: str, lacking: Sequence[str]) -> None:
        """Add a webhook of all stacks to those that lack it, for events since it was new."""
        if ALL_STACKS in lacking:
            self._insert(ALL_STACKS, digest, self._newest(Event.id > 0))
        for (position,) in self._since(digest):
            for stack_id in lacking:
                self._insert(stack_id, digest, position)

    def _since(self, digest: str) -> Sequence[tuple[int, ...]]:
        first = (Sink.stack_id == ALL_STACKS) & (Sink.digest == digest)
        return self._database.select(Sink.select(Sink.position).where(first))

    def _newest(self, condition: peewee.ColumnBase) -> int:
        ((number,),) = self._database.select(Event.select(peewee.fn.MAX(Event.id)).where(condition))
        return number or 0

    def _insert(self, stack_id: str, digest: str, position: int) -> None:
        row = {"stack_id": stack_id, "digest": digest, "position": position}
        self._database.change(Sink.insert(row).on_conflict_ignore())

    def due(self, now: float, each: int, without: Collection[str] = ()) -> list[WebhookRecord]:
        """Return webhooks with undelivered events, longest due first.

        At most `each` per project, none of the projects in `without`. A webhook that was given up is due again after
        the next update of its stack.
        """
        without = sorted(without)
        others = f" AND stack.project NOT IN ({marks(without)})" if without else ""
        sql = _DUE.format(others=others)
        return [WebhookRecord(*row) for row in self._database.read(sql, (now, now, *without, each, MAX_DUE))]

    def claim(self, record: WebhookRecord, now: float, until: float) -> bool:
        """Claim a webhook until a time.

        Returns False if another engine was faster, even if it is done.
        """
        free = _is(record) & (Sink.lease_until <= now)
        for name in _CHANGED:
            column, value = getattr(Sink, name), getattr(record, name)
            free &= column.is_null() if value is None else column == value
        return self._database.change(Sink.update(lease_until=until).where(free)) == 1

    def save(self, record: WebhookRecord, until: float) -> None:
        """Write the delivery state and release the claim, unless the claim was lost."""
        mine = _is(record) & (Sink.lease_until == until)
        changed = {name: getattr(record, name) for name in _CHANGED}
        self._database.change(Sink.update(lease_until=0.0, **changed).where(mine))

    def remove(self, record: WebhookRecord) -> None:
        """Remove a webhook from its stack."""
        self._database.change(Sink.delete().where(_is(record)))

    def expire_all(self) -> None:
        """Expire every claim. Only for an engine that holds the engine lock."""
        self._database.change(Sink.update(lease_until=0.0).where(Sink.lease_until > 0.0))


_NAMES = WebhookRecord.__struct_fields__
"""Columns of the table, then the project of the stack."""
_CHANGED = _NAMES[2:-1]
_DUE = f"""
SELECT {", ".join(f"due.{name}" for name in _NAMES)} FROM (
  SELECT {", ".join(f"sink.{name}" for name in _NAMES[:-1])}, stack.project,
    ROW_NUMBER() OVER (PARTITION BY stack.project ORDER BY sink.retry_at, sink.stack_id, sink.digest) AS place
  FROM sink JOIN stack ON stack.id = sink.stack_id
  WHERE sink.retry_at <= ? AND sink.lease_until <= ?
    AND (sink.given_up_at IS NULL OR stack.updated_at > sink.given_up_at)
    AND EXISTS (SELECT 1 FROM event WHERE event.stack_id = sink.stack_id AND event.id > sink.position){{others}}
) AS due WHERE due.place <= ? ORDER BY due.retry_at, due.stack_id, due.digest LIMIT ?
"""
"""Plain SQL: every engine runs it each second, and peewee takes longer to write it than SQLite to run it."""


def _is(record: WebhookRecord) -> peewee.ColumnBase:
    same: peewee.ColumnBase = (Sink.stack_id == record.stack_id) & (Sink.digest == record.digest)
    return same
