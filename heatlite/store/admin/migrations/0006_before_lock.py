"""State of a stack before its lock."""

from peewee import CharField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("stack", "before_lock", CharField(max_length=32, null=True)))
