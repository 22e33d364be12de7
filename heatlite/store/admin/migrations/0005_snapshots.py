"""Snapshots of stacks; ids of external objects."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


class Snapshot(Model):
    id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    name = LongTextField(null=True)
    verb = CharField(max_length=16)
    status = CharField(max_length=16)
    status_reason = LongTextField()
    created_at = DoubleField()
    data = LongTextField(null=True)

    class Meta:
        table_name = "snapshot"


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(migrator.add_column("resource", "external_id", LongTextField(null=True)))
    Snapshot.bind(db)
    Snapshot.create_table()
