"""Limits: a transaction locks a row while it counts and inserts."""

from peewee import CharField, Database, Model, MySQLDatabase
from playhouse.migrate import SchemaMigrator


class LimitLock(Model):
    name = CharField(max_length=600, primary_key=True)

    class Meta:
        table_name = "limit_lock"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    if isinstance(db, MySQLDatabase):
        LimitLock._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    LimitLock.bind(db)
    LimitLock.create_table()
