"""Sessions of the dashboard."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class UiSession(Model):
    digest = CharField(max_length=64, primary_key=True)
    user = LongTextField()
    content = LongTextField()
    expires_at = DoubleField(index=True)

    class Meta:
        table_name = "ui_session"


def up(migrator: SchemaMigrator, db: Database) -> None:  # noqa: ARG001
    create(db, UiSession)
