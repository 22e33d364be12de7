"""Sizes of the stacks of trees."""

from peewee import BigIntegerField, CharField, Database, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import create


class StackSize(Model):
    stack_id = CharField(max_length=36, primary_key=True)
    root_id = CharField(max_length=36)
    definition = BigIntegerField(default=0)
    resources = BigIntegerField(default=0)

    class Meta:
        table_name = "stack_size"
        indexes = ((("root_id", "stack_id", "definition", "resources"), False),)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, StackSize)
