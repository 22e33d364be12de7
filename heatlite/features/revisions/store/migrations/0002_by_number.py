"""Revisions without ids: the stack and the number name one."""

from peewee import BooleanField, CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create

_COLUMNS = (
    "stack_id, number, template_id, environment, tags, timeout_mins, disable_rollback, requested_by, created_at,"
    " action_id, plan_digest, result, undo_of"
)


class Revision(Model):
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
    for sql in (f"CREATE TABLE revision_before AS SELECT {_COLUMNS} FROM revision", "DROP TABLE revision"):
        db.execute_sql(sql)  # type: ignore[no-untyped-call]
    create(db, Revision)
    copy = f"INSERT INTO revision ({_COLUMNS}) SELECT {_COLUMNS} FROM revision_before ORDER BY stack_id, number"
    for sql in (copy, "DROP TABLE revision_before"):
        db.execute_sql(sql)  # type: ignore[no-untyped-call]
