"""Playbooks of projects."""


import peewee
from msgspec.structs import asdict

from heatlite.core.json import dump, parse
from heatlite.features.nodes.store.records import NodePlaybookRecord
from heatlite.store.database.statements import Row
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.tables.nodes import NodePlaybook

_COLUMNS = (
    NodePlaybook.project,
    NodePlaybook.name,
    NodePlaybook.document,
    NodePlaybook.created_by,
    NodePlaybook.created_at,
    NodePlaybook.updated_at,
)


class Playbooks:
    """Playbooks by project and name."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._encryption = encryption
        self._database = encryption.database

    def get(self, project: str, name: str) -> NodePlaybookRecord | None:
        """Return a playbook of a project."""
        mine = (NodePlaybook.project == project, NodePlaybook.name == name)
        found = self._database.select(NodePlaybook.select(*_COLUMNS).where(*mine))
        return self._record(found[0]) if found else None

    def list(self, project: str, limit: int | None = None, marker: str | None = None) -> list[NodePlaybookRecord]:
        """Return a page of a project's playbooks, by name.

        `marker` is the last name of the page before.
        """
        wanted = [NodePlaybook.project == project] + ([] if marker is None else [NodePlaybook.name > marker])
        select = NodePlaybook.select(*_COLUMNS).where(*wanted).order_by(NodePlaybook.name).limit(limit)
        return [self._record(row) for row in self._database.select(select)]

    def count(self, project: str) -> int:
        """Return the number of a project's playbooks."""
        query = NodePlaybook.select(peewee.fn.COUNT(NodePlaybook.name)).where(NodePlaybook.project == project)
        return int(self._database.select(query)[0][0])

    def put(self, record: NodePlaybookRecord) -> bool:
        """Store a playbook in place of one with its name. Returns True if it is new.

        Call it under a lock: two transactions could add it at the same time.
        """
        mine = (NodePlaybook.project == record.project) & (NodePlaybook.name == record.name)
        document = self._encryption.encrypt(dump(record.document))
        changed = {"document": document, "updated_at": record.updated_at}
        if self.get(record.project, record.name) is not None:
            self._database.change(NodePlaybook.update(changed).where(mine))
            return False
        self._database.change(NodePlaybook.insert({**asdict(record), "document": document, "updated_at": None}))
        return True

    def delete(self, project: str, name: str) -> bool:
        """Remove a playbook. Returns whether it existed."""
        mine = (NodePlaybook.project == project) & (NodePlaybook.name == name)
        return self._database.change(NodePlaybook.delete().where(mine)) > 0

    def _record(self, row: Row) -> NodePlaybookRecord:
        project, name, document, *rest = row
        return NodePlaybookRecord(project, name, parse(self._encryption.decrypt(document)), *rest)
