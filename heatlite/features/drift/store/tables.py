"""Models of drift."""

import peewee

from heatlite.store.tables.fields import EncryptedField


class Drift(peewee.Model):
    """Drift of a resource that a check has compared, or was to compare."""

    resource_id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    root_id = peewee.CharField(max_length=36)
    stack_id = peewee.CharField(max_length=36)
    state = peewee.CharField(max_length=16)
    checked_at = peewee.DoubleField(null=True)
    since = peewee.DoubleField(null=True)
    unknown_since = peewee.DoubleField(null=True)
    differences = EncryptedField(null=True)
    truncated = peewee.BooleanField()
    number = peewee.IntegerField()
    ignored = peewee.IntegerField()

    class Meta:
        table_name = "drift"
        indexes = (
            (("project", "state", "resource_id"), False),  # lists of a project: an index is read up to the page
            (("root_id", "state", "checked_at"), False),  # numbers: an index is read, and no row
            (("project", "ignored"), False),
        )


MODELS: tuple[type[peewee.Model], ...] = (Drift,)
