"""The queue of actions: enqueue now, schedule for later, admit when due."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.errors import ActionConflict
from heatlite.core.ids import random_id
from heatlite.core.status import ActionStatus, Cause, Needs, Verb
from heatlite.store.actions.dependencies import Dependencies
from heatlite.store.actions.table import OPEN, ActionTable, exclusive_key
from heatlite.store.errors import Duplicate, Fenced
from heatlite.store.records import ActionRecord

_ADMIT = (
    "UPDATE action SET status = ?, exclusive_key = ?, zone = ?, deadline = ?, started_at = ?, updated_at = ?,"
    " pending = ? WHERE id = ?"
)


class ActionQueue:
    """Adds actions to the queue.

    A stack has at most one live action beside a DELETE, and one DELETE.
    """

    def __init__(self, actions: ActionTable, dependencies: Dependencies) -> None:
        self._actions = actions
        self._database = actions.database
        self._dependencies = dependencies
        self._interval = actions.database.quote("interval")

    def enqueue(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """Add an INIT action as READY, or as WAITING for its dependencies.

        Raises ActionConflict if the stack has an action already.
        """
        if record.status is ActionStatus.INIT:
            record = self._dependencies.add(record, depends_on)
            record = replace(record, status=ActionStatus.WAITING if record.pending else ActionStatus.READY)
        self._insert([record], f"Stack {record.stack_id} has another action already. Try again later.")

    def enqueue_children(self, records: Sequence[ActionRecord]) -> None:
        """Add child actions of a running action as READY. Raises ActionConflict."""
        ready = [replace(record, status=ActionStatus.READY) for record in records]
        self._insert(ready, "A nested stack has another action already. Try again later.")

    def schedule(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """Store an action for its time (`not_before`). It reserves nothing until then.

        A stack has at most one series of each verb. Raises ActionConflict.
        """
        record = self._dependencies.add(record, depends_on)
        self._insert([record], f"Stack {record.stack_id} has a recurring {record.verb} already.")

    def schedule_successor(self, action: ActionRecord, now: float) -> None:
        """Schedule the next action of a series."""
        self.schedule(
            ActionRecord(
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
        )

    def admit(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]] = ()) -> None:
        """Move a scheduled action to READY, or to WAITING for its dependencies.

        The caller has locked it. It reserves its stack from now on. Raises ActionConflict.
        """
        known = {one.depended for one in self._dependencies.of(record.id)}
        failed = record.failed_dependencies
        record = self._dependencies.add(record, [one for one in depends_on if one[0] not in known])
        if failed:  # it waits no more, and its worker will report the failure
            record = replace(record, pending=0, failed_dependencies=failed)
        after = ActionStatus.WAITING if record.pending else ActionStatus.READY
        key = exclusive_key(replace(record, status=after))
        times = (record.deadline, record.started_at, record.updated_at)
        try:
            self._database.write(_ADMIT, (after, key, record.zone, *times, record.pending, record.id))
        except Duplicate as error:
            raise ActionConflict(f"Stack {record.stack_id} has an action already. Try again later.") from error
        self._actions.record_move(record, after, record.updated_at or record.created_at)
        if after is ActionStatus.READY:
            self._actions.announce(record, is_ready=True)

    def set_aside(self, run_id: str) -> None:
        """Have a live run hold nothing, so that another action may hold its stack.

        It stays WAITING, and does nothing until `take_up`.
        """
        self._database.write("UPDATE action SET exclusive_key = NULL WHERE id = ?", (run_id,))

    def take_up(self, run: ActionRecord) -> None:
        """Have a run hold its stack again. Its admission has passed."""
        self._database.write("UPDATE action SET exclusive_key = ? WHERE id = ?", (exclusive_key(run), run.id))

    def note_approval(self, action_id: str, approval_id: str) -> None:
        """Note the approval of an action, in the transaction that has added it."""
        self._database.write("UPDATE action SET approval_id = ? WHERE id = ?", (approval_id, action_id))

    def take(self, action_id: str) -> None:
        """Remove a scheduled action: the one that begins in its place has its id.

        Its dependencies and its history stay. Lock its stack first. Raises Fenced if it is no longer INIT.
        """
        taken = self._actions.lock(action_id)
        if taken is None or taken.status is not ActionStatus.INIT:
            raise Fenced(action_id)
        self._database.write("DELETE FROM action WHERE id = ?", (action_id,))

    def series(self, stack_id: str, verb: Verb) -> ActionRecord | None:
        """Return the open action of a stack's series of a verb, or None."""
        rest = f"WHERE stack_id = ? AND verb = ? AND {OPEN} AND {self._interval} > 0"
        found = self._actions.select(rest, (stack_id, verb))
        return found[0] if found else None

    def count_scheduled(self, stack_id: str) -> int:
        """Return the number of scheduled actions of a stack."""
        sql = "SELECT COUNT(*) FROM action WHERE stack_id = ? AND status = 'INIT'"
        ((count,),) = self._database.read(sql, (stack_id,))
        return int(count)

    def due(self, now: float) -> list[ActionRecord]:
        """Return the readable scheduled actions whose time has come, oldest first."""
        return self._actions.readable("WHERE status = 'INIT' AND not_before <= ? ORDER BY seq", (now,))

    def _insert(self, records: Sequence[ActionRecord], conflict: str) -> None:
        if not records:
            return
        try:
            self._actions.insert(records)
            self._database.flush()
        except Duplicate as error:
            raise ActionConflict(conflict) from error
