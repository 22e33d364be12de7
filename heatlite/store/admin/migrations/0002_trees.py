"""Nested stacks: position in the tree, child actions, messages."""

from peewee import BigAutoField, BooleanField, CharField, Database, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Mail(Model):
    id = BigAutoField()
    address = CharField()
    digest = CharField(max_length=64)
    key = LongTextField()
    content = LongTextField()

    class Meta:
        table_name = "mail"
        indexes = ((("address", "digest"), True),)


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(
        migrator.add_column("stack", "parent_resource", CharField(null=True)),
        migrator.add_column("stack", "depth", IntegerField(default=0)),
        migrator.add_column("stack", "inherited", LongTextField(null=True)),
        migrator.add_column("action", "parent_id", CharField(max_length=36, null=True)),
        migrator.add_column("action", "urgent", BooleanField(default=False)),
        migrator.add_column("action", "open_children", IntegerField(default=0)),
        migrator.add_index("action", ("parent_id", "status"), False),
    )
    create(db, Mail)
