"""Protection of stacks and of resources."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    for table in ("stack", "resource"):
        migrator.migrate(migrator.add_column(table, "protection", LongTextField(null=True)))
