"""Times of messages, so that an engine finds the new ones with one query."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(
        migrator.add_column("mail", "changed_at", DoubleField(default=0.0)),
        migrator.add_index("mail", ("changed_at",), False),
    )
