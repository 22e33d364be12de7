"""Sizes of the large values of projects: their sum has a limit."""

from peewee import Database, IntegerField, MySQLDatabase
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(migrator.add_column("project_value", "size", IntegerField(default=0)))
    index = 'CREATE INDEX "projectvalue_project_size" ON "project_value" ("project", "size")'
    if isinstance(db, MySQLDatabase):
        index = index.replace('"', "`")
    for sql in ("UPDATE project_value SET size = LENGTH(content)", index):
        db.execute_sql(sql)  # type: ignore[no-untyped-call]
    migrator.migrate(migrator.drop_index("project_value", "projectvalue_project"))
