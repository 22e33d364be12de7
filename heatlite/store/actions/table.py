"""The table of actions: columns, reads, and moves.

The row decides which worker may change a stack: its `owner`, under the number `attempt`, until `lease_until`. Each move
is one of `core.status.MOVES` and adds a line to the history.
"""

import logging
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from heatlite.core.action_payloads import ActionData, ActionInputs, ActionOutputs
from heatlite.core.json import dump, parse
from heatlite.core.status import (
    LIVE_ACTIONS,
    MOVES,
    PARKED_ACTIONS,
    ActionStatus,
    Cause,
    Control,
    Verb,
)
from heatlite.store.batch import Table
from heatlite.store.database.statements import Row, Sent, Value
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import ActionRecord, Announcement
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.stack_locks import StackLocks
from heatlite.store.tables.actions import Action, Transition

log = logging.getLogger(__name__)

COLUMNS = (
    "id", "stack_id", "root_id", "project", "verb", "status", "requested_by", "created_at", "cause", "inputs",
    "outputs", "data", "context", "secrets", "status_reason", "control", "interval", "not_before", "timeout",
    "retries", "pending", "failed_dependencies", "zone", "owner", "attempt", "lease_until", "started_at",
    "finished_at", "suspended_at", "suspended", "updated_at", "deadline", "commits", "seq", "parent_id",
    "urgent", "takeovers",
)  # fmt: skip
"""Columns of an `ActionRecord`, named as its fields."""
_WRITTEN = tuple(column for column in COLUMNS if column not in ("id", "seq"))
_PAYLOADS: dict[str, type[ActionInputs | ActionOutputs | ActionData]] = {
    "inputs": ActionInputs,
    "outputs": ActionOutputs,
    "data": ActionData,
}


def any_of(statuses: frozenset[ActionStatus]) -> str:
    """Return the SQL condition that follows a column of statuses."""
    return f"IN ({', '.join(repr(str(status)) for status in sorted(statuses))})"


LIVE = f"status {any_of(LIVE_ACTIONS)}"
OPEN = f"status {any_of(LIVE_ACTIONS | {ActionStatus.INIT})}"
PARKED = f"status {any_of(PARKED_ACTIONS)} AND pending = 0"
"""Started, and waiting for child actions or at a breakpoint."""
UNCLAIMED = "(started_at IS NULL OR verb = 'PLAYBOOK')"
"""Never claimed. No worker claims a run of a playbook."""
HELD = "WHERE id = ? AND owner = ? AND attempt = ?"
"""The fence: the worker still holds the action. See `held`. Only a RUNNING action has an owner.

The status is no condition here. MariaDB would then choose the index of the status, and lock the row in another order
than `ActionTable.lock` does.
"""


STILL = "id = ? AND attempt = ? AND COALESCE(status, '') = ?"
"""Condition for an action that has not moved since it was read: its id, attempt and status.

A bare `status = ?` would let MariaDB choose the index of the status, see `HELD`.
"""


