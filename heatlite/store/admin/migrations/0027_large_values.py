"""Large values of trees, stored once.

Rows from before keep theirs until they are written again.
"""

from peewee import BooleanField, CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class LargeValue(Model):
    id = CharField(max_length=64, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    content = LongTextField()
    checked_at = DoubleField(index=True)
    unused = BooleanField()

    class Meta:
        table_name = "large_value"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, LargeValue)
