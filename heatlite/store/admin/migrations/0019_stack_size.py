"""Sizes of the stacks of trees."""

from peewee import BigIntegerField, CharField, Database, Model, MySQLDatabase
from playhouse.migrate import SchemaMigrator


class StackSize(Model):
    stack_id = CharField(max_length=36, primary_key=True)
    root_id = CharField(max_length=36)
    definition = BigIntegerField(default=0)
    resources = BigIntegerField(default=0)

    class Meta:
        table_name = "stack_size"
        indexes = ((("root_id", "stack_id", "definition", "resources"), False),)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    if isinstance(db, MySQLDatabase):
        StackSize._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    StackSize.bind(db)
    StackSize.create_table()
