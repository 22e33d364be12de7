"""Round trips to the database, and processor time, of one stack."""

import time
from pathlib import Path

from benchmarks.actions import EACH, Installation, installation
from benchmarks.cases import Bench
from benchmarks.lifecycle import PROJECT, template
from heatlite.core.errors import HeatliteError
from heatlite.store.database.database import Database

STACKS = 200
WARM_UP = 30
"""Stacks before the measurement: connections, prepared statements and caches."""
KINDS = ((EACH, "OS::Heat::TestResource"), (1, "OS::Heat::Value"))
_THREADS = {
    "PostgreSQL": "SELECT pid FROM pg_stat_activity WHERE datname = current_database()",
    "MariaDB": "SELECT tid FROM information_schema.processlist WHERE db = DATABASE()",
}


def round_trips(bench: Bench) -> None:
    """Create stacks through a broker on each database server, with one worker."""
    for database in _THREADS:
        bench.say(f"{STACKS} stacks: round trips on {database}")
        try:
            with installation(bench, database, "RabbitMQ", is_relayed=True) as running:
                for count, kind in KINDS:
                    _create(bench, running, WARM_UP, template(count, kind))
                    for _ in range(bench.repeat):
                        _measure(bench, running, database, count, kind)
        except HeatliteError as error:
            bench.say(f"NOT MEASURED: {database}: {error}")


def _measure(bench: Bench, running: Installation, database: str, count: int, kind: str) -> None:
    case = f"{database}, {count} {kind.rpartition(':')[2]}"
    relay = running.relay
    assert relay is not None
    before = _processor_times(running, database)
    trips = relay.round_trips
    _create(bench, running, STACKS, template(count, kind))
    bench.add(f"round_trips.{case}", (relay.round_trips - trips) / STACKS)
    after = _processor_times(running, database)
    for name, began, ended in zip(("api_ms", "workers_ms", "database_ms"), before, after, strict=True):
        bench.add(f"{name}.{case}", (ended - began) * 1000 / STACKS)


def _create(bench: Bench, running: Installation, count: int, made: object) -> None:
    """Create stacks one after another and wait for the last of them."""
    for _ in range(count):
        body = {"stack_name": bench.new_name(), "template": made}
        running.client.json("POST", f"{PROJECT}/stacks", body, 201)
    database = Database(running.database)  # past the relay
    live = "SELECT COUNT(*) FROM action WHERE finished_at IS NULL"
    while database.read(live)[0][0]:
        time.sleep(0.02)
    database.close()


def _processor_times(running: Installation, kind: str) -> tuple[float, float, float]:
    """Return processor seconds of the API, the workers, and the database's server."""
    workers = sum(one.processor_time() for one in running.workers)
    return running.api.processor_time(), workers, database_time(running.database, kind)


def database_time(url: str, kind: str) -> float:
    """Return processor seconds of a database's server, for its present connections."""
    database = Database(url)
    threads = [pid for (pid,) in database.read(_THREADS[kind])]
    database.close()
    files = [Path(f"/proc/{thread}/schedstat") for thread in threads]
    return sum(int(file.read_text().split()[0]) for file in files if file.exists()) / 1e9
