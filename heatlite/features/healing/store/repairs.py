"""Policies, scopes and repairs of trees, and the time of the last sweep."""

from collections.abc import Sequence

import peewee

from heatlite.features.healing.store.incidents import digest
from heatlite.features.healing.store.records import HealingPolicyRecord, HealingScopeRecord, RepairRecord
from heatlite.features.healing.store.tables import HealingPolicy, HealingScope, HealingSweep, Repair
from heatlite.store.database.database import Database
from heatlite.store.rows import Rows
from heatlite.store.tables.stacks import Stack

_POLICIES = Rows(HealingPolicyRecord, HealingPolicy)
_SCOPES = Rows(HealingScopeRecord, HealingScope, computed={"scope_digest": lambda record: digest(record.scope)})
_REPAIRS = Rows(RepairRecord, Repair)


class HealingPolicies:
    """Policies by root stack."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, root_id: str) -> HealingPolicyRecord | None:
        """Return the policy of a root stack; None: the defaults."""
        query = HealingPolicy.select(*_POLICIES.selected()).where(HealingPolicy.root_id == root_id)
        return next(iter(_POLICIES.records(self._database.select(query))), None)

    def page(self, project: str, limit: int, marker: str = "") -> list[tuple[str, HealingPolicyRecord]]:
        """Return names and policies of a project's live stacks, by stack id.

        The page begins after the id `marker`.
        """
        columns = ", ".join(f"p.{name}" for name in _POLICIES.columns)
        sql = (
            f"SELECT {columns}, s.live_name FROM healing_policy p JOIN stack s ON s.id = p.root_id"
            " WHERE s.project = ? AND s.live_name IS NOT NULL AND p.root_id > ? ORDER BY p.root_id LIMIT ?"
        )
        rows = self._database.read(sql, (project, marker, limit))
        return [*zip([row[-1] for row in rows], _POLICIES.records([row[:-1] for row in rows]), strict=True)]

    def put(self, record: HealingPolicyRecord) -> None:
        """Store the policy of a root stack. Call with the stack row locked."""
        row = _POLICIES.cells(record)
        mine = HealingPolicy.root_id == record.root_id
        if self._database.change(HealingPolicy.update(row).where(mine)) == 0:
            self._database.change(HealingPolicy.insert(row))

    def wake(self, root_id: str, now: float) -> None:
        """Have the loop look at the marks of a tree, if it has a policy."""
        # Plain SQL: each mark runs it, and peewee would take longer to write it than the database to run it.
        self._database.send("UPDATE healing_policy SET due = ? WHERE root_id = ?", (now, root_id))

    def postpone(self, root_id: str, now: float, until: float) -> None:
        """Look at the new marks of a tree later."""
        mine = (HealingPolicy.root_id == root_id) & (HealingPolicy.due <= now)
        self._database.change(HealingPolicy.update(due=until).where(mine))

    def due(self, root_id: str) -> float | None:
        """Return the time at which the loop looks at the marks of a tree.

        None: there is no new one.
        """
        query = HealingPolicy.select(HealingPolicy.due).where(HealingPolicy.root_id == root_id)
        return next((due for (due,) in self._database.select(query)), None)

    def looked(self, root_id: str, due: float) -> None:
        """Note that the loop has looked at the marks of a tree, unless a later one came."""
        mine = (HealingPolicy.root_id == root_id) & (HealingPolicy.due == due)
        self._database.change(HealingPolicy.update(due=None).where(mine))

    def delete(self, root_id: str) -> bool:
        """Remove the policy of a root stack. Returns whether it existed."""
        return self._database.change(HealingPolicy.delete().where(HealingPolicy.root_id == root_id)) == 1


class HealingScopes:
    """Scopes of trees. A scope without a row has never failed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_root(self, root_id: str) -> dict[str, HealingScopeRecord]:
        """Return the scopes of a tree by name."""
        query = HealingScope.select(*_SCOPES.selected()).where(HealingScope.root_id == root_id)
        return {record.scope: record for record in _SCOPES.records(self._database.select(query))}

    def save(self, record: HealingScopeRecord) -> None:
        """Write a scope. Call with the root's row locked."""
        row = _SCOPES.cells(record)
        mine = (HealingScope.root_id == record.root_id) & (HealingScope.scope_digest == row["scope_digest"])
        if self._database.change(HealingScope.insert(row).on_conflict_ignore()) == 0:
            self._database.change(HealingScope.update(row).where(mine))

    def counts(self) -> tuple[int, int]:
        """Return the number of scopes with an open breaker, and of suspended ones.

        Those of deleted stacks do not count: no operator can acknowledge them.
        """
        is_open = peewee.fn.SUM(peewee.Case(None, [(HealingScope.open_since.is_null(False), 1)], 0))
        held = peewee.fn.SUM(peewee.Case(None, [(HealingScope.is_suspended == True, 1)], 0))  # noqa: E712
        query = HealingScope.select(is_open, held).join(Stack, on=Stack.id == HealingScope.root_id)
        ((opened, suspended),) = self._database.select(query.where(Stack.deleted_at.is_null()))
        return int(opened or 0), int(suspended or 0)


class Repairs:
    """Repairs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def insert(self, record: RepairRecord) -> None:
        """Add a repair."""
        self._database.change(Repair.insert(_REPAIRS.cells(record)))

    def save(self, record: RepairRecord) -> None:
        """Write the end of a repair."""
        names = ("ended_at", "result", "settles_until", "is_failure")
        self._database.change(
            Repair.update({name: getattr(record, name) for name in names}).where(Repair.id == record.id)
        )

    def of_root(self, root_id: str, since: float) -> list[RepairRecord]:
        """Return a tree's repairs begun since a moment or still running, earliest first."""
        recent = (Repair.begun_at >= since) | Repair.ended_at.is_null()
        query = Repair.select(*_REPAIRS.selected()).where((Repair.root_id == root_id) & recent)
        return _REPAIRS.records(self._database.select(query.order_by(Repair.begun_at, Repair.id)))

    def of_action(self, action_id: str) -> list[RepairRecord]:
        """Return the repairs that an action carries out."""
        query = Repair.select(*_REPAIRS.selected()).where(Repair.action_id == action_id)
        return _REPAIRS.records(self._database.select(query.order_by(Repair.id)))

    def of_incidents(self, incident_ids: Sequence[str]) -> list[RepairRecord]:
        """Return the repairs of incidents, earliest first."""
        query = Repair.select(*_REPAIRS.selected()).where(Repair.incident_id.in_(incident_ids))
        return _REPAIRS.records(self._database.select(query.order_by(Repair.begun_at, Repair.id)))


class HealingSweeps:
    """The time of the last sweep."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def last(self) -> float | None:
        """Return the time of the last sweep of any engine; None: there was none."""
        for (swept_at,) in self._database.select(HealingSweep.select(HealingSweep.swept_at)):
            return float(swept_at)
        return None

    def swept(self, now: float, before: float | None) -> bool:
        """Note a sweep after that of the time `before`.

        Returns False if another engine was faster. A thread that was frozen in its sweep does not set the time back:
        the next sweep would find a gap.
        """
        if before is None:
            return self._database.change(HealingSweep.insert(id=1, swept_at=now).on_conflict_ignore()) == 1
        if now < before:
            return False
        update = HealingSweep.update(swept_at=now).where((HealingSweep.id == 1) & (HealingSweep.swept_at == before))
        return self._database.change(update) == 1
