"""Delivery state of events to webhooks; an index of deleted stacks by age."""

from peewee import BigIntegerField, CharField, CompositeKey, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator


class Sink(Model):
    stack_id = CharField(max_length=36)
    digest = CharField(max_length=64)
    position = BigIntegerField()
    failures = IntegerField(default=0)
    failing_since = DoubleField(null=True)
    retry_at = DoubleField(default=0)
    given_up_at = DoubleField(null=True)
    lease_until = DoubleField(default=0)

    class Meta:
        table_name = "sink"
        primary_key = CompositeKey("stack_id", "digest")


def up(migrator: SchemaMigrator, db: Database) -> None:
    Sink.bind(db)
    Sink.create_table()
    migrator.migrate(migrator.add_index("stack", ("deleted_at",), False))
