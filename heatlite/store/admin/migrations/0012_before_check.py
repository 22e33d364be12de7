"""State of a failed or uncreated resource before a check or a mark."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("resource", "before_check", LongTextField(null=True)))
