"""MariaDB connections. Imported only for such a database."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import peewee
import pymysql
from pymysql.constants import ER

from heatlite.store.database.statements import Fetched, Statement

TOGETHER = 1024 * 1024
"""Characters of the statements in one round trip. A server takes 16 MiB, unless it is configured otherwise."""
_DONE = (ER.TABLE_EXISTS_ERROR, ER.DUP_FIELDNAME, ER.DUP_KEYNAME, ER.CANT_DROP_FIELD_OR_KEY)
"""Errors of a change that is done: the table, column or index is there, or gone."""


class Connection:
    """Runs several statements in one round trip."""

    def __init__(self, connection: "pymysql.connections.Connection[Any]") -> None:
        self._connection = connection

    def run(self, statements: Sequence[Statement]) -> list[Fetched]:
        """Run statements together. After an error the server skips the rest.

        Raises the first error.
        """
        answers: list[Fetched] = []
        cursor = self._connection.cursor()
        try:
            for text in _joined(cursor.mogrify(sql, values) for sql, values in statements):
                cursor.execute(text)
                answers.append(Fetched(cursor.rowcount, cursor.fetchall()))
                while cursor.nextset():
                    answers.append(Fetched(cursor.rowcount, cursor.fetchall()))
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
