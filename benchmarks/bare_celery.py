"""Actions on one resource, beside tasks of a bare Celery with the same broker.

``python -m benchmarks.bare_celery BROKER PREFIX FILE`` runs the worker of the latter. Each of its tasks adds a byte to
the file. With ``DATABASE`` as well, a task first runs the statements of such an action: the floor, without API and
engine.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec.structs import replace

from benchmarks.actions import BROKERS, Installation, fresh_database, installation
from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, template
from benchmarks.processes import Process
from benchmarks.round_trips import database_time
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.core.ids import new_id, random_id
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.state.unit_of_work import resource_event, stack_event
from heatlite.store.audit import AuditRecord
from heatlite.store.database.database import Database
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

TASK = "benchmark.add_byte"
FLOOR = "benchmark.run_statements"
TASKS = 2000
STACKS = 400
CLIENTS = 4
WORKERS = 2
WARM_UP = 40
"""Tasks, or stacks, before the measurement."""
DEADLINE = 300.0
"""Seconds."""
LEASE = 60.0
"""Seconds."""


def bare_celery(bench: Bench) -> None:
    """Measure stacks of one Value, their statements as tasks, and empty tasks.

    Both have two workers.
    """
    for broker, (variable, loopback) in BROKERS.items():
        bench.say(f"{STACKS} stacks of one resource, {TASKS} tasks of bare Celery: {broker}")
        try:
            with installation(bench, "PostgreSQL", broker, WORKERS) as running:
                _stacks_in_a_second(bench, running, WARM_UP)
                for _ in range(bench.repeat):
                    before = _processor_time(running.database, running.api, *running.workers)
                    bench.add(f"action_rate.{broker}", _stacks_in_a_second(bench, running, STACKS))
                    after = _processor_time(running.database, running.api, *running.workers)
                    bench.add(f"action_ms.{broker}", (after - before) * 1000 / STACKS)
            url = os.environ.get(variable, loopback)
            _tasks(bench, "task", broker, url, None, TASKS)
            with fresh_database(bench, "PostgreSQL") as database:
                _tasks(bench, "floor", broker, url, database, STACKS)
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


def _processor_time(database: str | None, *processes: Process) -> float:
    """Return processor seconds of processes and of the database's server."""
    server = 0.0 if database is None else database_time(database, "PostgreSQL")
    return server + sum(one.processor_time() for one in processes)


def _tasks(bench: Bench, name: str, kind: str, broker: str, database: str | None, tasks: int) -> None:
    """Run tasks of bare Celery; with a database those of the floor."""
    from heatlite.engine.dispatch.distributed import application  # needs the extra `distributed`

    prefix, file = f"heatlite-benchmark-{os.getpid()}-{name}", bench.new_folder() / "done"
    app = application(Settings("sqlite:///unused", queue_prefix=prefix), broker)
    store = None if database is None else Store.open(database, lease=LEASE)
    command = [sys.executable, "-m", "benchmarks.bare_celery", broker, prefix, str(file)]
    command += [] if database is None else [database]
    done = 0

    def send(count: int) -> None:
        for _ in range(count):
            if store is None:
                app.send_task(TASK)
            else:
                app.send_task(FLOOR, (_queued(bench, store),))

    first, second = (Process(command, bench.new_folder()) for _ in range(WORKERS))
    with first, second, ThreadPoolExecutor(CLIENTS) as pool:
        for run, count in enumerate((WARM_UP, *[tasks] * bench.repeat)):
            before, began = _processor_time(database, first, second) + time.process_time(), time.perf_counter()
            list(pool.map(send, [count] if store is None else [count // CLIENTS] * CLIENTS))
            done += count
            _wait_for(file, done, began + DEADLINE)
            if run > 0:
                bench.add(f"{name}_rate.{kind}", count / (time.perf_counter() - began))
                after = _processor_time(database, first, second) + time.process_time()
                bench.add(f"{name}_ms.{kind}", (after - before) * 1000 / count)


def _queued(bench: Bench, store: Store) -> str:
    """Write what the API writes of a create; return the action's id."""
    now, name = time.time(), bench.new_name()
    stack = StackRecord(
        id=new_id(), name=name, project="p", username="u", template_id=store.templates.address({}, {}), environment={},
        verb=Verb.CREATE, status=Status.IN_PROGRESS, status_reason="", created_at=now,
    )  # fmt: skip
    action = ActionRecord(
        id=random_id(), stack_id=stack.id, root_id=stack.id, project="p", verb=Verb.CREATE, status=ActionStatus.INIT,
        requested_by="u", created_at=now,
    )  # fmt: skip
    audit = AuditRecord(action.id, "p", now, "u", "u", "", "POST", "/stacks", "stacks:create", stack.id, name)
    store.stacks.by_name("p", name)
    with store.transaction():
        store.templates.put({}, {})
        store.stacks.insert(stack)
        store.events.append_many([stack_event(stack, now)])
        store.queue.enqueue(action)
        store.audit.insert(audit)
    return action.id


def _carried_out(store: Store, action_id: str) -> None:
    """Write what a worker writes of an action on one resource."""
    now = time.time()
    with store.transaction():
        (action,) = store.claims.claim_many(1, "worker", now, LEASE, action_id)
        read, rows = store.stacks.send_get(action.stack_id), store.resources.send_of(action.stack_id)
    stack, _ = read(), rows()
    assert stack is not None
    row = ResourceRecord(
        id=new_id(), stack_id=stack.id, name="r0", type="OS::Heat::Value", mapped_type="OS::Heat::Value",
        verb=Verb.CREATE, status=Status.COMPLETE, status_reason="state changed", created_at=now,
    )  # fmt: skip
    with store.transaction():
        store.claims.begin_commit(action, now, LEASE)
        store.resources.insert_many([row])
        store.events.append_many([resource_event(row, now), resource_event(row, now), stack_event(stack, now)])
        store.stacks.save(replace(stack, status=Status.COMPLETE))
        store.moves.finish(action, ActionStatus.SUCCEEDED, "", now)


def _wait_for(file: Path, size: int, deadline: float) -> None:
    while not file.exists() or file.stat().st_size < size:
        if time.perf_counter() > deadline:
            raise RuntimeError("the workers of the bare Celery do not run the tasks")
        time.sleep(0.005)


def main(broker: str, prefix: str, file: str, database: str | None = None) -> None:
    """Run a worker until SIGTERM."""
    from heatlite.engine.dispatch.distributed import application

    app = application(Settings("sqlite:///unused", queue_prefix=prefix), broker)
    done = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    store = None if database is None else Store.open(database, lease=LEASE)

    @app.task(name=TASK)
    def add_byte() -> None:
        os.write(done, b".")

    @app.task(name=FLOOR)
    def run_statements(action_id: str) -> None:
        assert store is not None
        _carried_out(store, action_id)
        os.write(done, b".")

    app.Worker(quiet=True, without_gossip=True, without_mingle=True, hostname=f"bare-{os.getpid()}@local").start()


if __name__ == "__main__":
    main(*sys.argv[1:])
