"""Protection of stacks and of resources."""

from peewee import Database, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


def up(migrator: SchemaMigrator, _db: Database) -> None:
    for table in ("stack", "resource"):
        migrator.migrate(migrator.add_column(table, "protection", LongTextField(null=True)))
