"""Models of nodes, their actions and playbooks."""

import peewee

from heatlite.store.tables.fields import EncryptedField, LongTextField


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


MODELS = (Node, NodeAction, NodeTransition, Orchestration, NodePlaybook)
