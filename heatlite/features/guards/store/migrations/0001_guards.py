"""Guards of updates."""

from peewee import BooleanField, CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class UpdateGuard(Model):
    action_id = CharField(max_length=36, primary_key=True)
    project = CharField()
    root_id = CharField(max_length=36)
    document = LongTextField()
    is_open = BooleanField()
    bakes_until = DoubleField(null=True)
    ended_at = DoubleField(null=True)

    class Meta:
        table_name = "update_guard"
        indexes = (
            (("project", "is_open"), False),
            (("root_id", "ended_at"), False),
        )


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, UpdateGuard)
