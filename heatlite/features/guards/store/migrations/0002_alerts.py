"""Alerts that take updates back."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class GuardAlert(Model):
    id = CharField(max_length=64, primary_key=True)
    project = CharField()
    source = CharField(max_length=64)
    key = CharField()
    expires_at = DoubleField(index=True)
    summary = LongTextField()
    given = LongTextField()
    root_id = CharField(max_length=36, null=True)

    class Meta:
        table_name = "guard_alert"
        indexes = ((("project", "source"), False),)


def up(migrator: SchemaMigrator, db: Database) -> None:
    create(db, GuardAlert)
    migrator.migrate(
        migrator.add_column("update_guard", "fired", LongTextField(null=True)),
        migrator.add_column("update_guard", "heard", LongTextField(null=True)),
    )
