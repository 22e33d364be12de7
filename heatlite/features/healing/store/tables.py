"""Models of health and healing."""

import peewee

from heatlite.store.tables.fields import LongTextField


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
    """SHA-256 of the physical id at the opening. A physical id may be too long for an index."""

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
    due = peewee.DoubleField(null=True, index=True)
    """Time at which the loop looks at marks of the tree; NULL: there is no new one."""

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


MODELS = (HealthSource, HealthToken, Observation, Incident, HealingPolicy, HealingScope, Repair, HealingSweep)
