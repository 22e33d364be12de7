"""Index of resources by stack and name, for one resource of a large stack."""

from peewee import Database
from playhouse.migrate import SchemaMigrator


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(
        migrator.add_index("resource", ("stack_id", "name"), False),
        migrator.drop_index("resource", "resource_stack_id"),
    )
