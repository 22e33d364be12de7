"""Index of resources by the ids of their objects.

Monitoring systems look resources up by them.

A type may give its object an id of any length, and PostgreSQL and MariaDB bound the size of a key. So the index has the
first characters only.
"""

from peewee import Database, MySQLDatabase
from playhouse.migrate import SchemaMigrator


def up(_migrator: SchemaMigrator, db: Database) -> None:
    column = "physical_id(64)" if isinstance(db, MySQLDatabase) else "substr(physical_id, 1, 64)"
    db.execute_sql(f"CREATE INDEX resource_object ON resource ({column})")  # type: ignore[no-untyped-call]
