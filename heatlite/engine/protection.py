"""Protection: a caller sets it, an environment declares it, only a caller lifts it (decision 0024)."""

from collections.abc import Iterator
from dataclasses import replace

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import InvalidStackState, ResourceNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status
from heatlite.engine.gate import Gate, audit
from heatlite.engine.journal import LONGEST_REASON, resource_event, stack_event
from heatlite.engine.locks import Operation
from heatlite.engine.protected import is_made
from heatlite.store.records import EventRecord, ProtectionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.environment import Environment

BY_RECORD = "the stack was adopted with it"


class Protection:
    """Protects stacks and resources, and lifts that."""

    def __init__(self, store: Store, clock: Clock, gate: Gate) -> None:
        self._store = store
        self._clock = clock
        self._gate = gate

    def protect(self, context: Context, stack: StackRecord, resource: str | None, reason: str | None) -> None:
        """Protect a stack, or with `resource` one resource of it, from deletion and replacement.

        Protecting again changes the reason. Raises ResourceNotFound, and InvalidStackState for a resource that has no
        finished object.
        """
        record = ProtectionRecord(context.user, self._clock.now(), reason)
        self._set(context, Operation.PROTECT, stack, resource, reason, record)

    def unprotect(self, context: Context, stack: StackRecord, resource: str | None, reason: str | None) -> None:
        """Lift the protection of a stack or of a resource. Raises ResourceNotFound."""
        self._set(context, Operation.UNPROTECT, stack, resource, reason, None)

    def _set(
        self,
        context: Context,
        operation: Operation,
        stack: StackRecord,
        resource: str | None,
        reason: str | None,
        record: ProtectionRecord | None,
    ) -> None:
        options: JsonMap = {}
        if resource is not None:
            options["resource"] = resource
        if reason is not None:
            options["reason"] = reason
        attempt = self._gate.act(context, operation, stack, options)
        with self._gate.allowed(attempt) as stack:
            now = self._clock.now()
            if resource is None:
                changes = record is not None or stack.protection is not None
                stack = replace(stack, protection=record)
                if changes:
                    self._store.stacks.save(stack)
                    self._store.events.append_many([_told(stack_event(stack, now), operation, context.user, reason)])
            else:
                rows = [replace(row, protection=record) for row in self._rows(stack, resource, record)]
                self._store.resources.save_many(rows)
                events = [resource_event(row, now) for row in rows]
                told = [_told(event, operation, context.user, reason) for event in events]
                self._store.events.append_many(told)
        audit.info("%s stack=%s resource=%s by=%s reason=%r", operation, stack.id, resource, context.user, reason)

    def _rows(self, stack: StackRecord, name: str, record: ProtectionRecord | None) -> list[ResourceRecord]:
        """The rows of a resource that change: those with a finished object, or those that are protected."""
        found = self._store.resources.by_name(stack.id, [name])
        if not found:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        if record is None:
            return [row for row in found if row.protection is not None]
        made = [row for row in found if is_made(row)]
        if not made:
            raise InvalidStackState(
                f"Resource {name} of stack {stack.name} has no finished object that could be protected. Protect it once"
                " it is created."
            )
        return made


def _told(event: EventRecord, operation: Operation, user: str, reason: str | None) -> EventRecord:
    """The event of a protection: no stack or resource is ever in such a state."""
    text = f"{operation.value} by {user}{f': {reason}' if reason else ''}"
    return replace(event, verb=operation.name, status=Status.COMPLETE, status_reason=text[:LONGEST_REASON])


def declare(
    store: Store, stack: StackRecord, by: str, now: float, before: JsonMap | None = None, entries: Json = None
) -> None:
    """Protect what the environment of a tree says, and what the record says that it was adopted from.

    In the transaction that ends a create, an update, a restore or an adoption: an object that was not finished, or that
    a rollback removes, is never protected. In the one that begins an update `before` is the environment till then:
    what only the new one protects counts for this update already. `entries` are the resources of the record.
    """
    environment, earlier = Environment.stored(stack.environment), Environment.stored(before or {})
    if not environment.protects_some and not _says_so(entries):
        return
    levels = {stack.id: (environment, earlier, entries)}
    rows: list[ResourceRecord] = []
    events: list[EventRecord] = []
    for one in (stack, *store.stacks.descendants(stack)):
        if one.id not in levels:
            name = one.parent_resource or ""
            above = levels[one.parent_id or ""]
            entry = _entry(above[2], name)
            levels[one.id] = (above[0].within(name), above[1].within(name), entry.get("resources"))
            if entry.get("stack_protection") is not None and one.protection is None:
                store.stacks.save(replace(one, protection=ProtectionRecord(by, now, BY_RECORD)))
                events.append(_told(stack_event(one, now), Operation.PROTECT, by, BY_RECORD))
        for row, reason in _declared(store.resources.of(one.id), *levels[one.id]):
            rows.append(replace(row, protection=ProtectionRecord(by, now, reason)))
            events.append(_told(resource_event(row, now), Operation.PROTECT, by, reason))
    store.resources.save_many(rows)
    store.events.append_many(events)


def _declared(
    rows: list[ResourceRecord], environment: Environment, earlier: Environment, entries: Json
) -> Iterator[tuple[ResourceRecord, str]]:
    """The rows of one stack that get protected now, each with the reason."""
    for row in rows:
        if row.protection is None and is_made(row):
            reason = environment.protection(row.name)
            if reason is not None and earlier.protection(row.name) is None:
                yield row, reason
            elif _entry(entries, row.name).get("protection") is not None:
                yield row, BY_RECORD


def _says_so(entries: Json) -> bool:
    """Whether the resources of a record, or a stack within, were protected."""
    found = entries.values() if isinstance(entries, dict) else ()
    keys = ("protection", "stack_protection")
    return any(
        isinstance(one, dict) and (any(one.get(key) is not None for key in keys) or _says_so(one.get("resources")))
        for one in found
    )


def _entry(entries: Json, name: str) -> JsonMap:
    found = entries.get(name) if isinstance(entries, dict) else None
    return found if isinstance(found, dict) else {}
