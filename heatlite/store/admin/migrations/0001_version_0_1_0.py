"""The tables of version 0.1.0. The models are a frozen copy of its own.

Databases of 0.1.0 have the names of the scripts that this one replaces, see `REPLACED` in `migrate.py`.
"""

from peewee import (
    AutoField,
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    CompositeKey,
    Database,
    DoubleField,
    IntegerField,
    Model,
)  # fmt: skip
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Template(Model):
    id = CharField(max_length=64, primary_key=True)
    document = LongTextField()
    files = LongTextField()
    unused_since = DoubleField(null=True, index=True)

    class Meta:
        table_name = "template"


class Stack(Model):
    id = CharField(max_length=36, primary_key=True)
    name = CharField()
    project = CharField()
    live_name = CharField(null=True)
    username = CharField()
    template_id = CharField(max_length=64, index=True)
    environment = LongTextField()
    verb = CharField(max_length=16)
    status = CharField(max_length=16)
    status_reason = LongTextField()
    created_at = DoubleField()
    updated_at = DoubleField(null=True)
    deleted_at = DoubleField(null=True)
    parent_id = CharField(max_length=36, null=True, index=True)
    root_id = CharField(max_length=36, null=True, index=True)
    previous_template_id = CharField(max_length=64, null=True, index=True)
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
    parent_resource = CharField(null=True)
    depth = IntegerField()
    inherited = LongTextField(null=True)
    before_lock = CharField(max_length=32, null=True)
    sealed = BooleanField()
    protection = LongTextField(null=True)
    cloud = LongTextField(null=True)

    class Meta:
        table_name = "stack"
        indexes = (
            (("project", "live_name"), True),
            (("project", "deleted_at", "parent_id", "created_at", "id"), False),
            (("deleted_at",), False),
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
    external_id = LongTextField(null=True)
    before_check = LongTextField(null=True)
    protection = LongTextField(null=True)
    health = LongTextField(null=True)
    moved_in = CharField(max_length=64, null=True)

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
    status = CharField(max_length=32)
    requested_by = CharField()
    created_at = DoubleField()
    inputs = LongTextField()
    status_reason = LongTextField()
    control = CharField(max_length=16, null=True)
    owner = CharField(null=True)
    attempt = IntegerField()
    lease_until = DoubleField(null=True)
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True)
    deadline = DoubleField(null=True)
    exclusive_key = CharField(max_length=64, null=True, unique=True)
    parent_id = CharField(max_length=36, null=True)
    urgent = BooleanField()
    open_children = IntegerField()
    name = CharField(max_length=64)
    cause = CharField(max_length=32)
    kind = CharField(max_length=16)
    zone = CharField(null=True)
    context = LongTextField()
    secrets = LongTextField(null=True)
    outputs = LongTextField()
    data = LongTextField()
    interval = DoubleField()
    not_before = DoubleField(null=True)
    timeout = IntegerField()
    retries = IntegerField()
    pending = IntegerField()
    failed_dependencies = IntegerField()
    suspended_at = DoubleField(null=True)
    suspended = DoubleField()
    wake_at = DoubleField(null=True)
    updated_at = DoubleField(null=True)
    commits = IntegerField()
    takeovers = IntegerField()

    class Meta:
        table_name = "action"
        indexes = (
            (("status", "seq"), False),
            (("stack_id", "status"), False),
            (("parent_id", "status"), False),
            (("project", "seq"), False),
            (("project", "stack_id", "seq"), False),
            (("project", "status", "seq"), False),
            (("project", "name", "seq"), False),
            (("project", "verb", "seq"), False),
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
    root_id = CharField(max_length=36, index=True)
    last_time = DoubleField()
    times = IntegerField()
    author = LongTextField()
    effect = LongTextField()
    replayable = BooleanField()
    size = IntegerField()

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


class Mail(Model):
    id = BigAutoField()
    address = CharField()
    digest = CharField(max_length=64)
    key = LongTextField()
    content = LongTextField()

    class Meta:
        table_name = "mail"
        indexes = ((("address", "digest"), True),)


class SoftwareConfig(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    name = LongTextField()
    group = LongTextField()
    content = LongTextField()
    created_at = DoubleField()

    class Meta:
        table_name = "software_config"
        indexes = ((("project", "created_at", "id"), False),)


class SoftwareDeployment(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    server_id = CharField()
    config_id = CharField(max_length=36, index=True)
    input_values = LongTextField()
    output_values = LongTextField()
    action = CharField()
    status = CharField()
    status_reason = LongTextField()
    created_at = DoubleField()
    updated_at = DoubleField(null=True)

    class Meta:
        table_name = "software_deployment"
        indexes = ((("project", "server_id"), False),)


class Sink(Model):
    stack_id = CharField(max_length=36)
    digest = CharField(max_length=64)
    position = BigIntegerField()
    failures = IntegerField()
    failing_since = DoubleField(null=True)
    retry_at = DoubleField()
    given_up_at = DoubleField(null=True)
    lease_until = DoubleField()

    class Meta:
        table_name = "sink"
        primary_key = CompositeKey("stack_id", "digest")


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


class Dependency(Model):
    dependent = CharField(max_length=36)
    depended = CharField(max_length=36)
    needs = CharField(max_length=16)
    state = CharField(max_length=16)

    class Meta:
        table_name = "dependency"
        primary_key = CompositeKey("dependent", "depended")
        indexes = ((("depended", "state"), False),)


class Transition(Model):
    id = BigAutoField()
    action_id = CharField(max_length=36)
    time = DoubleField()
    before = CharField(max_length=32)
    after = CharField(max_length=32)
    attempt = IntegerField()
    owner = CharField(null=True)
    reason = LongTextField()

    class Meta:
        table_name = "transition"
        indexes = ((("action_id", "id"), False),)


class Credential(Model):
    stack_id = CharField(max_length=36, primary_key=True)
    content = LongTextField()

    class Meta:
        table_name = "credential"


class Node(Model):
    id = CharField(max_length=36, primary_key=True)
    stack_id = CharField(max_length=36, index=True)
    root_id = CharField(max_length=36, index=True)
    project = CharField()
    name = CharField()
    url = LongTextField()
    secret = LongTextField()
    instance = CharField(max_length=64)
    revision = BigIntegerField()
    agent = CharField(max_length=64)
    kinds = LongTextField()
    deployments = BooleanField()
    state = CharField(max_length=16)
    reason = LongTextField()
    registered_at = DoubleField()
    seen_at = DoubleField(null=True)

    class Meta:
        table_name = "node"


class NodeAction(Model):
    seq = AutoField()
    id = CharField(max_length=36, unique=True)
    project = CharField()
    stack_id = CharField(max_length=36)
    root_id = CharField(max_length=36)
    node_id = CharField(max_length=36)
    node = CharField()
    kind = CharField()
    args = LongTextField()
    digest = CharField(max_length=64)
    state = CharField(max_length=16)
    requester = CharField(max_length=16)
    requested_by = CharField()
    created_at = DoubleField()
    updated_at = DoubleField()
    scheduled_at = DoubleField(null=True)
    started_at = DoubleField(null=True)
    finished_at = DoubleField(null=True)
    approved_by = CharField(null=True)
    approved_at = DoubleField(null=True)
    sent_at = DoubleField(null=True)
    attempts = IntegerField()
    error = LongTextField()
    progress = LongTextField()
    outputs = LongTextField()
    cancel_asked = BooleanField()
    turn = BooleanField()
    run_id = CharField(max_length=36, null=True, index=True)
    stage = IntegerField(null=True)
    deployment_id = CharField(max_length=36, null=True)

    class Meta:
        table_name = "node_action"
        indexes = (
            (("root_id", "state"), False),
            (("node_id", "state"), False),
            (("project", "seq"), False),
            (("stack_id", "seq"), False),
        )


class NodeTransition(Model):
    id = BigAutoField()
    action_id = CharField(max_length=36, index=True)
    time = DoubleField()
    state = CharField(max_length=16)
    origin = CharField(max_length=16)
    user = CharField(null=True)
    reason = LongTextField()

    class Meta:
        table_name = "node_transition"


class Orchestration(Model):
    root_id = CharField(max_length=36, primary_key=True)
    due_at = DoubleField(index=True)
    owner = CharField(max_length=36, null=True)
    lease_until = DoubleField()
    fence = BigIntegerField()
    nudges = BigIntegerField()
    started_at = DoubleField(null=True)
    ended_at = DoubleField(null=True)
    report = LongTextField()

    class Meta:
        table_name = "orchestration"


class NodePlaybook(Model):
    seq = AutoField()
    project = CharField()
    name = CharField()
    document = LongTextField()
    created_by = CharField()
    created_at = DoubleField()
    updated_at = DoubleField(null=True)

    class Meta:
        table_name = "node_playbook"
        indexes = ((("project", "name"), True),)


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


class SuppressedDropped(Model):
    root_id = CharField(max_length=36, primary_key=True)
    times = IntegerField()
    last_time = DoubleField()

    class Meta:
        table_name = "suppressed_dropped"


class StackSize(Model):
    stack_id = CharField(max_length=36, primary_key=True)
    root_id = CharField(max_length=36)
    definition = BigIntegerField()
    resources = BigIntegerField()

    class Meta:
        table_name = "stack_size"
        indexes = ((("root_id", "stack_id", "definition", "resources"), False),)


TABLES = (
    Template, Stack, Resource, Event, Action, Suppressed, Service, Mail, SoftwareConfig,
    SoftwareDeployment, Sink, Snapshot, Dependency, Transition, Credential, Node, NodeAction,
    NodeTransition, Orchestration, NodePlaybook, Account, AccountProject, SuppressedDropped,
    StackSize,
)  # fmt: skip


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, *TABLES)
