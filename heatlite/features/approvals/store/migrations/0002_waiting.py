"""Approvals of node actions, runs and repairs that wait already."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.core.json import dump

_WAITING = (
    (
        "node_action",
        "SELECT w.id, w.project, w.root_id, s.name, w.digest, w.requested_by, w.created_at, NULL, w.node"
        " FROM node_action w JOIN stack s ON s.id = w.root_id"
        " WHERE w.state = 'PENDING_APPROVE' AND w.run_id IS NULL",
    ),
    (
        "playbook_run",
        # Its digest is in its inputs, which may be encrypted.
        "SELECT w.id, w.project, w.root_id, s.name, '', w.requested_by, w.created_at, NULL, NULL"
        " FROM action w JOIN stack s ON s.id = w.root_id WHERE w.verb = 'PLAYBOOK' AND w.status = 'INIT'",
    ),
    (
        "repair",
        "SELECT w.id, w.project, w.root_id, s.name, w.plan_digest, 'healing', w.created_at, w.path, NULL"
        " FROM incident w JOIN stack s ON s.id = w.root_id WHERE w.state = 'PROPOSED'",
    ),
)
_BECAUSE = {"node_action": "node_action", "playbook_run": "playbook", "repair": "healing"}
_TARGETS = {"node_action": "node_action_id", "playbook_run": "action_id", "repair": "incident_id"}
_COLUMNS = (
    "id", "project", "subject", "state", "stack_name", "stack_id", "digest", "requested_by", "requester",
    "requested_at", "open_key", "resource", "nodes", "because", "reason", "content",
)  # fmt: skip


def up(_migrator: SchemaMigrator, db: Database) -> None:
    mark = db.param
    for subject, query in _WAITING:
        columns = (*_COLUMNS, _TARGETS[subject])
        sql = f"INSERT INTO approval ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"
        found = db.execute_sql(query).fetchall()  # type: ignore[no-untyped-call]
        for key, project, root, name, digest, by, time, path, node in found:
            requester = "" if subject == "repair" else by
            nodes, because = dump([node] if node else []), dump([_BECAUSE[subject]])
            row = (key, project, subject, "PENDING", name, root, digest or "", by, requester, time)
            more = (f"{subject}:{key}", path, nodes, because, "", "{}", key)
            db.execute_sql(sql, (*row, *more))  # type: ignore[no-untyped-call]
