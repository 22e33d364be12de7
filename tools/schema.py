"""Writer of `schema.sql`: the tables that a series makes on SQLite.

``python -m tools.schema`` writes those of the core and of the features of this distribution.
"""

from pathlib import Path

import peewee

from heatlite.feature import installed
from heatlite.store.admin.migrate import CORE
from heatlite.store.admin.runner import SeriesRunner
from heatlite.store.feature_store import Series, series_of

ROOT = Path(__file__).parents[1]


def text(series: Series) -> str:
    """Return one statement a line, tables before their indexes."""
    database = peewee.SqliteDatabase(":memory:")
    SeriesRunner(database, CORE).up()
    sql = r"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid"
    before = []
    if series is not CORE:
        before = [*database.execute_sql(sql)]  # type: ignore[no-untyped-call]
        SeriesRunner(database, series).up()
    found = [*database.execute_sql(sql)]  # type: ignore[no-untyped-call]
    return "".join(f"{statement}\n" for (statement,) in found if (statement,) not in before)


def of_this_distribution() -> list[Series]:
    """Return the series of the core and of the features that have one."""
    found = series_of([kind for one in installed() for kind in one.stores()])
    return [CORE, *(one for one in found if one.folder.is_relative_to(ROOT))]


if __name__ == "__main__":
    for one in of_this_distribution():
        one.schema.write_text(text(one), "utf-8")
