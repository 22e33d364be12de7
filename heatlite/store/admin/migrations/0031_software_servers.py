"""Servers with deployments: their rows are locked while the configurations change."""

from peewee import CharField, CompositeKey, Database, Model, MySQLDatabase
from playhouse.migrate import SchemaMigrator


class SoftwareServer(Model):
    server_id = CharField()
    project = CharField()

    class Meta:
        table_name = "software_server"
        primary_key = CompositeKey("server_id", "project")


def up(_migrator: SchemaMigrator, db: Database) -> None:
    if isinstance(db, MySQLDatabase):
        SoftwareServer._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"]
    SoftwareServer.bind(db)
    SoftwareServer.create_table()


def down(_migrator: SchemaMigrator, db: Database) -> None:
    SoftwareServer.bind(db)
    SoftwareServer.drop_table()
