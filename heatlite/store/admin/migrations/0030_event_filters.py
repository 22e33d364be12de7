"""Indexes for filters of events: resource names, rare actions and statuses.

The values of most events are left out: they match soon, and their index would make each event dearer to write.
"""

from peewee import Database, MySQLDatabase
from playhouse.migrate import SchemaMigrator

RARE = {"verb": "verb <> 'CREATE'", "status": "status <> 'COMPLETE' AND status <> 'IN_PROGRESS'"}


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(migrator.add_index("event", ("stack_id", "resource_name", "id"), False))
    for column, rare in RARE.items():
        where = "" if isinstance(db, MySQLDatabase) else f" WHERE {rare}"  # MariaDB has whole indexes only
        sql = f"CREATE INDEX event_rare_{column} ON event (stack_id, {column}, id){where}"
        db.execute_sql(sql)  # type: ignore[no-untyped-call]
