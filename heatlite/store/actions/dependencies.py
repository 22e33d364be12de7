"""Dependencies of actions on actions, and on the work of features."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Needs
from heatlite.store.actions.table import ActionTable
from heatlite.store.feature_store import FeatureStore
from heatlite.store.records import ActionRecord, DependencyRecord
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.actions import Dependency
from heatlite.store.writes.batch import Table

_OPEN_DEPENDENTS = (
    "SELECT dependent, needs FROM dependency JOIN action ON action.id = dependent"
    " WHERE depended = ? AND state = 'open'{only} ORDER BY seq"
)
_ROWS = Rows(DependencyRecord, Dependency)


class Dependencies:
    """Stores dependencies, and makes dependents READY when the last one has ended.

    Child actions are no dependencies of their parent in this table; see `Moves.finish`.
    """

    def __init__(
        self, encryption: FieldEncryption, actions: ActionTable, features: Sequence[FeatureStore]
    ) -> None:
        self._actions = actions
        self._features = features
        self._database = actions.database
        self._table = Table(encryption, _ROWS)

    def add(self, record: ActionRecord, depends_on: Sequence[tuple[str, Needs]]) -> ActionRecord:
        """Store the dependencies of an action and return it with `pending` increased.

        A dependency that has ended is not waited for. One that failed ends the waiting at once.
        """
        if not depends_on:
            return record
        succeeded: dict[str, bool | None] = {}
        for feature in self._features:
            succeeded |= feature.results([one for one, _ in depends_on], record.root_id)
        actions = [one for one, _ in depends_on if one not in succeeded]
        # Lock order: by creation. A transaction that ends an action locks it before its dependents, which are later.
        for depended in sorted(actions, key=self._seq):
            found = self._actions.lock(depended)
            has_ended = found is None or found.status in ENDED_ACTIONS
            succeeded[depended] = (found is None or found.status is ActionStatus.SUCCEEDED) if has_ended else None
        states = {
            depended: "open" if succeeded[depended] is None else
            "ok" if succeeded[depended] or needs is Needs.END else "failed"
            for depended, needs in depends_on
        }
        self._table.insert([DependencyRecord(record.id, one, needs, states[one]) for one, needs in depends_on])
        failed = [*states.values()].count("failed")
        pending = record.pending + [*states.values()].count("open")
        return replace(record, pending=0 if failed else pending, failed_dependencies=failed)

    def _seq(self, action_id: str) -> int:
        found = self._actions.get(action_id)
        return 0 if found is None else found.seq

    def of(self, action_id: str) -> list[DependencyRecord]:
        """Return the dependencies of an action and those on it."""
        return self._table.select("WHERE dependent = ? OR depended = ? ORDER BY 1, 2", (action_id, action_id))

    def waited_for(self, action_ids: Sequence[str]) -> set[str]:
        """Return the ids of the open dependencies of the actions."""
        sql = "SELECT depended FROM dependency WHERE dependent IN () AND state = 'open'"
        return {one for (one,) in self._database.read_in(sql, action_ids)}

    def open_of(self, action_ids: Sequence[str]) -> dict[str, list[str]]:
        """Return the ids of what actions wait for, by the id of the action."""
        found: dict[str, list[str]] = {}
        sql = "SELECT dependent, depended FROM dependency WHERE dependent IN () AND state = 'open' ORDER BY 1, 2"
        for dependent, depended in self._database.read_in(sql, action_ids):
            found.setdefault(dependent, []).append(depended)
        return found

    def resolve(self, action_id: str, succeeded: bool, now: float) -> None:
        """Resolve all dependencies on an action, or other work, that has ended."""
        self._resolve(action_id, succeeded, now, "")

    def release_waiting(self, action_id: str, now: float) -> None:
        """Resolve the dependencies that need only the end of work that does not answer."""
        self._resolve(action_id, False, now, " AND needs = 'end'")

    def _resolve(self, action_id: str, succeeded: bool, now: float, only: str) -> None:
        for dependent, needs in self._database.read(_OPEN_DEPENDENTS.format(only=only), (action_id,)):
            satisfied = succeeded or needs == Needs.END
            self._database.write(
                "UPDATE dependency SET state = ? WHERE dependent = ? AND depended = ?",
                ("ok" if satisfied else "failed", dependent, action_id),
            )
            count = "pending = pending - 1" if satisfied else "pending = 0, failed_dependencies = 1"
            self._database.write(f"UPDATE action SET {count} WHERE id = ? AND pending > 0", (dependent,))
            record = self._actions.get(dependent)
            if record is not None and record.pending == 0 and _waits_to_start(record):
                self._actions.move(record, ActionStatus.READY, now)


def _waits_to_start(record: ActionRecord) -> bool:
    return record.status is ActionStatus.WAITING and record.started_at is None
