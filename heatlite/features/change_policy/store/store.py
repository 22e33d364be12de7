"""The store of change policies."""

from pathlib import Path
from typing import TYPE_CHECKING

from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.tables import MODELS, ChangePolicy
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Series
from heatlite.store.rows import Rows

if TYPE_CHECKING:
    from heatlite.store.store import Store

_ROWS = Rows(ChangePolicyRecord, ChangePolicy)


class ChangePolicyStore(FeatureStore):
    """Change policies, at most one of each project and of each root stack."""

    tables = MODELS
    series = Series("change_policy", Path(__file__).parent)
    of_stacks = {"change_policy": "stack_id"}
    rules = (
        ConsistencyRule(
            "a change policy of a stack has its stack",
            "change_policy",
            "SELECT stack_id, project FROM change_policy WHERE stack_id <> ''"
            " AND NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = stack_id)",
        ),
    )

    def of(self, project: str, root_id: str = "") -> list[ChangePolicyRecord]:
        """Return the policies of a project and of one of its root stacks.

        Each may be missing.
        """
        sql = f"SELECT {', '.join(_ROWS.columns)} FROM change_policy WHERE project = ? AND stack_id IN ('', ?)"
        return _ROWS.records(self.database.read(f"{sql} ORDER BY stack_id", (project, root_id)))

    def any_rules(self) -> bool:
        """Return whether the policy of a project may have rules."""
        sql = "SELECT 1 FROM change_policy WHERE stack_id = '' AND document LIKE ? LIMIT 1"
        return bool(self.database.read(sql, ('%"rules"%',)))

    def lock(self, store: "Store", project: str) -> None:
        """Lock the policies of a project until the transaction ends."""
        store.limit_locks.take(f"change policy of {project}")

    def put(self, record: ChangePolicyRecord) -> None:
        """Write a policy in place of any former one. Lock the project first."""
        row = _ROWS.cells(record)
        self.database.transaction_memo.pop(memo_key(record.project, record.stack_id), None)
        mine = (ChangePolicy.project == record.project) & (ChangePolicy.stack_id == record.stack_id)
        if self.database.change(ChangePolicy.update(row).where(mine)) == 0:
            self.database.change(ChangePolicy.insert(row))


def memo_key(project: str, root_id: str) -> str:
    """Return the key of what a transaction knows of the policy of a root stack."""
    return f"change policy of {project} and {root_id}"
