"""The queue of actions: put, claim, hold, finish, and every other move (actions-design §1 to §4).

The row is the truth: who may work on a stack is what `owner`, `attempt` and `lease_until` say, and every write of a
worker goes through the fence, `hold`. Each move is one of `core.status.MOVES` and leaves a line in the history. What
becomes READY, or is asked for something while a worker has it, is announced once the transaction is committed.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from heatlite.core.errors import ActionConflict
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap, dump
from heatlite.core.nodes import ENDED as ENDED_NODE_ACTIONS
from heatlite.core.nodes import NodeActionState
from heatlite.core.status import (
    ENDED_ACTIONS,
    LIVE_ACTIONS,
    MOVES,
    PARKED_ACTIONS,
    ActionStatus,
    Cause,
    Control,
    Kind,
    Needs,
    Verb,
)
from heatlite.store.batch import Table, in_parts
from heatlite.store.database.database import Dialect, Row, Value
from heatlite.store.errors import AlreadyCommitted, Duplicate, Fenced
from heatlite.store.nodes.nodes import Orchestrations
from heatlite.store.records import ActionRecord, Announcement, DependencyRecord, TransitionRecord
from heatlite.store.secrets.field_encryption import Sealing
from heatlite.store.tables import Action, Dependency, Transition

COLUMNS = (
    "id", "stack_id", "root_id", "project", "verb", "status", "requested_by", "created_at", "cause", "inputs",
    "outputs", "data", "context", "secrets", "status_reason", "control", "interval", "not_before", "timeout",
    "retries", "pending", "failed_dependencies", "zone", "owner", "attempt", "lease_until", "started_at",
    "finished_at", "suspended_at", "suspended", "updated_at", "deadline", "commits", "seq", "parent_id",
    "urgent", "takeovers",
)  # fmt: skip
"""Those of a record, in its fields' names."""
_WRITTEN = tuple(column for column in COLUMNS if column not in ("id", "seq"))
_JSON = ("inputs", "outputs", "data", "context")


def any_of(statuses: frozenset[ActionStatus]) -> str:
    """The statuses as SQL, behind a column's name."""
    return f"IN ({', '.join(repr(str(status)) for status in sorted(statuses))})"


LIVE = f"status {any_of(LIVE_ACTIONS)}"
OPEN = f"status {any_of(LIVE_ACTIONS | {ActionStatus.INIT})}"
_PARKED = f"status {any_of(PARKED_ACTIONS)} AND pending = 0"
"""It waits for the actions derived from it, or at a breakpoint."""
_UNCLAIMED = "(started_at IS NULL OR verb = 'PLAYBOOK')"
"""No worker has ever had it."""
_STRONGER = {Control.FORCE_CANCEL: (Control.ABORT,), Control.ABORT: ()}
"""What a control does not take back; any other takes back neither of these two."""
STOPPED_AT_ONCE = frozenset({Verb.CREATE, Verb.UPDATE})
"""What does not wait any longer for node actions when it is asked to stop: it has nothing to do then."""
_LATE = "status = 'RUNNING' AND lease_until <= ? AND owner <> ?"
"""Its worker is gone. Never what the owner runs: a machine that wakes from sleep finds its own leases expired."""
_DUE = "status = 'READY' AND (not_before IS NULL OR not_before <= ?) AND takeovers <= ?"
_MINE = "WHERE id = ? AND owner = ? AND attempt = ? AND status = 'RUNNING'"


LONGEST_BACK_OFF = 60.0
"""Seconds before a takeover, at the most."""
MOST_TAKEOVERS = 2**31 - 1
"""Limit of a claim that accepts any action: the largest number of the column."""


