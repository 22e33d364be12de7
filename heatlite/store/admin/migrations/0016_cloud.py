"""Cloud of a stack's objects."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("stack", "cloud", LongTextField(null=True)))
