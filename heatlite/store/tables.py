"""The tables as they are now. Migrations make them; see `migrations/`.

JSON is kept as text: nothing inside it is ever asked for in SQL, and text costs the least. Times are
seconds since the epoch. The models are bound to no database; `Database` is told which query to run.
"""

import peewee


class LongTextField(peewee.TextField):
    """Text of any length. MariaDB's TEXT ends at 64 KiB, less than a template may have."""

    field_type = "LONGTEXT"


class Template(peewee.Model):
    id = peewee.CharField(max_length=64, primary_key=True)
    """SHA-256 of the content."""
    document = LongTextField()
    files = LongTextField()

    class Meta:
        table_name = "template"


class Stack(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    name = peewee.CharField()
    project = peewee.CharField()
    live_name = peewee.CharField(null=True)
    """The name while the stack is not deleted: what makes names unique in a project."""
    username = peewee.CharField()
    template_id = peewee.CharField(max_length=64)
    environment = LongTextField()
    verb = peewee.CharField(max_length=16)
    status = peewee.CharField(max_length=16)
    status_reason = LongTextField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField(null=True)
    deleted_at = peewee.DoubleField(null=True)
    parent_id = peewee.CharField(max_length=36, null=True, index=True)
    root_id = peewee.CharField(max_length=36, null=True, index=True)
    previous_template_id = peewee.CharField(max_length=64, null=True)
    previous_environment = LongTextField(null=True)
    timeout_mins = peewee.IntegerField(null=True)
    disable_rollback = peewee.BooleanField()
    tags = LongTextField()
    """``,one,two,``: a tag has no comma, so ``,one,`` finds it."""
    lock_level = peewee.CharField(max_length=16, null=True)
    locked_by = peewee.CharField(null=True)
    locked_by_admin = peewee.BooleanField(null=True)
    locked_at = peewee.DoubleField(null=True)
    lock_reason = LongTextField(null=True)
    lock_expires_at = peewee.DoubleField(null=True, index=True)
    parent_resource = peewee.CharField(null=True)
    depth = peewee.IntegerField(default=0)
    inherited = LongTextField(null=True)
    before_lock = peewee.CharField(max_length=32, null=True)

    class Meta:
        table_name = "stack"
        indexes = (
            (("project", "live_name"), True),
            # A page of the list: these stacks, newest first.
            (("project", "deleted_at", "parent_id", "created_at", "id"), False),
            (("deleted_at",), False),
        )


class Resource(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    stack_id = peewee.CharField(max_length=36, index=True)
    name = peewee.CharField()
    type = LongTextField()
    mapped_type = LongTextField()
    verb = peewee.CharField(max_length=16)
    status = peewee.CharField(max_length=16)
    status_reason = LongTextField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField(null=True)
    physical_name = LongTextField()
    physical_id = LongTextField(null=True)
    properties = LongTextField()
    metadata = LongTextField()
    data = LongTextField()
    token = LongTextField(null=True)
    requires = LongTextField()
    uses = LongTextField()
    deletion_policy = peewee.CharField(max_length=16)
    description = LongTextField()
    before_lock = LongTextField(null=True)
    """``[verb, status, reason]``"""
    external_id = LongTextField(null=True)

    class Meta:
        table_name = "resource"


class Event(peewee.Model):
    id = peewee.BigAutoField()
    stack_id = peewee.CharField(max_length=36)
    resource_name = peewee.CharField()
    resource_type = LongTextField()
    physical_id = LongTextField(null=True)
    verb = peewee.CharField(max_length=16)
    status = peewee.CharField(max_length=16)
    status_reason = LongTextField()
    created_at = peewee.DoubleField()
    properties = LongTextField()

    class Meta:
        table_name = "event"
        indexes = ((("stack_id", "id"), False),)


class Action(peewee.Model):
    seq = peewee.BigAutoField()
    """The order in which actions were put."""
    id = peewee.CharField(max_length=36, unique=True)
    stack_id = peewee.CharField(max_length=36)
    root_id = peewee.CharField(max_length=36)
    project = peewee.CharField()
    verb = peewee.CharField(max_length=16)
    status = peewee.CharField(max_length=16)
    requested_by = peewee.CharField()
    created_at = peewee.DoubleField()
    inputs = LongTextField()
    status_reason = LongTextField()
    control = peewee.CharField(max_length=16, null=True)
    waits_for = peewee.CharField(max_length=36, null=True)
    owner = peewee.CharField(null=True)
    attempt = peewee.IntegerField()
    lease_until = peewee.DoubleField(null=True)
    started_at = peewee.DoubleField(null=True)
    finished_at = peewee.DoubleField(null=True)
    deadline = peewee.DoubleField(null=True)
    exclusive_key = peewee.CharField(max_length=64, null=True, unique=True)
    """What nobody else may put an action on while this one lives; NULL once it has ended."""
    parent_id = peewee.CharField(max_length=36, null=True)
    urgent = peewee.BooleanField(default=False)
    open_children = peewee.IntegerField(default=0)

    class Meta:
        table_name = "action"
        indexes = (
            (("status", "seq"), False),
            (("stack_id", "status"), False),
            (("parent_id", "status"), False),
        )


class Suppressed(peewee.Model):
    id = peewee.BigAutoField()
    stack_id = peewee.CharField(max_length=36)
    time = peewee.DoubleField()
    request = peewee.CharField()
    target = LongTextField()
    requested_by = peewee.CharField()
    detail = LongTextField()
    method = peewee.CharField(max_length=16)
    path = LongTextField()
    body = LongTextField(null=True)
    digest = peewee.CharField(max_length=64)
    """SHA-256 of the lock and the request: a client that tries again and again makes one row."""

    class Meta:
        table_name = "suppressed"
        indexes = ((("stack_id", "digest"), True),)


class Mail(peewee.Model):
    id = peewee.BigAutoField()
    address = peewee.CharField()
    digest = peewee.CharField(max_length=64)
    """SHA-256 of the key, which may be long."""
    key = LongTextField()
    content = LongTextField()

    class Meta:
        table_name = "mail"
        indexes = ((("address", "digest"), True),)


class SoftwareConfig(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    name = LongTextField()
    group = LongTextField()
    content = LongTextField()
    """config, inputs, outputs, options."""
    created_at = peewee.DoubleField()

    class Meta:
        table_name = "software_config"
        indexes = ((("project", "created_at", "id"), False),)


class SoftwareDeployment(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    server_id = peewee.CharField()
    config_id = peewee.CharField(max_length=36, index=True)
    input_values = LongTextField()
    output_values = LongTextField()
    action = peewee.CharField()
    status = peewee.CharField()
    status_reason = LongTextField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField(null=True)

    class Meta:
        table_name = "software_deployment"
        indexes = ((("project", "server_id"), False),)


class Sink(peewee.Model):
    stack_id = peewee.CharField(max_length=36)
    """"" for what is true of all stacks."""
    digest = peewee.CharField(max_length=64)
    """SHA-256 of the sink's type and target."""
    position = peewee.BigIntegerField()
    """The id of the last event that it has had."""
    failures = peewee.IntegerField(default=0)
    """Attempts since the last that went well."""
    failing_since = peewee.DoubleField(null=True)
    retry_at = peewee.DoubleField(default=0)
    given_up_at = peewee.DoubleField(null=True)
    lease_until = peewee.DoubleField(default=0)
    """Until then an engine is at it."""

    class Meta:
        table_name = "sink"
        primary_key = peewee.CompositeKey("stack_id", "digest")


class Snapshot(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    stack_id = peewee.CharField(max_length=36, index=True)
    name = LongTextField(null=True)
    verb = peewee.CharField(max_length=16)
    status = peewee.CharField(max_length=16)
    status_reason = LongTextField()
    created_at = peewee.DoubleField()
    data = LongTextField(null=True)

    class Meta:
        table_name = "snapshot"


class Service(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    host = peewee.CharField()
    binary = peewee.CharField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField()

    class Meta:
        table_name = "service"


MODELS: tuple[type[peewee.Model], ...] = (
    Template, Stack, Resource, Event, Action, Suppressed, Service, Mail, SoftwareConfig, SoftwareDeployment,
    Sink, Snapshot,
)  # fmt: skip
