"""Approvals."""

from peewee import CharField, Database, DoubleField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Approval(Model):
    id = CharField(max_length=36, primary_key=True)
    project = CharField()
    subject = CharField(max_length=16)
    state = CharField(max_length=16)
    stack_name = CharField()
    stack_id = CharField(max_length=36)
    digest = CharField(max_length=64)
    requested_by = CharField()
    requester = CharField()
    requested_at = DoubleField()
    open_key = CharField(max_length=64, null=True)
    resource = LongTextField(null=True)
    nodes = LongTextField()
    because = LongTextField()
    expires_at = DoubleField(null=True)
    decided_by = CharField(null=True)
    decided_at = DoubleField(null=True)
    reason = LongTextField()
    action_id = CharField(max_length=36, null=True)
    incident_id = CharField(max_length=36, null=True)
    node_action_id = CharField(max_length=36, null=True)
    replaced_by = CharField(max_length=36, null=True)
    used_by = CharField(max_length=36, null=True)
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


def up(_migrator: SchemaMigrator, db: Database) -> None:
    create(db, Approval)
