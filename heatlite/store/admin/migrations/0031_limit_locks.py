"""Limits: a transaction locks a row while it counts and inserts."""

from peewee import CharField, Database, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import create


class LimitLock(Model):
    name = CharField(max_length=600, primary_key=True)

    class Meta:
        table_name = "limit_lock"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, LimitLock)
