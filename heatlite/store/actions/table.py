"""The table of actions: columns, reads, and moves.

The row decides which worker may change a stack: its `owner`, under the number `attempt`, until `lease_until`. Each move
is one of `core.status.MOVES` and adds a line to the history.
"""

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.status import LIVE_ACTIONS, MOVES, PARKED_ACTIONS, ActionStatus, Verb
from heatlite.store.database.statements import Row, Sent, Value
from heatlite.store.errors import UnreadableSecret
from heatlite.store.records import ActionRecord, Announcement, TransitionRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.actions import Action, Transition
from heatlite.store.writes.batch import Table
from heatlite.store.writes.stack_locks import StackLocks

log = logging.getLogger(__name__)


def any_of(statuses: frozenset[ActionStatus]) -> str:
    """Return the SQL condition that follows a column of statuses."""
    return f"IN ({', '.join(repr(str(status)) for status in sorted(statuses))})"


LIVE = f"status {any_of(LIVE_ACTIONS)}"
OPEN = f"status {any_of(LIVE_ACTIONS | {ActionStatus.INIT})}"
PARKED = f"status {any_of(PARKED_ACTIONS)} AND pending = 0"
"""Started, and waiting for child actions or at a breakpoint."""
UNCLAIMED = f"(started_at IS NULL OR verb = '{Verb.RUN}')"
"""Never claimed. No worker claims a run."""
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
        self._table = Table(encryption, ROWS, stack="stack_id")
        self._transitions = Table(encryption, _TRANSITIONS)
        self.has_row_locks = database.backend.has_row_locks
        self.for_update = database.backend.for_update

    # -- rows --------------------------------------------------------------------------------------

    def get(self, action_id: str) -> ActionRecord | None:
        """Return an action by its id."""
        return self._table.first("WHERE id = ?", (action_id,))

    def lock(self, action_id: str) -> ActionRecord | None:
        """Return an action, locked until the transaction ends. Lock its stack first."""
        return self._table.first(f"WHERE id = ?{self.for_update}", (action_id,))

    def history(self, action_id: str) -> list[TransitionRecord]:
        """Return the moves of an action, oldest first."""
        return self._transitions.select("WHERE action_id = ? ORDER BY id", (action_id,))

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
        return self._table.select(rest, parameters)

    def select_in(self, rest: str, values: Sequence[Value]) -> list[ActionRecord]:
        """Return actions, see `Table.select_in`."""
        return self._table.select_in(rest, values)

    def readable(self, rest: str, parameters: Sequence[Value]) -> list[ActionRecord]:
        """Return those actions whose secrets this engine can read.

        Logs each of the others once. `rest` as in `select`.
        """
        found = []
        for row in self.rows(rest, parameters):
            try:
                found.append(self.record(row))
            except UnreadableSecret as error:
                action_id = str(row[ID])
                if action_id not in self._unreadable:
                    self._unreadable.add(action_id)
                    log.error("action %s cannot be read: %s", action_id, error.message)
        return found

    def rows(self, rest: str, parameters: Sequence[Value]) -> Sequence[Row]:
        """Return rows as the database has them; `rest` as in `select`."""
        return self._table.read(rest, parameters)

    def record(self, row: Row) -> ActionRecord:
        """Return the record of one of `rows`. Raises UnreadableSecret."""
        return self._table.records([row])[0]

    def encrypted(self, action: ActionRecord, text: str) -> str:
        """Return a text as the action's row stores it: encrypted if its stack is sealed."""
        return self._encryption.encrypt(text) if self._encryption.sealed_stacks([action.stack_id]) else text

    # -- moves -------------------------------------------------------------------------------------

    def insert(self, records: Sequence[ActionRecord]) -> None:
        """Add actions, with a move from INIT to their status. Raises Duplicate."""
        self._table.insert(records)
        moves = [(record, record.status) for record in records if record.status is not ActionStatus.INIT]
        self._transitions.insert([
            TransitionRecord(
                record.id, record.updated_at or record.created_at, ActionStatus.INIT, after, record.attempt, None, ""
            )
            for record, after in moves
        ])
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
        line = TransitionRecord(action.id, now, action.status, after, action.attempt, action.owner, reason)
        self._transitions.insert([line])
        self._report(action, after, reason)
        self.database.listeners.action_moves(action, after, reason)

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


ROWS = Rows(
    ActionRecord,
    Action,
    computed={
        "name": lambda record: record.name,
        "kind": lambda record: str(record.kind),
        "open_children": lambda _: 0,
        "exclusive_key": exclusive_key,
    },
)
ID = ROWS.columns.index("id")
_TRANSITIONS = Rows(TransitionRecord, Transition)