class Actions:
    """The actions."""

    def __init__(self, sealing: Sealing, orchestrations: Orchestrations) -> None:
        self._sealing = sealing
        self._orchestrations = orchestrations
        self._database = database = sealing.database
        fixed = (*_WRITTEN, "name", "kind", "open_children", "exclusive_key")
        self._table = Table(sealing, Action, (), key="id", fixed=fixed, stack="stack_id")
        columns = ("time", "before", "after", "attempt", "owner", "reason")
        self._transitions = Table(sealing, Transition, (), key="action_id", fixed=columns)
        self._dependencies = Table(sealing, Dependency, (), key="dependent", fixed=("depended", "needs", "state"))
        self._read = f"SELECT {database.quote(*COLUMNS)} FROM {self._table.name} "
        # A server lets two transactions read the same row; SQLite has one writer anyway.
        served = database.dialect is not Dialect.SQLITE
        self._served = served
        self._interval = database.quote("interval")
        self._for_update = " FOR UPDATE" if served else ""
        self._skip_locked = " FOR UPDATE SKIP LOCKED" if served else ""
        self._removable = (
            f"NOT {OPEN} AND NOT EXISTS "
            f"(SELECT 1 FROM action AS parent WHERE parent.id = action.parent_id AND parent.{OPEN})"
        )
        """What has ended; a derived action is kept as long as its parent may ask how."""

    # -- the queue's side --------------------------------------------------------------------------

    def put(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """Queue an action that is INIT: READY, or WAITING while an action that it depends on has not ended.

        A stack has at most one live action beside a DELETE, and one DELETE; raises ActionConflict.
        """
        if record.status is ActionStatus.INIT:
            record = self._with_dependencies(record, depends_on)
            record = replace(record, status=ActionStatus.WAITING if record.pending else ActionStatus.READY)
        conflict = f"Another request for stack {record.stack_id} came first: it has an action already. Try again later."
        self._insert([record], conflict)

    def put_many(self, records: Sequence[ActionRecord]) -> None:
        """Queue actions derived from one that runs; none of them waits for another. Raises ActionConflict."""
        ready = [replace(record, status=ActionStatus.READY) for record in records]
        self._insert(ready, "A nested stack has another action already. Try again later.")

    def schedule(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """Keep an action until its time has come (`not_before`). It holds nothing.

        A stack has at most one series of a verb (`series`); raises ActionConflict.
        """
        record = self._with_dependencies(record, depends_on)
        self._insert([record], f"Stack {record.stack_id} is to have a {record.verb} from time to time already.")

    def series(self, stack_id: str, verb: Verb) -> ActionRecord | None:
        """The action of a stack's series of a verb that is done, or waits for its time; None: there is no series."""
        found = self._select(f"WHERE stack_id = ? AND verb = ? AND {OPEN} AND {self._interval} > 0", (stack_id, verb))
        return found[0] if found else None

    def scheduled(self, stack_id: str) -> int:
        """How many actions on a stack wait for their time."""
        sql = "SELECT COUNT(*) FROM action WHERE stack_id = ? AND status = 'INIT'"
        ((count,),) = self._database.read(self._marked(sql), (stack_id,))
        return int(count)

    def admit(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """A scheduled action, taken before (`take`), may begin: it holds its target from now on. Where it depends on
        actions that have not ended, from before or from now on, it waits for these. Raises ActionConflict."""
        known = {one.depended for one in self.dependencies(record.id)}
        failed = record.failed_dependencies
        record = self._with_dependencies(record, [one for one in depends_on if one[0] not in known])
        if failed:  # it does not wait any more, and will say so
            record = replace(record, pending=0, failed_dependencies=failed)
        after = ActionStatus.WAITING if record.pending else ActionStatus.READY
        values = (
            after, _key(replace(record, status=after)), record.zone, record.deadline, record.started_at,
            record.updated_at, record.pending,
        )  # fmt: skip
        sql = (
            "UPDATE action SET status = ?, exclusive_key = ?, zone = ?, deadline = ?, started_at = ?, updated_at = ?,"
            " pending = ? WHERE id = ?"
        )
        try:
            self._write(sql, (*values, record.id))
        except Duplicate as error:
            raise ActionConflict(f"Stack {record.stack_id} has an action already. Try again later.") from error
        self._note(record, after, record.updated_at or record.created_at)
        if after is ActionStatus.READY:
            self._tell(record, True)

    def due(self, now: float) -> list[ActionRecord]:
        """The scheduled actions whose time has come, oldest first."""
        return self._select("WHERE status = 'INIT' AND not_before <= ? ORDER BY seq", (now,))

    def _insert(self, records: Sequence[ActionRecord], conflict: str) -> None:
        try:
            self._table.insert([_row(record) for record in records])
        except Duplicate as error:
            raise ActionConflict(conflict) from error
        moves = [(record, record.status) for record in records if record.status is not ActionStatus.INIT]
        self._transitions.insert(
            [(record.id, record.created_at, "INIT", after, record.attempt, None, "") for record, after in moves]
        )
        for record, after in moves:
            self._report(replace(record, status=ActionStatus.INIT), after, "")
            if after is ActionStatus.READY:
                self._tell(record, True)

    def _with_dependencies(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]]) -> ActionRecord:
        """The record with what it depends on counted, actions and node actions, beside what it waits for anyway; one
        that has ended already is no longer waited for."""
        went_well = self._node_actions_ended(record, [one for one, _ in depends_on])
        actions = [one for one, _ in depends_on if one not in went_well]
        # In the order in which they were put: whoever ends one takes it before those that depend on it, and are later.
        for depended in sorted(actions, key=self._seq):
            found = self.take(depended)
            has_ended = found is None or found.status in ENDED_ACTIONS
            went_well[depended] = (found is None or found.status is ActionStatus.SUCCEEDED) if has_ended else None
        states = {
            depended: "open" if went_well[depended] is None else
            "ok" if went_well[depended] or needs is Needs.END else "failed"
            for depended, needs in depends_on
        }
        self._dependencies.insert([(record.id, depended, needs, states[depended]) for depended, needs in depends_on])
        failed = [*states.values()].count("failed")
        pending = record.pending + [*states.values()].count("open")
        return replace(record, pending=0 if failed else pending, failed_dependencies=failed)

    def _node_actions_ended(self, record: ActionRecord, ids: Sequence[str]) -> dict[str, bool | None]:
        """Those of the ids that are node actions: whether each has gone well; None: it has not ended.

        Whoever ends one has its tree. So has whoever puts an action there; what is of another tree is taken.
        """
        found: dict[str, bool | None] = {}
        taken: list[tuple[int, str]] = []
        for some in in_parts(ids):
            sql = f"SELECT id, root_id, state, seq FROM node_action WHERE id IN ({', '.join('?' * len(some))})"
            for one, root_id, state, seq in self._database.read(self._marked(sql), some):
                found[one] = _node_action_went_well(state)
                if root_id != record.root_id:
                    taken.append((seq, one))
        for _, one in sorted(taken):
            sql = f"SELECT state FROM node_action WHERE id = ?{self._for_update}"
            for (state,) in self._database.read(self._marked(sql), (one,)):
                found[one] = _node_action_went_well(state)
        return found

    def _seq(self, action_id: str) -> int:
        found = self.get(action_id)
        return 0 if found is None else found.seq

    def waited_for(self, action_ids: Sequence[str]) -> set[str]:
        """The ids of the actions and node actions for which some actions wait that have not begun."""
        found: set[str] = set()
        for some in in_parts(action_ids):
            marks = ", ".join("?" * len(some))
            sql = f"SELECT depended FROM dependency WHERE dependent IN ({marks}) AND state = 'open'"
            found.update(one for (one,) in self._database.read(self._marked(sql), some))
        return found

    def among(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that are actions'."""
        found: set[str] = set()
        for some in in_parts(ids):
            marks = ", ".join([self._database.mark] * len(some))
            rows = self._database.read(f"SELECT id FROM action WHERE id IN ({marks})", some)
            found.update(one for (one,) in rows)
        return found

    def get(self, action_id: str) -> ActionRecord | None:
        """An action by its id."""
        found = self._select("WHERE id = ?", (action_id,))
        return found[0] if found else None

    def take(self, action_id: str) -> ActionRecord | None:
        """The action as it is now, kept from others until the transaction ends. Its stack is to be held before it."""
        found = self._select(f"WHERE id = ?{self._for_update}", (action_id,))
        return found[0] if found else None

    def live(self, stack_ids: Sequence[str]) -> list[ActionRecord]:
        """What is queued, waits, is suspended or runs on any of the stacks, oldest first."""
        out: list[ActionRecord] = []
        for some in in_parts(stack_ids):
            out += self._select(f"WHERE stack_id IN ({', '.join('?' * len(some))}) AND {LIVE}", some)
        return sorted(out, key=lambda found: found.seq)

    def live_of_root(self, root_id: str) -> list[ActionRecord]:
        """The same of a whole tree."""
        return self._select(f"WHERE root_id = ? AND {LIVE} ORDER BY seq", (root_id,))

    def live_counts(self) -> dict[tuple[Verb, ActionStatus], int]:
        """How many live actions there are of each kind. Looks at none that has ended."""
        sql = f"SELECT verb, status, COUNT(*) FROM action WHERE {LIVE} GROUP BY verb, status"
        return {(Verb(verb), ActionStatus(status)): count for verb, status, count in self._database.read(sql)}

    def ready_since(self, now: float) -> float | None:
        """Since when the action that may be claimed has been READY for the longest; None: there is none."""
        moved = "COALESCE(updated_at, created_at)"
        since = f"CASE WHEN not_before > {moved} THEN not_before ELSE {moved} END"
        ready = "status = 'READY' AND (not_before IS NULL OR not_before <= ?)"
        sql = f"SELECT MIN({since}) FROM action WHERE {ready}"
        ((found,),) = self._database.read(self._marked(sql), (now,))
        return None if found is None else float(found)

    # -- what is asked of actions ------------------------------------------------------------------

    def signal(self, action_id: str, control: Control, now: float) -> bool:
        """Ask a live action to stop. False when it has ended, or has to stop for a stronger reason anyway.

        One that no worker has is made READY, so that it is heard: whoever claims it stops it in good order.
        """
        stronger = _STRONGER.get(control, tuple(_STRONGER))
        unless = "".join(f" AND (control IS NULL OR control <> '{one}')" for one in stronger)
        sql = f"UPDATE action SET control = ?, updated_at = ? WHERE id = ? AND {LIVE}{unless}"
        if self._write(sql, (control, now, action_id)) == 0:
            return False
        (record,) = self._select("WHERE id = ?", (action_id,))
        if record.status is ActionStatus.RUNNING:
            self._tell(record, False)
        elif record.status is ActionStatus.SUSPENDED:
            self._wake(record, now, f"asked to {control}")
        elif record.status in PARKED_ACTIONS and record.pending == 0:
            self._move(record, ActionStatus.READY, now, f"asked to {control}")
        elif record.status is ActionStatus.WAITING and record.verb in STOPPED_AT_ONCE:
            self._move(record, ActionStatus.READY, now, f"asked to {control}", pending=0)
        elif record.status is ActionStatus.READY:
            # It may pause before it is begun again; to stop it need not.
            self._write("UPDATE action SET not_before = ? WHERE id = ? AND not_before > ?", (now, action_id, now))
            self._tell(record, True)
        return True

    def suspend(self, action: ActionRecord, now: float) -> None:
        """Have a live action stop until it is resumed: at once, or as soon as its worker has heard of it. One that has
        been asked for something else already only does that."""
        if action.status is ActionStatus.RUNNING:
            unless = "AND status = 'RUNNING' AND control IS NULL"
            sql = f"UPDATE action SET control = 'SUSPEND', updated_at = ? WHERE id = ? {unless}"
            if self._write(sql, (now, action.id)):
                self._tell(action, False)
        elif action.status in LIVE_ACTIONS - {ActionStatus.SUSPENDED} and action.control is None:
            self._move(action, ActionStatus.SUSPENDED, now, "asked to SUSPEND", suspended_at=now)

    def resume(self, action: ActionRecord, now: float) -> None:
        """Have an action go on that is suspended, or is about to be. Its deadline moves by the time that it was."""
        if action.status is ActionStatus.SUSPENDED:
            self._wake(action, now, "asked to RESUME")
        else:
            sql = "UPDATE action SET control = NULL, updated_at = ? WHERE id = ? AND control = 'SUSPEND'"
            if self._write(sql, (now, action.id)):
                self._tell(action, False)

    def _wake(self, action: ActionRecord, now: float, reason: str) -> None:
        """Have a suspended action go on."""
        after = ActionStatus.WAITING if action.pending else ActionStatus.READY
        slept = 0.0 if action.suspended_at is None else now - action.suspended_at
        deadline = None if action.deadline is None else action.deadline + slept
        suspended = action.suspended + slept
        self._move(action, after, now, reason, suspended_at=None, suspended=suspended, deadline=deadline)

    def cancel_queued(self, stack_ids: Sequence[str], reason: str, now: float) -> list[str]:
        """End what has not been started on the stacks, as CANCELLED; the ids of those actions."""
        ended: list[str] = []
        for some in in_parts(stack_ids):
            queued = f"WHERE stack_id IN ({', '.join('?' * len(some))}) AND {OPEN} AND {_UNCLAIMED}"
            # All are taken, the first first, before one is ended: that goes on to those that depend on it.
            taken = [self.take(found.id) for found in self._select(f"{queued} ORDER BY seq", some)]
            for found in filter(None, taken):
                # A worker may claim it at this moment; then it is no longer queued.
                queued_still = found.status not in ENDED_ACTIONS | {ActionStatus.RUNNING}
                if queued_still and self._end(found, ActionStatus.CANCELLED, reason, now):
                    ended.append(found.id)
        return ended

    def end(
        self, action: ActionRecord, status: ActionStatus, reason: str, now: float, outputs: JsonMap | None = None
    ) -> None:
        """End an action from outside, whoever has it: a worker that does is fenced from now on. Raises Fenced when it
        is no longer as the record says."""
        if not self._end(action, status, reason, now, outputs):
            raise Fenced(action.id)

    def _end(
        self, action: ActionRecord, status: ActionStatus, reason: str, now: float, outputs: JsonMap | None = None
    ) -> bool:
        where = "WHERE id = ? AND attempt = ? AND status = ?"
        as_seen = (action.id, action.attempt, action.status)
        return self._close(action, status, reason, now, outputs, where, as_seen) == 1

    # -- the worker's side -------------------------------------------------------------------------

    def claim(
        self,
        owner: str,
        now: float,
        lease: float,
        action_id: str | None = None,
        kinds: frozenset[Kind] | None = None,
        zones: frozenset[str] | None = None,
        most_takeovers: int = MOST_TAKEOVERS,
    ) -> ActionRecord | None:
        """Take the next action for `lease` seconds: one whose worker is gone, else the oldest READY one.

        With an `action_id` that one or none. `kinds` and `zones` are those that the worker is for, None: all; work
        without a zone is for everybody. A takeover after one that has brought nothing is put off (`back_off`).
        READY actions with more than `most_takeovers` takeovers are left for older workers.
        """
        only, values = _only(action_id, kinds, zones)
        if not (self._database.in_transaction or self._has_claimable(owner, now, only, values, most_takeovers)):
            return None  # An idle worker that asks again and again takes no lock.
        while True:
            with self._database.transaction():
                found = self._claimable(owner, now, only, values, most_takeovers, self._skip_locked)
                if found is None:
                    return None
                if found.owner is None or found.takeovers == 0:
                    return self._claim(found, owner, now, lease)
                self._put_off(found, now)

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
        # By its primary key, which is all that MariaDB has locked so far. Others lock the id first, then that key:
        # to ask for the id now would be a deadlock.
        self._write(
            "UPDATE action SET status = 'RUNNING', owner = ?, attempt = ?, lease_until = ?, started_at = ?, "
            "updated_at = ?, takeovers = ? WHERE seq = ?",
            (owner, claimed.attempt, claimed.lease_until, claimed.started_at, now, claimed.takeovers, claimed.seq),
        )
        reason = "" if found.owner is None else f"taken over from {found.owner}, whose lease has run out"
        self._note(replace(claimed, status=found.status), ActionStatus.RUNNING, now, reason)
        return claimed

    def _put_off(self, action: ActionRecord, now: float) -> None:
        """Delay a takeover: the one before made no progress, so the action may have ended its worker."""
        pause = back_off(action.takeovers)
        self._write(
            "UPDATE action SET status = 'READY', owner = NULL, lease_until = NULL, attempt = attempt + 1, "
            "takeovers = takeovers + 1, not_before = ?, updated_at = ? WHERE seq = ?",
            (now + pause, now, action.seq),
        )
        reason = f"the lease of {action.owner} has run out, after {action.takeovers} takeovers without progress"
        self._note(action, ActionStatus.READY, now, f"{reason}; next in {pause:g} s")

    def hold(self, action: ActionRecord, now: float, lease: float) -> Control | None:
        """The fence: prolong the lease, and tell what is asked. Raises Fenced.

        In a transaction it keeps the action from being taken over until the transaction ends.
        """
        self._hold_stack(action.id)
        if self._write(f"UPDATE action SET lease_until = ? {_MINE}", (now + lease, *_mine(action))) == 0:
            raise Fenced(action.id)
        return self._asked(action.id)

    def advance(self, action: ActionRecord, now: float, lease: float, data: JsonMap | None = None) -> Control | None:
        """`hold` the action for its next commit, and keep `data` where it has changed. Raises Fenced.

        Where the answer to a COMMIT was lost, nobody knows whether it was made. Commits are counted, so the same one
        is not made again: AlreadyCommitted.
        """
        self._hold_stack(action.id)
        kept: tuple[Value, ...] = () if data is None else (self._closed(action, dump(data)), now)
        also = ", data = ?, updated_at = ?" if kept else ""
        changes = f"lease_until = ?, commits = commits + 1, takeovers = 0{also}"
        sql = f"UPDATE action SET {changes} {_MINE} AND commits = ?"
        if self._write(sql, (now + lease, *kept, *_mine(action), action.commits)) == 0:
            sql = "SELECT 1 FROM action WHERE id = ? AND attempt = ? AND commits = ?"
            if self._database.read(self._marked(sql), (action.id, action.attempt, action.commits + 1)):
                raise AlreadyCommitted(self._asked(action.id))
            raise Fenced(action.id)
        return self._asked(action.id)

    def count_takeovers(self, action: ActionRecord, number: int) -> None:
        """Say how often an action that this worker holds was taken over in vain. Raises DatabaseUnavailable."""
        with self._database.transaction():
            self._write(f"UPDATE action SET takeovers = ? {_MINE}", (number, *_mine(action)))

    def _asked(self, action_id: str) -> Control | None:
        ((control,),) = self._database.read(self._marked("SELECT control FROM action WHERE id = ?"), (action_id,))
        return None if control is None else Control(control)

    def hold_parent(self, action: ActionRecord) -> None:
        """Keep the action that this one derives from as it is until the transaction ends.

        To be called before `hold` where `finish` follows: the parent either sees this one ended, or is woken by it.
        """
        if self._served and action.parent_id is not None:
            self._database.read("SELECT id FROM action WHERE id = %s FOR UPDATE", (action.parent_id,))

    def finish(
        self, action: ActionRecord, status: ActionStatus, reason: str, now: float, outputs: JsonMap | None = None
    ) -> None:
        """End an action that this worker holds and make READY what waits for it. Raises Fenced.

        A parent that waits for several goes on when the last has ended, or one that is urgent, or one that has failed.
        """
        self._hold_stack(action.id)
        if self._close(action, status, reason, now, outputs, _MINE, _mine(action)) == 0:
            raise Fenced(action.id)

    def _close(
        self,
        action: ActionRecord,
        status: ActionStatus,
        reason: str,
        now: float,
        outputs: JsonMap | None,
        where: str,
        values: Sequence[Value],
    ) -> int:
        """Finishing and releasing are one: nothing holds its target that has ended."""
        sql = (
            "UPDATE action SET status = ?, status_reason = ?, outputs = ?, finished_at = ?, updated_at = ?, "
            "owner = NULL, lease_until = NULL, exclusive_key = NULL, secrets = NULL, attempt = attempt + ? "
        )
        said = self._closed(action, dump(outputs or {}))
        taken_away = 0 if where == _MINE else 1
        met = self._write(sql + where, (status, reason, said, now, now, taken_away, *values))
        if met:
            self._note(action, status, now, reason)
            self._wake_dependents(action.id, status is ActionStatus.SUCCEEDED, now)
            if action.interval and status is not ActionStatus.CANCELLED and not self._is_to_stop(action.id):
                self.schedule(successor(action, now))
            if action.parent_id is None:
                self._orchestrations.hurry(action.root_id, now)
            else:
                self._wake_parent(action.parent_id, action.urgent or status is not ActionStatus.SUCCEEDED, now)
        return met

    def _is_to_stop(self, action_id: str) -> bool:
        """Whether somebody wanted it to stop, even if it was done before it heard of that."""
        mark = self._database.mark
        ((control,),) = self._database.read(f"SELECT control FROM action WHERE id = {mark}", (action_id,))
        return control not in (None, Control.SUSPEND)

    def node_action_ended(self, action_id: str, went_well: bool, now: float) -> None:
        """Wake what depends on a node action."""
        self._wake_dependents(action_id, went_well, now)

    def node_silent(self, action_id: str, now: float) -> None:
        """Wake what waits for the end of a node action, and not for its success: its node does not answer."""
        self._wake_dependents(action_id, False, now, "AND needs = 'end' ")

    def _wake_dependents(self, action_id: str, succeeded: bool, now: float, only: str = "") -> None:
        mark = self._database.mark
        sql = (
            "SELECT dependent, needs FROM dependency JOIN action ON action.id = dependent"
            f" WHERE depended = {mark} AND state = 'open' {only}ORDER BY seq"
        )
        for dependent, needs in self._database.read(sql, (action_id,)):
            went_well = succeeded or needs == Needs.END
            self._write(
                "UPDATE dependency SET state = ? WHERE dependent = ? AND depended = ?",
                ("ok" if went_well else "failed", dependent, action_id),
            )
            count = "pending = pending - 1" if went_well else "pending = 0, failed_dependencies = 1"
            self._write(f"UPDATE action SET {count} WHERE id = ? AND pending > 0", (dependent,))
            for record in self._select("WHERE id = ?", (dependent,)):
                if record.pending == 0 and record.status is ActionStatus.WAITING and record.started_at is None:
                    self._move(record, ActionStatus.READY, now)

    def _wake_parent(self, action_id: str, at_once: bool, now: float) -> None:
        if not at_once:
            sql = f"SELECT 1 FROM action WHERE parent_id = ? AND {LIVE} LIMIT 1"
            if self._database.read(self._marked(sql), (action_id,)):
                return
        self.unpark(action_id, now)

    def unpark(self, action_id: str, now: float) -> None:
        """Make READY what its worker has let go of: something has happened that it waits for."""
        for found in self._select(f"WHERE id = ? AND {_PARKED}", (action_id,)):
            self._move(found, ActionStatus.READY, now)

    def park(
        self,
        action: ActionRecord,
        children: int,
        status: ActionStatus,
        now: float,
        wake_at: float | None = None,
        reason: str = "",
    ) -> bool:
        """Let go of an action that only waits for `children` derived ones, or at breakpoints; False if one of them has
        ended already.

        `status` is one of PARKED_ACTIONS. At `wake_at` there is something to do, whatever has happened till then. In a
        transaction after `hold`.
        """
        sql = f"SELECT COUNT(*) FROM action WHERE parent_id = ? AND {LIVE}"
        ((count,),) = self._database.read(self._marked(sql), (action.id,))
        if count < children:
            return False
        sql = (
            "UPDATE action SET status = ?, owner = NULL, lease_until = NULL, open_children = ?, wake_at = ?, "
            f"updated_at = ? {_MINE} AND control IS NULL"
        )
        parked = self._write(sql, (status, count, wake_at, now, action.id, action.owner, action.attempt)) == 1
        if parked:
            self._note(action, status, now, reason)
        return parked

    def set_aside(self, action: ActionRecord, now: float) -> bool:
        """Let go of an action that was asked to SUSPEND; False if it has been asked for something else since.

        In a transaction after `hold`.
        """
        sql = (
            "UPDATE action SET status = 'SUSPENDED', owner = NULL, lease_until = NULL, control = NULL, suspended_at = ?"
            f", updated_at = ? {_MINE} AND control = 'SUSPEND'"
        )
        aside = self._write(sql, (now, now, action.id, action.owner, action.attempt)) == 1
        if aside:
            self._note(action, ActionStatus.SUSPENDED, now, "asked to SUSPEND")
        return aside

    def retry(self, action: ActionRecord, reason: str, now: float, not_before: float) -> None:
        """Give an action back that met others in its way: it is begun again, not before that time. Raises Fenced."""
        sql = (
            "UPDATE action SET status = 'READY', owner = NULL, lease_until = NULL, retries = retries + 1, "
            f"not_before = ?, updated_at = ? {_MINE}"
        )
        if self._write(sql, (not_before, now, action.id, action.owner, action.attempt)) == 0:
            raise Fenced(action.id)
        self._note(action, ActionStatus.READY, now, reason)
        self._tell(action, True)

    def wake_parked(self, now: float) -> int:
        """Make READY what has begun and waits for derived actions of which one has ended since, or for whose time that
        has come."""
        sql = (
            f"SELECT id FROM action WHERE status {any_of(PARKED_ACTIONS)} AND pending = 0 AND (deadline <= ? OR "
            "wake_at <= ? OR open_children > (SELECT COUNT(*) FROM action AS child WHERE child.parent_id = action.id"
            f" AND child.{LIVE}))"
        )
        woken = 0
        for (action_id,) in self._database.read(self._marked(sql), (now, now)):
            with self._database.transaction():
                for found in self._select(f"WHERE id = ? AND status {any_of(PARKED_ACTIONS)}", (action_id,)):
                    woken += self._move(found, ActionStatus.READY, now)
        return woken

    def overdue(self, now: float) -> list[ActionRecord]:
        """What waits to begin and has no time left."""
        waiting = any_of(PARKED_ACTIONS | {ActionStatus.READY})
        return self._select(f"WHERE status {waiting} AND {_UNCLAIMED} AND deadline <= ? ORDER BY seq", (now,))

    def ended(self, action_ids: Sequence[str]) -> list[ActionRecord]:
        """Those of the actions that have ended."""
        out: list[ActionRecord] = []
        for some in in_parts(action_ids):
            out += self._select(f"WHERE id IN ({', '.join('?' * len(some))}) AND NOT {OPEN}", some)
        return out

    def derived(self, parent_id: str, stack_id: str) -> ActionRecord | None:
        """The last action on a stack that was derived from `parent_id`. None is removed before its parent has ended."""
        found = self._select("WHERE parent_id = ? AND stack_id = ? ORDER BY seq DESC LIMIT 1", (parent_id, stack_id))
        return found[0] if found else None

    def turn_back(self, action_id: str, deadline: float) -> None:
        """A rollback begins, with its own time: who has asked for it is obeyed; what else is asked stays."""
        sql = (
            "UPDATE action SET deadline = ?, control = "
            "CASE WHEN control = 'CANCEL_ROLLBACK' THEN NULL ELSE control END WHERE id = ?"
        )
        self._write(sql, (deadline, action_id))

    def running_children(self, parent_id: str) -> list[str]:
        """The ids of the live actions that were derived from `parent_id`."""
        return [found.id for found in self.children(parent_id)]

    def children(self, parent_id: str) -> list[ActionRecord]:
        """The live actions that were derived from `parent_id`."""
        return self._select(f"WHERE parent_id = ? AND {LIVE} ORDER BY seq", (parent_id,))

    def controls(self, owner: str) -> dict[str, Control]:
        """What is asked of the actions that this worker runs, by action id."""
        sql = "SELECT id, control FROM action WHERE status = 'RUNNING' AND owner = ? AND control IS NOT NULL"
        return {action_id: Control(control) for action_id, control in self._database.read(self._marked(sql), (owner,))}

    def asked(self, action: ActionRecord) -> Control | None:
        """What is asked of an action that this worker holds. Raises Fenced when it does not any more."""
        for (control,) in self._database.read(self._marked(f"SELECT control FROM action {_MINE}"), _mine(action)):
            return None if control is None else Control(control)
        raise Fenced(action.id)

    def at_work(self) -> list[ActionRecord]:
        """Everything that a worker has, oldest first."""
        return self._select("WHERE status = 'RUNNING' ORDER BY seq", ())

    def running(self, owner: str) -> list[str]:
        """The ids of everything that this worker runs."""
        sql = "SELECT id FROM action WHERE status = 'RUNNING' AND owner = ?"
        return [action_id for (action_id,) in self._database.read(self._marked(sql), (owner,))]

    def renew(self, owner: str, action_id: str, until: float) -> None:
        """Prolong the lease of an action that this worker runs. One to a transaction: several rows taken together meet
        those that others take in another order."""
        sql = "UPDATE action SET lease_until = ? WHERE id = ? AND status = 'RUNNING' AND owner = ?"
        self._write(sql, (until, action_id, owner))

    def give_back(self, owner: str, now: float, reason: str, keeps: Collection[str] = ()) -> None:
        """Queue again what this worker runs, but what it `keeps`."""
        for found in self._select("WHERE status = 'RUNNING' AND owner = ?", (owner,)):
            if found.id not in keeps:
                self._move(found, ActionStatus.READY, now, reason, owner=None, lease_until=None)

    def reclaim_all(self, now: float) -> None:
        """End every lease. Only for an engine that knows itself alone: it holds the engine's lock."""
        self._write("UPDATE action SET lease_until = ? WHERE status = 'RUNNING'", (now,))

    # -- what is known of an action ------------------------------------------------------------------

    def dependencies(self, action_id: str) -> list[DependencyRecord]:
        """What an action depends on, and what depends on it; derived actions are not among them."""
        columns = self._database.quote("dependent", "depended", "needs", "state")
        sql = f"SELECT {columns} FROM dependency WHERE dependent = ? OR depended = ? ORDER BY 1, 2"
        rows = self._database.read(self._marked(sql), (action_id, action_id))
        return [DependencyRecord(one, other, Needs(needs), state) for one, other, needs, state in rows]

    def history(self, action_id: str) -> list[TransitionRecord]:
        """The moves of an action, oldest first."""
        columns = self._database.quote("action_id", "time", "before", "after", "attempt", "owner", "reason")
        sql = f"SELECT {columns} FROM transition WHERE action_id = ? ORDER BY id"
        return [
            TransitionRecord(row[0], row[1], ActionStatus(row[2]), ActionStatus(row[3]), *row[4:])
            for row in self._database.read(self._marked(sql), (action_id,))
        ]

    # -- what is not kept for good -------------------------------------------------------------------

    def older(self, moment: float, limit: int) -> list[str]:
        """The ids of actions that ended before a moment, the oldest first. They are stored by age."""
        sql = f"SELECT id, finished_at FROM action WHERE {self._removable} ORDER BY seq LIMIT {limit}"
        return [one for one, ended in self._database.read(sql) if ended is not None and ended < moment]

    def beyond(self, most: int, limit: int) -> list[str]:
        """The ids of the oldest ended actions of a stack that has more than `most` actions."""
        sql = "SELECT stack_id FROM action GROUP BY stack_id HAVING COUNT(*) > ? ORDER BY stack_id"
        for (stack_id,) in self._database.read(self._marked(sql), (most,)):
            kept = "SELECT seq FROM action WHERE stack_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
            for (first,) in self._database.read(self._marked(kept), (stack_id, most - 1)):
                old = f"stack_id = ? AND seq < ? AND {self._removable}"
                sql = f"SELECT id FROM action WHERE {old} ORDER BY seq LIMIT {limit}"
                found = self._database.read(self._marked(sql), (stack_id, first))
                if found:  # else all of it is to be kept
                    return [one for (one,) in found]
        return []

    def remove(self, action_ids: Sequence[str]) -> None:
        """Forget actions that have ended, with all that is known of them."""
        for some in in_parts(action_ids):
            marks = ", ".join("?" * len(some))
            self._write(f"DELETE FROM transition WHERE action_id IN ({marks})", some)
            self._write(f"DELETE FROM dependency WHERE dependent IN ({marks})", some)
            self._write(f"DELETE FROM action WHERE id IN ({marks})", some)

    # -- moves ---------------------------------------------------------------------------------------

    def _move(
        self, action: ActionRecord, after: ActionStatus, now: float, reason: str = "", **columns: Value
    ) -> int:
        """Make a move that nobody has made meanwhile; how many rows it met."""
        values: dict[str, Value] = {"status": after, "updated_at": now, **columns}
        changes = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE action SET {changes} WHERE id = ? AND status = ? AND attempt = ?"
        met = self._write(sql, (*values.values(), action.id, action.status, action.attempt))
        if met:
            self._note(action, after, now, reason)
            if after is ActionStatus.READY:
                self._tell(action, True)
        return met

    def _note(self, action: ActionRecord, after: ActionStatus, now: float, reason: str = "") -> None:
        """Write a line of history. `action` is as it was before the move."""
        if after not in MOVES[action.status]:
            raise RuntimeError(f"action {action.id}: no move leads from {action.status} to {after}")
        line = (action.id, now, action.status, after, action.attempt, action.owner, reason)
        self._transitions.insert([line])
        self._report(action, after, reason)
        if action.verb is Verb.PLAYBOOK:
            self._database.listeners.run_moved(action, after, reason)

    def _report(self, action: ActionRecord, after: ActionStatus, reason: str) -> None:
        """Have the move told once the transaction is committed."""
        self._database.after_commit(lambda: self._database.listeners.action_moved(action, after, reason))

    def _tell(self, action: ActionRecord, is_ready: bool) -> None:
        """Have the action announced once the transaction is committed."""
        announcement = Announcement(action.id, action.kind, action.zone, is_ready)
        self._database.after_commit(lambda: self._database.listeners.action_announced(announcement))

    # -- SQL -----------------------------------------------------------------------------------------

    def _claimable(
        self, owner: str, now: float, only: str, values: Sequence[Value], most_takeovers: int, locking: str
    ) -> ActionRecord | None:
        one = f"{only} ORDER BY seq LIMIT 1{locking}"
        found = self._select(f"WHERE {_LATE}{one}", (now, owner, *values))
        found = found or self._select(f"WHERE {_DUE}{one}", (now, most_takeovers, *values))
        return found[0] if found else None

    def _has_claimable(
        self, owner: str, now: float, only: str, values: Sequence[Value], most_takeovers: int
    ) -> bool:
        """Whether `_claimable` would find one."""
        kinds = ((_LATE, (now, owner, *values)), (_DUE, (now, most_takeovers, *values)))
        found = " OR ".join(f"EXISTS (SELECT 1 FROM action WHERE {kind}{only})" for kind, _ in kinds)
        parameters = [value for _, given in kinds for value in given]
        ((has,),) = self._database.read(self._marked(f"SELECT CASE WHEN {found} THEN 1 ELSE 0 END"), parameters)
        return bool(has)

    def _hold_stack(self, action_id: str) -> None:
        """On a server: take the stack before its action, as requests do (`Stacks.hold`), or the two may deadlock."""
        if self._served:
            sql = "SELECT id FROM stack WHERE id = (SELECT stack_id FROM action WHERE id = %s) FOR UPDATE"
            self._database.read(sql, (action_id,))

    def _select(self, rest: str, parameters: Sequence[Value]) -> list[ActionRecord]:
        rows = self._database.read(self._read + self._marked(rest), parameters)
        return [record_of(row, self._sealing) for row in rows]

    def _closed(self, action: ActionRecord, text: str) -> str:
        """What an action has in it, as it is stored."""
        return self._sealing.close(text) if self._sealing.of([action.stack_id]) else text

    def _write(self, sql: str, parameters: Sequence[Value]) -> int:
        return self._database.write(self._marked(sql), parameters)

    def _marked(self, sql: str) -> str:
        return sql.replace("?", self._database.mark)


def back_off(takeovers: int) -> float:
    """Return the pause in seconds before the next takeover, after so many without progress: 1, 2, 4 … 60."""
    return min(float(2 ** min(takeovers - 1, 10)), LONGEST_BACK_OFF)


def most_takeovers(age: float) -> int:
    """Return the takeovers that an action may have which a worker of this age, in seconds, claims.

    The worker must have lived for the pause before the last of them. Processes that are killed every few seconds
    never do, so their deaths stop counting against the action.
    """
    if age >= LONGEST_BACK_OFF:
        return MOST_TAKEOVERS
    return 1 + int(max(age, 0.0)).bit_length()


def _node_action_went_well(state: str) -> bool | None:
    """Whether a node action that is in a state has; None: it has not ended."""
    return state == NodeActionState.DONE if state in ENDED_NODE_ACTIONS else None


def _mine(action: ActionRecord) -> tuple[Value, ...]:
    """The values of _MINE."""
    return action.id, action.owner, action.attempt


def _only(
    action_id: str | None, kinds: frozenset[Kind] | None, zones: frozenset[str] | None
) -> tuple[str, tuple[Value, ...]]:
    """What a claim is limited to, as SQL and its values."""
    sql = ""
    values: list[Value] = []
    if action_id is not None:
        sql += " AND id = ?"
        values.append(action_id)
    if kinds is not None:
        sql += f" AND kind IN ({', '.join('?' * len(kinds))})"
        values += sorted(kinds)
    if zones is not None:
        sql += f" AND (zone IS NULL{''.join(' OR zone = ?' for _ in zones)})"
        values += sorted(zones)
    return sql, tuple(values)


def successor(action: ActionRecord, now: float) -> ActionRecord:
    """The next action of the series that `action` belongs to. What its caller has proved himself with was erased at the
    end of the first, so it does without."""
    return ActionRecord(
        id=random_id(),
        stack_id=action.stack_id,
        root_id=action.root_id,
        project=action.project,
        verb=action.verb,
        status=ActionStatus.INIT,
        requested_by=action.requested_by,
        created_at=now,
        cause=Cause.SCHEDULED,
        inputs=action.inputs,
        context=action.context,
        interval=action.interval,
        not_before=now + action.interval,
        timeout=action.timeout,
        zone=action.zone,
    )


def _key(record: ActionRecord) -> str | None:
    """What nobody else may put an action on."""
    if record.status is ActionStatus.INIT:
        return f"{record.stack_id}:every:{record.verb}" if record.interval else None
    if record.status not in LIVE_ACTIONS:
        return None
    if record.verb is Verb.DELETE:
        return record.stack_id + (":force" if record.inputs.get("force") else ":delete")
    return record.stack_id


def _row(record: ActionRecord) -> tuple[Value, ...]:
    values = (
        dump(getattr(record, column)) if column in _JSON else getattr(record, column) for column in _WRITTEN
    )
    return (record.id, *values, record.name, record.kind, 0, _key(record))


def record_of(row: Row, sealing: Sealing) -> ActionRecord:
    """The record of a row with COLUMNS. Raises UnreadableSecret."""
    fields = dict(zip(COLUMNS, row, strict=True))
    for column in _JSON:
        fields[column] = json.loads(sealing.open(fields[column]))
    fields["verb"] = Verb(fields["verb"])
    fields["status"] = ActionStatus(fields["status"])
    fields["cause"] = Cause(fields["cause"])
    fields["control"] = None if fields["control"] is None else Control(fields["control"])
    fields["urgent"] = bool(fields["urgent"])
    return ActionRecord(**fields)
