"""Sources of reports, observations, incidents, healing policies and repairs."""

from peewee import (
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


class HealthSource(Model):
    project = CharField()
    name = CharField(max_length=64)
    document = LongTextField(null=True)
    last_report_at = DoubleField(null=True)
    storm_since = DoubleField(null=True, index=True)
    window_from = DoubleField(default=0)
    results = LongTextField(default="[]")

    class Meta:
        table_name = "health_source"
        primary_key = CompositeKey("project", "name")


class HealthToken(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField(index=True)
    name = CharField()
    digest = CharField(max_length=64, unique=True)
    source = CharField(max_length=64, null=True)
    created_by = CharField()
    created_at = DoubleField()
    expires_at = DoubleField(null=True)
    last_used_at = DoubleField(null=True)

    class Meta:
        table_name = "health_token"


class Observation(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    source = CharField(max_length=64)
    key = CharField()
    starts_at = DoubleField()
    first_seen = DoubleField()
    last_seen = DoubleField()
    reports = IntegerField()
    word = CharField(max_length=16)
    open_key = CharField(max_length=64, null=True, unique=True)
    incident_id = CharField(max_length=36, null=True, index=True)
    root_id = CharField(max_length=36, null=True)
    path = LongTextField()
    muted_for = LongTextField(null=True)
    summary = LongTextField()
    ended_at = DoubleField(null=True, index=True)

    class Meta:
        table_name = "observation"
        indexes = (
            (("project", "source", "key", "starts_at"), True),
            (("project", "source", "word", "open_key"), False),
        )


class Incident(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    source = CharField(max_length=64)
    root_id = CharField(max_length=36)
    stack_id = CharField(max_length=36)
    path = LongTextField()
    member = LongTextField()
    scope = LongTextField()
    resource_id = CharField(max_length=36, index=True)
    physical_id = LongTextField()
    state = CharField(max_length=16)
    created_at = DoubleField()
    last_report_at = DoubleField()
    evidence_since = DoubleField(null=True)
    evidence_after = DoubleField()
    reports = IntegerField()
    ttl = IntegerField(null=True)
    due = DoubleField(null=True)
    is_marked = BooleanField()
    needs_resolved = CharField(max_length=32, null=True)
    step = IntegerField()
    attempt = IntegerField()
    action_id = CharField(max_length=36, null=True)
    settles_until = DoubleField(null=True)
    plan_digest = CharField(max_length=64, null=True)
    reason = CharField(max_length=32, null=True)
    also = LongTextField()
    summary = LongTextField()
    closed_at = DoubleField(null=True, index=True)
    closed_as = CharField(max_length=32, null=True)
    history = LongTextField()
    version = IntegerField()
    open_key = CharField(max_length=64, null=True, unique=True)
    object_digest = CharField(max_length=64)

    class Meta:
        table_name = "incident"
        indexes = (
            (("due", "root_id"), False),
            (("root_id", "state"), False),
            (("project", "source", "created_at"), False),
            (("project", "state", "created_at"), False),
            (("project", "object_digest"), False),
        )


class HealingPolicy(Model):
    root_id = CharField(max_length=36, primary_key=True)
    document = LongTextField()
    version = IntegerField()
    updated_by = CharField()
    updated_at = DoubleField()

    class Meta:
        table_name = "healing_policy"


class HealingScope(Model):
    root_id = CharField(max_length=36)
    scope_digest = CharField(max_length=64)
    scope = LongTextField()
    open_since = DoubleField(null=True)
    is_suspended = BooleanField()
    failures = IntegerField()

    class Meta:
        table_name = "healing_scope"
        primary_key = CompositeKey("root_id", "scope_digest")


class Repair(Model):
    id = CharField(max_length=36, primary_key=True)
    incident_id = CharField(max_length=36, index=True)
    root_id = CharField(max_length=36)
    scope = LongTextField()
    member = LongTextField()
    path = LongTextField()
    step = CharField(max_length=16)
    position = IntegerField()
    action_id = CharField(max_length=36, index=True)
    begun_at = DoubleField()
    ended_at = DoubleField(null=True)
    result = CharField(max_length=16, null=True)
    settles_until = DoubleField(null=True)
    is_failure = BooleanField()

    class Meta:
        table_name = "repair"
        indexes = ((("root_id", "begun_at"), False),)


class HealingSweep(Model):
    id = IntegerField(primary_key=True)
    swept_at = DoubleField()

    class Meta:
        table_name = "healing_sweep"


MODELS = (HealthSource, HealthToken, Observation, Incident, HealingPolicy, HealingScope, Repair, HealingSweep)


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, *MODELS)
