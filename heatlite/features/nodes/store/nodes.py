"""Nodes, and the orchestrations that synchronize the nodes of a tree."""

from collections.abc import Sequence

import peewee
from msgspec.structs import replace

from heatlite.core.json import JsonMap, dump
from heatlite.features.nodes.states import NAME
from heatlite.features.nodes.store.records import NodeRecord, OrchestrationRecord
from heatlite.features.nodes.store.tables import Node, Orchestration
from heatlite.store.database.statements import Sent
from heatlite.store.errors import Fenced
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.stacks import Resource
from heatlite.store.writes.batch import Table
from heatlite.store.writes.record_store import RecordStore

_NODES = Rows(NodeRecord, Node)
_ORCHESTRATIONS = Rows(OrchestrationRecord, Orchestration)


class Nodes(RecordStore[NodeRecord]):
    """The nodes. Each method is one statement."""

    def __init__(self, encryption: FieldEncryption) -> None:
        super().__init__(encryption, Table(encryption, _NODES))

    def insert(self, record: NodeRecord) -> None:
        """Add a node."""
        self._table.insert([record])

    def existing(self, node_ids: Sequence[str]) -> dict[str, NodeRecord]:
        """Return the existing nodes of the ids, by id."""
        return {node.id: node for node in self._table.select_in("WHERE id IN ()", node_ids)}

    def roots_of_server(self, project: str, server_id: str) -> list[str]:
        """Return the roots of the trees whose agents deploy software to a server."""
        mine = (Node.project == project, Node.deployments == True, Resource.physical_id == server_id)  # noqa: E712
        select = Node.select(Node.root_id).join(Resource, on=(Resource.id == Node.id)).where(*mine).distinct()
        return [root_id for (root_id,) in self._database.select(select)]

    def of_root(self, root_id: str) -> list[NodeRecord]:
        """Return the nodes of a tree, in the order of their resources' creation."""
        return self._table.select("WHERE root_id = ? ORDER BY id", (root_id,))

    def of_stacks(self, stack_ids: Sequence[str]) -> list[NodeRecord]:
        """Return the nodes of some stacks, in the same order."""
        return sorted(self._table.select_in("WHERE stack_id IN ()", stack_ids), key=lambda node: node.id)


_NUDGE = (
    "UPDATE orchestration SET due_at = CASE WHEN due_at > ? THEN ? ELSE due_at END, nudges = nudges + 1"
    " WHERE root_id = ?"
)


class Orchestrations:
    """Orchestrations, one per tree with nodes. The row is the lease and the schedule."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._database = encryption.database
        self._table = Table(encryption, _ORCHESTRATIONS, key="root_id")

    def get(self, root_id: str) -> OrchestrationRecord | None:
        """Return the orchestration of a tree."""
        return self._table.first("WHERE root_id = ?", (root_id,))

    def due(self, now: float, limit: int = 10) -> list[OrchestrationRecord]:
        """Return those to start or take over, longest due first."""
        rest = "WHERE due_at <= ? AND lease_until <= ? ORDER BY due_at LIMIT ?"
        return self._table.select(rest, (now, now, limit))

    def exist(self) -> bool:
        """Return True if a tree has nodes."""
        return bool(self._database.read("SELECT 1 FROM orchestration LIMIT 1"))

    def nudge_existing(self, root_id: str, now: float) -> bool:
        """Make the orchestration of a tree due, even while one runs.

        Returns False for a tree without nodes.
        """
        return self.send_nudge(root_id, now).rowcount > 0

    def send_nudge(self, root_id: str, now: float) -> Sent:
        """Do as `nudge_existing`, by `Database.send`.

        The number of rows met is 0 for a tree without nodes.
        """
        nudged = self._database.send(_NUDGE, (now, now, root_id))

        def tell() -> None:
            if nudged.rowcount:
                self._database.listeners.work_due(NAME)

        self._database.after_commit(tell)
        return nudged

    def nudge(self, root_id: str, now: float) -> None:
        """Make the orchestration of a tree due, and add it if the tree had none."""
        if not self.nudge_existing(root_id, now):
            # Of two transactions that add it at once, the second changes nothing.
            row = {"root_id": root_id, "due_at": now, "lease_until": 0.0, "fence": 0, "nudges": 1, "report": "{}"}
            self._database.change(Orchestration.insert(row).on_conflict_ignore())
            self._database.after_commit(lambda: self._database.listeners.work_due(NAME))

    def claim(self, record: OrchestrationRecord, owner: str, now: float, lease: float) -> OrchestrationRecord | None:
        """Claim an orchestration that is due; None if another process was faster."""
        claimed = replace(record, owner=owner, lease_until=now + lease, fence=record.fence + 1, started_at=now)
        changed = {name: getattr(claimed, name) for name in ("owner", "lease_until", "fence", "started_at")}
        free = _is(record) & (Orchestration.lease_until <= now)
        return claimed if self._database.change(Orchestration.update(changed).where(free)) == 1 else None

    def check(self, record: OrchestrationRecord) -> None:
        """Raise Fenced if another process has claimed the orchestration since."""
        if not self._database.select(Orchestration.select(Orchestration.fence).where(_is(record))):
            raise Fenced(record.root_id)

    def renew(self, record: OrchestrationRecord, now: float, lease: float) -> None:
        """Renew the lease in the transaction that writes. Raises Fenced."""
        if self._database.change(Orchestration.update(lease_until=now + lease).where(_is(record))) == 0:
            raise Fenced(record.root_id)

    def finish(self, record: OrchestrationRecord, now: float, next_at: float, report: JsonMap) -> None:
        """Release the lease until `next_at`, or until now after a nudge. Raises Fenced."""
        nudged = Orchestration.nudges > record.nudges
        changed = {
            "due_at": peewee.Case(None, ((nudged, now),), next_at),
            "owner": None,
            "lease_until": 0.0,
            "ended_at": now,
            "report": dump(report),
        }
        if self._database.change(Orchestration.update(changed).where(_is(record))) == 0:
            raise Fenced(record.root_id)

    def delete(self, root_id: str) -> None:
        """Remove the orchestration of a tree without nodes."""
        self._database.change(Orchestration.delete().where(Orchestration.root_id == root_id))

    def expire_all(self) -> None:
        """Expire every lease. Only for an engine that holds the engine lock."""
        self._database.change(Orchestration.update(lease_until=0.0).where(Orchestration.lease_until > 0.0))


def _is(record: OrchestrationRecord) -> peewee.ColumnBase:
    """Return the condition for the row as claimed: each claim raises its fence."""
    same: peewee.ColumnBase = (Orchestration.root_id == record.root_id) & (Orchestration.fence == record.fence)
    return same
