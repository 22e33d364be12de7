"""Health of resources beside their state."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("resource", "health", LongTextField(null=True)))
