"""Requests beside a create of 10 000, one resource and lists at that size."""

import json
import time
from threading import Event, Thread

from benchmarks.cases import CLIENTS, Bench, load_requests
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, template
from benchmarks.load import encode

LARGE = 10_000
LOOKS = 50


CREATES = 2
"""Creates of the large stack for each kind of request."""


def beside(bench: Bench) -> None:
    """Measure requests of 50 clients, alone and while stacks of 10 000 are created.

    For readers beside the engine and for one process, beside bare Falcon and the floor of a mark.
    """
    for turn in range(bench.repeat):
        with bench.bare() as hello:
            bench.say(f"{CLIENTS} clients: bare Falcon, {turn + 1} of {bench.repeat}")
            _note(bench, "hello_alone", load_requests(bench, hello.port, [encode("GET", "/")], 200))
            write = [encode("PATCH", "/floor")]
            _note(bench, "floor_alone", load_requests(bench, hello.port, write, 200))
            Client(hello.port).send("POST", "/floor")
            _note(bench, "floor_beside", load_requests(bench, hello.port, write, 200))
        for kind, options in (("", ()), ("single_", ("--processes", "0"))):
            with bench.heatlite(*options) as server:
                _beside(bench, server.port, kind)


def _beside(bench: Bench, port: int, kind: str) -> None:
    client = Client(port)
    shown, locked = (Stack(client, bench.new_name()) for _ in range(2))
    for stack in (shown, locked):
        stack.create(template(100))
    locked.lock()
    mark = json.dumps({"mark_unhealthy": True})
    marks = [encode("PATCH", f"{shown.path}/resources/r{number}", mark) for number in range(100)]
    kinds = {
        "show": ([encode("GET", shown.path)], 200),
        "mark": (marks, 200),
        "locked": ([encode("POST", f"{locked.path}/actions", '{"check": null}')], 409),
    }
    for _ in range(CREATES):
        bench.add(f"{kind}create_alone.{LARGE}", Stack(client, bench.new_name()).create(template(LARGE)))
    for name, (requests, expect) in kinds.items():
        bench.say(f"{CLIENTS} clients: {kind}{name}, alone and beside creates of {LARGE}")
        _note(bench, f"{kind}{name}_alone", load_requests(bench, port, requests, expect))
        ended = Event()
        load = Thread(target=_load_until, args=(bench, ended, port, requests, expect, f"{kind}{name}_beside_create"))
        load.start()
        try:
            for _ in range(CREATES):
                seconds = Stack(client, bench.new_name()).create(template(LARGE))
                bench.add(f"{kind}create_beside_{name}.{LARGE}", seconds)
        finally:
            ended.set()
            load.join()


def _load_until(bench: Bench, ended: Event, port: int, requests: list[str], expect: int, name: str) -> None:
    """Load the server until the creates have ended.

    The last load runs beyond them, so it counts only if there is no other.
    """
    found: list[dict[str, float]] = []
    while not ended.is_set():
        found.append(load_requests(bench, port, requests, expect))
    for one in found[: max(1, len(found) - 1)]:
        _note(bench, name, one)


def _note(bench: Bench, name: str, figures: dict[str, float]) -> None:
    for figure, value in figures.items():
        bench.add(f"{name}.{figure}", value)


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
