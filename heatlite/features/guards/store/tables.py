"""Models of guards."""

import peewee

from heatlite.store.tables.fields import LongTextField


class UpdateGuard(peewee.Model):
    """The guard of an update."""

    action_id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    root_id = peewee.CharField(max_length=36)
    document = LongTextField()
    is_open = peewee.BooleanField()
    bakes_until = peewee.DoubleField(null=True)
    ended_at = peewee.DoubleField(null=True)
    fired = LongTextField(null=True)
    heard = LongTextField(null=True)

    class Meta:
        table_name = "update_guard"
        indexes = (
            (("project", "is_open"), False),
            (("root_id", "ended_at"), False),
        )


class GuardAlert(peewee.Model):
    """An alert that is not over."""

    id = peewee.CharField(max_length=64, primary_key=True)
    project = peewee.CharField()
    source = peewee.CharField(max_length=64)
    key = peewee.CharField()
    expires_at = peewee.DoubleField(index=True)
    summary = LongTextField()
    given = LongTextField()
    root_id = peewee.CharField(max_length=36, null=True)

    class Meta:
        table_name = "guard_alert"
        indexes = ((("project", "source"), False),)
