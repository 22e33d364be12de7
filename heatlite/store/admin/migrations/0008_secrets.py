"""Sealed stacks, whose content is encrypted; credentials of stacks."""

import json

from peewee import BooleanField, CharField, Database, Model, SqliteDatabase
from playhouse.migrate import SchemaMigrator

from heatlite.store.admin.scripting import LongTextField, create


class Credential(Model):
    stack_id = CharField(max_length=36, primary_key=True)
    content = LongTextField()

    class Meta:
        table_name = "credential"


def _rows(db: Database, sql: str, values: tuple[object, ...] = ()) -> list[tuple[str, ...]]:
    return list(db.execute_sql(sql, values))  # type: ignore[no-untyped-call]


def up(migrator: SchemaMigrator, db: Database) -> None:
    migrator.migrate(migrator.add_column("stack", "sealed", BooleanField(default=False)))
    create(db, Credential)
    # A search for the words: a stack that merely mentions them is sealed without need, which does no harm.
    mark = "?" if isinstance(db, SqliteDatabase) else "%s"
    word = f"LIKE {mark}"
    hiding = f"document {word} OR document {word} OR files {word} OR files {word}"
    sql = f"SELECT id, root_id FROM stack WHERE template_id IN (SELECT id FROM template WHERE {hiding})"
    found = _rows(db, sql, ("%hidden%", "%NoEcho%", "%hidden%", "%NoEcho%"))
    for root in {root_id or stack_id for stack_id, root_id in found}:
        tree = f"UPDATE stack SET sealed = {mark} WHERE id = {mark} OR root_id = {mark}"
        db.execute_sql(tree, (True, root, root))  # type: ignore[no-untyped-call]
    # The encrypted credentials of callers become text.
    for action_id, text in _rows(db, "SELECT id, secrets FROM action WHERE secrets IS NOT NULL"):
        parameters = ("fernet1:" + json.loads(text)["d"], action_id)
        db.execute_sql(f"UPDATE action SET secrets = {mark} WHERE id = {mark}", parameters)  # type: ignore[no-untyped-call]
