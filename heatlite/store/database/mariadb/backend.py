"""MariaDB."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import peewee

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.backend import Backend, Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.limits import Limits
from heatlite.store.database.mariadb import connection
from heatlite.store.database.mariadb.batch import MariaDbBatch

LOCK_SECONDS = 60


class MariaDbBackend(Backend):
    """A database of a MariaDB server."""

    dialect = Dialect.MARIADB
    batch = MariaDbBatch
    library = "pymysql"
    backup_tools = ("mariadb-dump --single-transaction", "mariadb")
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
    finds_prefixes = locks_unmatched_rows = duplicates_deadlock = True
    quotation_mark = "`"
    for_reference = " LOCK IN SHARE MODE"
    on_conflict, new_value = "ON DUPLICATE KEY UPDATE", "VALUES({column})"
    keep, counts_kept = "ON DUPLICATE KEY UPDATE {key} = {key}", True
    # Its planner sorts rows that an index has in order, or reads all rows before the page.
    force_index = " FORCE INDEX ({index})"

    def connections(self, limits: Limits) -> peewee.Database:
        return connection.connections(limits, self.given())

    def wrap(self, found: Any, limits: Limits) -> connection.Connection:  # noqa: ARG002 - PyMySQL has them
        return connection.Connection(found)

    @contextmanager
    def migrating(self, database: Database) -> Iterator[None]:
        # The name is the server's, not the database's, and at most 64 characters long.
        name = "heatlite." + hashlib.sha256(str(database.peewee.database).encode()).hexdigest()[:32]
        ((held,),) = database.read("SELECT GET_LOCK(?, ?)", (name, LOCK_SECONDS))
        if held != 1:
            raise DatabaseUnavailable(reason=f"another process has been migrating for {LOCK_SECONDS} s")
        try:
            yield
        finally:
            database.read("SELECT RELEASE_LOCK(?)", (name,))


BACKEND = MariaDbBackend
