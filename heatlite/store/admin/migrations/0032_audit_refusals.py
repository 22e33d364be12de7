"""An index for the number of a caller's refusals in the audit log."""

from peewee import Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(
        migrator.drop_index("audit", "audit_user_time"),
        migrator.add_index("audit", ("user", "outcome", "time"), False),
    )
