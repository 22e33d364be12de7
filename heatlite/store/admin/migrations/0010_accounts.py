"""Accounts of resources' agents in Keystone's stack domain, with projects."""

from peewee import BigAutoField, CharField, Database, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Account(Model):
    id = BigAutoField()
    stack_id = CharField(max_length=36)
    root_id = CharField(max_length=36, index=True)
    resource_name = CharField()
    physical_name = CharField()
    password = LongTextField()
    user_id = CharField(max_length=64, null=True, unique=True)
    project_id = CharField(max_length=64, null=True)

    class Meta:
        table_name = "account"
        indexes = ((("stack_id", "physical_name"), True),)


class AccountProject(Model):
    root_id = CharField(max_length=36, primary_key=True)
    project_id = CharField(max_length=64, null=True)

    class Meta:
        table_name = "account_project"


MODELS = (Account, AccountProject)


def up(migrator: SchemaMigrator, db: Database) -> None:  # noqa: ARG001
    create(db, *MODELS)
