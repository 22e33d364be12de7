"""Playbooks of projects."""

import peewee

from heatlite.features.nodes.store.records import NodePlaybookRecord
from heatlite.features.nodes.store.tables import NodePlaybook
from heatlite.store.rows import Rows
from heatlite.store.secrets.field_encryption import FieldEncryption
from heatlite.store.writes.batch import Table

_ROWS = Rows(NodePlaybookRecord, NodePlaybook)


class Playbooks:
    """Playbooks by project and name."""

    def __init__(self, encryption: FieldEncryption) -> None:
        self._table = Table(encryption, _ROWS)
        self._database = encryption.database

    def get(self, project: str, name: str) -> NodePlaybookRecord | None:
        """Return a playbook of a project."""
        return self._table.first("WHERE project = ? AND name = ?", (project, name))

    def list(self, project: str, limit: int | None = None, marker: str | None = None) -> list[NodePlaybookRecord]:
        """Return a page of a project's playbooks, by name.

        `marker` is the last name of the page before.
        """
        wanted = [NodePlaybook.project == project] + ([] if marker is None else [NodePlaybook.name > marker])
        select = NodePlaybook.select(*_ROWS.selected()).where(*wanted).order_by(NodePlaybook.name).limit(limit)
        return self._table.records(self._database.select(select))

    def count(self, project: str) -> int:
        """Return the number of a project's playbooks."""
        query = NodePlaybook.select(peewee.fn.COUNT(NodePlaybook.name)).where(NodePlaybook.project == project)
        return int(self._database.select(query)[0][0])

    def put(self, record: NodePlaybookRecord) -> bool:
        """Store a playbook in place of one with its name. Returns True if it is new.

        Call it under a lock: two transactions could add it at the same time.
        """
        mine = (NodePlaybook.project == record.project) & (NodePlaybook.name == record.name)
        row = self._table.cells(record)
        changed = {"document": row["document"], "updated_at": record.updated_at}
        if self.get(record.project, record.name) is not None:
            self._database.change(NodePlaybook.update(changed).where(mine))
            return False
        self._database.change(NodePlaybook.insert({**row, "updated_at": None}))
        return True

    def delete(self, project: str, name: str) -> bool:
        """Remove a playbook. Returns whether it existed."""
        mine = (NodePlaybook.project == project) & (NodePlaybook.name == name)
        return self._database.change(NodePlaybook.delete().where(mine)) > 0
