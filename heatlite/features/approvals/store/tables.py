"""Models of approvals."""

import peewee

from heatlite.store.tables.fields import LongTextField


class Approval(peewee.Model):
    """A decision on one content and one target."""

    id = peewee.CharField(max_length=36, primary_key=True)
    project = peewee.CharField()
    subject = peewee.CharField(max_length=16)
    state = peewee.CharField(max_length=16)
    stack_name = peewee.CharField()
    stack_id = peewee.CharField(max_length=36)
    digest = peewee.CharField(max_length=64)
    requested_by = peewee.CharField()
    requester = peewee.CharField()
    requested_at = peewee.DoubleField()
    open_key = peewee.CharField(max_length=64, null=True)
    resource = LongTextField(null=True)
    nodes = LongTextField()
    because = LongTextField()
    expires_at = peewee.DoubleField(null=True)
    decided_by = peewee.CharField(null=True)
    decided_at = peewee.DoubleField(null=True)
    reason = LongTextField()
    action_id = peewee.CharField(max_length=36, null=True)
    incident_id = peewee.CharField(max_length=36, null=True)
    node_action_id = peewee.CharField(max_length=36, null=True)
    replaced_by = peewee.CharField(max_length=36, null=True)
    used_by = peewee.CharField(max_length=36, null=True)
    content = LongTextField()

    class Meta:
        table_name = "approval"
        indexes = (
            (("open_key",), True),
            (("project", "state", "requested_at"), False),
            (("stack_id", "state"), False),
            (("action_id",), False),
            (("used_by",), False),
            (("incident_id",), False),
            (("node_action_id",), False),
        )


MODELS: tuple[type[peewee.Model], ...] = (Approval,)
