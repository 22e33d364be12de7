"""Models of the queue of actions and of its workers."""

import peewee

from heatlite.store.tables.fields import ContentField, EncryptedField, LongTextField


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
    """Key that the action holds alone, see `actions.table.exclusive_key`; NULL once it has ended, and for
    a run that was set aside."""
    parent_id = peewee.CharField(max_length=36, null=True)
    urgent = peewee.BooleanField(default=False)
    open_children = peewee.IntegerField(default=0)
    name = peewee.CharField(max_length=64, default="")
    cause = peewee.CharField(max_length=32, default="RPC Request")
    kind = peewee.CharField(max_length=16, default="stack")
    zone = peewee.CharField(null=True)
    context = LongTextField(default="{}")
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
    request = EncryptedField(null=True)
    """Of a scheduled action: the request to carry out at its time; NULL from then on."""
    approval_id = peewee.CharField(max_length=36, null=True)

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
            (("project", "cause", "seq"), False),
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


class Service(peewee.Model):
    id = peewee.CharField(max_length=36, primary_key=True)
    host = peewee.CharField()
    binary = peewee.CharField()
    created_at = peewee.DoubleField()
    updated_at = peewee.DoubleField()
    kinds = peewee.TextField(null=True)
    zones = peewee.TextField(null=True)

    class Meta:
        table_name = "service"
