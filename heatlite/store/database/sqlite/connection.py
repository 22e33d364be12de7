"""Connections to SQLite files."""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from peewee import SqliteDatabase

from heatlite.store.database.backend import BUSY_SECONDS
from heatlite.store.database.statements import FetchedRows, Statement


class Connection:
    """Runs statements one by one."""

    is_lost = False

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statements: Sequence[Statement]) -> list[FetchedRows]:
        """Run statements. Raises the first error."""
        answers = []
        for sql, values in statements:
            cursor = self._connection.cursor().execute(sql, values)
            # Fetching reads the file, so it may fail, too. An open cursor would keep the file's old state.
            answers.append(FetchedRows(cursor.rowcount, cursor.fetchall()))
        return answers

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def connections(path: Path) -> SqliteDatabase:
    """Return connections to a file, one per thread, opened on first use."""
    if _is_read_only(path):
        return SqliteDatabase(f"{path.absolute().as_uri()}?immutable=1", uri=True)
    return SqliteDatabase(
        str(path),
        pragmas={"journal_mode": "wal", "synchronous": "normal"},  # `GroupCommit` waits for the disk
        timeout=BUSY_SECONDS,
        check_same_thread=False,  # the thread that drops the Database closes what others have left
        field_types={"LONGTEXT": "TEXT"},
    )


def _is_read_only(path: Path) -> bool:
    """Return True for a file on a read-only file system that can be read alone.

    SQLite then needs no files beside it. What a log beside it has is missing in it.
    """
    log = Path(f"{path}-wal")
    try:
        is_fixed = bool(os.statvfs(path).f_flag & os.ST_RDONLY)
        return is_fixed and not (log.exists() and log.stat().st_size)
    except OSError:
        return False
