"""PostgreSQL."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import peewee

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.backend import Backend, Dialect
from heatlite.store.database.database import Database
from heatlite.store.database.limits import Limits
from heatlite.store.database.postgresql import connection
from heatlite.store.database.postgresql.batch import PostgresqlBatch

LOCK_NUMBER = 0x6865_6174
"""Key of the advisory lock: "heat"."""
NO_RIGHTS = "42501"
"""Code for missing rights, which the driver takes for a fault in the statement."""


class PostgresqlBackend(Backend):
    """A database of a PostgreSQL server."""

    dialect = Dialect.POSTGRESQL
    batch = PostgresqlBatch
    library = "psycopg"
    backup_tools = ("pg_dump --format=custom", "pg_restore")
    tables = "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()"
    updates_return = True
    find_text = "strpos"
    # PostgreSQL waits without limit for the rest of a burst, and for a client to take an answer. Other programs of the
    # same user, such as a slow backup, have other application names.
    end_frozen_clients = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = current_user"
        " AND datname = current_database() AND application_name = current_setting('application_name')"
        " AND state = 'active' AND wait_event IN ('ClientRead', 'ClientWrite')"
        " AND state_change < clock_timestamp() - make_interval(secs => ?)"
    )

    def connections(self, limits: Limits) -> peewee.Database:
        return connection.connections(limits, self.given())

    def wrap(self, found: Any, limits: Limits) -> connection.Connection:
        return connection.Connection(found, limits.silence)

    def recognize(self, error: Exception, causes: Sequence[BaseException]) -> Exception | None:
        if any(getattr(one, "sqlstate", None) == NO_RIGHTS for one in causes):
            return DatabaseUnavailable(reason=str(error).partition("\n")[0])
        return None

    @contextmanager
    def migrating(self, database: Database) -> Iterator[None]:
        database.read("SELECT pg_advisory_lock(?)", (LOCK_NUMBER,))
        try:
            yield
        finally:
            database.read("SELECT pg_advisory_unlock(?)", (LOCK_NUMBER,))


BACKEND = PostgresqlBackend
