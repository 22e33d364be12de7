"""Claims: workers take actions, keep their leases, and give actions back."""

import logging
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData
from heatlite.core.json import dump
from heatlite.core.status import ActionStatus, Control, WorkKind
from heatlite.store.actions.table import HELD, ID, ActionTable, held
from heatlite.store.database.sql import chunks, marks
from heatlite.store.database.statements import Row, Value
from heatlite.store.errors import AlreadyCommitted, Fenced, UnreadableSecret
from heatlite.store.records import ActionRecord

log = logging.getLogger(__name__)

MAX_TAKEOVER_DELAY = 60.0
"""Seconds before a takeover, at most."""
UNREADABLE_DELAY = 10.0
"""Seconds until an action is tried again whose secrets an engine cannot read. Another one may have the key."""
ANY_TAKEOVERS = 2**31 - 1
"""Limit of a claim that accepts any action: the largest number of the column."""

_EXPIRED = "status = 'RUNNING' AND lease_until <= ? AND owner <> ?"
"""The lease has run out. Not the claimer's own: a machine that wakes from sleep finds its own leases expired."""
_READY = "status = 'READY' AND (not_before IS NULL OR not_before <= ?) AND takeovers <= ?"
# By its primary key, the only index entry that MariaDB has locked so far. Others lock the id first, then that key:
# a condition on the id could deadlock.
_CLAIM = (
    "UPDATE action SET status = 'RUNNING', owner = ?, attempt = ?, lease_until = ?, started_at = ?, updated_at = ?,"
    " takeovers = ? WHERE seq = ?"
)
_DELAY = (
    "UPDATE action SET status = 'READY', owner = NULL, lease_until = NULL, attempt = attempt + 1,"
    " takeovers = takeovers + 1, not_before = ?, updated_at = ? WHERE seq = ?"
)

# The time may be from before a wait for locks, and the heartbeat from after it.
_LEASE = "lease_until = CASE WHEN lease_until > ? THEN lease_until ELSE ? END"
"""Extends a lease, and never shortens it. Its parameter comes twice."""


