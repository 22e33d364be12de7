"""Suppressed requests of a tree: repeats, effect, author, dropped requests."""

from peewee import BooleanField, CharField, Database, DoubleField, IntegerField, Model
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class SuppressedDropped(Model):
    root_id = CharField(max_length=36, primary_key=True)
    times = IntegerField()
    last_time = DoubleField()

    class Meta:
        table_name = "suppressed_dropped"


COLUMNS = {
    "root_id": CharField(max_length=36, default=""),
    "last_time": DoubleField(default=0),
    "times": IntegerField(default=1),
    "author": LongTextField(default='{"roles":["member"]}'),
    "effect": LongTextField(default="{}"),
    "replayable": BooleanField(default=True),
    "size": IntegerField(default=0),
}
"""Author of older requests: only members could make them, and other roles were not stored."""


def _run(db: Database, sql: str) -> None:
    db.execute_sql(sql)  # type: ignore[no-untyped-call]


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(*(migrator.add_column("suppressed", name, field) for name, field in COLUMNS.items()))
    root = "SELECT COALESCE(root_id, id) FROM stack WHERE stack.id = suppressed.stack_id"
    _run(db, f"UPDATE suppressed SET last_time = time, root_id = COALESCE(({root}), stack_id)")
    _run(db, "UPDATE suppressed SET size = LENGTH(path) + LENGTH(detail) + COALESCE(LENGTH(body), 0)")
    migrator.migrate(migrator.add_index("suppressed", ("root_id",), False))
    create(db, SuppressedDropped)
