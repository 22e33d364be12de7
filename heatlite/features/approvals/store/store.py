"""The store of approvals."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import peewee
from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.clock import DAY
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap
from heatlite.core.runtime.meter import Gauge
from heatlite.features.approvals.store.records import OF_STACKS, ApprovalRecord, ApprovalState
from heatlite.features.approvals.store.tables import MODELS, Approval
from heatlite.store.database.sql import marks
from heatlite.store.feature_store import ConsistencyRule, FeatureStore, OldRows, RootRows, Series
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table
from heatlite.store.writes.large_values import ProjectValues

_ROWS = Rows(ApprovalRecord, Approval)
_LISTED = ", ".join("'{}'" if name == "content" else name for name in _ROWS.columns)
"""Columns of lists, which show no content."""
_OF_STACKS = ", ".join(f"'{one}'" for one in OF_STACKS)
WHOLE_ID = 36
MIN_PREFIX = 4
"""Characters of the shortest beginning of an id that finds it."""


class ApprovalQuery(Struct, frozen=True):
    """Filters of a list. Values of one field are alternatives."""

    state: tuple[str, ...] = ()
    subject: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    """Ids or names."""
    requested_by: tuple[str, ...] = ()
    limit: int = 100
    after: ApprovalRecord | None = None
    """The last of the page before."""


class ApprovalStore(FeatureStore):
    """Approvals of projects."""

    tables = MODELS
    series = Series("approvals", Path(__file__).parent)
    of_stacks = {"approval": "stack_id"}
    stack_rows = RootRows("approval", "stack_id")
    decisions = (
        f"SELECT COUNT(*) FROM approval WHERE project = ? AND state = 'PENDING' AND subject IN ({_OF_STACKS})",
    )
    rules = (
        ConsistencyRule(
            "an approval that is open has a key, and no other has one",
            "approval",
            "SELECT id, state FROM approval WHERE (open_key IS NULL) = (state IN ('PENDING', 'APPROVED'))",
        ),
        ConsistencyRule(
            "an approval that waits has an action that waits",
            "approval",
            "SELECT id, action_id FROM approval WHERE state = 'PENDING' AND action_id IS NOT NULL AND NOT EXISTS"
            " (SELECT 1 FROM action WHERE action.id = action_id AND action.status = 'INIT')",
        ),
        ConsistencyRule(
            "an action without a time waits for an approval",
            "action",
            "SELECT id, status FROM action WHERE status = 'INIT' AND not_before IS NULL AND request IS NOT NULL AND NOT"
            " EXISTS (SELECT 1 FROM approval WHERE approval.action_id = action.id AND state = 'PENDING')",
        ),
    )

    def __init__(self, encryption: FieldEncryption, values: ProjectValues) -> None:
        super().__init__(encryption, values)
        self._table = Table(encryption, _ROWS, key="id")

    def insert(self, record: ApprovalRecord) -> None:
        """Add an approval. Raises Duplicate if an equal one is open."""
        self.database.change(Approval.insert(_ROWS.cells(record)))
        self.database.flush()

    def move(self, before: ApprovalRecord, after: ApprovalRecord) -> bool:
        """Write a change of an approval, unless its state has changed since it was read.

        Returns False if nothing was written.
        """
        cells = _ROWS.cells(after)
        cells.pop("content")
        seen = (Approval.id == before.id, Approval.state == before.state.value)
        return self.database.change(Approval.update(cells).where(*seen)) == 1

    def get(self, approval_id: str) -> ApprovalRecord | None:
        """Return an approval with its content."""
        found = self._table.select("WHERE id = ?", (approval_id,))
        return found[0] if found else None

    def find(self, project: str, reference: str, most: int) -> list[ApprovalRecord]:
        """Return the approvals of a project with an id, or with ids that begin so.

        Without one it is the last that is about an action, a node action or an incident with that id.
        """
        about = " OR ".join(f"{column} = ?" for column in ("action_id", "node_action_id", "incident_id"))
        if len(reference) < MIN_PREFIX or not set(reference.lower()) <= set("0123456789abcdef-"):
            return []
        sql = f"SELECT {_LISTED} FROM approval WHERE project = ? AND id LIKE ? ORDER BY id LIMIT ?"
        found = _ROWS.records(self.database.read(sql, (project, f"{reference.lower()}%", most)))
        if found or len(reference) < WHOLE_ID:
            return found
        sql = f"SELECT {_LISTED} FROM approval WHERE project = ? AND ({about}) ORDER BY requested_at DESC, id LIMIT 1"
        return _ROWS.records(self.database.read(sql, (project, *[reference] * 3)))

    def open(self, key: str) -> ApprovalRecord | None:
        """Return the open approval of a subject, target and content."""
        found = self._table.select("WHERE open_key = ?", (key,))
        return found[0] if found else None

    def of_action(self, action_id: str) -> ApprovalRecord | None:
        """Return the open approval of an action that has not begun."""
        found = self._table.select("WHERE action_id = ? AND state IN ('PENDING', 'APPROVED')", (action_id,))
        return found[0] if found else None

    def used_by(self, action_id: str) -> ApprovalRecord | None:
        """Return the approval that an action needed."""
        found = self._table.select("WHERE used_by = ? AND state = 'DONE'", (action_id,))
        return found[0] if found else None

    def open_of_stack(self, stack_id: str, ids: Sequence[str] = ()) -> list[ApprovalRecord]:
        """Return the open approvals of a root stack, and those with some ids."""
        which = f"(stack_id = ? OR id IN ({marks(ids)}))" if ids else "stack_id = ?"
        return self._table.select(f"WHERE {which} AND state IN ('PENDING', 'APPROVED')", (stack_id, *ids))

    def pending(self, subject: str, stack_id: str | None = None) -> list[ApprovalRecord]:
        """Return the approvals of a subject that wait, or those of a root stack."""
        where, values = ("", ()) if stack_id is None else (" AND stack_id = ?", (stack_id,))
        return self._table.select(f"WHERE state = 'PENDING' AND subject = ?{where}", (subject, *values))

    def count_pending(self, stack_id: str) -> int:
        """Return the number of approvals of a root stack that wait."""
        return self._pending([stack_id]).get(stack_id, 0)

    def due(self, now: float) -> list[ApprovalRecord]:
        """Return the open approvals whose time is over."""
        return self._table.select("WHERE state IN ('PENDING', 'APPROVED') AND expires_at <= ? ORDER BY id", (now,))

    def lost(self) -> list[ApprovalRecord]:
        """Return those that wait, but whose action or stack has ended."""
        waits = "SELECT 1 FROM action WHERE action.id = action_id AND action.status = 'INIT'"
        lives = "SELECT 1 FROM stack WHERE stack.id = stack_id AND stack.deleted_at IS NULL"
        gone = f"action_id IS NOT NULL AND NOT EXISTS ({waits}) OR stack_id <> '' AND NOT EXISTS ({lives})"
        return self._table.select(f"WHERE state = 'PENDING' AND ({gone}) ORDER BY id")

    def page(self, project: str, asked: ApprovalQuery) -> list[ApprovalRecord]:
        """Return the approvals of a project without content, newest first."""
        conditions, values = ["project = ?"], list[str | float]([project])
        for column, given in (("state", asked.state), ("subject", asked.subject), ("requested_by", asked.requested_by)):
            if given:
                conditions.append(f"{column} IN ({marks(given)})")
                values += given
        if asked.stack:
            conditions.append(f"(stack_id IN ({marks(asked.stack)}) OR stack_name IN ({marks(asked.stack)}))")
            values += [*asked.stack, *asked.stack]
        if asked.after is not None:
            conditions.append("(requested_at < ? OR requested_at = ? AND id < ?)")
            values += [asked.after.requested_at, asked.after.requested_at, asked.after.id]
        sql = f"SELECT {_LISTED} FROM approval WHERE {' AND '.join(conditions)} ORDER BY requested_at DESC, id DESC"
        return _ROWS.records(self.database.read(f"{sql} LIMIT ?", (*values, asked.limit)))

    def _pending(self, root_ids: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        sql = "SELECT stack_id, COUNT(*) FROM approval WHERE stack_id IN () AND state = 'PENDING' GROUP BY stack_id"
        for stack_id, count in self.database.read_in(sql, root_ids):
            found[str(stack_id)] = int(str(count))
        return found

    def stack_facts(self, root_ids: Sequence[str], noted: Sequence[str]) -> Mapping[str, JsonMap]:
        return {stack_id: {"approvals": count} for stack_id, count in self._pending(noted).items()}

    def old_rows(self, settings: Settings, now: float, limit: int) -> Iterator[OldRows]:
        before = now - settings.action_days * DAY
        sql = "SELECT id FROM approval WHERE open_key IS NULL AND requested_at < ? ORDER BY requested_at LIMIT ?"
        yield self._table.delete, [str(key) for (key,) in self.database.read(sql, (before, limit))]

    def gauges(self) -> Iterator[Gauge]:
        query = Approval.select(Approval.subject, peewee.fn.COUNT(Approval.id)).where(Approval.state == "PENDING")
        rows = self.database.select(query.group_by(Approval.subject))
        found: dict[tuple[str, ...], float] = {(str(subject),): float(str(count)) for subject, count in rows}
        text = "Approvals that wait for a decision, by subject."
        yield Gauge("heatlite_approvals_pending", text, ("subject",), found)


def ended(record: ApprovalRecord, state: ApprovalState) -> ApprovalRecord:
    """Return an approval in a state that none follows."""
    return replace(record, state=state, open_key=None)
