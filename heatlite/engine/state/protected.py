"""Protected stacks and resources (docs/decisions/0024-protection.md)."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.errors import DeletionProtected
from heatlite.core.json import Json, JsonMap, as_map, canonical
from heatlite.core.status import MAX_REASON, Status, Verb
from heatlite.core.wire.why import Holder, WayOut
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.unit_of_work import resource_event, stack_event
from heatlite.engine.state.ways_out import unprotect
from heatlite.store.records import EventRecord, ProtectionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.environment import Environment


class Protected(Struct, frozen=True):
    """A stack that is protected, or a resource of it."""

    stack: StackRecord
    resource: str | None
    """The resource's name; None: the stack itself."""
    record: ProtectionRecord

    @property
    def way_out(self) -> WayOut:
        """Return the step that lifts the protection."""
        return unprotect(self.stack, self.resource)

    def refusal(self, stack: StackRecord) -> DeletionProtected:
        """Return the error of a deletion of a stack."""
        kind, key = ("stack", self.stack.id) if self.resource is None else ("resource", self.resource)
        held = Holder(kind=kind, id=key, by=self.record.by, since=to_text(self.record.at))
        return DeletionProtected(
            f"Stack {stack.name} is not deleted: {self.text}", holder=held, way_out=[self.way_out]
        )

    @property
    def text(self) -> str:
        """Return the text of the refusal.

        It names the protected object, time, author, reason, and the command that lifts the protection.
        """
        stack, record = self.stack, self.record
        what = f"stack {stack.name}" if self.resource is None else f"resource {self.resource} of stack {stack.name}"
        reason = f"reason: {record.reason}" if record.reason else "no reason given"
        body = canonical({"unprotect": None if self.resource is None else {"resource": self.resource}})
        return (
            f"{what} is protected since {to_text(record.at)} by {record.by}, {reason}. To lift that:"
            f" {self.way_out.command}, or POST {self.way_out.path} with the body {body}."
        )


def is_made(row: ResourceRecord) -> bool:
    """True if the row has a finished object that is not being deleted."""
    last = row.before_check or row.state_without_lock
    if last.verb in (Verb.CREATE, Verb.ADOPT):
        return last.status is Status.COMPLETE
    return last.verb not in (Verb.INIT, Verb.DELETE)


def first_within(store: Store, stacks: Sequence[StackRecord]) -> Protected | None:
    """Return the first protected stack, or the first protected resource of the stacks."""
    for stack in stacks:
        if stack.protection is not None:
            return Protected(stack, None, stack.protection)
    row = store.resources.protected([stack.id for stack in stacks])
    if row is None or row.protection is None:
        return None
    return Protected(next(stack for stack in stacks if stack.id == row.stack_id), row.name, row.protection)


def against_deletion(store: Store, stack: StackRecord) -> Protected | None:
    """Return the protection that forbids deleting a stack with its tree.

    It may be that of a part of the tree, or of an ancestor.
    """
    below = stack
    for above in store.stacks.ancestors(stack):
        for row in store.resources.by_name(above.id, [below.parent_resource or ""]):
            if row.physical_id == below.id and row.protection is not None:
                return Protected(above, row.name, row.protection)
        if above.protection is not None:
            return Protected(above, None, above.protection)
        below = above
    return first_within(store, [stack, *store.resources.attached(store.stacks.descendants(stack))])


PROTECTED_BEFORE = "the stack was adopted with it"


def protection_event(event: EventRecord, operation: Operation, user: str, reason: str | None) -> EventRecord:
    """Return the event of a protection. No stack or resource is ever in such a state."""
    text = f"{operation.value} by {user}{f': {reason}' if reason else ''}"
    return replace(event, verb=operation.name, status=Status.COMPLETE, status_reason=text[:MAX_REASON])


def declare(
    store: Store, stack: StackRecord, by: str, now: float, before: JsonMap | None = None, entries: Json = None
) -> None:
    """Protect the resources that the environment or an adopted record declares.

    Called in the transaction that ends a create, update, restore or adoption: unfinished objects, and those that a
    rollback removes, are never protected. An update also calls it in its first transaction, with `before`, the earlier
    environment: new declarations protect during this update already. `entries` are the resources of the record.
    """
    blocks = as_map(stack.environment.get("resource_registry")).get("resources")
    if not blocks and not _says_so(entries):
        return  # most stacks: their environment need not be read
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
                store.stacks.save(replace(one, protection=ProtectionRecord(by, now, PROTECTED_BEFORE)))
                events.append(protection_event(stack_event(one, now), Operation.PROTECT, by, PROTECTED_BEFORE))
        for row, reason in _declared(store.resources.of(one.id), *levels[one.id]):
            rows.append(replace(row, protection=ProtectionRecord(by, now, reason)))
            events.append(protection_event(resource_event(row, now), Operation.PROTECT, by, reason))
    store.resources.save_many(rows)
    store.events.append_many(events)


def _declared(
    rows: list[ResourceRecord], environment: Environment, earlier: Environment, entries: Json
) -> Iterator[tuple[ResourceRecord, str]]:
    """Return the rows of one stack to protect now, each with the reason."""
    for row in rows:
        if row.protection is None and is_made(row):
            reason = environment.protection(row.name)
            if reason is not None and earlier.protection(row.name) is None:
                yield row, reason
            elif _entry(entries, row.name).get("protection") is not None:
                yield row, PROTECTED_BEFORE


def _says_so(entries: Json) -> bool:
    """True if a stack document declares protection for a resource or a nested stack."""
    found = entries.values() if isinstance(entries, dict) else ()
    keys = ("protection", "stack_protection")
    return any(
        isinstance(one, dict) and (any(one.get(key) is not None for key in keys) or _says_so(one.get("resources")))
        for one in found
    )


def _entry(entries: Json, name: str) -> JsonMap:
    return as_map(as_map(entries).get(name))
