"""The first tables. The models are a frozen copy of their first state."""

from peewee import (
    BigAutoField,
    BooleanField,
    CharField,
    Database,
    DoubleField,
    IntegerField,
    Model,
)
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Template(Model):
    id = CharField(max_length=64, primary_key=True)
    document = LongTextField()
    files = LongTextField()

    class Meta:
        table_name = "template"


class Stack(Model):
    id = CharField(max_length=36, primary_key=True)
    name = CharField()
    project = CharField()
    live_name = CharField(null=True)
    username = CharField()
    template_id = CharField(max_length=64)
    environment = LongTextField()
    verb = CharField(max_length=16)
    status = CharField(max_length=16)
    status_reason = LongTextField()
    created_at = DoubleField()
    updated_at = DoubleField(null=True)
    deleted_at = DoubleField(null=True)
    parent_id = CharField(max_length=36, null=True, index=True)
    root_id = CharField(max_length=36, null=True, index=True)
    previous_template_id = CharField(max_length=64, null=True)
    previous_environment = LongTextField(null=True)
    timeout_mins = IntegerField(null=True)
    disable_rollback = BooleanField()
    tags = LongTextField()
    lock_level = CharField(max_length=16, null=True)
    locked_by = CharField(null=True)
    locked_by_admin = BooleanField(null=True)
    locked_at = DoubleField(null=True)
    lock_reason = LongTextField(null=True)
    lock_expires_at = DoubleField(null=True, index=True)

    class Meta:
        table_name = "stack"
        indexes = (
            (("project", "live_name"), True),
            (("project", "deleted_at", "parent_id", "created_at", "id"), False),
        )


class Resource(Model):
    id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    name = CharField()
    type = LongTextField()
    mapped_type = LongTextField()
    verb = CharField(max_length=16)
    status = CharField(max_length=16)
    status_reason = LongTextField()
    created_at = DoubleField()
    updated_at = DoubleField(null=True)
    physical_name = LongTextField()
    physical_id = LongTextField(null=True)
    properties = LongTextField()
    metadata = LongTextField()
    data = LongTextField()
    token = LongTextField(null=True)
    requires = LongTextField()
    uses = LongTextField()
    deletion_policy = CharField(max_length=16)
    description = LongTextField()
    before_lock = LongTextField(null=True)

    class Meta:
        table_name = "resource"


class Event(Model):
    id = BigAutoField()
    stack_id = CharField(max_length=36)
    resource_name = CharField()
    resource_type = LongTextField()
    physical_id = LongTextField(null=True)
    verb = CharField(max_length=16)
    status = CharField(max_length=16)
    status_reason = LongTextField()
    created_at = DoubleField()
    properties = LongTextField()

    class Meta:
        table_name = "event"
        indexes = ((("stack_id", "id"), False),)


class Action(Model):
    seq = BigAutoField()
    id = CharField(max_length=36, unique=True)
    stack_id = CharField(max_length=36)
    root_id = CharField(max_length=36)
    project = CharField()
    verb = CharField(max_length=16)
    status = CharField(max_length=16)
    requested_by = CharField()
    created_at = DoubleField()
    inputs = LongTextField()
    status_reason = LongTextField()
    control = CharField(max_length=16, null=True)
    waits_for = CharField(max_length=36, null=True)
    owner = CharField(null=True)
    attempt = IntegerField()
    lease_until = DoubleField(null=True)
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True)
    deadline = DoubleField(null=True)
    exclusive_key = CharField(max_length=64, null=True, unique=True)

    class Meta:
        table_name = "action"
        indexes = (
            (("status", "seq"), False),
            (("stack_id", "status"), False),
        )


class Suppressed(Model):
    id = BigAutoField()
    stack_id = CharField(max_length=36)
    time = DoubleField()
    request = CharField()
    target = LongTextField()
    requested_by = CharField()
    detail = LongTextField()
    method = CharField(max_length=16)
    path = LongTextField()
    body = LongTextField(null=True)
    digest = CharField(max_length=64)

    class Meta:
        table_name = "suppressed"
        indexes = ((("stack_id", "digest"), True),)


class Service(Model):
    id = CharField(max_length=36, primary_key=True)
    host = CharField()
    binary = CharField()
    created_at = DoubleField()
    updated_at = DoubleField()

    class Meta:
        table_name = "service"


TABLES = (Template, Stack, Resource, Event, Action, Suppressed, Service)


def up(migrator: SchemaMigrator, db: Database) -> None:  # noqa: ARG001
    create(db, *TABLES)
