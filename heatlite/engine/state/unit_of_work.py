"""Unit of work: the rows and events of one tick, which are written together."""

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.differences import Differences
from heatlite.core.json import JsonMap
from heatlite.core.status import MAX_REASON, Status, Verb, state
from heatlite.engine.state.conflict_rules import Operation
from heatlite.store.feature_store import Update
from heatlite.store.records import EventRecord, PreviousState, ResourceRecord, StackRecord

STACK_TYPE = "OS::Heat::Stack"
MAX_TEXT = 10_000
"""Characters that a row keeps of a text that others write: a type's error, the reason of a mark."""


def shortened(text: str) -> str:
    """Return at most `MAX_TEXT` characters of a text, and the number of all."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} … ({len(text)} characters)"


def stack_event(stack: StackRecord, now: float) -> EventRecord:
    """Return the event of a stack's present state.

    It carries the stack's name as resource name, as Heat's do.
    """
    return EventRecord(
        stack_id=stack.id,
        resource_name=stack.name,
        resource_type=STACK_TYPE,
        physical_id=stack.id,
        verb=stack.verb,
        status=stack.status,
        status_reason=stack.status_reason[:MAX_REASON],
        created_at=now,
    )


def resource_event(row: ResourceRecord, now: float, properties: JsonMap | None = None) -> EventRecord:
    """Return the event of a resource's present state."""
    return EventRecord(
        stack_id=row.stack_id,
        resource_name=row.name,
        resource_type=row.type,
        physical_id=row.physical_id,
        verb=row.verb,
        status=row.status,
        status_reason=row.status_reason[:MAX_REASON],
        created_at=now,
        properties=row.properties if properties is None else properties,
    )


MOVED_FROM = "moved_from"
"""Key in the `data` of a row: the name that it had before a move."""


def moved_text(place: str) -> str:
    """Return the reason of the event of a resource that had another place."""
    return f"Moved from {place}"


MOVED_TO = "Moved to "
"""Begin of the reason of the event of a resource that has left its stack, by its old name."""


def operation_event(row: ResourceRecord, operation: Operation, reason: str, now: float) -> EventRecord:
    """Return the event of an operation that has ended and is no state of the resource."""
    event = resource_event(replace(row, status=Status.COMPLETE, status_reason=reason), now)
    return replace(event, verb=operation.name)


LOCKING = frozenset({Verb.LOCK, Verb.UNLOCK})


def with_state(stack: StackRecord, verb: Verb, status: Status, reason: str) -> StackRecord:
    """Return the stack in a new state.

    The state from before a lock is kept until the next operation other than lock and unlock.
    """
    before = stack.before_lock if stack.verb in LOCKING else state(stack.verb, stack.status)
    before = before if verb in LOCKING else None
    return replace(stack, verb=verb, status=status, status_reason=reason, before_lock=before)


def row_with_state(
    row: ResourceRecord, verb: Verb, status: Status, reason: str, now: float, phase: str | None = None
) -> ResourceRecord:
    """Return the resource in a new state. `before_lock` is kept as in `with_state`.

    `phase`: that of the action that changes it; None: no action does.

    A check or a mark keeps the state of a resource that had failed or was never created (`before_check`). So taking the
    mark back does not make it look healthy.
    """
    before_check = row.before_check if verb in (Verb.CHECK, Verb.LOCK, Verb.UNLOCK) else None
    if verb is Verb.CHECK and status is Status.COMPLETE:
        before_check = None
    elif verb is Verb.CHECK and row.verb not in (Verb.CHECK, Verb.LOCK, Verb.UNLOCK) and before_check is None:
        hidden = row.verb is Verb.INIT or row.status is not Status.COMPLETE
        before_check = PreviousState(row.verb, row.status, row.status_reason, row.updated_at) if hidden else None
    return replace(
        row,
        verb=verb,
        status=status,
        status_reason=reason,
        updated_at=now,
        before_lock=row.before_lock if verb in LOCKING else None,
        before_check=before_check,
        moved_in=phase,
    )


class Writes(Struct, frozen=True):
    """The rows and events of one tick."""

    new: list[ResourceRecord]
    changed: list[ResourceRecord]
    gone: list[str]
    events: list[EventRecord]
    compared: dict[str, tuple[ResourceRecord, Differences]]
    """As the other two, see `ObjectNews`."""
    unseen: dict[str, ResourceRecord]
    updated: dict[str, Update]


class UnitOfWork:
    """The rows of one stack in memory, with unwritten changes and events."""

    def __init__(self, rows: list[ResourceRecord]) -> None:
        self.rows = {row.id: row for row in rows}
        self._names: dict[str, list[str]] = {}
        for row in rows:
            self._names.setdefault(row.name, []).append(row.id)
        self._new: dict[str, ResourceRecord] = {}
        self._changed: dict[str, ResourceRecord] = {}
        self._gone: list[str] = []
        self._events: list[EventRecord] = []
        self._compared: dict[str, tuple[ResourceRecord, Differences]] = {}
        self._unseen: dict[str, ResourceRecord] = {}
        self._updated: dict[str, Update] = {}

    def named(self, name: str) -> list[ResourceRecord]:
        """Return the rows of one name, oldest first."""
        return [self.rows[key] for key in self._names.get(name, ())]

    def insert(self, row: ResourceRecord) -> None:
        """Add a row."""
        self.rows[row.id] = self._new[row.id] = row
        self._names.setdefault(row.name, []).append(row.id)

    def save(self, row: ResourceRecord) -> None:
        """Replace a row."""
        self.rows[row.id] = row
        if row.id in self._new:
            self._new[row.id] = row
        else:
            self._changed[row.id] = row

    def delete(self, row: ResourceRecord) -> None:
        """Remove a row."""
        del self.rows[row.id]
        self._names[row.name].remove(row.id)
        self._changed.pop(row.id, None)
        if self._new.pop(row.id, None) is None:
            self._gone.append(row.id)

    def record_event(self, event: EventRecord) -> None:
        """Add an event."""
        self._events.append(event)

    def note_compared(self, row: ResourceRecord, found: Differences) -> None:
        """Note what differs between a row and its object."""
        self._compared[row.id] = row, found

    def note_unseen(self, row: ResourceRecord) -> None:
        """Note that a row could not be compared with its object."""
        self._unseen[row.id] = row

    def note_updated(self, row: ResourceRecord, names: frozenset[str], is_observed: bool) -> None:
        """Note that an update has written properties of a row's object. See `Update`."""
        self._updated[row.id] = Update(row, names, is_observed)

    @property
    def dirty(self) -> bool:
        """True if there is anything to write."""
        return bool(self._new or self._changed or self._gone or self._events)

    def take(self) -> Writes:
        """Return everything that is not written yet, and count it as written."""
        writes = Writes(
            list(self._new.values()),
            list(self._changed.values()),
            self._gone,
            self._events,
            self._compared,
            self._unseen,
            self._updated,
        )
        self._new, self._changed, self._gone, self._events = {}, {}, [], []
        self._compared, self._unseen, self._updated = {}, {}, {}
        return writes
