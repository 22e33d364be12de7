"""Reports of single alerts beside other requests, on `heatlite serve` with SQLite.

The other requests alone and beside reports are measured in turns. Both come at a rate, whatever the server does.
"""

import json
from concurrent.futures import ThreadPoolExecutor

from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, template
from benchmarks.load import Answer, encode, load

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
        load(server.port, others, bench.seconds, rate=OTHERS)  # warm-up
        for turn in range(TURNS):
            bench.say(f"reports, {turn + 1} of {TURNS}")
            _add(bench, "reports_others_alone", load(server.port, others, bench.seconds, rate=OTHERS))
            with ThreadPoolExecutor(1) as pool:
                reported = pool.submit(load, server.port, alerts, bench.seconds + 2, rate=RATE)
                _add(bench, "reports_others_beside", load(server.port, others, bench.seconds, rate=OTHERS))
                _add(bench, "reports", reported.result())


def _add(bench: Bench, name: str, answers: list[Answer]) -> None:
    """Keep the delays, and the number of refused requests."""
    for one in answers:
        if one.status == 200:
            bench.add(f"{name}_ms", one.seconds * 1000)
    bench.add(f"{name}_refused", sum(one.status != 200 for one in answers))


def _report(stack: Stack, resource: str) -> str:
    """Return the request of one alert, as Alertmanager sends it."""
    labels = {"alertname": "Down", "heatlite_stack": stack.path.split("/")[4], "heatlite_resource": resource}
    alert = {"status": "firing", "startsAt": "2026-11-02T12:00:00Z", "fingerprint": resource, "labels": labels}
    return encode("POST", f"{PROJECT}/health/alertmanager", json.dumps({"version": "4", "alerts": [alert]}))
