"""Drift of resources."""

from peewee import BooleanField, CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Drift(Model):
    resource_id = CharField(max_length=36, primary_key=True)
    project = CharField()
    root_id = CharField(max_length=36)
    stack_id = CharField(max_length=36)
    state = CharField(max_length=16)
    checked_at = DoubleField(null=True)
    since = DoubleField(null=True)
    unknown_since = DoubleField(null=True)
    differences = LongTextField(null=True)
    truncated = BooleanField()
    number = IntegerField()
    ignored = IntegerField()

    class Meta:
        table_name = "drift"
        indexes = ((("project", "state", "resource_id"), False), (("root_id", "state", "checked_at"), False))


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Drift)
