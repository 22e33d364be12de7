"""Parts of the definitions of stacks that updates have left out."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("stack", "restricted", LongTextField(null=True)))
