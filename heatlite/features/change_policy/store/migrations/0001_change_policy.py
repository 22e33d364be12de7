"""Change policies of projects and stacks."""

from peewee import AutoField, CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class ChangePolicy(Model):
    id = AutoField()
    project = CharField()
    stack_id = CharField(max_length=36)
    document = LongTextField(null=True)
    version = IntegerField()
    updated_by = CharField(null=True)
    updated_at = DoubleField(null=True)

    class Meta:
        table_name = "change_policy"
        indexes = ((("project", "stack_id"), True), (("stack_id",), False))


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, ChangePolicy)
