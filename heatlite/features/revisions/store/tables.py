"""Model of revisions."""

import peewee

from heatlite.store.tables.fields import ContentField, LongTextField


class Revision(peewee.Model):
    """A definition that a root stack was given."""

    stack_id = peewee.CharField(max_length=36)
    number = peewee.IntegerField()
    template_id = peewee.CharField(max_length=64, index=True)
    environment = ContentField()
    tags = LongTextField()
    timeout_mins = peewee.IntegerField(null=True)
    disable_rollback = peewee.BooleanField()
    requested_by = peewee.CharField()
    created_at = peewee.DoubleField()
    action_id = peewee.CharField(max_length=36, null=True)
    plan_digest = peewee.CharField(max_length=64, null=True)
    result = peewee.CharField(max_length=16, null=True)
    undo_of = peewee.IntegerField(null=True)
    operation = peewee.CharField(max_length=32, null=True)

    class Meta:
        table_name = "revision"
        indexes = ((("stack_id", "number"), True),)
