"""Queries over actions, their history, and the removal of old ones."""

import math
from collections.abc import Callable, Sequence

from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Verb
from heatlite.store.actions.table import LIVE, OPEN, ActionTable
from heatlite.store.database.sql import chunks, marks
from heatlite.store.feature_store import FeatureStore
from heatlite.store.records import ActionRecord, TransitionRecord

_REMOVABLE = (
    f"NOT {OPEN} AND NOT EXISTS "
    f"(SELECT 1 FROM action AS parent WHERE parent.id = action.parent_id AND parent.{OPEN})"
)
"""Ended, and without a parent that may still ask for its result."""
_READY_AT = "COALESCE(updated_at, created_at)"
_OLDEST_READY = (
    f"SELECT MIN(CASE WHEN not_before > {_READY_AT} THEN not_before ELSE {_READY_AT} END) FROM action"
    " WHERE status = 'READY' AND (not_before IS NULL OR not_before <= ?)"
)


class Actions:
    """Reads actions of all states."""

    def __init__(
        self,
        actions: ActionTable,
        features: Sequence[FeatureStore],
        stores_off: Callable[[], Sequence[FeatureStore]],
    ) -> None:
        self._actions = actions
        self._features = features
        self._stores_off = stores_off
        self._database = actions.database

    def get(self, action_id: str) -> ActionRecord | None:
        """Return an action by its id."""
        return self._actions.get(action_id)

    def by_id(self, ids: Sequence[str]) -> dict[str, ActionRecord]:
        """Return those of the actions that are there and readable."""
        found: list[ActionRecord] = []
        for some in chunks(ids):
            found += self._actions.readable(f"WHERE id IN ({marks(some)})", some)
        return {one.id: one for one in found}

    def lock(self, action_id: str) -> ActionRecord | None:
        """Return an action, locked until the transaction ends. Lock its stack first."""
        return self._actions.lock(action_id)

    def existing(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that belong to actions."""
        return {one for (one,) in self._database.read_in("SELECT id FROM action WHERE id IN ()", ids)}

    def live(self, stack_ids: Sequence[str]) -> list[ActionRecord]:
        """Return the live actions of the stacks, oldest first."""
        out = self._actions.select_in(f"WHERE stack_id IN () AND {LIVE}", stack_ids)
        return sorted(out, key=lambda found: found.seq)

    def live_of_root(self, root_id: str) -> list[ActionRecord]:
        """Return the live actions of a tree, oldest first."""
        return self._actions.select(f"WHERE root_id = ? AND {LIVE} ORDER BY seq", (root_id,))

    def open_of_root(self, root_id: str) -> list[ActionRecord]:
        """Return the readable actions of a tree that have not ended, oldest first."""
        return self._actions.readable(f"WHERE root_id = ? AND {OPEN} ORDER BY seq", (root_id,))

    def last_reasons(self, action_ids: Sequence[str]) -> dict[str, str]:
        """Return the reasons of the last moves of actions, by id."""
        sql = "SELECT action_id, reason FROM transition WHERE action_id IN () ORDER BY id"
        return {str(action_id): str(reason) for action_id, reason in self._database.read_in(sql, action_ids)}

    def holding(self, live: Sequence[ActionRecord]) -> list[ActionRecord]:
        """Return those of some live actions that hold their stacks.

        A run does not that was set aside, or that its feature knows to rest.
        """
        resting = self.aside([action.id for action in live if action.verb is Verb.RUN])
        runs = [action for action in live if action.verb is Verb.RUN and action.status is ActionStatus.WAITING]
        for feature in self._features if runs else ():
            resting.update(feature.resting(runs))
        return [action for action in live if action.id not in resting]

    def aside(self, ids: Sequence[str]) -> set[str]:
        """Return those of some live runs that were set aside, see `ActionQueue.set_aside`."""
        sql = "SELECT id FROM action WHERE id IN () AND exclusive_key IS NULL"
        return {one for (one,) in self._database.read_in(sql, ids)}

    def count_live(self) -> dict[tuple[Verb, ActionStatus], int]:
        """Return the numbers of live actions by verb and status. Reads no ended ones."""
        sql = f"SELECT verb, status, COUNT(*) FROM action WHERE {LIVE} GROUP BY verb, status"
        return {(Verb(verb), ActionStatus(status)): count for verb, status, count in self._database.read(sql)}

    def oldest_ready(self, now: float) -> float | None:
        """Return the time when the oldest claimable action became READY, or None."""
        ((found,),) = self._database.read(_OLDEST_READY, (now,))
        return None if found is None else float(found)

    def running(self) -> list[ActionRecord]:
        """Return all actions that workers hold, oldest first."""
        return self._actions.select("WHERE status = 'RUNNING' ORDER BY seq", ())

    def ended(self, action_ids: Sequence[str]) -> list[ActionRecord]:
        """Return those of the actions that have ended."""
        return self._actions.select_in(f"WHERE id IN () AND NOT {OPEN}", action_ids)

    def children(self, parent_id: str) -> list[ActionRecord]:
        """Return the live child actions of an action, oldest first."""
        return self._actions.select(f"WHERE parent_id = ? AND {LIVE} ORDER BY seq", (parent_id,))

    def last_child(self, parent_id: str, stack_id: str) -> ActionRecord | None:
        """Return the last child action on a stack.

        Children are kept until their parent has ended.
        """
        rest = "WHERE parent_id = ? AND stack_id = ? ORDER BY seq DESC LIMIT 1"
        found = self._actions.select(rest, (parent_id, stack_id))
        return found[0] if found else None

    def last(self, stack_id: str, verb: Verb) -> ActionRecord | None:
        """Return the newest action with this verb on a stack that has ended, or None.

        Leaves out scheduled ones that were never admitted.
        """
        was_admitted = "(started_at IS NOT NULL OR deadline IS NOT NULL)"
        rest = f"WHERE stack_id = ? AND verb = ? AND NOT {OPEN} AND {was_admitted} ORDER BY seq DESC LIMIT 1"
        found = self._actions.select(rest, (stack_id, verb))
        return found[0] if found else None

    def unreached_since(self, stack_id: str) -> float:
        """Return the start of the updates since the last reached definition.

        The one that runs is one of them. A rollback undoes them all.
        """
        since = math.inf
        rest = "WHERE stack_id = ? AND verb IN ('UPDATE', 'RESTORE') ORDER BY seq DESC LIMIT 50"
        for one in self._actions.select(rest, (stack_id,)):
            if one.started_at is None:
                continue
            if one.status in ENDED_ACTIONS and one.outputs.stack_status != "UPDATE_FAILED":
                break
            since = min(since, one.started_at)
        return since

    def last_release(self, stack_ids: Sequence[str]) -> float:
        """Return the time of the last lock, unlock, suspend or resume of the stacks.

        0.0: there was none.
        """
        verbs = (Verb.LOCK, Verb.UNLOCK, Verb.SUSPEND, Verb.RESUME)
        last = 0.0
        for some in chunks(stack_ids):
            sql = (
                "SELECT MAX(COALESCE(finished_at, created_at)) FROM action"
                f" WHERE stack_id IN ({marks(some)}) AND verb IN ({marks(verbs)})"
            )
            ((found,),) = self._database.read(sql, (*some, *map(str, verbs)))
            last = max(last, found or 0.0)
        return last

    def history(self, action_id: str) -> list[TransitionRecord]:
        """Return the moves of an action, oldest first."""
        return self._actions.history(action_id)

    # -- retention ---------------------------------------------------------------------------------

    def older_than(self, moment: float, limit: int) -> list[str]:
        """Return the ids of removable actions that ended before a moment, by age."""
        sql = f"SELECT id, finished_at FROM action WHERE {_REMOVABLE} ORDER BY seq LIMIT {limit}"
        return [one for one, ended in self._database.read(sql) if ended is not None and ended < moment]

    def over_limit(self, most: int, limit: int) -> list[str]:
        """Return the oldest removable actions of a stack with more than `most`, as ids."""
        sql = "SELECT stack_id FROM action GROUP BY stack_id HAVING COUNT(*) > ? ORDER BY stack_id"
        for (stack_id,) in self._database.read(sql, (most,)):
            kept = "SELECT seq FROM action WHERE stack_id = ? ORDER BY seq DESC LIMIT 1 OFFSET ?"
            for (first,) in self._database.read(kept, (stack_id, most - 1)):
                old = f"stack_id = ? AND seq < ? AND {_REMOVABLE}"
                sql = f"SELECT id FROM action WHERE {old} ORDER BY seq LIMIT {limit}"
                found = self._database.read(sql, (stack_id, first))
                if found:  # else none of this stack can go yet
                    return [one for (one,) in found]
        return []

    def remove(self, action_ids: Sequence[str]) -> None:
        """Remove ended actions with their history and dependencies."""
        for one in (*self._features, *self._stores_off()):
            one.actions_removed(action_ids)
        self._database.write_in("DELETE FROM transition WHERE action_id IN ()", action_ids)
        self._database.write_in("DELETE FROM dependency WHERE dependent IN ()", action_ids)
        self._database.write_in("DELETE FROM action WHERE id IN ()", action_ids)
