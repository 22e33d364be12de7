"""Model of the audit log."""

import peewee

from heatlite.store.tables.fields import LongTextField, SecretField


class Audit(peewee.Model):
    """One request that changes something, or a refusal with its repeats."""

    request_id = peewee.CharField(max_length=40, primary_key=True)
    project = peewee.CharField()
    time = peewee.DoubleField(index=True)
    last_time = peewee.DoubleField()
    times = peewee.IntegerField()
    """Number of refused requests that share the row; 1 for others."""
    user = peewee.CharField(null=True)
    """NULL if the caller is unknown."""
    user_id = peewee.CharField(max_length=64)
    address = peewee.CharField(max_length=64)
    method = peewee.CharField(max_length=8)
    path = LongTextField()
    operation = peewee.CharField(max_length=64)
    """The rule of the access policy."""
    stack_id = peewee.CharField(max_length=36, null=True)
    stack_name = peewee.CharField(null=True)
    resource = LongTextField(null=True)
    outcome = peewee.CharField(max_length=8)
    status = peewee.IntegerField(null=True)
    """Code of the answer, for requests that did not succeed."""
    reason = SecretField()
    """Message of the answer to a request that did not succeed; it may quote the request."""
    plan_digest = peewee.CharField(max_length=64, null=True)
    action_id = peewee.CharField(max_length=36, null=True)
    repeat_key = peewee.CharField(max_length=64, null=True, unique=True)
    """Digest by which a refusal is counted; NULL for other requests."""

    target = LongTextField(null=True)
    """Id or name of what else the request concerns: a run, a token."""
    approval_id = peewee.CharField(max_length=36, null=True)

    class Meta:
        table_name = "audit"
        indexes = (
            (("project", "time", "request_id"), False),
            # Refusals of a caller, and rows without a caller, for their limits.
            (("user", "outcome", "time"), False),
        )
