"""Time since a template is unused; indexes for references to templates."""

from peewee import Database, DoubleField
from playhouse.migrate import SchemaMigrator

REFERENCES = ("template_id", "previous_template_id")


def up(migrator: SchemaMigrator, db: Database) -> None:  # noqa: ARG001
    migrator.migrate(
        migrator.add_column("template", "unused_since", DoubleField(null=True, index=True)),
        *(migrator.add_index("stack", (column,), False) for column in REFERENCES),
    )
