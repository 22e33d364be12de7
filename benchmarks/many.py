"""One resource of a stack of 10 000, and lists of that size."""

import time

from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, template

LARGE = 10_000
LOOKS = 50


def large_stack(bench: Bench) -> None:
    """Measure one resource, a mark and the list of resources in a stack of 10 000."""
    with bench.heatlite() as server:
        client = Client(server.port)
        stack = Stack(client, bench.new_name())
        stack.create(template(LARGE))
        for number in range(LOOKS):
            path = f"{stack.path}/resources/r{number * (LARGE // LOOKS)}"
            _timed(bench, client, f"one_resource.{LARGE}", "GET", path)
            _timed(bench, client, f"mark_one.{LARGE}", "PATCH", path, {"mark_unhealthy": True})
        for _ in range(bench.repeat):
            _timed(bench, client, f"list_resources.{LARGE}", "GET", f"{stack.path}/resources")


def many_stacks(bench: Bench) -> None:
    """Measure pages and filters of the list of 10 000 stacks."""
    with bench.heatlite() as server:
        client = Client(server.port)
        bench.say(f"{LARGE} stacks")
        for number in range(LARGE):
            body = {"stack_name": f"n{number}", "template": template(1), "tags": f"t{number % 100}"}
            client.json("POST", f"{PROJECT}/stacks", body, 201)
        while client.json("GET", f"{PROJECT}/stacks?limit=1&status=IN_PROGRESS")["stacks"]:
            time.sleep(0.1)
        for query in ("limit=100", "limit=100&tags=t7", "limit=100&name=n77", "limit=100&sort_keys=name", ""):
            for _ in range(bench.repeat):
                _timed(bench, client, f"list_of_stacks {query or 'whole'}.{LARGE}", "GET", f"{PROJECT}/stacks?{query}")


def _timed(bench: Bench, client: Client, name: str, method: str, path: str, body: object = None) -> None:
    began = time.perf_counter()
    client.json(method, path, body)
    bench.add(name, time.perf_counter() - began)
