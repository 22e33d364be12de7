"""Operations that gave stacks their definitions."""

from peewee import CharField, Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("revision", "operation", CharField(max_length=32, null=True)))
