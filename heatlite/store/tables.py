"""The tables as they are now. Migrations make them; see `migrations/`.

JSON is kept as text: nothing inside it is ever asked for in SQL, and text costs the least. Times are
seconds since the epoch. The models are bound to no database; `Database` is told which query to run.
"""

import peewee


class LongTextField(peewee.TextField):
    """Text of any length. MariaDB's TEXT ends at 64 KiB, less than a template may have."""

    field_type = "LONGTEXT"


class ContentField(LongTextField):
    """JSON that may be made of secrets: encrypted where its stack is sealed, see `sealing`."""


class MaskedField(LongTextField):
    """A JSON object that is only to be read: of a sealed stack's no value is kept, but a mask in its place."""


class SealedField(LongTextField):
    """JSON that is always encrypted, where there is a key: nobody can tell what is in it, and it is little."""


class Template(peewee.Model):
    id = peewee.CharField(max_length=64, primary_key=True)
    """SHA-256 of the content."""
    document = ContentField()
    files = ContentField()
    unused_since = peewee.DoubleField(null=True, index=True)
    """Time at which retention found no stack that refers to the template; NULL while one does."""

    class Meta:
        table_name = "template"


class Stack(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    name = peewee.CharField()
    project = peewee.CharField()
    live_name = peewee.CharField(null=True)
    """The name while the stack is not deleted: what makes names unique in a project."""
    username = peewee.CharField()
    template_id = peewee.CharField(max_length=64, index=True)
    environment = ContentField()
    verb = peewee.CharField(max_length=16)
    status = peewee.CharField(max_length=16)
    status_reason = LongTextField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField(null=True)
    deleted_at = peewee.DoubleField(null=True)
    parent_id = peewee.CharField(max_length=36, null=True, index=True)
    root_id = peewee.CharField(max_length=36, null=True, index=True)
    previous_template_id = peewee.CharField(max_length=64, null=True, index=True)
    previous_environment = ContentField(null=True)
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
    inherited = ContentField(null=True)
    before_lock = peewee.CharField(max_length=32, null=True)
    sealed = peewee.BooleanField(default=False)
    protection = LongTextField(null=True)
    """``[by, at, reason]``"""
    cloud = LongTextField(null=True)
    """``{"name", "auth_url", "region", "project_id"}``; of a root only."""

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
    properties = ContentField()
    metadata = ContentField()
    data = SealedField()
    """What types keep: private keys, keys to sign with, strings drawn at random."""
    token = ContentField(null=True)
    requires = LongTextField()
    uses = LongTextField()
    deletion_policy = peewee.CharField(max_length=16)
    description = LongTextField()
    before_lock = LongTextField(null=True)
    """``[verb, status, reason, time]``"""
    external_id = LongTextField(null=True)
    before_check = LongTextField(null=True)
    """As `before_lock`."""
    protection = LongTextField(null=True)
    """``[by, at, reason]``"""
    health = LongTextField(null=True)
    """``[since, reason, marked, before, before_lock]``; the last two as `before_lock`."""
    moved_in = peewee.CharField(max_length=64, null=True)
    """``ACTION`` or ``ACTION/rollback``"""

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
    properties = MaskedField()

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
    status = peewee.CharField(max_length=32)
    requested_by = peewee.CharField()
    created_at = peewee.DoubleField()
    inputs = ContentField()
    status_reason = LongTextField()
    control = peewee.CharField(max_length=16, null=True)
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
    name = peewee.CharField(max_length=64, default="")
    cause = peewee.CharField(max_length=32, default="RPC Request")
    kind = peewee.CharField(max_length=16, default="stack")
    zone = peewee.CharField(null=True)
    context = LongTextField(default="{}")
    secrets = SealedField(null=True)
    """Encrypted; NULL once the action has ended."""
    outputs = ContentField(default="{}")
    data = ContentField(default="{}")
    interval = peewee.DoubleField(default=0)
    not_before = peewee.DoubleField(null=True)
    timeout = peewee.IntegerField(default=0)
    retries = peewee.IntegerField(default=0)
    pending = peewee.IntegerField(default=0)
    """How many of the actions that it depends on have not ended."""
    failed_dependencies = peewee.IntegerField(default=0)
    suspended_at = peewee.DoubleField(null=True)
    suspended = peewee.DoubleField(default=0)
    wake_at = peewee.DoubleField(null=True)
    """Of a parked one: when there is something to do, whatever happens till then."""
    updated_at = peewee.DoubleField(null=True)
    commits = peewee.IntegerField(default=0)
    """How often what its workers have done was written."""
    takeovers = peewee.IntegerField(default=0)
    """How often it was taken over without progress: since its workers have last written anything."""

    class Meta:
        table_name = "action"
        indexes = (
            (("status", "seq"), False),
            (("stack_id", "status"), False),
            (("parent_id", "status"), False),
            # Pages of the list of a project.
            (("project", "seq"), False),
            (("project", "stack_id", "seq"), False),
            (("project", "status", "seq"), False),
            (("project", "name", "seq"), False),
            (("project", "verb", "seq"), False),
        )


class Dependency(peewee.Model):
    dependent = peewee.CharField(max_length=36)
    depended = peewee.CharField(max_length=36)
    needs = peewee.CharField(max_length=16)
    state = peewee.CharField(max_length=16)

    class Meta:
        table_name = "dependency"
        primary_key = peewee.CompositeKey("dependent", "depended")
        indexes = ((("depended", "state"), False),)


class Transition(peewee.Model):
    id = peewee.BigAutoField()
    action_id = peewee.CharField(max_length=36)
    time = peewee.DoubleField()
    before = peewee.CharField(max_length=32)
    after = peewee.CharField(max_length=32)
    attempt = peewee.IntegerField()
    owner = peewee.CharField(null=True)
    reason = LongTextField()

    class Meta:
        table_name = "transition"
        indexes = ((("action_id", "id"), False),)


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
    body = SealedField(null=True)
    digest = peewee.CharField(max_length=64)
    """Of the lock and the request (`Sealing.digest`): a client that tries again and again makes one row."""
    root_id = peewee.CharField(max_length=36, index=True)
    """The root of its tree; the stack itself where it is one."""
    last_time = peewee.DoubleField()
    times = peewee.IntegerField()
    author = LongTextField()
    effect = SealedField()
    replayable = peewee.BooleanField()
    size = peewee.IntegerField()
    """Characters of all that its sender chose."""

    class Meta:
        table_name = "suppressed"
        indexes = ((("stack_id", "digest"), True),)


class SuppressedDropped(peewee.Model):
    root_id = peewee.CharField(max_length=36, primary_key=True)
    times = peewee.IntegerField()
    last_time = peewee.DoubleField()

    class Meta:
        table_name = "suppressed_dropped"


class Mail(peewee.Model):
    id = peewee.BigAutoField()
    address = peewee.CharField()
    digest = peewee.CharField(max_length=64)
    """SHA-256 of the key, which may be long."""
    key = LongTextField()
    content = SealedField()

    class Meta:
        table_name = "mail"
        indexes = ((("address", "digest"), True),)


class SoftwareConfig(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    name = LongTextField()
    group = LongTextField()
    content = SealedField()
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
    input_values = SealedField()
    output_values = SealedField()
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
    data = SealedField(null=True)

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


class Credential(peewee.Model):
    stack_id = peewee.CharField(max_length=36, primary_key=True)
    """A root's."""
    content = SealedField()

    class Meta:
        table_name = "credential"


class Node(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    """That of the resource."""
    stack_id = peewee.CharField(max_length=36, index=True)
    root_id = peewee.CharField(max_length=36, index=True)
    project = peewee.CharField()
    name = peewee.CharField()
    """That of the resource."""
    url = LongTextField()
    secret = SealedField()
    """A JSON string."""
    instance = peewee.CharField(max_length=64)
    """Which of the agent's databases it was that told the revision."""
    revision = peewee.BigIntegerField()
    agent = peewee.CharField(max_length=64)
    kinds = LongTextField()
    deployments = peewee.BooleanField()
    """Whether the agent carries out software deployments."""
    state = peewee.CharField(max_length=16)
    reason = LongTextField()
    registered_at = peewee.DoubleField()
    seen_at = peewee.DoubleField(null=True)

    class Meta:
        table_name = "node"


class NodeAction(peewee.Model):
    seq = peewee.AutoField()
    id = peewee.CharField(max_length=36, unique=True)
    project = peewee.CharField()
    stack_id = peewee.CharField(max_length=36)
    root_id = peewee.CharField(max_length=36)
    node_id = peewee.CharField(max_length=36)
    node = peewee.CharField()
    kind = peewee.CharField()
    args = SealedField()
    digest = peewee.CharField(max_length=64)
    state = peewee.CharField(max_length=16)
    requester = peewee.CharField(max_length=16)
    requested_by = peewee.CharField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField()
    scheduled_at = peewee.DoubleField(null=True)
    started_at = peewee.DoubleField(null=True)
    finished_at = peewee.DoubleField(null=True)
    approved_by = peewee.CharField(null=True)
    approved_at = peewee.DoubleField(null=True)
    sent_at = peewee.DoubleField(null=True)
    attempts = peewee.IntegerField()
    error = SealedField()
    """A JSON string."""
    progress = SealedField()
    outputs = SealedField()
    cancel_asked = peewee.BooleanField()
    turn = peewee.BooleanField()
    """False: it waits for others of its playbook's run."""
    run_id = peewee.CharField(max_length=36, null=True, index=True)
    stage = peewee.IntegerField(null=True)
    deployment_id = peewee.CharField(max_length=36, null=True)

    class Meta:
        table_name = "node_action"
        indexes = (
            (("root_id", "state"), False),
            (("node_id", "state"), False),
            (("project", "seq"), False),
            (("stack_id", "seq"), False),
        )


class NodeTransition(peewee.Model):
    id = peewee.BigAutoField()
    action_id = peewee.CharField(max_length=36, index=True)
    time = peewee.DoubleField()
    """By the clock of whom it is told by."""
    state = peewee.CharField(max_length=16)
    origin = peewee.CharField(max_length=16)
    user = peewee.CharField(null=True)
    reason = SealedField()
    """A JSON string."""

    class Meta:
        table_name = "node_transition"


class Orchestration(peewee.Model):
    root_id = peewee.CharField(max_length=36, primary_key=True)
    due_at = peewee.DoubleField(index=True)
    owner = peewee.CharField(max_length=36, null=True)
    lease_until = peewee.DoubleField()
    fence = peewee.BigIntegerField()
    nudges = peewee.BigIntegerField()
    """How often somebody has asked for one."""
    started_at = peewee.DoubleField(null=True)
    ended_at = peewee.DoubleField(null=True)
    report = LongTextField()

    class Meta:
        table_name = "orchestration"


class NodePlaybook(peewee.Model):
    seq = peewee.AutoField()
    project = peewee.CharField()
    name = peewee.CharField()
    document = SealedField()
    """YAML, as it was given; scripts in it may have secrets."""
    created_by = peewee.CharField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField(null=True)

    class Meta:
        table_name = "node_playbook"
        indexes = ((("project", "name"), True),)


class Account(peewee.Model):
    """With what the agent of a resource proves who it is."""

    id = peewee.BigAutoField()
    stack_id = peewee.CharField(max_length=36)
    root_id = peewee.CharField(max_length=36, index=True)
    resource_name = peewee.CharField()
    physical_name = peewee.CharField()
    """The resource's; the user is called so, too."""
    password = SealedField()
    user_id = peewee.CharField(max_length=64, null=True, unique=True)
    """NULL until it is known that the user was made; as for the project."""
    project_id = peewee.CharField(max_length=64, null=True)

    class Meta:
        table_name = "account"
        indexes = ((("stack_id", "physical_name"), True),)


class AccountProject(peewee.Model):
    """Where the accounts of a tree of stacks are."""

    root_id = peewee.CharField(max_length=36, primary_key=True)
    """The project is called so, too."""
    project_id = peewee.CharField(max_length=64, null=True)

    class Meta:
        table_name = "account_project"


class StackSize(peewee.Model):
    """Characters of JSON that a stack of a tree holds."""

    stack_id = peewee.CharField(max_length=36, primary_key=True)
    root_id = peewee.CharField(max_length=36)
    definition = peewee.BigIntegerField(default=0)
    """Of a nested stack: its environment, and its template where a type has made it."""
    resources = peewee.BigIntegerField(default=0)

    class Meta:
        table_name = "stack_size"
        # All that the sum over a tree needs.
        indexes = ((("root_id", "stack_id", "definition", "resources"), False),)


MODELS: tuple[type[peewee.Model], ...] = (
    Template, Stack, Resource, Event, Action, Suppressed, SuppressedDropped, Service, Mail, SoftwareConfig,
    SoftwareDeployment, Sink, Snapshot, Dependency, Transition, Credential, Node, NodeAction, NodeTransition,
    Orchestration, NodePlaybook, Account, AccountProject, StackSize,
)  # fmt: skip
