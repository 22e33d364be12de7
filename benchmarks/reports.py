"""Reports of single alerts beside other requests, on `heatlite serve` with SQLite.

The other requests alone and beside reports are measured in turns. Both come at a rate, whatever the server does.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, template
from benchmarks.load import encode
from benchmarks.processes import run

RATE = 100.0
"""Reports per second."""
OTHERS = 50.0
"""Other requests per second."""
RESOURCES = 100
"""Resources of the stack that is shown and reported."""
TURNS = 6


def reports(bench: Bench) -> None:
    """Measure other requests with and without 100 reports per second."""
    with bench.heatlite() as server:
        client = Client(server.port)
        stack = Stack(client, bench.new_name())
        stack.create(template(RESOURCES))
        others = [
            encode("GET", path)
            for path in (stack.path, f"{PROJECT}/stacks", f"{stack.path}/resources/r7", f"{stack.path}/events?limit=20")
        ]
        alerts = [_report(stack, f"r{number}") for number in range(RESOURCES)]
        _paced(bench, server.port, others, OTHERS, bench.seconds)  # warm-up
        for turn in range(TURNS):
            bench.say(f"reports, {turn + 1} of {TURNS}")
            _add(bench, "reports_others_alone", _paced(bench, server.port, others, OTHERS, bench.seconds))
            with ThreadPoolExecutor(1) as pool:
                reported = pool.submit(_paced, bench, server.port, alerts, RATE, bench.seconds + 2)
                _add(bench, "reports_others_beside", _paced(bench, server.port, others, OTHERS, bench.seconds))
                _add(bench, "reports", reported.result())


def _add(bench: Bench, name: str, answers: dict[str, list[float]]) -> None:
    """Keep the delays, and the number of refused requests."""
    for took in answers["took_ms"]:
        bench.add(f"{name}_ms", took)
    bench.add(f"{name}_refused", len(answers["refused_ms"]))


def _report(stack: Stack, resource: str) -> str:
    """Return the request of one alert, as Alertmanager sends it."""
    labels = {"alertname": "Down", "heatlite_stack": stack.path.split("/")[4], "heatlite_resource": resource}
    alert = {"status": "firing", "startsAt": "2026-11-02T12:00:00Z", "fingerprint": resource, "labels": labels}
    return encode("POST", f"{PROJECT}/health/alertmanager", json.dumps({"version": "4", "alerts": [alert]}))


def _paced(bench: Bench, port: int, requests: list[str], rate: float, seconds: float) -> dict[str, list[float]]:
    orders = {"port": port, "requests": requests, "rate": rate, "seconds": seconds, "expect": 200}
    answer: dict[str, list[float]] = json.loads(
        run([sys.executable, "-m", "benchmarks.load"], bench.folder, stdin=json.dumps(orders))
    )
    return answer
