"""Nodes, their actions with history, orchestrations, playbooks."""

from peewee import (
    AutoField,
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    Database,
    DoubleField,
    IntegerField,
    Model,
)
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


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


MODELS = (Node, NodeAction, NodeTransition, Orchestration, NodePlaybook)


def up(_: SchemaMigrator, db: Database) -> None:
    create(db, *MODELS)
