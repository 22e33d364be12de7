"""Revisions of stacks."""

from peewee import BooleanField, CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Revision(Model):
    id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36)
    number = IntegerField()
    template_id = CharField(max_length=64, index=True)
    environment = LongTextField()
    tags = LongTextField()
    timeout_mins = IntegerField(null=True)
    disable_rollback = BooleanField()
    requested_by = CharField()
    created_at = DoubleField()
    action_id = CharField(max_length=36, null=True)
    plan_digest = CharField(max_length=64, null=True)
    result = CharField(max_length=16, null=True)
    undo_of = IntegerField(null=True)

    class Meta:
        table_name = "revision"
        indexes = ((("stack_id", "number"), True),)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Revision)
