"""Resources whose definitions the server has written."""

from peewee import CharField, Database, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import create


class UnnamedResource(Model):
    resource_id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    name = CharField()

    class Meta:
        table_name = "unnamed_resource"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, UnnamedResource)
