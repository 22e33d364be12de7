"""Access keys of users, for the query API."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class AccessKey(Model):
    id = CharField(max_length=32, primary_key=True)
    project = CharField(index=True)
    user = CharField(column_name="user_name")
    roles = LongTextField()
    secret = LongTextField()
    created_at = DoubleField()

    class Meta:
        table_name = "access_key"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, AccessKey)
