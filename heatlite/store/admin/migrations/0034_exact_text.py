"""Exact comparisons of texts on MariaDB, as elsewhere: spaces at the end count.

The tables `sink` and `snapshot` of 0.1.0 had the character set of the database. MariaDB copies each table. Tables that
have the collation are left alone, so an upgrade that was killed continues.
"""

from peewee import Database, MySQLDatabase
from playhouse.migrate import SchemaMigrator

TABLES = (
    "access_key", "account", "account_project", "action", "audit", "credential", "dependency", "event",
    "healing_policy", "healing_scope", "healing_sweep", "health_source", "health_token", "incident",
    "large_value", "limit_lock", "mail", "node", "node_action", "node_playbook", "node_transition",
    "observation", "orchestration", "project_value", "repair", "resource", "service", "sink", "snapshot",
    "software_config", "software_deployment", "stack", "stack_size", "suppressed", "suppressed_dropped",
    "template", "transition", "ui_session",
)  # fmt: skip
COLLATION = "utf8mb4_nopad_bin"


def up(_migrator: SchemaMigrator, db: Database) -> None:
    if not isinstance(db, MySQLDatabase):
        return
    other = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_collation <> %s"
    found = {name for (name,) in db.execute_sql(other, (COLLATION,))}  # type: ignore[no-untyped-call]
    for table in TABLES:
        if table in found:
            sql = f"ALTER TABLE `{table}` CONVERT TO CHARACTER SET utf8mb4 COLLATE {COLLATION}"
            db.execute_sql(sql)  # type: ignore[no-untyped-call]
