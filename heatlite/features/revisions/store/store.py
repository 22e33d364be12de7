"""The store of revisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heatlite.core.status import ActionStatus
from heatlite.features.revisions.store.records import RevisionRecord, RevisionSummary
from heatlite.features.revisions.store.tables import Revision
from heatlite.store.actions.table import OPEN
from heatlite.store.database.statements import Row, Value
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, Series
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.stacks.stacks import has_secret
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import LargeValues, ProjectValues

_ROWS = Rows(RevisionRecord, Revision)
_SUMMARIES = Rows(RevisionSummary, Revision)
_ENVIRONMENT = (_ROWS.columns.index("environment"),)
_RESULT = f"COALESCE(result, (SELECT status FROM action WHERE action.id = action_id AND NOT {OPEN}))"
"""The result of a revision: the end of its action, unless the column has another."""


def _selection(rows: Rows[Any]) -> str:
    columns = ", ".join(_RESULT if name == "result" else name for name in rows.columns)
    return f"SELECT {columns} FROM revision WHERE stack_id = ?"


_SELECT, _SELECT_SUMMARIES = _selection(_ROWS), _selection(_SUMMARIES)


class _RevisionTable(Table[RevisionRecord]):
    """Encrypts the secret of a webhook even if the stack is not sealed."""

    def rows(self, records: Sequence[RevisionRecord]) -> Sequence[Row]:
        return [
            self.encryption.encrypt_columns(row, _ENVIRONMENT) if has_secret(record.environment) else row
            for record, row in zip(records, super().rows(records), strict=True)
        ]


class RevisionStore(FeatureStore):
    """Revisions of root stacks.

    Large values are those of the stack's tree. So a parameter of 2 MB that does not change is stored once.
    """

    tables = (Revision,)
    tree_holders = (Revision,)
    series = Series("revisions", Path(__file__).parent)
    of_stacks = {"revision": "stack_id"}
    rules = (
        ConsistencyRule(
            "a revision has a stack",
            "revision",
            "SELECT id, stack_id FROM revision WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = stack_id)",
        ),
        ConsistencyRule(
            "a revision has its template",
            "revision",
            "SELECT id, template_id FROM revision WHERE NOT EXISTS"
            " (SELECT 1 FROM template WHERE template.id = template_id)",
        ),
    )

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        self._table = _RevisionTable(encryption, _ROWS, stack="stack_id", large_values=LargeValues(encryption))

    def insert(self, records: Sequence[RevisionRecord]) -> None:
        """Add revisions, in the transaction that has the row of their stack."""
        self._table.insert(records)

    def of_stack(self, stack_id: str) -> list[RevisionSummary]:
        """Return the revisions of a stack, newest first."""
        return _SUMMARIES.records(self.database.read(f"{_SELECT_SUMMARIES} ORDER BY number DESC", (stack_id,)))

    def last(self, stack_id: str) -> list[RevisionRecord]:
        """Return the newest revision of a stack, and before it the last that was reached.

        The newest comes first. Mostly it was reached, and is the only one.
        """
        newest = "ORDER BY number DESC LIMIT 1"
        found = self._found(newest, stack_id)
        if found and not found[0].is_reached:
            found += self._found(f"AND {_RESULT} = ? {newest}", stack_id, str(ActionStatus.SUCCEEDED))
        return found

    def get(self, stack_id: str, number: int) -> RevisionRecord | None:
        """Return a revision. None: it is not kept any more."""
        return next(iter(self._found("AND number = ?", stack_id, number)), None)

    def delete(self, stack_id: str, last: int, but: int) -> None:
        """Remove the revisions of a stack up to the number `last`, except `but`."""
        self.database.send(
            "DELETE FROM revision WHERE stack_id = ? AND number <= ? AND number <> ?", (stack_id, last, but)
        )

    def actions_removed(self, action_ids: Sequence[str]) -> None:
        sql = "UPDATE revision SET result = ? WHERE stack_id = ? AND action_id = ? AND result IS NULL"
        ends = "SELECT status, stack_id, id FROM action WHERE id IN ()"
        for end in [*self.database.read_in(ends, action_ids)]:
            self.database.send(sql, end)

    def reach(self, stack_id: str, number: int) -> None:
        """Note that another action has reached the definition of a revision."""
        sql = "UPDATE revision SET result = ? WHERE stack_id = ? AND number = ?"
        self.database.send(sql, (str(ActionStatus.SUCCEEDED), stack_id, number))

    def _found(self, rest: str, *parameters: Value) -> list[RevisionRecord]:
        return self._table.records(self.database.read(f"{_SELECT} {rest}", parameters))
