"""Sessions of the dashboard."""

from peewee import CharField, Database, DoubleField, Model, MySQLDatabase, TextField
from playhouse.migrate import SchemaMigrator


class LongTextField(TextField):
    field_type = "LONGTEXT"


class UiSession(Model):
    digest = CharField(max_length=64, primary_key=True)
    user = LongTextField()
    content = LongTextField()
    expires_at = DoubleField(index=True)

    class Meta:
        table_name = "ui_session"


def up(migrator: SchemaMigrator, db: Database) -> None:  # noqa: ARG001
    if isinstance(db, MySQLDatabase):
        UiSession._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    UiSession.bind(db)
    UiSession.create_table()
