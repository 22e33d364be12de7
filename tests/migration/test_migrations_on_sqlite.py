"""Migrations on SQLite, and their agreement with the models."""

from pathlib import Path

import pytest
from migration_behaviour import *  # noqa: F403
from migration_behaviour import before, names
from playhouse.migrations import Runner

from heatlite.administration import EngineBusy, inconsistencies, open_store, upgrade
from heatlite.core.config import load
from heatlite.store.admin.migrate import SCHEMA, SCRIPTS, TABLE
from heatlite.store.database.database import Database
from heatlite.store.store import Store
from heatlite.store.tables import models
from tools.schema import text


def definitions(database: Database) -> set[str]:
    rows = database.read("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name <> 'schema_migration'")
    return {sql for (sql,) in rows}


def test_types_and_defaults_are_those_of_the_models_too(empty_url: str, tmp_path: Path) -> None:
    """diff_models looks at names only."""
    migrated = Store.open(empty_url)
    Runner(migrated.database.peewee, str(SCRIPTS)).up()
    made = Database(f"sqlite:///{tmp_path}/models.db")
    with made.peewee.bind_ctx(models()):
        for model in models():
            model.create_table(safe=False)
    assert definitions(migrated.database) == definitions(made)
    migrated.close()
    made.close()


def test_a_new_file_has_the_tables_of_all_features(empty_url: str) -> None:
    """Written by ``python -m tools.schema > heatlite/store/admin/schema.sql``."""
    assert SCHEMA.read_text("utf-8") == text()
    made = Store.open(empty_url)
    assert made.upgrade() == names(made)
    assert [one for one in made.status() if not one.applied] == []
    assert definitions(made.database) == {one for one in text().splitlines() if TABLE not in one}
    made.close()


def test_no_upgrade_beside_an_engine_of_an_older_program(database: Store, empty_url: str) -> None:
    settings = load({"database": empty_url})
    before(database, names(database)[-1])
    lock = database.lock_engine({"pid": 42})
    assert lock is not None
    for use in (upgrade, open_store, inconsistencies):
        with pytest.raises(EngineBusy, match="process 42"):
            use(settings)
    assert [step.name for step in database.status() if not step.applied] == names(database)[-1:]
    lock.close()
    assert upgrade(settings) == names(database)[-1:]
    lock = database.lock_engine({"pid": 42})
    assert lock is not None
    assert (upgrade(settings), inconsistencies(settings)) == ([], [])
    lock.close()
