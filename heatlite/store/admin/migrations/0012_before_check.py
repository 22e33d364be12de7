"""State of a failed or uncreated resource before a check or a mark."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("resource", "before_check", LongTextField(null=True)))
