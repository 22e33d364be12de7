"""Texts about stacks."""

from peewee import CharField, Database, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Report(Model):
    id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    text = LongTextField()

    class Meta:
        table_name = "report"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Report)
