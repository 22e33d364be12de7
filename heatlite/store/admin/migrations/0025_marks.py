"""Time at which the healing loop looks at the marks of a tree."""

from peewee import Database, DoubleField, MySQLDatabase
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(migrator.add_column("healing_policy", "due", DoubleField(null=True)))
    mark = "`" if isinstance(db, MySQLDatabase) else '"'
    sql = 'CREATE INDEX "healingpolicy_due" ON "healing_policy" ("due")'
    db.execute_sql(sql.replace('"', mark))  # type: ignore[no-untyped-call]
