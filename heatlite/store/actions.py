"""The queue of actions: put, claim, hold, finish (actions-design §1 to §3).

The row is the truth: who may work on a stack is what `owner`, `attempt` and `lease_until` say, and every
write of a worker goes through the fence, `hold`.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from heatlite.core.errors import ActionConflict
from heatlite.core.json import dump
from heatlite.core.status import LIVE_ACTIONS, ActionStatus, Control, Verb
from heatlite.store.batch import Table, in_parts
from heatlite.store.database import Database, Dialect, Row, Value
from heatlite.store.errors import Duplicate, Fenced
from heatlite.store.records import ActionRecord
from heatlite.store.tables import Action

_COLUMNS = (
    "stack_id",
    "root_id",
    "project",
    "verb",
    "status",
    "requested_by",
    "created_at",
    "inputs",
    "status_reason",
    "control",
    "waits_for",
    "owner",
    "attempt",
    "lease_until",
    "started_at",
    "finished_at",
    "deadline",
    "parent_id",
    "urgent",
)

_LIVE = "status IN ('READY', 'WAITING', 'RUNNING')"
_PARKED = "status = 'WAITING' AND waits_for IS NULL"
"""It waits for the actions derived from it, or at a breakpoint."""
_MINE = "WHERE id = ? AND owner = ? AND attempt = ? AND status = 'RUNNING'"


class Actions:
    """The actions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = Table(database, Action, (), key="id", fixed=(*_COLUMNS, "open_children", "exclusive_key"))
        self._read = f"SELECT {database.quote('id', *_COLUMNS[:-2], 'seq', *_COLUMNS[-2:])} FROM {self._table.name} "
        # A server lets two transactions read the same row; SQLite has one writer anyway.
        served = database.dialect is not Dialect.SQLITE
        self._served = served
        self._for_update = " FOR UPDATE" if served else ""
        self._skip_locked = " FOR UPDATE SKIP LOCKED" if served else ""

    # -- the queue's side --------------------------------------------------------------------------

    def put(self, record: ActionRecord) -> None:
        """Queue an action. One that waits for an action that has ended already is READY.

        A stack has at most one live action beside a DELETE, and one DELETE; raises ActionConflict.
        """
        if record.waits_for is not None:
            awaited = self._select(f"WHERE id = ?{self._for_update}", (record.waits_for,))
            if not any(found.status in LIVE_ACTIONS for found in awaited):
                record = replace(record, status=ActionStatus.READY)
        try:
            self._table.insert([_row(record)])
        except Duplicate as error:
            raise ActionConflict(
                f"Another request for stack {record.stack_id} came first: it has an action already. Try again later."
            ) from error

    def put_many(self, records: Sequence[ActionRecord]) -> None:
        """Queue actions derived from one that runs; none of them waits for another. Raises ActionConflict."""
        try:
            self._table.insert([_row(record) for record in records])
        except Duplicate as error:
            raise ActionConflict("A nested stack has another action already. Try again later.") from error

    def get(self, action_id: str) -> ActionRecord | None:
        """An action by its id."""
        found = self._select("WHERE id = ?", (action_id,))
        return found[0] if found else None

    def live(self, stack_ids: Sequence[str]) -> list[ActionRecord]:
        """What is queued, waits or runs on any of the stacks, oldest first."""
        out: list[ActionRecord] = []
        for some in in_parts(stack_ids):
            out += self._select(f"WHERE stack_id IN ({', '.join('?' * len(some))}) AND {_LIVE}", some)
        return sorted(out, key=lambda found: found.seq)

    def signal(self, action_id: str, control: Control) -> bool:
        """Ask a live action for something. False when it has ended, or has to stop for a delete anyway."""
        unless = "" if control is Control.ABORT else " AND (control IS NULL OR control <> 'ABORT')"
        sql = f"UPDATE action SET control = ? WHERE id = ? AND {_LIVE}{unless}"
        taken = self._write(sql, (control, action_id)) == 1
        if taken:
            self.unpark(action_id)
        return taken

    def cancel_queued(self, stack_ids: Sequence[str], reason: str, now: float) -> list[str]:
        """End what has not been started on the stacks, as CANCELLED; the ids of those actions."""
        ended: list[str] = []
        for found in self.live(stack_ids):
            if found.status is not ActionStatus.RUNNING and found.started_at is None:
                sql = (
                    "UPDATE action SET status = 'CANCELLED', status_reason = ?, finished_at = ?, exclusive_key = NULL "
                    "WHERE id = ? AND status IN ('READY', 'WAITING') AND started_at IS NULL"
                )
                if self._write(sql, (reason, now, found.id)):
                    self._wake(found.id)
                    ended.append(found.id)
        return ended

    # -- the worker's side -------------------------------------------------------------------------

    def claim(self, owner: str, now: float, lease: float) -> ActionRecord | None:
        """Take the next action for `lease` seconds: one whose worker is gone, else the oldest READY one."""
        if not (self._claimable(owner, now) or self._database.in_transaction):
            return None  # An idle worker that asks again and again takes no lock.
        with self._database.transaction():
            found = self._claimable(owner, now, self._skip_locked)
            if found is None:
                return None
            claimed = replace(
                found,
                status=ActionStatus.RUNNING,
                owner=owner,
                attempt=found.attempt + 1,
                lease_until=now + lease,
                started_at=now if found.started_at is None else found.started_at,
            )
            self._write(
                "UPDATE action SET status = 'RUNNING', owner = ?, attempt = ?, lease_until = ?, started_at = ? "
                "WHERE id = ?",
                (owner, claimed.attempt, claimed.lease_until, claimed.started_at, claimed.id),
            )
            return claimed

    def hold(self, action_id: str, owner: str, attempt: int, now: float, lease: float) -> Control | None:
        """The fence: prolong the lease and tell what is asked of the action. Raises Fenced.

        In a transaction it keeps the action from being taken over until the transaction ends.
        """
        self._hold_stack(action_id)
        sql = f"UPDATE action SET lease_until = ? {_MINE}"
        if self._write(sql, (now + lease, action_id, owner, attempt)) == 0:
            raise Fenced(action_id)
        mark = self._database.mark
        ((control,),) = self._database.read(f"SELECT control FROM action WHERE id = {mark}", (action_id,))
        return None if control is None else Control(control)

    def hold_parent(self, action: ActionRecord) -> None:
        """Keep the action that this one derives from as it is until the transaction ends.

        To be called before `hold` where `finish` follows: the parent either sees this one ended, or is woken by it.
        """
        if self._served and action.parent_id is not None:
            self._database.read("SELECT id FROM action WHERE id = %s FOR UPDATE", (action.parent_id,))

    def finish(self, action: ActionRecord, status: ActionStatus, reason: str, now: float) -> None:
        """End an action that this worker holds and make READY what waits for it. Raises Fenced.

        A parent that waits for several goes on when the last has ended, or one that is urgent, or one that has failed.
        """
        self._hold_stack(action.id)
        sql = (
            "UPDATE action SET status = ?, status_reason = ?, finished_at = ?, lease_until = NULL, "
            f"exclusive_key = NULL {_MINE}"
        )
        if self._write(sql, (status, reason, now, action.id, action.owner, action.attempt)) == 0:
            raise Fenced(action.id)
        self._wake(action.id)
        if action.parent_id is not None:
            self._wake_parent(action.parent_id, action.urgent or status is not ActionStatus.SUCCEEDED)

    def _wake_parent(self, action_id: str, at_once: bool) -> None:
        if not at_once:
            sql = f"SELECT 1 FROM action WHERE parent_id = ? AND {_LIVE} LIMIT 1"
            if self._database.read(self._marked(sql), (action_id,)):
                return
        self.unpark(action_id)

    def unpark(self, action_id: str) -> None:
        """Make READY what its worker has let go of: something has happened that it waits for."""
        self._write(f"UPDATE action SET status = 'READY' WHERE id = ? AND {_PARKED}", (action_id,))

    def park(self, action: ActionRecord, children: int) -> bool:
        """Let go of an action that only waits for `children` derived ones; False if one of them has ended already.

        In a transaction after `hold`.
        """
        sql = f"SELECT COUNT(*) FROM action WHERE parent_id = ? AND {_LIVE}"
        ((count,),) = self._database.read(self._marked(sql), (action.id,))
        if count < children:
            return False
        sql = (
            "UPDATE action SET status = 'WAITING', waits_for = NULL, owner = NULL, lease_until = NULL,"
            f" open_children = ? {_MINE} AND control IS NULL"
        )
        return self._write(sql, (count, action.id, action.owner, action.attempt)) == 1

    def wake_parked(self, now: float) -> int:
        """Make READY what waits for derived actions of which one has ended since, or whose time is up."""
        sql = (
            f"SELECT id FROM action WHERE {_PARKED} AND (deadline <= ? OR open_children > "
            "(SELECT COUNT(*) FROM action AS child WHERE child.parent_id = action.id"
            " AND child.status IN ('READY', 'WAITING', 'RUNNING')))"
        )
        woken = 0
        for (action_id,) in self._database.read(self._marked(sql), (now,)):
            with self._database.transaction():
                woken += self._write(f"UPDATE action SET status = 'READY' WHERE id = ? AND {_PARKED}", (action_id,))
        return woken

    def ended(self, action_ids: Sequence[str]) -> list[ActionRecord]:
        """Those of the actions that have ended."""
        out: list[ActionRecord] = []
        for some in in_parts(action_ids):
            out += self._select(f"WHERE id IN ({', '.join('?' * len(some))}) AND NOT {_LIVE}", some)
        return out

    def derived(self, parent_id: str, stack_id: str) -> ActionRecord | None:
        """The live action on a stack that was derived from `parent_id`."""
        found = self._select(f"WHERE parent_id = ? AND stack_id = ? AND {_LIVE}", (parent_id, stack_id))
        return found[0] if found else None

    def turn_back(self, action_id: str, deadline: float) -> None:
        """A rollback begins, with its own time: a cancel has been obeyed; what else is asked stays."""
        sql = (
            "UPDATE action SET deadline = ?, control = "
            "CASE WHEN control IN ('CANCEL', 'CANCEL_ROLLBACK') THEN NULL ELSE control END WHERE id = ?"
        )
        self._write(sql, (deadline, action_id))

    def running_children(self, parent_id: str) -> list[str]:
        """The ids of the live actions that were derived from `parent_id`."""
        return [found.id for found in self._select(f"WHERE parent_id = ? AND {_LIVE}", (parent_id,))]

    def controls(self, owner: str) -> dict[str, Control]:
        """What is asked of the actions that this worker runs, by action id."""
        mark = self._database.mark
        rows = self._database.read(
            f"SELECT id, control FROM action WHERE status = 'RUNNING' AND owner = {mark} AND control IS NOT NULL",
            (owner,),
        )
        return {action_id: Control(control) for action_id, control in rows}

    def running(self, owner: str) -> list[str]:
        """The ids of everything that this worker runs."""
        sql = "SELECT id FROM action WHERE status = 'RUNNING' AND owner = ?"
        return [action_id for (action_id,) in self._database.read(self._marked(sql), (owner,))]

    def renew(self, owner: str, action_id: str, until: float) -> None:
        """Prolong the lease of an action that this worker runs. One to a transaction: several rows taken together meet
        those that others take in another order."""
        sql = "UPDATE action SET lease_until = ? WHERE id = ? AND status = 'RUNNING' AND owner = ?"
        self._write(sql, (until, action_id, owner))

    def give_back(self, owner: str, action_id: str | None = None) -> None:
        """Queue again what this worker runs, or one action of it."""
        one = "" if action_id is None else " AND id = ?"
        sql = (
            "UPDATE action SET status = 'READY', owner = NULL, lease_until = NULL "
            f"WHERE status = 'RUNNING' AND owner = ?{one}"
        )
        self._write(sql, (owner,) if action_id is None else (owner, action_id))

    def reclaim_all(self, now: float) -> None:
        """End every lease. Only for an engine that knows itself alone: it holds the engine's lock."""
        self._write("UPDATE action SET lease_until = ? WHERE status = 'RUNNING'", (now,))

    # -- SQL -----------------------------------------------------------------------------------------

    def _claimable(self, owner: str, now: float, locking: str = "") -> ActionRecord | None:
        """Never what `owner` itself runs: a machine that wakes from sleep finds its own leases expired."""
        one = f"ORDER BY seq LIMIT 1{locking}"
        found = self._select(f"WHERE status = 'RUNNING' AND lease_until <= ? AND owner <> ? {one}", (now, owner))
        found = found or self._select(f"WHERE status = 'READY' {one}", ())
        return found[0] if found else None

    def _hold_stack(self, action_id: str) -> None:
        """On a server: take the stack before its action, as requests do (`Stacks.hold`), or the two may deadlock."""
        if self._served:
            sql = "SELECT id FROM stack WHERE id = (SELECT stack_id FROM action WHERE id = %s) FOR UPDATE"
            self._database.read(sql, (action_id,))

    def _wake(self, action_id: str) -> None:
        # By ids: a change that looks for its rows takes those of others on its way, and two of them meet (MariaDB).
        waiting = "status = 'WAITING' AND waits_for = ?"
        for (found,) in self._database.read(self._marked(f"SELECT id FROM action WHERE {waiting}"), (action_id,)):
            self._write(f"UPDATE action SET status = 'READY' WHERE id = ? AND {waiting}", (found, action_id))

    def _select(self, rest: str, parameters: Sequence[Value]) -> list[ActionRecord]:
        return [_record(row) for row in self._database.read(self._read + self._marked(rest), parameters)]

    def _write(self, sql: str, parameters: Sequence[Value]) -> int:
        return self._database.write(self._marked(sql), parameters)

    def _marked(self, sql: str) -> str:
        return sql.replace("?", self._database.mark)


def _row(record: ActionRecord) -> tuple[Value, ...]:
    key = record.stack_id
    if record.verb is Verb.DELETE:
        key += ":force" if record.inputs.get("force") else ":delete"
    return (
        record.id,
        record.stack_id,
        record.root_id,
        record.project,
        record.verb,
        record.status,
        record.requested_by,
        record.created_at,
        dump(record.inputs),
        record.status_reason,
        record.control,
        record.waits_for,
        record.owner,
        record.attempt,
        record.lease_until,
        record.started_at,
        record.finished_at,
        record.deadline,
        record.parent_id,
        record.urgent,
        0,
        key if record.status in LIVE_ACTIONS else None,
    )


def _record(row: Row) -> ActionRecord:
    (
        identifier,
        stack_id,
        root_id,
        project,
        verb,
        status,
        requested_by,
        created_at,
        inputs,
        status_reason,
        control,
        *others,
    ) = row
    return ActionRecord(
        identifier,
        stack_id,
        root_id,
        project,
        Verb(verb),
        ActionStatus(status),
        requested_by,
        created_at,
        json.loads(inputs),
        status_reason,
        None if control is None else Control(control),
        *others,
    )
