"""Large values of software and of node actions, stored once for each project.

Rows from before keep theirs until they are written again.
"""

from peewee import BooleanField, CharField, Database, DoubleField, Model, MySQLDatabase, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


class ProjectValue(Model):
    id = CharField(max_length=64, primary_key=True)
    project = CharField(index=True)
    content = LongTextField()
    checked_at = DoubleField(index=True)
    unused = BooleanField()

    class Meta:
        table_name = "project_value"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    if isinstance(db, MySQLDatabase):
        ProjectValue._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    ProjectValue.bind(db)
    ProjectValue.create_table()
