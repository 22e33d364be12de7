"""Targets of requests in the audit log that are neither stacks nor resources."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("audit", "target", LongTextField(null=True)))
