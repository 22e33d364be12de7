"""Models of stacks, their resources and what belongs to them."""

import peewee

from heatlite.store.tables.fields import ContentField, EncryptedField, LongTextField, MaskedField


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
    restricted = LongTextField(null=True)
    """``{"since", "action_id", "left_out", "reached", "earlier"}``; roots only."""

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
    stack_id = peewee.CharField(max_length=36)
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
        indexes = ((("stack_id", "name"), False),)


Resource.add_index(peewee.SQL("CREATE INDEX resource_object ON resource (substr(physical_id, 1, 64))"))
Resource.add_index(peewee.SQL("CREATE INDEX resource_called ON resource (substr(physical_name, 1, 64))"))
Resource.add_index(
    peewee.SQL(
        "CREATE INDEX resource_unwell ON resource (stack_id)"
        " WHERE (verb = 'CHECK' AND status = 'FAILED') OR before_lock IS NOT NULL OR health IS NOT NULL"
    )
)
"""Resources whose health may be other than good; MariaDB has no such index."""


class LargeValue(peewee.Model):
    """A large value in rows of a tree, see `LargeValues`."""

    id = peewee.CharField(max_length=64, primary_key=True)
    """Digest of tree and content."""
    stack_id = peewee.CharField(max_length=36, index=True)
    """The root of the tree."""
    content = ContentField()
    checked_at = peewee.DoubleField(index=True)
    """Time of the last search for rows that refer to the value; 0 before the first one."""
    unused = peewee.BooleanField()
    """True if that search found none."""

    class Meta:
        table_name = "large_value"


class ProjectValue(peewee.Model):
    """A large value in rows of a project, see `ProjectValues`."""

    id = peewee.CharField(max_length=64, primary_key=True)
    """Digest of project and content."""
    project = peewee.CharField()
    content = EncryptedField()
    checked_at = peewee.DoubleField(index=True)
    """As in `LargeValue`."""
    unused = peewee.BooleanField()
    size = peewee.IntegerField(default=0)
    """Characters of the content."""

    class Meta:
        table_name = "project_value"
        # Covers the sum of a project.
        indexes = ((("project", "size"), False),)


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
        indexes = ((("stack_id", "id"), False), (("stack_id", "resource_name", "id"), False))


_RARE = "CREATE INDEX event_rare_{0} ON event (stack_id, {0}, id) WHERE {1}"
Event.add_index(peewee.SQL(_RARE.format("verb", "verb <> 'CREATE'")))
Event.add_index(peewee.SQL(_RARE.format("status", "status <> 'COMPLETE' AND status <> 'IN_PROGRESS'")))


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
    query = LongTextField()

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
    changed_at = peewee.DoubleField(index=True)

    class Meta:
        table_name = "mail"
        indexes = ((("address", "digest"), True),)


class AdoptedObject(peewee.Model):
    """An object that an unfinished adoption takes over."""

    id = peewee.CharField(max_length=64, primary_key=True)
    """Digest of kind, cloud and id, or of a physical name."""
    root_id = peewee.CharField(max_length=36)
    """The root of the tree that adopts it."""

    class Meta:
        table_name = "adopted_object"


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


class LimitLock(peewee.Model):
    """A limit; a transaction that counts and then inserts locks the row."""

    name = peewee.CharField(max_length=600, primary_key=True)

    class Meta:
        table_name = "limit_lock"


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
