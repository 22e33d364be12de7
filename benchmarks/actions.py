"""Actions: refusals, the time until an accepted one begins, and several workers.

Each on SQLite, PostgreSQL and MariaDB, dispatched within the process and through a broker. The servers and brokers are
those on loopback; HEATLITE_TEST_POSTGRES_URL, HEATLITE_TEST_MYSQL_URL, HEATLITE_TEST_AMQP_URL and
HEATLITE_TEST_REDIS_URL name others. What is not there is not measured, and the run says so.
"""

import itertools
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from benchmarks.cases import IDLE_SECONDS, Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Stack, template
from benchmarks.load import at_once, encode, percentile
from benchmarks.ports import free_port
from benchmarks.processes import Process, Server
from benchmarks.relay import Relay
from heatlite.core.errors import HeatliteError
from heatlite.store.database.database import Database
from heatlite.store.store import Store

SERVERS = {
    "PostgreSQL": ("HEATLITE_TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres"),
    "MariaDB": ("HEATLITE_TEST_MYSQL_URL", "mysql://root@127.0.0.1:3306/mysql?ssl_disabled=true"),
}
BROKERS = {
    "RabbitMQ": ("HEATLITE_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"),
    "Redis": ("HEATLITE_TEST_REDIS_URL", "redis://127.0.0.1:6379/0"),
}
AT_ONCE = 100
SUBMITTED = 100
STACKS = 1000
EACH = 10
FLEETS = (
    ("PostgreSQL", "RabbitMQ", 1),
    ("PostgreSQL", "RabbitMQ", 2),
    ("PostgreSQL", "RabbitMQ", 4),
    ("PostgreSQL", "Redis", 2),
    ("MariaDB", "RabbitMQ", 2),
)
"""Database, broker and number of workers: the last is varied with one of the others only."""

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Installation:
    """A running heatlite."""

    client: Client
    ports: list[int]
    """Metrics addresses of the working processes."""
    database: str
    """Its URL."""
    api: Process
    workers: list[Process]
    """Processes that carry actions out, unless the API's own process does."""
    relay: Relay | None = None


@contextmanager
def fresh_database(bench: Bench, kind: str) -> Iterator[str]:
    """Yield the URL of a fresh database with its tables.

    Raises HeatliteError if there is no such server.
    """
    if kind == "SQLite":
        yield f"sqlite:///{bench.new_folder() / 'heat.db'}"
        return
    variable, loopback = SERVERS[kind]
    given = os.environ.get(variable, loopback)
    name = f"heatlite_benchmark_{os.getpid()}_{next(_numbers)}"
    database = Database(given)
    database.read("SELECT 1")
    database.peewee.execute_sql(f"CREATE DATABASE {name}")
    try:
        url = urlsplit(given)._replace(path=f"/{name}").geturl()
        store = Store.open(url)
        store.upgrade()
        store.close()
        yield url
    finally:
        force = " WITH (FORCE)" if kind == "PostgreSQL" else ""
        database.peewee.execute_sql(f"DROP DATABASE {name}{force}")
        database.close()


@contextmanager
def installation(
    bench: Bench, database: str, broker: str | None, workers: int = 1, is_relayed: bool = False
) -> Iterator[Installation]:
    """A server and its workers, each a process.

    Without a broker, or on SQLite, one process is both. `is_relayed` puts a relay before the database's server.
    """
    port = free_port()
    with ExitStack() as stack:
        url = stack.enter_context(fresh_database(bench, database))
        relay = stack.enter_context(Relay(url)) if is_relayed else None
        used = url if relay is None else relay.url
        settings = {"HEATLITE_DATABASE": used, "HEATLITE_METRICS": "true", "HEATLITE_MAX_STACKS_PER_TENANT": "-1"}
        if broker is not None:
            variable, loopback = BROKERS[broker]
            settings["HEATLITE_BROKER"] = os.environ.get(variable, loopback)
            settings["HEATLITE_QUEUE_PREFIX"] = f"heatlite-benchmark-{os.getpid()}-{next(_numbers)}"
        apart = broker is not None and database != "SQLite"
        command = [sys.executable, "-m", "heatlite", "api" if apart else "serve", "--port", str(port)]
        api = stack.enter_context(Server(command, port, bench.new_folder(), "/healthcheck", settings))
        engines = []
        ports = [port]
        if apart:
            ports = [free_port() for _ in range(workers)]
            for each in ports:
                own = {**settings, "HEATLITE_METRICS_PORT": str(each)}
                worker = Process([sys.executable, "-m", "heatlite", "worker"], bench.new_folder(), own)
                engines.append(stack.enter_context(worker))
            _wait_for_engines(Client(port), workers)
        yield Installation(Client(port), ports, url, api, engines, relay)


