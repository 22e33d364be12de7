"""Connections to MariaDB."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import peewee
import pymysql
from pymysql.constants import CLIENT, ER

from heatlite.store.database.limits import Limits
from heatlite.store.database.statements import FetchedRows, Statement

TOGETHER = 1024 * 1024
"""Characters of the statements in one round trip. A server takes 16 MiB, unless it is configured otherwise."""
_DONE = (ER.TABLE_EXISTS_ERROR, ER.DUP_FIELDNAME, ER.DUP_KEYNAME, ER.CANT_DROP_FIELD_OR_KEY)
"""Errors of a change that is done: the table, column or index is there, or gone."""


class Connection:
    """Runs several statements in one round trip."""

    def __init__(self, connection: "pymysql.connections.Connection[Any]") -> None:
        self._connection = connection

    def run(self, statements: Sequence[Statement]) -> list[FetchedRows]:
        """Run statements together. After an error the server skips the rest.

        Raises the first error.
        """
        answers: list[FetchedRows] = []
        cursor = self._connection.cursor()
        try:
            for text in _joined(cursor.mogrify(sql, values) for sql, values in statements):
                cursor.execute(text)
                answers.append(FetchedRows(cursor.rowcount, cursor.fetchall()))
                while cursor.nextset():
                    answers.append(FetchedRows(cursor.rowcount, cursor.fetchall()))
        except (pymysql.MySQLError, UnicodeEncodeError):  # the latter is never sent
            raise
        except BaseException:
            self.close()  # the next statement might take the rest of the answer for its own
            raise
        return answers

    @property
    def is_lost(self) -> bool:
        """True once the connection is closed."""
        return not self._connection.open

    def close(self) -> None:
        """Close the connection."""
        if self._connection.open:
            self._connection.close()


def _joined(statements: Iterable[str]) -> Iterator[str]:
    """Yield texts of several statements, of moderate size each."""
    some: list[str] = []
    size = 0
    for one in statements:
        if some and size + len(one) > TOGETHER:
            yield ";".join(some)
            some, size = [], 0
        some.append(one)
        size += len(one)
    if some:
        yield ";".join(some)


class MariaDb(peewee.MySQLDatabase):
    """peewee's database, for migrations that are run again."""

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement of a migration. A change that is done already is no error.

        MariaDB commits each change of a table at once, so a migration that was killed has done some of them.
        """
        try:
            return super().execute_sql(sql, params)  # type: ignore[no-untyped-call]
        except peewee.OperationalError as error:
            if error.args[0] not in _DONE:
                raise
            return None


def connections(limits: Limits, given: dict[str, Any]) -> peewee.Database:
    """Return connections with these limits; parameters in the URL override them."""
    options = {**_parameters(limits), **given}
    return MariaDb(options.pop("database"), **options)


def _parameters(limits: Limits) -> dict[str, Any]:
    """Return connection parameters for the limits. PyMySQL sets keepalives itself."""
    seconds = {
        "innodb_lock_wait_timeout": 100_000_000 if limits.lock is None else math.ceil(limits.lock),
        "max_statement_time": limits.statement or 0,
        "idle_transaction_timeout": math.ceil(limits.idle),
        "net_read_timeout": math.ceil(limits.peer),
        "net_write_timeout": math.ceil(limits.peer),
    }
    # READ COMMITTED, as on PostgreSQL: without the gap locks that make writers of different stacks collide.
    session = ", ".join(["tx_isolation = 'READ-COMMITTED'", *(f"{name} = {value}" for name, value in seconds.items())])
    return {
        # An UPDATE returns the number of rows met, as elsewhere, not of those changed. The fence needs that.
        "client_flag": CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
        "sql_mode": "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION",
        "init_command": f"SET SESSION {session}",
        "connect_timeout": limits.connect,
        "read_timeout": limits.silence,
        "write_timeout": limits.silence,
    }
