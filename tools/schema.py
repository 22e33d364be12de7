"""Writer of the tables that the migrations make on SQLite.

``python -m tools.schema > heatlite/store/admin/schema.sql``.
"""

import peewee
from playhouse.migrations import Runner

from heatlite.store.admin.migrate import SCRIPTS


def text() -> str:
    """Return one statement a line, tables before their indexes."""
    database = peewee.SqliteDatabase(":memory:")
    Runner(database, str(SCRIPTS)).up()
    sql = r"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY rowid"
    found = database.execute_sql(sql)  # type: ignore[no-untyped-call]
    return "".join(f"{statement}\n" for (statement,) in found)


if __name__ == "__main__":
    print(text(), end="")
