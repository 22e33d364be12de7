"""Models of accounts and credentials."""

import peewee

from heatlite.store.tables.fields import EncryptedField, LongTextField, SecretField


class Credential(peewee.Model):
    stack_id = peewee.CharField(max_length=36, primary_key=True)
    """The root of the tree."""
    content = EncryptedField()

    class Meta:
        table_name = "credential"


class Account(peewee.Model):
    """An account with which the agent of a resource calls the API."""

    id = peewee.BigAutoField()
    stack_id = peewee.CharField(max_length=36)
    root_id = peewee.CharField(max_length=36, index=True)
    resource_name = peewee.CharField()
    physical_name = peewee.CharField()
    """Physical name of the resource, and name of the user."""
    password = SecretField()
    user_id = peewee.CharField(max_length=64, null=True, unique=True)
    """NULL until the creation of the user is confirmed; the same holds for the project."""
    project_id = peewee.CharField(max_length=64, null=True)

    class Meta:
        table_name = "account"
        indexes = ((("stack_id", "physical_name"), True),)


class AccountProject(peewee.Model):
    """The Keystone project of the accounts of a tree."""

    root_id = peewee.CharField(max_length=36, primary_key=True)
    """The root, and name of the project."""
    project_id = peewee.CharField(max_length=64, null=True)

    class Meta:
        table_name = "account_project"


class AccessKey(peewee.Model):
    """A key with which a user signs requests."""

    id = peewee.CharField(max_length=32, primary_key=True)
    project = peewee.CharField(index=True)
    user = peewee.CharField(column_name="user_name")
    roles = LongTextField()
    """A JSON list: the roles that the user had when the key was made."""
    secret = SecretField()
    created_at = peewee.DoubleField()

    class Meta:
        table_name = "access_key"