def _wait_for_engines(client: Client, count: int) -> None:
    ends = time.monotonic() + 60
    while sum(one["status"] == "up" for one in client.json("GET", f"{PROJECT}/services")["services"]) < count:
        if time.monotonic() > ends:
            raise RuntimeError(f"there are not {count} workers")
        time.sleep(0.1)


COMBINATIONS = (
    ("SQLite", None),
    ("PostgreSQL", None),
    ("MariaDB", None),
    ("SQLite", "RabbitMQ"),
    ("PostgreSQL", "RabbitMQ"),
    ("MariaDB", "RabbitMQ"),
    ("PostgreSQL", "Redis"),
)


def _named(database: str, broker: str | None) -> str:
    return f"{database}, {broker or 'in process'}"


def _each(bench: Bench, what: str) -> Iterator[tuple[str, Installation]]:
    """A fresh installation of each combination that there is."""
    for database, broker in COMBINATIONS:
        case = _named(database, broker)
        bench.say(f"{what}: {case}")
        try:
            with installation(bench, database, broker) as running:
                yield case, running
        except HeatliteError as error:
            bench.say(f"NOT MEASURED: {case}: {error}")


def refused(bench: Bench) -> None:
    """100 clients scale the same group in at the same moment."""
    for case, running in _each(bench, f"{AT_ONCE} scale-ins"):
        client = running.client
        for _ in range(bench.repeat):
            stack = Stack(client, bench.new_name())
            stack.create(_group(8))
            body = json.dumps({"template": _group(4), "existing": True})
            answers = at_once(client.port, encode("PATCH", stack.path, body), AT_ONCE)
            codes = [one.status for one in answers]
            bench.add(f"accepted.{case}", codes.count(202))
            bench.add(f"refused.{case}", codes.count(409))
            for figure, part in (("p50", 0.5), ("p99", 0.99)):
                bench.add(f"scale_in_{figure}_ms.{case}", percentile(answers, part))
            stack.wait("UPDATE_COMPLETE")
            stack.delete()


def _group(count: int) -> dict[str, Any]:
    member = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "action_wait_secs": {"delete": 5}}}
    made = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": member}}
    return {"heat_template_version": "2018-08-31", "resources": {"group": made}}


def latency(bench: Bench) -> None:
    """Measure the time from an accepted action's row to its worker, on an idle server."""
    for case, running in _each(bench, "submit to start"):
        stack = Stack(running.client, bench.new_name())
        stack.create(template(1))
        for _ in range(SUBMITTED):
            stack.check()
        database = Database(running.database)
        rows = database.read("SELECT created_at, started_at FROM action WHERE verb = 'CHECK'")
        database.close()
        for created_at, started_at in rows:
            bench.add(f"start_ms.{case}", (started_at - created_at) * 1000)


def fleet(bench: Bench) -> None:
    """1000 stacks of 10 resources, with 1, 2 and 4 workers as processes of their own."""
    for database, broker, workers in FLEETS:
        case = f"{_named(database, broker)}, {workers}"
        bench.say(f"{STACKS} stacks: {case}")
        try:
            with installation(bench, database, broker, workers) as running:
                _fleet(bench, case, running)
        except HeatliteError as error:
            bench.say(f"NOT MEASURED: {case}: {error}")
    with installation(bench, "SQLite", None) as running:
        bench.say(f"{STACKS} stacks: SQLite")
        _fleet(bench, f"{_named('SQLite', None)}, 1", running)


