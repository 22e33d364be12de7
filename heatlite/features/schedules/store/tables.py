"""Tables of schedules, expiries and the rights of their authors."""

import peewee

from heatlite.store.tables.fields import EncryptedField, LongTextField


class Schedule(peewee.Model):
    """A schedule of a root stack."""

    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    stack_id = peewee.CharField(max_length=36)
    name = peewee.CharField(max_length=64)
    cron = peewee.CharField()
    timezone = peewee.CharField()
    task = peewee.CharField(max_length=16)
    options = LongTextField()
    window = peewee.IntegerField()
    enabled = peewee.BooleanField()
    created_by = peewee.CharField()
    author = LongTextField()
    since = peewee.DoubleField()
    starts_at = peewee.DoubleField(null=True)
    ends_at = peewee.DoubleField(null=True)
    next_at = peewee.DoubleField(null=True, index=True)
    last_due = peewee.DoubleField(null=True)
    last_at = peewee.DoubleField(null=True)
    last_result = peewee.CharField(max_length=16, null=True)
    last_code = peewee.CharField(null=True)
    last_action_id = peewee.CharField(max_length=36, null=True)

    class Meta:
        table_name = "schedule"
        indexes = ((("stack_id", "name"), True), (("project", "next_at"), False))


class Expiry(peewee.Model):
    """The expiry of a root stack."""

    stack_id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    expires_at = peewee.DoubleField()
    task = peewee.CharField(max_length=16)
    warn_before = LongTextField()
    set_by = peewee.CharField()
    author = LongTextField()
    state = peewee.CharField(max_length=16)
    code = peewee.CharField(null=True)
    due = peewee.DoubleField(null=True, index=True)
    version = peewee.IntegerField()

    class Meta:
        table_name = "expiry"
        indexes = ((("project", "expires_at"), False),)


class Delegation(peewee.Model):
    """Rights of the author of a schedule or an expiry."""

    id = peewee.CharField(max_length=36, primary_key=True)
    stack_id = peewee.CharField(max_length=36, index=True)
    owner_id = peewee.CharField(max_length=36, index=True)
    credential = EncryptedField()
    released = peewee.BooleanField(index=True)

    class Meta:
        table_name = "delegation"


MODELS = (Schedule, Expiry, Delegation)
