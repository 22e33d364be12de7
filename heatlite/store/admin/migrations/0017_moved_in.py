"""Action and phase that last changed a resource."""

from peewee import CharField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("resource", "moved_in", CharField(max_length=64, null=True)))
