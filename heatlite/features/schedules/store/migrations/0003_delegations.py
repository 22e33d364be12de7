"""Delegations: rights of the authors of schedules and expiries."""

from peewee import BooleanField, CharField, Database, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Delegation(Model):
    id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    owner_id = CharField(max_length=36, index=True)
    credential = LongTextField()
    released = BooleanField(index=True)

    class Meta:
        table_name = "delegation"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Delegation)