class Claims:
    """Grants leases on actions to workers, renews and ends them.

    `renew` and `begin_commit` are the fence: a worker calls one of them in each transaction in which it writes.
    """

    def __init__(self, actions: ActionTable) -> None:
        self._database = actions.database
        self._actions = actions
        self._skip_locked = self._database.backend.for_update_free
        self._put_off: dict[str, float] = {}
        """Ids of the actions that this engine leaves to others, with the time to try again."""

    # -- claim -------------------------------------------------------------------------------------

    def claim_many(
        self,
        most: int,
        owner: str,
        now: float,
        lease: float,
        action_id: str | None = None,
        kinds: frozenset[WorkKind] | None = None,
        zones: frozenset[str] | None = None,
        max_takeovers: int = ANY_TAKEOVERS,
    ) -> list[ActionRecord]:
        """Claim actions with an expired lease, else the oldest READY ones, in one commit.

        At most `most`; on a server one, because several locked rows could deadlock. The lease is in seconds.
        `action_id` restricts the claim to that action, `kinds` and `zones` to those; None: no restriction. An action
        without a zone fits any worker. A takeover after a takeover without progress is delayed, see `takeover_delay`.
        READY actions with more than `max_takeovers` takeovers are left for older workers.
        """
        only, values = _restriction(action_id, kinds, zones, self._left_to_others(now))
        # A named action is probably there, and a server locks no more than its row.
        is_worth = self._database.in_transaction or (action_id is not None and self._actions.has_row_locks)
        if not (is_worth or self._has_claimable(owner, now, only, values, max_takeovers)):
            return []  # an idle worker polls without a lock
        while True:
            with self._database.transaction():
                if action_id is None:
                    limit = 1 if self._actions.has_row_locks else most
                    rows = self._claimable(owner, now, only, values, max_takeovers, limit)
                else:
                    rows = self._claimable_one(owner, now, only, values, max_takeovers)
                claimed = self._claim_rows(rows, owner, now, lease)
                if claimed or not rows:
                    return claimed
            only, values = _restriction(action_id, kinds, zones, self._left_to_others(now))

    def _claimable(
        self, owner: str, now: float, only: str, values: Sequence[Value], max_takeovers: int, limit: int
    ) -> Sequence[Row]:
        first = f"{only} ORDER BY seq LIMIT {limit}{self._skip_locked}"
        found = self._actions.rows(f"WHERE {_EXPIRED}{first}", (now, owner, *values))
        return found or self._actions.rows(f"WHERE {_READY}{first}", (now, max_takeovers, *values))

    def _claimable_one(
        self, owner: str, now: float, only: str, values: Sequence[Value], max_takeovers: int
    ) -> Sequence[Row]:
        """Do as `_claimable` in one statement, for a restriction to one action."""
        rest = f"WHERE (({_EXPIRED}) OR ({_READY})){only}{self._skip_locked}"
        return self._actions.rows(rest, (now, owner, now, max_takeovers, *values))

    def _claim_rows(self, rows: Sequence[Row], owner: str, now: float, lease: float) -> list[ActionRecord]:
        """Claim what is readable and need not be delayed.

        An action that was taken over without progress is the last one.
        """
        claimed: list[ActionRecord] = []
        for row in rows:
            try:
                found = self._actions.record(row)
            except UnreadableSecret as error:
                log.error("action %s cannot be claimed: %s", row[ID], error.message)
                self.put_off(row[ID], now)
                continue
            if found.owner is not None and found.takeovers > 0:
                self._delay_takeover(found, now)
                continue
            claimed.append(self._claim(found, owner, now, lease))
            if claimed[-1].takeovers:
                break
        return claimed

    def _has_claimable(
        self, owner: str, now: float, only: str, values: Sequence[Value], max_takeovers: int
    ) -> bool:
        """Return whether `_claimable` would find an action. Takes no locks."""
        sql = " OR ".join(f"EXISTS (SELECT 1 FROM action WHERE {one}{only})" for one in (_EXPIRED, _READY))
        parameters = (now, owner, *values, now, max_takeovers, *values)
        ((has,),) = self._database.read(f"SELECT CASE WHEN {sql} THEN 1 ELSE 0 END", parameters)
        return bool(has)

    def _claim(self, found: ActionRecord, owner: str, now: float, lease: float) -> ActionRecord:
        claimed = replace(
            found,
            status=ActionStatus.RUNNING,
            owner=owner,
            attempt=found.attempt + 1,
            lease_until=now + lease,
            started_at=now if found.started_at is None else found.started_at,
            updated_at=now,
            takeovers=found.takeovers + (found.owner is not None),
        )
        self._database.send(
            _CLAIM,
            (owner, claimed.attempt, claimed.lease_until, claimed.started_at, now, claimed.takeovers, claimed.seq),
        )
        reason = "" if found.owner is None else f"taken over from {found.owner}, whose lease has run out"
        self._actions.record_move(replace(claimed, status=found.status), ActionStatus.RUNNING, now, reason)
        return claimed

    def put_off(self, action_id: str, now: float) -> float:
        """Leave an action that this engine cannot read to others, until the time returned."""
        self._put_off[action_id] = until = now + UNREADABLE_DELAY
        return until

    def _left_to_others(self, now: float) -> list[str]:
        for action_id, until in [*self._put_off.items()]:
            if not now < until <= now + UNREADABLE_DELAY:
                self._put_off.pop(action_id, None)
        return [*self._put_off]

    def give_back(self, action: ActionRecord, now: float, reason: str) -> None:
        """Make a claimed action READY for another engine.

        Does nothing if it has been taken away.
        """
        self._actions.move(action, ActionStatus.READY, now, reason, owner=None, lease_until=None)

    def _delay_takeover(self, action: ActionRecord, now: float) -> None:
        """Delay a takeover after one without progress.

        The action may have ended its worker.
        """
        pause = takeover_delay(action.takeovers)
        self._database.send(_DELAY, (now + pause, now, action.seq))
        reason = f"the lease of {action.owner} has run out, after {action.takeovers} takeovers without progress"
        self._actions.record_move(action, ActionStatus.READY, now, f"{reason}; next in {pause:g} s")

    # -- the fence ---------------------------------------------------------------------------------

    def renew(self, action: ActionRecord, now: float, lease: float) -> Control | None:
        """Renew the lease of a held action and return its control signal. Raises Fenced.

        Until the end of the caller's transaction no other worker can take the action over.
        """
        locked = self._actions.lock_stack(action)
        renewed, control = self._renew(action, f"UPDATE action SET {_LEASE} {HELD}", *(now + lease,) * 2, *held(action))
        if not renewed:
            raise Fenced(action.id)
        self._actions.remember_stack(locked)
        return control

    def begin_commit(
        self, action: ActionRecord, now: float, lease: float, data: ActionData | None = None
    ) -> Control | None:
        """Renew the lease, count a commit, and store `data` unless it is None.

        The count makes a commit repeatable. If the answer to a COMMIT was lost, a second call with the same record
        raises AlreadyCommitted instead of writing twice. Raises Fenced.
        """
        locked = self._actions.lock_stack(action)
        stored: tuple[Value, ...] = () if data is None else (self._actions.encrypted(action, dump(data)), now)
        also = ", data = ?, updated_at = ?" if stored else ""
        changes = f"{_LEASE}, commits = commits + 1, takeovers = 0{also}"
        sql = f"UPDATE action SET {changes} {HELD} AND commits = ?"
        renewed, control = self._renew(action, sql, *(now + lease,) * 2, *stored, *held(action), action.commits)
        if not renewed:
            sql = "SELECT 1 FROM action WHERE id = ? AND attempt = ? AND commits = ?"
            if self._database.read(sql, (action.id, action.attempt, action.commits + 1)):
                raise AlreadyCommitted(control)
            raise Fenced(action.id)
        self._actions.remember_stack(locked)
        return control

    def _renew(self, action: ActionRecord, sql: str, *values: Value) -> tuple[bool, Control | None]:
        """Run an UPDATE of one action.

        Returns whether it met the row, and the row's control signal even if not.
        """
        if self._database.backend.updates_return:
            rows = self._database.send(f"{sql} RETURNING control", values).rows()
            if rows:
                return True, _control(rows)
            return False, self._control(action.id)
        renewed = self._database.send(sql, values)
        control = self._control(action.id)
        return renewed.rowcount > 0, control

    def lock_parent(self, action: ActionRecord) -> None:
        """Lock the parent of an action until the transaction ends.

        Call it before `renew` if `Moves.finish` follows. Then the parent either sees this action ended or is woken.
        """
        if self._actions.has_row_locks and action.parent_id is not None:
            self._database.read(f"SELECT id FROM action WHERE id = ?{self._actions.for_update}", (action.parent_id,))

    def set_takeovers(self, action: ActionRecord, number: int) -> None:
        """Write the number of takeovers of a held action, in its own transaction."""
        with self._database.transaction():
            self._database.write(f"UPDATE action SET takeovers = ? {HELD}", (number, *held(action)))

    def _control(self, action_id: str) -> Control | None:
        """Return the control signal of an action; None, too, if it is gone."""
        return _control(self._database.read("SELECT control FROM action WHERE id = ?", (action_id,)))

    # -- a worker's leases -------------------------------------------------------------------------

    def held_by(self, owner: str) -> list[str]:
        """Return the ids of the actions that a worker runs."""
        sql = "SELECT id FROM action WHERE status = 'RUNNING' AND owner = ?"
        return [action_id for (action_id,) in self._database.read(sql, (owner,))]

    def count_held_by(self, owner: str) -> int:
        """Return the number of actions that a worker runs."""
        sql = "SELECT COUNT(*) FROM action WHERE status = 'RUNNING' AND owner = ?"
        ((count,),) = self._database.read(sql, (owner,))
        return int(count)

    def control_of(self, action: ActionRecord) -> Control | None:
        """Return the control signal of a held action. Raises Fenced."""
        for (control,) in self._database.read(f"SELECT control FROM action {HELD}", held(action)):
            return None if control is None else Control(control)
        raise Fenced(action.id)

    def controls(self, owner: str) -> dict[str, Control]:
        """Return the control signals of the actions that a worker runs, by action id."""
        sql = "SELECT id, control FROM action WHERE status = 'RUNNING' AND owner = ? AND control IS NOT NULL"
        return {action_id: Control(control) for action_id, control in self._database.read(sql, (owner,))}

    def heartbeat(self, owner: str, action_ids: Collection[str], until: float) -> list[str]:
        """Extend the leases of a worker's actions. Returns those with a locked row.

        Waiting for several locked rows could deadlock with the lock order of others.
        """
        self._database.check_open()
        taken: set[str] = set()
        for some in chunks(sorted(action_ids)):
            held = f"id IN ({marks(some)}) AND owner = ?"
            if self._skip_locked:
                sql = f"SELECT id FROM action WHERE {held}{self._skip_locked}"
                free = [str(found) for (found,) in self._database.read(sql, (*some, owner))]
            else:
                free = list(some)
            if free:
                held = f"id IN ({marks(free)}) AND owner = ?"
                sql = f"UPDATE action SET lease_until = ? WHERE {held}"
                self._database.write(sql, (until, *free, owner))
            taken.update(free)
        return [action_id for action_id in action_ids if action_id not in taken]

    def heartbeat_one(self, owner: str, action_id: str, until: float) -> None:
        """Extend the lease of one action that a worker runs, and wait for its row."""
        sql = "UPDATE action SET lease_until = ? WHERE id = ? AND owner = ?"
        self._database.write(sql, (until, action_id, owner))

    def release(self, owner: str, now: float, reason: str, keeps: Collection[str] = ()) -> None:
        """Make READY what a worker runs, except the actions that it `keeps`."""
        for found in self._actions.select("WHERE status = 'RUNNING' AND owner = ?", (owner,)):
            if found.id not in keeps:
                self._actions.move(found, ActionStatus.READY, now, reason, owner=None, lease_until=None)

    def expire_all(self, now: float) -> None:
        """Expire every lease. Only for an engine that holds the engine lock."""
        self._database.write("UPDATE action SET lease_until = ? WHERE status = 'RUNNING'", (now,))


