"""Limits: a transaction locks a row while it counts and inserts.

These rows replace those of servers.
"""

from peewee import CharField, CompositeKey, Database, Model, MySQLDatabase
from playhouse.migrate import SchemaMigrator


class LimitLock(Model):
    name = CharField(max_length=600, primary_key=True)

    class Meta:
        table_name = "limit_lock"


class SoftwareServer(Model):
    server_id = CharField()
    project = CharField()

    class Meta:
        table_name = "software_server"
        primary_key = CompositeKey("server_id", "project")


def up(_migrator: SchemaMigrator, db: Database) -> None:
    _replace(db, SoftwareServer, LimitLock)


def down(_migrator: SchemaMigrator, db: Database) -> None:
    _replace(db, LimitLock, SoftwareServer)


def _replace(db: Database, old: type[Model], new: type[Model]) -> None:
    if isinstance(db, MySQLDatabase):
        new._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    for model in (old, new):
        model.bind(db)
    old.drop_table()
    new.create_table()
