"""The playbooks of projects."""

from dataclasses import asdict

from heatlite.store.database import Database
from heatlite.store.node_records import NodePlaybookRecord
from heatlite.store.tables import NodePlaybook

_COLUMNS = (
    NodePlaybook.project,
    NodePlaybook.name,
    NodePlaybook.document,
    NodePlaybook.created_by,
    NodePlaybook.created_at,
    NodePlaybook.updated_at,
)


class Playbooks:
    """The playbooks. Each method is one statement, but for `put`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, project: str, name: str) -> NodePlaybookRecord | None:
        """A playbook of a project."""
        mine = (NodePlaybook.project == project, NodePlaybook.name == name)
        found = self._database.select(NodePlaybook.select(*_COLUMNS).where(*mine))
        return NodePlaybookRecord(*found[0]) if found else None

    def list(self, project: str, limit: int | None = None, marker: str | None = None) -> list[NodePlaybookRecord]:
        """A page of a project's playbooks, by name; `marker` is the last name of the page before."""
        wanted = [NodePlaybook.project == project] + ([] if marker is None else [NodePlaybook.name > marker])
        select = NodePlaybook.select(*_COLUMNS).where(*wanted).order_by(NodePlaybook.name).limit(limit)
        return [NodePlaybookRecord(*row) for row in self._database.select(select)]

    def put(self, record: NodePlaybookRecord) -> bool:
        """Keep a playbook, in place of one with its name; whether it is new. Raises Duplicate where somebody else was
        first."""
        mine = (NodePlaybook.project == record.project) & (NodePlaybook.name == record.name)
        changed = {"document": record.document, "updated_at": record.updated_at}
        if self.get(record.project, record.name) is not None:
            self._database.change(NodePlaybook.update(changed).where(mine))
            return False
        self._database.change(NodePlaybook.insert({**asdict(record), "updated_at": None}))
        return True

    def delete(self, project: str, name: str) -> bool:
        """Remove a playbook; whether there was one."""
        mine = (NodePlaybook.project == project) & (NodePlaybook.name == name)
        return self._database.change(NodePlaybook.delete().where(mine)) > 0
