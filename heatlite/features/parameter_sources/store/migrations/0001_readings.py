"""Readings: values that parameters got from outputs of other stacks."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Reading(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    reader_id = CharField(max_length=36)
    parameter = CharField()
    owner_id = CharField(max_length=36, index=True)
    owner_name = CharField()
    output = CharField()
    value = LongTextField()
    read_at = DoubleField()
    action_id = CharField(max_length=36)

    class Meta:
        table_name = "reading"
        indexes = ((("reader_id", "read_at"), False),)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Reading)
