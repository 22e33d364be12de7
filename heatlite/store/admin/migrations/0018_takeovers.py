"""Number of takeovers of an action without progress."""

from peewee import Database, IntegerField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("action", "takeovers", IntegerField(default=0)))
