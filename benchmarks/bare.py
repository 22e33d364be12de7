"""Falcon alone under heatlite's gunicorn configuration, and the floor of a mark.

Falcon is the peer of GET show.

``python -m benchmarks.bare PORT FOLDER``
"""

import json
import sqlite3
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import falcon

from heatlite import wiring
from heatlite.core.config import Settings, load
from heatlite.preflight import listen
from heatlite.serving.application import Server

ROWS = 500
"""Rows of a tick, the commits of an engine."""
READS, CHANGES = 7, 6
"""Statements of a mark between BEGIN and COMMIT."""


class Hello:
    """Says hello."""

    def on_get(self, _: falcon.Request, resp: falcon.Response) -> None:
        """The smallest answer."""
        resp.text = '{"hello": "world"}'


class Writes:
    """Runs the statements of a mark, and nothing else.

    After a POST, a thread beside the requests computes and commits without a pause, as an engine does.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "floor.sqlite"
        self._thread = threading.local()
        self._turn = threading.Lock()
        with self._connection() as made:
            made.execute("CREATE TABLE floor (id INTEGER PRIMARY KEY, text TEXT)")
            made.executemany("INSERT INTO floor VALUES (?, ?)", ((number, "x" * 200) for number in range(ROWS)))

    def _connection(self) -> sqlite3.Connection:
        made: sqlite3.Connection | None = getattr(self._thread, "connection", None)
        if made is None:
            made = self._thread.connection = sqlite3.connect(self._path, isolation_level=None)
            made.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        return made

    def on_post(self, _: falcon.Request, _resp: falcon.Response) -> None:
        """Begin the thread."""
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            rows = [(json.dumps({str(place): number for place in range(20)}), number) for number in range(ROWS)]
            with self._turn:
                made = self._connection()
                made.execute("BEGIN IMMEDIATE")
                made.executemany("UPDATE floor SET text = ? WHERE id = ?", rows)
                made.execute("COMMIT")

    def on_patch(self, _: falcon.Request, _resp: falcon.Response) -> None:
        """Run the statements."""
        with self._turn:
            made = self._connection()
            made.execute("BEGIN IMMEDIATE")
            for number in range(READS):
                made.execute("SELECT text FROM floor WHERE id = ?", (number,)).fetchall()
            for number in range(CHANGES):
                made.execute("UPDATE floor SET text = ? WHERE id = ?", ("y" * 200, number))
            made.execute("COMMIT")


def bare(settings: Settings) -> wiring.Embedded:
    """Return a server with another application in it."""
    app: Any = falcon.App()
    app.add_route("/", Hello())
    app.add_route("/floor", Writes(Path(sys.argv[2])))
    return replace(wiring.embedded(settings), make_app=lambda: app)


if __name__ == "__main__":
    loaded = load({"port": int(sys.argv[1])})
    Server(loaded, bare, 1, listen(loaded)).run()
