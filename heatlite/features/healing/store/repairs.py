"""Policies, scopes and repairs of trees, and the time of the last sweep."""

from collections.abc import Sequence

import peewee

from heatlite.core.json import dump, parse
from heatlite.core.repairs import RepairStep
from heatlite.features.healing.store.incidents import digest
from heatlite.features.healing.store.records import HealingPolicyRecord, HealingScopeRecord, RepairRecord
from heatlite.features.healing.store.tables import HealingPolicy, HealingScope, HealingSweep, Repair
from heatlite.features.healing.terms import RepairResult
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Row
from heatlite.store.tables.stacks import Stack

_REPAIR = (
    Repair.id,
    Repair.incident_id,
    Repair.root_id,
    Repair.scope,
    Repair.member,
    Repair.path,
    Repair.step,
    Repair.position,
    Repair.action_id,
    Repair.begun_at,
    Repair.ended_at,
    Repair.result,
    Repair.settles_until,
    Repair.is_failure,
)


class HealingPolicies:
    """Policies by root stack."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, root_id: str) -> HealingPolicyRecord | None:
        """Return the policy of a root stack; None: the defaults."""
        columns = (
            HealingPolicy.root_id,
            HealingPolicy.document,
            HealingPolicy.version,
            HealingPolicy.updated_by,
            HealingPolicy.updated_at,
        )
        for row in self._database.select(HealingPolicy.select(*columns).where(HealingPolicy.root_id == root_id)):
            return HealingPolicyRecord(row[0], parse(row[1]), *row[2:])
        return None

    def page(self, project: str, limit: int, marker: str = "") -> list[tuple[str, HealingPolicyRecord]]:
        """Return names and policies of a project's live stacks, by stack id.

        The page begins after the id `marker`.
        """
        sql = (
            "SELECT s.live_name, p.root_id, p.document, p.version, p.updated_by, p.updated_at"
            " FROM healing_policy p JOIN stack s ON s.id = p.root_id"
            " WHERE s.project = ? AND s.live_name IS NOT NULL AND p.root_id > ? ORDER BY p.root_id LIMIT ?"
        )
        rows = self._database.read(sql, (project, marker, limit))
        return [(row[0], HealingPolicyRecord(row[1], parse(row[2]), *row[3:])) for row in rows]

    def put(self, record: HealingPolicyRecord) -> None:
        """Store the policy of a root stack. Call with the stack row locked."""
        changed = {
            "document": dump(record.document),
            "version": record.version,
            "updated_by": record.updated_by,
            "updated_at": record.updated_at,
        }
        mine = HealingPolicy.root_id == record.root_id
        if self._database.change(HealingPolicy.update(changed).where(mine)) == 0:
            self._database.change(HealingPolicy.insert(root_id=record.root_id, **changed))

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
        columns = (
            HealingScope.root_id,
            HealingScope.scope,
            HealingScope.open_since,
            HealingScope.is_suspended,
            HealingScope.failures,
        )
        rows = self._database.select(HealingScope.select(*columns).where(HealingScope.root_id == root_id))
        found = [
            HealingScopeRecord(root, scope, since, bool(held), failures) for root, scope, since, held, failures in rows
        ]
        return {record.scope: record for record in found}

    def save(self, record: HealingScopeRecord) -> None:
        """Write a scope. Call with the root's row locked."""
        changed = {
            "open_since": record.open_since,
            "is_suspended": record.is_suspended,
            "failures": record.failures,
        }
        key = digest(record.scope)
        mine = (HealingScope.root_id == record.root_id) & (HealingScope.scope_digest == key)
        row = {"root_id": record.root_id, "scope_digest": key, "scope": record.scope, **changed}
        if self._database.change(HealingScope.insert(row).on_conflict_ignore()) == 0:
            self._database.change(HealingScope.update(changed).where(mine))

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
        row = {column.name: getattr(record, column.name) for column in _REPAIR}
        self._database.change(Repair.insert(row))

    def save(self, record: RepairRecord) -> None:
        """Write the end of a repair."""
        names = ("ended_at", "result", "settles_until", "is_failure")
        self._database.change(
            Repair.update({name: getattr(record, name) for name in names}).where(Repair.id == record.id)
        )

    def of_root(self, root_id: str, since: float) -> list[RepairRecord]:
        """Return a tree's repairs begun since a moment or still running, earliest first."""
        recent = (Repair.begun_at >= since) | Repair.ended_at.is_null()
        query = Repair.select(*_REPAIR).where((Repair.root_id == root_id) & recent)
        return [_repair(row) for row in self._database.select(query.order_by(Repair.begun_at, Repair.id))]

    def of_action(self, action_id: str) -> list[RepairRecord]:
        """Return the repairs that an action carries out."""
        query = Repair.select(*_REPAIR).where(Repair.action_id == action_id)
        return [_repair(row) for row in self._database.select(query.order_by(Repair.id))]

    def of_incidents(self, incident_ids: Sequence[str]) -> list[RepairRecord]:
        """Return the repairs of incidents, earliest first."""
        query = Repair.select(*_REPAIR).where(Repair.incident_id.in_(incident_ids))
        return [_repair(row) for row in self._database.select(query.order_by(Repair.begun_at, Repair.id))]


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


def _repair(row: Row) -> RepairRecord:
    values = dict(zip((column.name for column in _REPAIR), row, strict=True))
    values["step"] = RepairStep(values["step"])
    values["result"] = None if values["result"] is None else RepairResult(values["result"])
    values["is_failure"] = bool(values["is_failure"])
    return RepairRecord(**values)