def _control(rows: Sequence[Row]) -> Control | None:
    """Return the control signal of a column of at most one."""
    return Control(rows[0][0]) if rows and rows[0][0] is not None else None


def takeover_delay(takeovers: int) -> float:
    """Return the seconds before a takeover after some without progress: 1, 2, 4 … 60."""
    return min(float(2 ** min(takeovers - 1, 10)), MAX_TAKEOVER_DELAY)


def max_takeovers(age: float) -> int:
    """Return the limit of takeovers for claims of a worker of an age in seconds.

    The worker must have lived for the pause before the last of them. Processes that are killed every few seconds
    never do, so their deaths stop counting against the action.
    """
    if age >= MAX_TAKEOVER_DELAY:
        return ANY_TAKEOVERS
    return 1 + int(max(age, 0.0)).bit_length()


def _restriction(
    action_id: str | None, kinds: frozenset[WorkKind] | None, zones: frozenset[str] | None, besides: Sequence[str]
) -> tuple[str, tuple[Value, ...]]:
    """Return the restrictions of a claim as SQL and its parameters."""
    sql = ""
    values: list[Value] = []
    if action_id is not None:
        sql += " AND id = ?"
        values.append(action_id)
    if kinds is not None:
        sql += f" AND kind IN ({marks(kinds)})" if kinds else " AND 1 = 0"
        values += sorted(kinds)
    if zones is not None:
        sql += f" AND (zone IS NULL{''.join(' OR zone = ?' for _ in zones)})"
        values += sorted(zones)
    if besides:
        sql += f" AND id NOT IN ({marks(besides)})"
        values += besides
    return sql, tuple(values)
