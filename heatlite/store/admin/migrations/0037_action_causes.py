"""Index of actions by cause, for pages of a project's list."""

from peewee import Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_index("action", ("project", "cause", "seq"), False))
