"""Approvals of actions and of requests in the audit log."""

from peewee import CharField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    for table in ("action", "audit"):
        migrator.migrate(migrator.add_column(table, "approval_id", CharField(max_length=36, null=True)))