def _fleet(bench: Bench, case: str, running: Installation) -> None:
    client, ports = running.client, running.ports
    made = template(EACH, "OS::Heat::TestResource")
    began = time.perf_counter()
    for _ in range(STACKS):
        client.json("POST", f"{PROJECT}/stacks", {"stack_name": bench.new_name(), "template": made}, 201)
    submitted = time.perf_counter()
    while client.json("GET", f"{PROJECT}/stacks?limit=1&status=IN_PROGRESS")["stacks"]:
        time.sleep(0.1)
    seconds = time.perf_counter() - began
    states = client.json("GET", f"{PROJECT}/stacks?limit={STACKS}&status=COMPLETE")["stacks"]
    if len(states) != STACKS:
        raise RuntimeError(f"{case}: only {len(states)} of {STACKS} stacks are COMPLETE")
    handlers = sum(_metric(port, "heatlite_handler_duration_seconds_sum") for port in ports)
    bench.add(f"fleet_seconds.{case}", seconds)
    bench.add(f"fleet_submitting_seconds.{case}", submitted - began)
    bench.add(f"fleet_outside_handlers_percent.{case}", 100 * (1 - handlers / (seconds * len(ports))))


def waiting(bench: Bench) -> None:
    """Measure a server with 500 waiting actions, see `_wait_for_signals`."""
    _wait_for_signals(bench, 500)


def parked(bench: Bench) -> None:
    """Measure the same with 10 000, and a create beside them."""
    _wait_for_signals(bench, 10_000)


def _wait_for_signals(bench: Bench, count: int) -> None:
    """Measure a server with so many waiting actions: threads, time and memory.

    Half of them wait for a signal, each below a parent that waits for it.
    """
    handle = {"type": "OS::Heat::WaitConditionHandle"}
    condition = {
        "type": "OS::Heat::WaitCondition",
        "properties": {"handle": {"get_resource": "handle"}, "timeout": 3600},
    }
    head = {"heat_template_version": "2018-08-31"}
    within = {**head, "resources": {"handle": handle, "condition": condition}}
    outer = {**head, "resources": {"within": {"type": "within.yaml"}}}
    body = {"template": outer, "files": {"within.yaml": json.dumps(within)}, "timeout_mins": 60}
    with installation(bench, "SQLite", None) as running:
        client, api = running.client, running.api
        bench.add(f"create_beside_waiting.{0}", _create(client, bench))
        bench.add("waiting_threads.0", api.threads())
        before_mb = api.memory()
        bench.say(f"{count} actions that wait")
        for _ in range(count // 2):
            client.json("POST", f"{PROJECT}/stacks", {**body, "stack_name": bench.new_name()}, 201)
        _wait_for_live(running.database, count)
        bench.add(f"waiting_threads.{count}", api.threads())
        bench.add(f"waiting_kb_each.{count}", (api.memory() - before_mb) * 1000 / count)
        before = api.processor_time()
        time.sleep(IDLE_SECONDS)
        bench.add(f"waiting_processor_percent.{count}", (api.processor_time() - before) / IDLE_SECONDS * 100)
        client = Client(running.ports[0])  # the server has closed the idle connection
        for _ in range(bench.repeat):
            bench.add(f"create_beside_waiting.{count}", _create(client, bench))


def _create(client: Client, bench: Bench) -> float:
    return Stack(client, bench.new_name()).create(template(EACH))


def _wait_for_live(url: str, count: int) -> None:
    """Wait until so many actions have begun and none is READY."""
    database = Database(url)
    live = "SELECT COUNT(*), SUM(status = 'READY') FROM action WHERE finished_at IS NULL"
    ends = time.monotonic() + 900
    while tuple(database.read(live)[0]) != (count, 0):
        if time.monotonic() > ends:
            raise RuntimeError("not all actions wait")
        time.sleep(0.5)
    database.close()
    time.sleep(2.0)


def _metric(port: int, name: str) -> float:
    """The sum of a metric over its labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
