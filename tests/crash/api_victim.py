"""An API process that ends itself at a chosen write of a request, by kill -9.

Within a transaction each write is undone by the kill, as all are by one before the commit: only that one is tried.
"""

import json
import os
import re
import sqlite3
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Any

from webtest import TestApp

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.dispatch.hints import Hints
from tests.crash.victim import SURVIVED, kill

WRITE = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE)\b", re.IGNORECASE)
REFUSED = 6
"""Exit code of a process that answers with an error."""
MAX_BUSY = 10
"""Attempts where other writers keep the database busy."""


class Fuse:
    """Kills the process at a chosen write, or after a commit."""

    left: int | None = None

    @classmethod
    def burn(cls) -> None:
        """A write is about to be made, or a commit has just been."""
        if cls.left is not None:
            cls.left -= 1
            if cls.left == 0:
                kill()


class Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        if sql == "COMMIT" or (WRITE.match(sql) and not self.connection.in_transaction):
            Fuse.burn()
        result = super().execute(sql, *parameters)
        if sql == "COMMIT":
            Fuse.burn()
        return result

    def executemany(self, sql: str, rows: Any) -> sqlite3.Cursor:  # type: ignore[override]
        if not self.connection.in_transaction:
            Fuse.burn()
        return super().executemany(sql, rows)


class Connection(sqlite3.Connection):
    def cursor(self, *_: Any) -> Any:
        """Return a cursor that counts; `execute` of the connection uses one, too."""
        return super().cursor(Cursor)


def ask(
    database: str, folder: str, method: str, path: str, body: object, writes: int, cloud: str | None = None
) -> None:
    """Answer a request and die at the write, else exit with SURVIVED."""
    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **kwargs: connect(*args, **kwargs, factory=Connection)  # type: ignore[assignment]
    app = TestApp(wiring.api(Settings(database=database, cloud=cloud), hints=Hints(Path(folder))).app)
    for _ in range(MAX_BUSY):
        Fuse.left = writes
        answer = app.request(
            path,
            method=method,
            body=b"" if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Host": "localhost"},
            expect_errors=True,
        )
        if answer.status_int != HTTPStatus.SERVICE_UNAVAILABLE:
            break
        print(answer.text, file=sys.stderr)  # it waited for its turn to write: nothing is written
    if answer.status_int >= HTTPStatus.BAD_REQUEST:
        print(answer.text, file=sys.stderr, flush=True)
    os._exit(SURVIVED if answer.status_int < 400 else REFUSED)
