"""Migrations on SQLite, and their agreement with the models."""

from pathlib import Path

from migration_behaviour import *  # noqa: F403
from playhouse.migrations import Runner

from heatlite.store.admin.migrate import SCRIPTS
from heatlite.store.database.database import Database
from heatlite.store.store import Store


def definitions(database: Database) -> set[str]:
    rows = database.read("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name <> 'schema_migration'")
    return {sql for (sql,) in rows}


def test_types_and_defaults_are_those_of_the_models_too(empty_url: str, tmp_path: Path) -> None:
    """diff_models looks at names only."""
    migrated = Store.open(empty_url)
    Runner(migrated.database.peewee, str(SCRIPTS)).up()
    made = Store.open(f"sqlite:///{tmp_path}/models.db")
    made.upgrade()
    assert definitions(migrated.database) == definitions(made.database)
    assert [one for one in made.status() if not one.applied] == []
    migrated.close()
    made.close()
