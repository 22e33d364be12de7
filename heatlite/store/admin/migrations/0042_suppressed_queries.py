"""Queries of suppressed requests."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(migrator.add_column("suppressed", "query", LongTextField(default="")))
    # Deletions of stacks had queries that were not kept: a replay would delete what was to stay.
    db.execute_sql(  # type: ignore[no-untyped-call]
        "UPDATE suppressed SET replayable = FALSE WHERE method = 'DELETE' AND path = ''"
    )
