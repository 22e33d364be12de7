"""Actions on one resource, beside tasks of a bare Celery with the same broker.

``python -m benchmarks.bare_celery BROKER PREFIX FILE`` runs the worker of the latter. Each of its tasks adds a byte to
the file.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.actions import BROKERS, Installation, installation
from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, template
from benchmarks.processes import Process
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.store.database.database import Database

TASK = "benchmark.add_byte"
TASKS = 2000
STACKS = 400
CLIENTS = 4
WORKERS = 2
WARM_UP = 40
"""Tasks, or stacks, before the measurement."""
DEADLINE = 300.0
"""Seconds."""


def bare_celery(bench: Bench) -> None:
    """Measure stacks of one Value, and tasks of bare Celery, in a second.

    Both have two workers.
    """
    for broker, (variable, loopback) in BROKERS.items():
        bench.say(f"{STACKS} stacks of one resource, {TASKS} tasks of bare Celery: {broker}")
        try:
            with installation(bench, "PostgreSQL", broker, WORKERS) as running:
                _stacks_in_a_second(bench, running, WARM_UP)
                for _ in range(bench.repeat):
                    bench.add(f"action_rate.{broker}", _stacks_in_a_second(bench, running, STACKS))
            for rate in _tasks_in_a_second(bench, os.environ.get(variable, loopback)):
                bench.add(f"task_rate.{broker}", rate)
        except HeatliteError as error:
            bench.say(f"NOT MEASURED: {broker}: {error}")


def _stacks_in_a_second(bench: Bench, running: Installation, count: int) -> float:
    bodies = [{"stack_name": bench.new_name(), "template": template(1)} for _ in range(count)]

    def submit(some: list[dict[str, object]]) -> None:
        client = Client(running.client.port)
        for body in some:
            client.json("POST", f"{PROJECT}/stacks", body, 201)
        client.close()

    database = Database(running.database)
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(submit, [bodies[at::CLIENTS] for at in range(CLIENTS)]))
    while database.read("SELECT COUNT(*) FROM action WHERE finished_at IS NULL")[0][0]:
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    database.close()
    return count / seconds


def _tasks_in_a_second(bench: Bench, broker: str) -> list[float]:
    from heatlite.engine.dispatch.distributed import application  # needs the extra `distributed`

    prefix, file = f"heatlite-benchmark-{os.getpid()}-bare", bench.new_folder() / "done"
    app = application(Settings("sqlite:///unused", queue_prefix=prefix), broker)
    command = [sys.executable, "-m", "benchmarks.bare_celery", broker, prefix, str(file)]
    rates, done = [], 0
    first, second = (Process(command, bench.new_folder()) for _ in range(WORKERS))
    with first, second:
        for count in (WARM_UP, *[TASKS] * bench.repeat):
            began = time.perf_counter()
            for _ in range(count):
                app.send_task(TASK)
            done += count
            _wait_for(file, done, began + DEADLINE)
            rates.append(count / (time.perf_counter() - began))
    return rates[1:]


def _wait_for(file: Path, size: int, deadline: float) -> None:
    while not file.exists() or file.stat().st_size < size:
        if time.perf_counter() > deadline:
            raise RuntimeError("the workers of the bare Celery do not run the tasks")
        time.sleep(0.005)


def main(broker: str, prefix: str, file: str) -> None:
    """Run a worker until SIGTERM."""
    from heatlite.engine.dispatch.distributed import application

    app = application(Settings("sqlite:///unused", queue_prefix=prefix), broker)
    done = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    @app.task(name=TASK)
    def add_byte() -> None:
        os.write(done, b".")

    app.Worker(quiet=True, without_gossip=True, without_mingle=True, hostname=f"bare-{os.getpid()}@local").start()


if __name__ == "__main__":
    main(*sys.argv[1:])
