"""Access keys of users, for the query API."""

from peewee import CharField, Database, DoubleField, Model, MySQLDatabase, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


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
    if isinstance(db, MySQLDatabase):
        AccessKey._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    AccessKey.bind(db)
    AccessKey.create_table()
