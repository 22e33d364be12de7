"""Figures that are counted and not timed: SQL statements and commits, which no noise on the machine can change.

A process of its own (``python -m benchmarks.counts FOLDER N …``): heatlite runs inside it, and every SQLite connection
that is opened gets a trace callback. One call of the callback is one run of a statement: a batch of a hundred rows
counts as a hundred. Left out is what has nothing to do with the work: the engine's sweep, and the looking whether it
is done.
"""

import json
import sqlite3
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.lifecycle import Stack, template
from heatlite.cli.transport import WSGITransport
from heatlite.core.config import load
from heatlite.engine.steps.walk import STEPS_PER_TICK
from heatlite.wiring import embedded

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class Tracer(threading.local):
    """Counts the statements of all connections by their first word."""

    looking: bool = False
    """True if this thread only looks whether the work is done."""
    counts: Counter[str] = Counter()
    """Of all threads."""
    _lock = threading.Lock()

    def install(self) -> None:
        """From now on, for every connection that is opened."""
        connect = sqlite3.connect

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._statement)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]  # it has overloads

    def _statement(self, sql: str) -> None:
        if not self.looking and threading.current_thread().name != "sweep":
            with self._lock:
                self.counts[sql.lstrip().split(None, 1)[0].upper().rstrip(";")] += 1

    def take(self) -> dict[str, int]:
        """All statements, writes and commits since the last call."""
        with self._lock:
            counts = Counter(self.counts)
            self.counts.clear()
        return {
            "statements": sum(counts.values()),
            "writes": sum(counts[word] for word in WRITES),
            "commits": counts["COMMIT"],
        }


class LocalClient:
    """The requests of `benchmarks.client.Client`, to an application in this process."""

    def __init__(self, transport: WSGITransport, tracer: Tracer) -> None:
        self._transport = transport
        self._tracer = tracer

    def json(self, method: str, path: str, body: object = None, expect: int = 200) -> Any:
        """One JSON request. Raises RuntimeError when the answer has another status than expected."""
        data = b"" if body is None else json.dumps(body).encode()
        self._tracer.looking = method == "GET"
        answer = self._transport.send(method, path, {"Content-Type": "application/json"}, data)
        self._tracer.looking = False
        if answer.status != expect:
            raise RuntimeError(f"{method} {path}: {answer.status} instead of {expect}: {answer.data}")
        return answer.data


def count(client: LocalClient, tracer: Tracer, number: int) -> dict[str, dict[str, int]]:
    """Cost of a create, an update without change, one of 1 %, and a delete."""
    stack = Stack(client, f"s{number}")
    out = {}
    tracer.take()
    stack.create(template(number))
    out["create"] = tracer.take()
    stack.update(template(number))
    out["no_op"] = tracer.take()
    stack.update(template(number, changed=number // 100))
    out["one_percent"] = tracer.take()
    stack.delete()
    out["delete"] = tracer.take()
    return out


def main(folder: Path, numbers: list[int]) -> None:
    """Print the counts as JSON."""
    tracer = Tracer()
    tracer.install()
    heatlite = embedded(load({"database": f"sqlite:///{folder / 'counts.db'}"}))
    with WSGITransport(heatlite.app, heatlite.close) as transport:
        client = LocalClient(transport, tracer)
        Stack(client, "first").create(template(1))  # opens the connections
        counts = {str(number): count(client, tracer, number) for number in numbers}
    print(json.dumps({"steps_per_tick": STEPS_PER_TICK, "counts": counts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(argument) for argument in sys.argv[2:]])
