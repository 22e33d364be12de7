"""Queries of suppressed requests."""

from peewee import Database
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField


def up(migrator: SchemaMigrator, _db: Database) -> None:
    migrator.migrate(migrator.add_column("suppressed", "query", LongTextField(default="")))
