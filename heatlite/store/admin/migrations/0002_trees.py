"""Nested stacks: position in the tree, child actions, messages."""

from peewee import BigAutoField, BooleanField, CharField, Database, IntegerField, Model, MySQLDatabase, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


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
    if isinstance(db, MySQLDatabase):
        # MariaDB's default takes "web" and "Web" for one key.
        Mail._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    Mail.bind(db)
    Mail.create_table()
