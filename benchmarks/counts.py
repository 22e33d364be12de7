"""Figures that are counted and not timed: SQL statements and commits, which no noise on the machine can change.

A process of its own (``python -m benchmarks.counts FOLDER N …``): heatlite runs inside it, and every SQLite connection
that is opened gets a trace callback. One call of the callback is one run of a statement: a batch of a hundred rows
counts as a hundred.
"""

import json
import sqlite3
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.lifecycle import template
from heatlite.core.config import load
from heatlite.core.context import Context
from heatlite.engine.executor import STEPS_PER_TICK
from heatlite.engine.requests import Request
from heatlite.store.records import StackRecord
from heatlite.wiring import Embedded, embedded

WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


class Tracer:
    """Counts the statements of all connections, by their first word, apart from those of the sweep."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def install(self) -> None:
        """From now on, for every connection that is opened."""
        connect = sqlite3.connect

        def traced(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(self._statement)
            return connection

        sqlite3.connect = traced  # type: ignore[assignment]  # it has overloads

    def _statement(self, sql: str) -> None:
        if threading.current_thread().name != "sweep":
            with self._lock:
                self.counts[sql.lstrip().split(None, 1)[0].upper().rstrip(";")] += 1

    def take(self) -> dict[str, int]:
        """All statements, writes and commits since the last call."""
        with self._lock:
            counts, self.counts = self.counts, Counter()
        return {
            "statements": sum(counts.values()),
            "writes": sum(counts[word] for word in WRITES),
            "commits": counts["COMMIT"],
        }


def _settle(heatlite: Embedded, stack: StackRecord) -> None:
    """Wait until nothing is queued or runs for the stack."""
    while heatlite.store.actions.live([stack.id]):
        time.sleep(0.2)


def count(heatlite: Embedded, tracer: Tracer, number: int) -> dict[str, dict[str, int]]:
    """What a create, an update without a change, one of 1 % and a delete of `number` resources take.

    The looking whether it is done counts too, with a statement every 0.2 s.
    """
    context = Context("benchmark")
    stacks = heatlite.stacks
    out = {}
    tracer.take()
    stack = stacks.create(context, Request(name=f"s{number}", template=dict(template(number))))
    _settle(heatlite, stack)
    out["create"] = tracer.take()
    for name, changed in (("no_op", 0), ("one_percent", number // 100)):
        request = Request(template=dict(template(number, changed=changed)))
        stacks.update(context, stack, request, existing=False)
        _settle(heatlite, stack)
        out[name] = tracer.take()
    stacks.delete(context, stack)
    _settle(heatlite, stack)
    out["delete"] = tracer.take()
    return out


def main(folder: Path, numbers: list[int]) -> None:
    """Print the counts as JSON."""
    tracer = Tracer()
    tracer.install()
    heatlite = embedded(load({"database": f"sqlite:///{folder / 'counts.db'}"}))
    try:
        counts = {str(number): count(heatlite, tracer, number) for number in numbers}
    finally:
        heatlite.close()
    print(json.dumps({"steps_per_tick": STEPS_PER_TICK, "counts": counts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(argument) for argument in sys.argv[2:]])
