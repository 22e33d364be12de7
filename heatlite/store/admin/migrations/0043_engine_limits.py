"""Kinds and zones of the actions that each engine runs."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    for column in ("kinds", "zones"):
        migrator.migrate(migrator.add_column("service", column, TextField(null=True)))
