"""Actions without the credentials of callers, which nothing uses later."""

from peewee import Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.drop_column("action", "secrets"))
