"""Expiries of stacks."""

from peewee import CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Expiry(Model):
    stack_id = CharField(max_length=36, primary_key=True)
    project = CharField()
    expires_at = DoubleField()
    task = CharField(max_length=16)
    warn_before = LongTextField()
    set_by = CharField()
    author = LongTextField()
    state = CharField(max_length=16)
    code = CharField(null=True)
    due = DoubleField(null=True, index=True)
    version = IntegerField()

    class Meta:
        table_name = "expiry"
        indexes = ((("project", "expires_at"), False),)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Expiry)
