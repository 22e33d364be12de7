"""Migrations on SQLite, and their agreement with the models."""

from pathlib import Path

from migration_behaviour import *  # noqa: F403

from heatlite.store.database.database import Database
from heatlite.store.store import Store
from heatlite.store.tables import MODELS


def definitions(database: Database) -> set[str]:
    rows = database.read("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name <> 'schema_migration'")
    return {sql for (sql,) in rows}


def test_types_and_defaults_are_those_of_the_models_too(empty_url: str, tmp_path: Path) -> None:
    """diff_models looks at names only."""
    migrated = Store.open(empty_url)
    migrated.upgrade()
    made = Database(f"sqlite:///{tmp_path}/models.db")
    for model in MODELS:
        with made.peewee.bind_ctx([model]):
            model.create_table(safe=True)
    assert definitions(migrated.database) == definitions(made)
    migrated.close()
    made.close()
