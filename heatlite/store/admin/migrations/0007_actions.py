"""The full record of actions, dependencies, and the history of moves."""

from peewee import (
    BigAutoField,
    CharField,
    CompositeKey,
    Database,
    DoubleField,
    IntegerField,
    Model,
    MySQLDatabase,
)
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Dependency(Model):
    dependent = CharField(max_length=36)
    depended = CharField(max_length=36)
    needs = CharField(max_length=16)
    state = CharField(max_length=16)

    class Meta:
        table_name = "dependency"
        primary_key = CompositeKey("dependent", "depended")
        indexes = ((("depended", "state"), False),)


class Transition(Model):
    id = BigAutoField()
    action_id = CharField(max_length=36)
    time = DoubleField()
    before = CharField(max_length=32)
    after = CharField(max_length=32)
    attempt = IntegerField()
    owner = CharField(null=True)
    reason = LongTextField()

    class Meta:
        table_name = "transition"
        indexes = ((("action_id", "id"), False),)


COLUMNS = {
    "name": CharField(max_length=64, default=""),
    "cause": CharField(max_length=32, default="RPC Request"),
    "kind": CharField(max_length=16, default="stack"),
    "zone": CharField(null=True),
    "context": LongTextField(default="{}"),
    "secrets": LongTextField(null=True),
    "outputs": LongTextField(default="{}"),
    "data": LongTextField(default="{}"),
    "interval": DoubleField(default=0),
    "not_before": DoubleField(null=True),
    "timeout": IntegerField(default=0),
    "retries": IntegerField(default=0),
    "pending": IntegerField(default=0),
    "failed_dependencies": IntegerField(default=0),
    "suspended_at": DoubleField(null=True),
    "suspended": DoubleField(default=0),
    "wake_at": DoubleField(null=True),
    "updated_at": DoubleField(null=True),
    "commits": IntegerField(default=0),
}
INDICES = (
    ("project", "seq"),
    ("project", "stack_id", "seq"),
    ("project", "status", "seq"),
    ("project", "name", "seq"),
    ("project", "verb", "seq"),
)


def _run(db: Database, sql: str) -> None:
    db.execute_sql(sql)  # type: ignore[no-untyped-call]


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(
        *(migrator.add_column("action", name, field) for name, field in COLUMNS.items()),
        migrator.alter_column_type("action", "status", CharField(max_length=32)),
    )
    short = "substr(stack_id, 29)"
    parts = ("'stack_'", "lower(verb)", "'_'", short)
    name = f"concat({', '.join(parts)})" if isinstance(db, MySQLDatabase) else " || ".join(parts)
    _run(db, f"UPDATE action SET name = {name}")
    _run(db, "UPDATE action SET kind = 'check' WHERE verb = 'CHECK'")
    _run(db, "UPDATE action SET cause = 'Derived Action' WHERE parent_id IS NOT NULL")
    # Older versions left the last owner in ended actions.
    _run(db, "UPDATE action SET owner = NULL, lease_until = NULL WHERE status <> 'RUNNING'")
    create(db, Dependency, Transition)
    live = "status IN ('READY', 'WAITING', 'RUNNING') AND waits_for IS NOT NULL"
    _run(db,
        "INSERT INTO dependency (dependent, depended, needs, state) "
        f"SELECT id, waits_for, 'end', 'open' FROM action WHERE {live} AND status = 'WAITING'"
    )
    _run(db, f"UPDATE action SET pending = 1 WHERE {live} AND status = 'WAITING'")
    migrator.migrate(
        migrator.drop_column("action", "waits_for"),
        *(migrator.add_index("action", columns, False) for columns in INDICES),
    )
