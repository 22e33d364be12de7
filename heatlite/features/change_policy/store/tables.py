"""Models of change policies."""

import peewee

from heatlite.store.tables.fields import LongTextField


class ChangePolicy(peewee.Model):
    """The change policy of a project, or of a root stack."""

    id = peewee.AutoField()
    project = peewee.CharField()
    stack_id = peewee.CharField(max_length=36)
    document = LongTextField(null=True)
    version = peewee.IntegerField()
    updated_by = peewee.CharField(null=True)
    updated_at = peewee.DoubleField(null=True)

    class Meta:
        table_name = "change_policy"
        indexes = ((("project", "stack_id"), True), (("stack_id",), False))


MODELS: tuple[type[peewee.Model], ...] = (ChangePolicy,)
