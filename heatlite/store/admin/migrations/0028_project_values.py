"""Large values of software and of node actions, stored once for each project.

Rows from before keep theirs until they are written again.
"""

from peewee import BooleanField, CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class ProjectValue(Model):
    id = CharField(max_length=64, primary_key=True)
    project = CharField(index=True)
    content = LongTextField()
    checked_at = DoubleField(index=True)
    unused = BooleanField()

    class Meta:
        table_name = "project_value"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, ProjectValue)
