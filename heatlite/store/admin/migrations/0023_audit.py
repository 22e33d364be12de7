"""The audit log."""

from peewee import CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Audit(Model):
    request_id = CharField(max_length=40, primary_key=True)
    project = CharField()
    time = DoubleField(index=True)
    last_time = DoubleField()
    times = IntegerField()
    user = CharField(null=True)
    user_id = CharField(max_length=64)
    address = CharField(max_length=64)
    method = CharField(max_length=8)
    path = LongTextField()
    operation = CharField(max_length=64)
    stack_id = CharField(max_length=36, null=True)
    stack_name = CharField(null=True)
    resource = LongTextField(null=True)
    outcome = CharField(max_length=8)
    status = IntegerField(null=True)
    reason = LongTextField()
    plan_digest = CharField(max_length=64, null=True)
    action_id = CharField(max_length=36, null=True)
    repeat_key = CharField(max_length=64, null=True, unique=True)

    class Meta:
        table_name = "audit"
        indexes = ((("project", "time", "request_id"), False), (("user", "time"), False))


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Audit)
