"""Index of the resources whose health may be other than good.

Each answer about a stack counts them. Most rows are left out: the count reads no row of a healthy stack.
"""

from peewee import Database, MySQLDatabase
from playhouse.migrate import SchemaMigrator

UNWELL = "(verb = 'CHECK' AND status = 'FAILED') OR before_lock IS NOT NULL OR health IS NOT NULL"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    if not isinstance(db, MySQLDatabase):  # MariaDB has whole indexes only
        db.execute_sql(f"CREATE INDEX resource_unwell ON resource (stack_id) WHERE {UNWELL}")  # type: ignore[no-untyped-call]
