"""Schedules of stacks."""

from peewee import BooleanField, CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Schedule(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    stack_id = CharField(max_length=36)
    name = CharField(max_length=64)
    cron = CharField()
    timezone = CharField()
    task = CharField(max_length=16)
    options = LongTextField()
    window = IntegerField()
    enabled = BooleanField()
    created_by = CharField()
    author = LongTextField()
    since = DoubleField()
    starts_at = DoubleField(null=True)
    ends_at = DoubleField(null=True)
    next_at = DoubleField(null=True, index=True)
    last_due = DoubleField(null=True)
    last_at = DoubleField(null=True)
    last_result = CharField(max_length=16, null=True)
    last_code = CharField(null=True)
    last_action_id = CharField(max_length=36, null=True)

    class Meta:
        table_name = "schedule"
        indexes = ((("stack_id", "name"), True), (("project", "next_at"), False))


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Schedule)
