"""Migrations on SQLite, and their agreement with the models."""

from pathlib import Path

import pytest
from migration_behaviour import *  # noqa: F403
from migration_behaviour import before, names

from heatlite.administration import EngineBusy, inconsistencies, open_store, upgrade
from heatlite.core.config import load
from heatlite.feature import installed
from heatlite.store.admin.migrate import CORE, TABLE
from heatlite.store.admin.runner import SeriesRunner
from heatlite.store.database.database import Database
from heatlite.store.feature_store import Series
from heatlite.store.store import Store
from tests.databases import every_model, whole
from tests.tables import table
from tools.schema import of_this_distribution, text


def definitions(database: Database) -> set[str]:
    rows = database.read("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name <> 'schema_migration'")
    return {sql for (sql,) in rows}


@pytest.mark.slow
def test_types_and_defaults_are_those_of_the_models_too(empty_url: str, tmp_path: Path) -> None:
    """diff_models looks at names only."""
    migrated = Store.open(empty_url)
    for series in of_this_distribution():
        SeriesRunner(migrated.database.peewee, series).up()
    made = Database(f"sqlite:///{tmp_path}/models.db")
    with made.peewee.bind_ctx(every_model()):
        for model in every_model():
            model.create_table(safe=False)
    assert definitions(migrated.database) == definitions(made)
    migrated.close()
    made.close()


@pytest.mark.slow
@table("series", of_this_distribution())
def test_the_schema_is_what_the_scripts_make(series: Series) -> None:
    """Written by ``python -m tools.schema``."""
    assert series.schema.read_text("utf-8") == text(series)


@pytest.mark.slow
def test_a_new_file_has_the_tables_of_features(empty_url: str) -> None:
    made = whole(empty_url)
    assert made.upgrade() == names(made)
    assert [one for one in made.status() if not one.applied] == []
    found = (one for series in of_this_distribution() for one in text(series).splitlines())
    assert definitions(made.database) == {one for one in found if TABLE not in one}
    made.close()


@pytest.mark.slow
def test_no_upgrade_beside_an_engine_of_an_older_program(database: Store, empty_url: str) -> None:
    settings = load(installed, {"database": empty_url})
    last = [one for one in names(database) if CORE.has(one)][-1]
    missing = names(database)[names(database).index(last) :]
    before(database, last)
    lock = database.lock_engine({"pid": 42})
    assert lock is not None
    for use in (upgrade, open_store, inconsistencies):
        with pytest.raises(EngineBusy, match="process 42"):
            use(settings)
    assert [step.name for step in database.status() if not step.applied] == missing
    lock.close()
    assert upgrade(settings) == missing
    lock = database.lock_engine({"pid": 42})
    assert lock is not None
    assert (upgrade(settings), inconsistencies(settings)) == ([], [])
    lock.close()