class ActionTable:
    """Reads, writes and moves rows of actions.

    On a database server a read can lock its rows. SQLite has one writer at a time and needs no such locks.
    """

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self.database = database = encryption.database
        self._stack_locks = StackLocks(database)
        self._unreadable: set[str] = set()
        """Ids of the actions that `readable` has logged."""
        fixed = (*_WRITTEN, "name", "kind", "open_children", "exclusive_key")
        self._table = Table(encryption, Action, (), key="id", fixed=fixed, stack="stack_id")
        columns = ("time", "before", "after", "attempt", "owner", "reason")
        self._transitions = Table(encryption, Transition, (), key="action_id", fixed=columns)
        self._select = f"SELECT {database.quote(*COLUMNS)} FROM {self._table.name} "
        self.has_row_locks = database.backend.has_row_locks
        self.for_update = database.backend.for_update

    # -- rows --------------------------------------------------------------------------------------

    def get(self, action_id: str) -> ActionRecord | None:
        """Return an action by its id."""
        found = self.select("WHERE id = ?", (action_id,))
        return found[0] if found else None

    def lock(self, action_id: str) -> ActionRecord | None:
        """Return an action, locked until the transaction ends. Lock its stack first."""
        found = self.select(f"WHERE id = ?{self.for_update}", (action_id,))
        return found[0] if found else None

    def lock_stack(self, action: ActionRecord) -> Sent | None:
        """Lock the stack of an action, by `Database.send`.

        The answer has its id and `sealed`. None: the database has no row locks, or the transaction has locked the stack
        by this call before. Call it before locking the action. Requests lock in the same order, so that the two cannot
        deadlock.
        """
        memo, key = self.database.transaction_memo, f"lock of {action.id}"
        if not self.has_row_locks or key in memo:
            return None
        memo[key] = 1
        self._stack_locks.note((action.stack_id,))
        return self.database.send(f"SELECT id, sealed FROM stack WHERE id = ?{self.for_update}", (action.stack_id,))

    def remember_stack(self, locked: Sent | None) -> None:
        """Remember whether a stack is sealed, from the answer of `lock_stack`."""
        for stack_id, is_sealed in locked.rows() if locked else ():
            self._encryption.remember(str(stack_id), bool(is_sealed))

    def select(self, rest: str, parameters: Sequence[Value]) -> list[ActionRecord]:
        """Return actions. `rest` is SQL from WHERE on, with ``?`` for each parameter."""
        return [self.record(row) for row in self.rows(rest, parameters)]

    def readable(self, rest: str, parameters: Sequence[Value]) -> list[ActionRecord]:
        """Return those actions whose secrets this engine can read.

        Logs each of the others once. `rest` as in `select`.
        """
        found = []
        for row in self.rows(rest, parameters):
            try:
                found.append(self.record(row))
            except UnreadableSecret as error:
                action_id = str(row[COLUMNS.index("id")])
                if action_id not in self._unreadable:
                    self._unreadable.add(action_id)
                    log.error("action %s cannot be read: %s", action_id, error.message)
        return found

    def rows(self, rest: str, parameters: Sequence[Value]) -> Sequence[Row]:
        """Return rows with COLUMNS; `rest` as in `select`."""
        return self.database.read(self._select + rest, parameters)

    def record(self, row: Row) -> ActionRecord:
        """Return the record of a row with COLUMNS. Raises UnreadableSecret."""
        return record_of(row, self._encryption)

    def encrypted(self, action: ActionRecord, text: str) -> str:
        """Return a text as the action's row stores it: encrypted if its stack is sealed."""
        return self._encryption.encrypt(text) if self._encryption.sealed_stacks([action.stack_id]) else text

    # -- moves -------------------------------------------------------------------------------------

    def insert(self, records: Sequence[ActionRecord]) -> None:
        """Add actions, with a move from INIT to their status. Raises Duplicate."""
        self._table.insert([_row(record) for record in records])
        moves = [(record, record.status) for record in records if record.status is not ActionStatus.INIT]
        self._transitions.insert(
            [(record.id, record.created_at, "INIT", after, record.attempt, None, "") for record, after in moves]
        )
        for record, after in moves:
            self._report(replace(record, status=ActionStatus.INIT), after, "")
            if after is ActionStatus.READY:
                self.announce(record, is_ready=True)

    def move(self, action: ActionRecord, after: ActionStatus, now: float, reason: str = "", **columns: Value) -> bool:
        """Move an action and write `columns`.

        Returns False, and writes nothing, if it has moved since it was read.
        """
        values: dict[str, Value] = {"status": after, "updated_at": now, **columns}
        changes = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE action SET {changes} WHERE {STILL}"
        if self.database.write(sql, (*values.values(), action.id, action.attempt, action.status)) == 0:
            return False
        self.record_move(action, after, now, reason)
        if after is ActionStatus.READY:
            self.announce(action, is_ready=True)
        return True

    def record_move(self, action: ActionRecord, after: ActionStatus, now: float, reason: str = "") -> None:
        """Add a line of history and call the listeners.

        `action` is as it was before the move.
        """
        if after not in MOVES[action.status]:
            raise RuntimeError(f"action {action.id}: no move leads from {action.status} to {after}")
        self._transitions.insert([(action.id, now, action.status, after, action.attempt, action.owner, reason)])
        self._report(action, after, reason)
        if action.verb is Verb.PLAYBOOK:
            self.database.listeners.run_moved(action, after, reason)

    def _report(self, action: ActionRecord, after: ActionStatus, reason: str) -> None:
        self.database.after_commit(lambda: self.database.listeners.action_moved(action, after, reason))

    def announce(self, action: ActionRecord, is_ready: bool) -> None:
        """Announce after the commit that an action is READY or has a control signal."""
        announcement = Announcement(action.id, action.kind, action.zone, is_ready, action.stack_id, action.verb)
        self.database.after_commit(lambda: self.database.listeners.action_announced(announcement))


def held(action: ActionRecord) -> tuple[Value, ...]:
    """Return the parameters of HELD."""
    return action.id, action.owner, action.attempt


def exclusive_key(record: ActionRecord) -> str | None:
    """Return the key that the action holds alone; None if it holds nothing."""
    if record.status is ActionStatus.INIT:
        return f"{record.stack_id}:every:{record.verb}" if record.interval else None
    if record.status not in LIVE_ACTIONS:
        return None
    if record.verb is Verb.DELETE:
        return record.stack_id + (":force" if record.inputs.force else ":delete")
    return record.stack_id


def _row(record: ActionRecord) -> tuple[Value, ...]:
    values = {column: getattr(record, column) for column in _WRITTEN}
    for column in _PAYLOADS:
        values[column] = dump(values[column])
    values["context"] = dump(record.context)
    return (record.id, *values.values(), record.name, record.kind, 0, exclusive_key(record))


def record_of(row: Row, encryption: FieldEncryption) -> ActionRecord:
    """Return the record of a row with COLUMNS. Raises UnreadableSecret."""
    fields = dict(zip(COLUMNS, row, strict=True))
    for column, payload in _PAYLOADS.items():
        fields[column] = msgspec.json.decode(encryption.decrypt(fields[column]), type=payload)
    fields["context"] = parse(encryption.decrypt(fields["context"]))
    fields["verb"] = Verb(fields["verb"])
    fields["status"] = ActionStatus(fields["status"])
    fields["cause"] = Cause(fields["cause"])
    fields["control"] = None if fields["control"] is None else Control(fields["control"])
    fields["urgent"] = bool(fields["urgent"])
    return ActionRecord(**fields)
