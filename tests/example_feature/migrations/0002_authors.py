"""Authors and notes of reports."""

from peewee import CharField, Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(
        migrator.add_column("report", "author", CharField(null=True)),
        migrator.add_column("report", "project", CharField(default="")),
        migrator.add_column("report", "note", LongTextField(null=True)),
    )
