"""Count SQL statements and commits of a stack's life, independent of noise.

A process of its own (``python -m benchmarks.counts FOLDER N …``): heatlite runs inside it, and every SQLite connection
is traced. A batch of a hundred rows counts as a hundred statements. Not counted: periodic work of the engine, and
requests that only look whether the work is done.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks.lifecycle import Stack, template
from benchmarks.tracer import Tracer
from heatlite.cli.transport import WSGITransport
from heatlite.core.config import load
from heatlite.engine.steps.walk import MAX_STEPS_PER_TICK
from heatlite.feature import installed
from heatlite.wiring import embedded


class LocalClient:
    """The requests of `benchmarks.client.Client`, to an application in this process."""

    def __init__(self, transport: WSGITransport, tracer: Tracer) -> None:
        self.counts_reads = False
        """False: GETs only look whether the work is done."""
        self._transport = transport
        self._tracer = tracer

    def json(self, method: str, path: str, body: object = None, expect: int = 200) -> Any:
        """One JSON request.

        Raises RuntimeError when the answer has another status than expected.
        """
        data = b"" if body is None else json.dumps(body).encode()
        looks = method == "GET" and not self.counts_reads
        with self._tracer.uncounted() if looks else nullcontext():
            answer = self._transport.send(method, path, {"Content-Type": "application/json"}, data)
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
    heatlite = embedded(load(installed, {"database": f"sqlite:///{folder / 'counts.db'}"}))
    with WSGITransport(heatlite.app, heatlite.close) as transport:
        client = LocalClient(transport, tracer)
        Stack(client, "first").create(template(1))  # opens the connections
        counts = {str(number): count(client, tracer, number) for number in numbers}
    print(json.dumps({"steps_per_tick": MAX_STEPS_PER_TICK, "counts": counts}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(argument) for argument in sys.argv[2:]])
