"""Index of drift that is ignored, for the numbers of a project."""

from peewee import Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_index("drift", ("project", "ignored"), False))
