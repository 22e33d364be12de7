"""Models of all tables. The migrations in `admin/migrations` create them.

JSON is stored as text: no SQL looks inside it, and text costs the least. Times are seconds since the epoch.
The models are bound to no database; `Database` runs the queries.
"""

import peewee


class LongTextField(peewee.TextField):
    """Text of any length. MariaDB's TEXT ends at 64 KiB, less than a template needs."""

    field_type = "LONGTEXT"


class ContentField(LongTextField):
    """JSON that may contain secrets; encrypted for sealed stacks (`FieldEncryption`)."""


class MaskedField(LongTextField):
    """A JSON object for display; sealed stacks store masks in place of its values."""


class EncryptedField(LongTextField):
    """JSON that is always encrypted if there is a key."""


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
    """Name of a live stack; NULL once deleted. Makes live names unique in a project."""
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
    """``{"name", "auth_url", "region", "project_id"}``; roots only."""

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
    data = EncryptedField()
    """Data of types: private keys, signing keys, random strings."""
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
    """Order of creation."""
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
    """Key that the action holds alone, see `actions.table.exclusive_key`; NULL once it has ended."""
    parent_id = peewee.CharField(max_length=36, null=True)
    urgent = peewee.BooleanField(default=False)
    open_children = peewee.IntegerField(default=0)
    name = peewee.CharField(max_length=64, default="")
    cause = peewee.CharField(max_length=32, default="RPC Request")
    kind = peewee.CharField(max_length=16, default="stack")
    zone = peewee.CharField(null=True)
    context = LongTextField(default="{}")
    secrets = EncryptedField(null=True)
    """Encrypted; NULL once the action has ended."""
    outputs = ContentField(default="{}")
    data = ContentField(default="{}")
    interval = peewee.DoubleField(default=0)
    not_before = peewee.DoubleField(null=True)
    timeout = peewee.IntegerField(default=0)
    retries = peewee.IntegerField(default=0)
    pending = peewee.IntegerField(default=0)
    """Number of open dependencies."""
    failed_dependencies = peewee.IntegerField(default=0)
    suspended_at = peewee.DoubleField(null=True)
    suspended = peewee.DoubleField(default=0)
    wake_at = peewee.DoubleField(null=True)
    """Time at which a parked action is woken at the latest."""
    updated_at = peewee.DoubleField(null=True)
    commits = peewee.IntegerField(default=0)
    """Number of commits of its workers."""
    takeovers = peewee.IntegerField(default=0)
    """Number of takeovers since the last commit."""

    class Meta:
        table_name = "action"
        indexes = (
            (("status", "seq"), False),
            (("stack_id", "status"), False),
            (("parent_id", "status"), False),
            # Pages of a project's list.
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
    body = EncryptedField(null=True)
    digest = peewee.CharField(max_length=64)
    """Digest of lock and request (`FieldEncryption.digest`): repeats of a request share a row."""
    root_id = peewee.CharField(max_length=36, index=True)
    """The root of the tree; for a root the stack itself."""
    last_time = peewee.DoubleField()
    times = peewee.IntegerField()
    author = LongTextField()
    effect = EncryptedField()
    replayable = peewee.BooleanField()
    size = peewee.IntegerField()
    """Characters of all text from the sender."""

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
    """SHA-256 of the key, which is too long for an index."""
    key = LongTextField()
    content = EncryptedField()

    class Meta:
        table_name = "mail"
        indexes = ((("address", "digest"), True),)


class SoftwareConfig(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    name = LongTextField()
    group = LongTextField()
    content = EncryptedField()
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
    input_values = EncryptedField()
    output_values = EncryptedField()
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
    """The stack; "" for a webhook of all stacks."""
    digest = peewee.CharField(max_length=64)
    """SHA-256 of the webhook's type and target."""
    position = peewee.BigIntegerField()
    """Id of the last event delivered."""
    failures = peewee.IntegerField(default=0)
    """Failed attempts since the last success."""
    failing_since = peewee.DoubleField(null=True)
    retry_at = peewee.DoubleField(default=0)
    given_up_at = peewee.DoubleField(null=True)
    lease_until = peewee.DoubleField(default=0)
    """End of the lease of the engine that delivers."""

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
    data = EncryptedField(null=True)

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
    """The root of the tree."""
    content = EncryptedField()

    class Meta:
        table_name = "credential"


class Node(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    """Id of the resource."""
    stack_id = peewee.CharField(max_length=36, index=True)
    root_id = peewee.CharField(max_length=36, index=True)
    project = peewee.CharField()
    name = peewee.CharField()
    """Name of the resource."""
    url = LongTextField()
    secret = EncryptedField()
    """A JSON string."""
    instance = peewee.CharField(max_length=64)
    """Id of the agent's database that the revision belongs to."""
    revision = peewee.BigIntegerField()
    agent = peewee.CharField(max_length=64)
    kinds = LongTextField()
    deployments = peewee.BooleanField()
    """True if the agent carries out software deployments."""
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
    args = EncryptedField()
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
    error = EncryptedField()
    """A JSON string."""
    progress = EncryptedField()
    outputs = EncryptedField()
    cancel_asked = peewee.BooleanField()
    turn = peewee.BooleanField()
    """False while it waits for others of its playbook's run."""
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
    """Time by the clock of its origin."""
    state = peewee.CharField(max_length=16)
    origin = peewee.CharField(max_length=16)
    user = peewee.CharField(null=True)
    reason = EncryptedField()
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
    """Number of requests for an orchestration."""
    started_at = peewee.DoubleField(null=True)
    ended_at = peewee.DoubleField(null=True)
    report = LongTextField()

    class Meta:
        table_name = "orchestration"


class NodePlaybook(peewee.Model):
    seq = peewee.AutoField()
    project = peewee.CharField()
    name = peewee.CharField()
    document = EncryptedField()
    """YAML as given; its scripts may contain secrets."""
    created_by = peewee.CharField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField(null=True)

    class Meta:
        table_name = "node_playbook"
        indexes = ((("project", "name"), True),)


class Account(peewee.Model):
    """An account with which the agent of a resource calls the API."""

    id = peewee.BigAutoField()
    stack_id = peewee.CharField(max_length=36)
    root_id = peewee.CharField(max_length=36, index=True)
    resource_name = peewee.CharField()
    physical_name = peewee.CharField()
    """Physical name of the resource, and name of the user."""
    password = EncryptedField()
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


class StackSize(peewee.Model):
    """Size of a stack in characters of JSON."""

    stack_id = peewee.CharField(max_length=36, primary_key=True)
    root_id = peewee.CharField(max_length=36)
    definition = peewee.BigIntegerField(default=0)
    """Environment of a nested stack, and its template if a type generated it."""
    resources = peewee.BigIntegerField(default=0)

    class Meta:
        table_name = "stack_size"
        # Covers the sum over a tree.
        indexes = ((("root_id", "stack_id", "definition", "resources"), False),)


class HealthSource(peewee.Model):
    """A named intake of a project."""

    project = peewee.CharField()
    name = peewee.CharField(max_length=64)
    document = LongTextField(null=True)
    last_report_at = peewee.DoubleField(null=True)
    storm_since = peewee.DoubleField(null=True, index=True)
    window_from = peewee.DoubleField(default=0)
    results = LongTextField(default="[]")

    class Meta:
        table_name = "health_source"
        primary_key = peewee.CompositeKey("project", "name")


class HealthToken(peewee.Model):
    """A token that only opens intakes."""

    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField(index=True)
    name = peewee.CharField()
    digest = peewee.CharField(max_length=64, unique=True)
    """SHA-256 of the token."""
    source = peewee.CharField(max_length=64, null=True)
    created_by = peewee.CharField()
    created_at = peewee.DoubleField()
    expires_at = peewee.DoubleField(null=True)
    last_used_at = peewee.DoubleField(null=True)

    class Meta:
        table_name = "health_token"


class Observation(peewee.Model):
    """An episode: one firing period of a key of a source."""

    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    source = peewee.CharField(max_length=64)
    key = peewee.CharField()
    starts_at = peewee.DoubleField()
    first_seen = peewee.DoubleField()
    last_seen = peewee.DoubleField()
    reports = peewee.IntegerField()
    word = peewee.CharField(max_length=16)
    open_key = peewee.CharField(max_length=64, null=True, unique=True)
    """Digest of project, source and key; NULL once the episode has ended."""
    incident_id = peewee.CharField(max_length=36, null=True, index=True)
    root_id = peewee.CharField(max_length=36, null=True)
    path = LongTextField()
    muted_for = LongTextField(null=True)
    summary = LongTextField()
    ended_at = peewee.DoubleField(null=True, index=True)

    class Meta:
        table_name = "observation"
        indexes = (
            (("project", "source", "key", "starts_at"), True),
            # Blind sources.
            (("project", "source", "word", "open_key"), False),
        )


class Incident(peewee.Model):
    """A slot and a source, while something is wrong there."""

    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    source = peewee.CharField(max_length=64)
    root_id = peewee.CharField(max_length=36)
    stack_id = peewee.CharField(max_length=36)
    path = LongTextField()
    member = LongTextField()
    scope = LongTextField()
    resource_id = peewee.CharField(max_length=36, index=True)
    physical_id = LongTextField()
    state = peewee.CharField(max_length=16)
    created_at = peewee.DoubleField()
    last_report_at = peewee.DoubleField()
    evidence_since = peewee.DoubleField(null=True)
    evidence_after = peewee.DoubleField()
    reports = peewee.IntegerField()
    ttl = peewee.IntegerField(null=True)
    due = peewee.DoubleField(null=True)
    is_marked = peewee.BooleanField()
    needs_resolved = peewee.CharField(max_length=32, null=True)
    step = peewee.IntegerField()
    attempt = peewee.IntegerField()
    action_id = peewee.CharField(max_length=36, null=True)
    settles_until = peewee.DoubleField(null=True)
    plan_digest = peewee.CharField(max_length=64, null=True)
    reason = peewee.CharField(max_length=32, null=True)
    also = LongTextField()
    summary = LongTextField()
    closed_at = peewee.DoubleField(null=True, index=True)
    closed_as = peewee.CharField(max_length=32, null=True)
    history = LongTextField()
    version = peewee.IntegerField()
    open_key = peewee.CharField(max_length=64, null=True, unique=True)
    """Digest of slot and source; NULL once closed."""
    object_digest = peewee.CharField(max_length=64)
    """SHA-256 of the physical id, which may be too long for an index."""

    class Meta:
        table_name = "incident"
        indexes = (
            (("due", "root_id"), False),
            (("root_id", "state"), False),
            (("project", "source", "created_at"), False),
            (("project", "state", "created_at"), False),
            (("project", "object_digest"), False),
        )


class HealingPolicy(peewee.Model):
    """The policy of a root stack."""

    root_id = peewee.CharField(max_length=36, primary_key=True)
    document = LongTextField()
    version = peewee.IntegerField()
    updated_by = peewee.CharField()
    updated_at = peewee.DoubleField()

    class Meta:
        table_name = "healing_policy"


class HealingScope(peewee.Model):
    """Brakes of one scope of a tree."""

    root_id = peewee.CharField(max_length=36)
    scope_digest = peewee.CharField(max_length=64)
    """SHA-256 of the scope, which is too long for a key."""
    scope = LongTextField()
    open_since = peewee.DoubleField(null=True)
    is_suspended = peewee.BooleanField()
    failures = peewee.IntegerField()

    class Meta:
        table_name = "healing_scope"
        primary_key = peewee.CompositeKey("root_id", "scope_digest")


class Repair(peewee.Model):
    """One attempt to repair a member."""

    id = peewee.CharField(max_length=36, primary_key=True)
    incident_id = peewee.CharField(max_length=36, index=True)
    root_id = peewee.CharField(max_length=36)
    scope = LongTextField()
    member = LongTextField()
    path = LongTextField()
    step = peewee.CharField(max_length=16)
    position = peewee.IntegerField()
    action_id = peewee.CharField(max_length=36, index=True)
    begun_at = peewee.DoubleField()
    ended_at = peewee.DoubleField(null=True)
    result = peewee.CharField(max_length=16, null=True)
    settles_until = peewee.DoubleField(null=True)
    is_failure = peewee.BooleanField()

    class Meta:
        table_name = "repair"
        indexes = ((("root_id", "begun_at"), False),)


class HealingSweep(peewee.Model):
    """The last sweep of any engine, by which a gap without engines is found."""

    id = peewee.IntegerField(primary_key=True)
    """Always 1."""
    swept_at = peewee.DoubleField()

    class Meta:
        table_name = "healing_sweep"


MODELS: tuple[type[peewee.Model], ...] = (
    Template, Stack, Resource, Event, Action, Suppressed, SuppressedDropped, Service, Mail, SoftwareConfig,
    SoftwareDeployment, Sink, Snapshot, Dependency, Transition, Credential, Node, NodeAction, NodeTransition,
    Orchestration, NodePlaybook, Account, AccountProject, StackSize, HealthSource, HealthToken,
    Observation, Incident, HealingPolicy, HealingScope, Repair, HealingSweep,
)  # fmt: skip
