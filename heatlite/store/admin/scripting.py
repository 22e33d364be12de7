"""Steps that migrations share.

Released migrations rely on them, so they must not change.
"""

from peewee import Database, Model, MySQLDatabase, TextField


class LongTextField(TextField):
    """Text of more than 64 KB, also on MariaDB."""

    field_type = "LONGTEXT"


def create(db: Database, *models: type[Model]) -> None:
    """Create tables.

    On MariaDB, text distinguishes "web" from "Web" and from "web ", unlike its default. Older tables get this collation
    from 0034.
    """
    for model in models:
        if isinstance(db, MySQLDatabase):
            model._meta.table_settings = ["CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"]
        model.bind(db)
        model.create_table()
