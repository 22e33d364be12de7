"""API and worker processes, with a database server and a broker between them."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from benchmarks.ports import free_port
from heatlite.core.config import Settings
from heatlite.core.status import ActionStatus, WorkKind
from heatlite.store.records import ActionRecord, Announcement
from heatlite.store.store import Store
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT, START_SECONDS, CommandLine, Process, Server, Worker
from tests.brokers import Broker
from tests.databases import EACH_SERVER, on
from tests.waiting import eventually

TYPES = os.pathsep.join(map(str, (ROOT / "tests" / "faults" / "types", ROOT, EXAMPLE_PLUGIN)))
SIMPLE = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::RandomString"}}}


WAITING = {
    "heat_template_version": "2021-04-16",
    "resources": {
        "handle": {"type": "OS::Heat::WaitConditionHandle"},
        "wait": {
            "type": "OS::Heat::WaitCondition",
            "properties": {"handle": {"get_resource": "handle"}, "timeout": 3600},
        },
    },
}
"""Runs until its handle has had a signal."""
LOADED = {"HEATLITE_LEASE_SECONDS": "600", "PYTHONPATH": TYPES}
"""A worker of a busy machine keeps its lease."""


class Machines:
    """Commands with the same settings."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self.settings = settings
        self._home = home
        queues = {"HEATLITE_BROKER": settings.broker or "", "HEATLITE_QUEUE_PREFIX": settings.queue_prefix}
        self._variables = {**queues, **LOADED}
        self._all: list[Server | Worker] = []

    def api(self, **more: str) -> Server:
        server = Server(self._home, 0, "api", self.settings.database, **self._variables, **more)
        server.patient = True
        self._all.append(server)
        return server

    def worker(self, **more: str) -> Worker:
        self._all.append(Worker(self._home, self.settings.database, **self._variables, **more))
        return self._all[-1]  # type: ignore[return-value]

    def kill(self) -> None:
        for one in self._all:
            one.kill()


@pytest.fixture
def machines(tmp_path: Path, url: str, broker: Broker) -> Iterator[Machines]:
    made = Machines(tmp_path, Settings(url, broker=broker.url, queue_prefix=broker.prefix))
    yield made
    made.kill()


def places(*pairs: Any) -> pytest.MarkDecorator:
    """The databases and brokers that a test runs on."""
    return pytest.mark.parametrize(("server", "broker"), pairs, indirect=True)


ANYWHERE = places(on("PostgreSQL", "RabbitMQ"), on("MariaDB", "Redis"))
ALL_STACKS = places(
    on("PostgreSQL", "RabbitMQ"), on("MariaDB", "Redis"), on("PostgreSQL", "Redis"), on("MariaDB", "RabbitMQ")
)


def actions(store: Store, path: str) -> list[ActionRecord]:
    """Those of a stack that have not ended."""
    return store.actions.live([path.rpartition("/")[2]])


def let_go(api: Server, path: str) -> str:
    """Signal a stack that waits; return the state in which it comes to rest."""
    signalled = lambda: api.request("POST", f"{path}/resources/handle/signal", {"status": "SUCCESS"}).status == 200  # noqa: E731
    eventually(signalled, "its handle is there")
    return api.settled(path)


def running(store: Store, path: str) -> Callable[[], bool]:
    return lambda: [one.status for one in actions(store, path)] == [ActionStatus.RUNNING]


@ALL_STACKS
def test_the_api_takes_what_a_worker_does(machines: Machines, store: Store) -> None:
    api = machines.api(HEATLITE_API_PROCESSES="2")
    path = api.create("s", SIMPLE)
    assert [one.status for one in actions(store, path)] == [ActionStatus.READY], "nobody is there to begin it"
    worker = machines.worker()
    assert api.settled(path) == "CREATE_COMPLETE"
    assert api.settled(api.create("t", SIMPLE)) == "CREATE_COMPLETE"
    assert api.request("DELETE", path).status == 204
    assert api.settled(path) == "DELETE_COMPLETE"
    worker.stop()
    api.stop()
    for one in (api, worker):
        assert one.complaints() == ""


@ANYWHERE
def test_two_workers_share_what_there_is(machines: Machines, store: Store) -> None:
    api = machines.api()
    for _ in range(2):
        machines.worker(HEATLITE_ENGINE_SLOTS="1")
    paths: list[str] = []
    owners: set[str | None] = set()
    while len(owners) < 2:  # an action that waits has no slot, so one worker may take several
        assert len(paths) < 20, "one of the workers takes nothing"
        for _ in range(2):
            paths.append(api.create(f"s{len(paths)}", WAITING))
            eventually(running(store, paths[-1]), "it runs")
        owners |= {one.owner for path in paths for one in actions(store, path) if one.owner is not None}
    assert {let_go(api, path) for path in paths} == {"CREATE_COMPLETE"}


def facts(api: Server, path: str) -> Any:
    answer = api.request("GET", f"{path}/why")
    assert answer.status == 200, answer.data
    return answer.data["facts"]


def codes(api: Server, path: str) -> list[str]:
    return [one["code"] for one in facts(api, path)]


@ANYWHERE
def test_why_names_the_worker_that_is_missing(machines: Machines) -> None:
    """One of another kind is there, or none; a worker that stops says so."""
    api = machines.api()
    path = api.create("s", SIMPLE)
    assert codes(api, path) == ["no_engine", "queued"]
    checking = machines.worker(HEATLITE_WORKER_KINDS="check")
    eventually(lambda: codes(api, path) == ["worker_kind", "queued"], "the worker has reported")
    (fact, _) = facts(api, path)
    assert "waits for a worker of the kind stack. Those that are alive: " in fact["text"] and "(check, " in fact["text"]
    building = machines.worker(HEATLITE_WORKER_KINDS="stack")
    assert api.settled(path) == "CREATE_COMPLETE"
    eventually(lambda: codes(api, path) == [], "nothing waits")
    building.stop()
    other = api.create("t", SIMPLE)
    assert codes(api, other) == ["worker_kind", "queued"]
    checking.stop()
    assert codes(api, other) == ["no_engine", "queued"]


@ANYWHERE
def test_work_goes_to_the_workers_of_its_zone_and_kind(machines: Machines, store: Store) -> None:
    api = machines.api()
    machines.worker(HEATLITE_WORKER_KINDS="check")
    machines.worker(HEATLITE_WORKER_ZONE="south")
    north = api.create("n", SIMPLE, tags="zone:north")
    plain = api.create("p", SIMPLE)
    assert api.settled(plain) == "CREATE_COMPLETE"
    time.sleep(2.5)  # all have looked at the table meanwhile
    assert [one.status for one in actions(store, north)] == [ActionStatus.READY]
    machines.worker(HEATLITE_WORKER_ZONE="north")
    assert api.settled(north) == "CREATE_COMPLETE"


@ANYWHERE
def test_whoever_stops_gives_back_and_another_goes_on(machines: Machines, store: Store) -> None:
    api, first = machines.api(), machines.worker()
    path = api.create("s", WAITING)
    eventually(running(store, path), "it runs")
    (before,) = actions(store, path)
    first.stop()
    (given_back,) = actions(store, path)
    assert (given_back.status, given_back.owner) == (ActionStatus.READY, None)
    assert api.stack(path)["stack_status"] == "CREATE_IN_PROGRESS"
    machines.worker()
    eventually(running(store, path), "another runs it")
    (after,) = actions(store, path)
    assert (after.id, after.attempt) == (before.id, before.attempt + 1)
    assert let_go(api, path) == "CREATE_COMPLETE"


@ANYWHERE
def test_the_second_signal_ends_a_worker_at_once(machines: Machines, tmp_path: Path) -> None:
    api, worker = machines.api(), machines.worker()
    endless = {"type": "Faults::Slow", "properties": {"before": True}}
    api.create("s", {"heat_template_version": "2021-04-16", "resources": {"a": endless}})
    eventually((tmp_path / "files" / "calls").exists, "its handler is called")
    worker.process.send_signal(signal.SIGTERM)
    eventually(lambda: "stopping: " in worker.log.read_text(), "it drains")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.process.wait(START_SECONDS) == -signal.SIGTERM


@ANYWHERE
def test_a_message_that_comes_twice_or_late_does_nothing(machines: Machines, store: Store) -> None:
    api = machines.api()
    for _ in range(2):
        machines.worker()
    path = api.create("s", WAITING)
    (action,) = actions(store, path)
    from heatlite.engine.dispatch.distributed import CeleryDispatcher

    again = CeleryDispatcher(machines.settings, machines.settings.broker or "")
    for _ in range(10):
        again.announce(Announcement(action.id, WorkKind.STACK, None, True))
    assert let_go(api, path) == "CREATE_COMPLETE"
    again.announce(Announcement(action.id, WorkKind.STACK, None, True))
    again.close()
    assert api.settled(api.create("t", SIMPLE)) == "CREATE_COMPLETE"
    ended = store.actions.get(action.id)
    assert ended is not None
    assert (ended.attempt, ended.status) == (1, ActionStatus.SUCCEEDED)


@ANYWHERE
def test_each_process_is_watched(machines: Machines) -> None:
    """API requests can be traced into a worker, and each shows its own part."""
    watched, port = {"HEATLITE_LOG_FORMAT": "json", "HEATLITE_METRICS": "true"}, free_port()
    api, worker = machines.api(**watched), machines.worker(**watched, HEATLITE_METRICS_PORT=str(port))
    member = {"type": "Example::Local::File"}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": member}}
    asked = api.request("POST", "/stacks", {"stack_name": "s", "template": {**SIMPLE, "resources": {"g": group}}})
    path = api.find("s")
    assert api.settled(path) == "CREATE_COMPLETE"
    made = [line for line in lines(worker) if line["logger"] == "example_heatlite_plugin"]
    assert sorted(line["resource"] for line in made) == ["0", "1"]
    assert {line["request_id"] for line in made} == {asked.headers["X-Openstack-Request-Id"]}
    queued = [line for line in lines(api) if line["message"].endswith("INIT -> READY")]
    assert [line["stack_id"] for line in queued] == [path.rpartition("/")[2]]
    assert {line["stack_id"] for line in made} == {*api.resources(path).values()}

    def ended(shown: str) -> bool:
        return 'heatlite_actions_ended_total{status="SUCCEEDED",verb="CREATE"} 2.0' in shown

    def of_worker() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            return str(answer.read().decode())

    eventually(lambda: ended(of_worker()), "the worker has counted")
    of_api = str(api.request("GET", "/metrics").data)
    assert not ended(of_api)
    assert 'route="/v1/{project}/stacks"' in of_api
    assert "route=" not in of_worker()
    for shown in (of_api, of_worker()):  # both ask the same database
        assert 'heatlite_engines{status="up"} 1.0' in shown
    worker.stop()
    with pytest.raises(URLError):
        urlopen(f"http://127.0.0.1:{port}/metrics")


def lines(process: Process) -> list[dict[str, Any]]:
    """A log, which must be JSON."""
    return [json.loads(line) for line in process.log.read_text().splitlines()]


def test_metrics_of_processes_that_share_a_port_are_refused(tmp_path: Path) -> None:
    heatlite = CommandLine(tmp_path)
    done = heatlite("api", HEATLITE_METRICS="true", HEATLITE_API_PROCESSES="2")
    assert done.code == 2
    assert "Set api_processes to 1" in done.err


@pytest.mark.skipif(find_spec("celery") is None, reason="celery is not installed (extra `distributed`)")
@pytest.mark.parametrize("server", EACH_SERVER, indirect=True)
def test_without_a_broker_everything_is_done_nevertheless(tmp_path: Path, url: str) -> None:
    machines = Machines(tmp_path, Settings(url, broker=f"redis://127.0.0.1:{free_port()}/0"))
    try:
        api, worker = machines.api(), machines.worker()
        assert api.settled(api.create("s", SIMPLE)) == "CREATE_COMPLETE"
        eventually(lambda: "cannot reach the broker" in worker.log.read_text(), "the worker has tried it")
        eventually(lambda: "the broker takes no hints" in api.log.read_text(), "the API has tried it")
        worker.stop()
        api.stop()
    finally:
        machines.kill()


@pytest.mark.parametrize("command", ["api", "worker"])
def test_what_is_missing_is_said(tmp_path: Path, command: str) -> None:
    heatlite = CommandLine(tmp_path)
    done = heatlite(command, HEATLITE_BROKER="redis://127.0.0.1:6379/0")
    assert done.code == 2
    assert "is a file for one engine. Set `database` to postgresql://" in done.err
    done = heatlite(command, "--database", "postgresql://127.0.0.1:1/none")
    assert done.code == 2
    assert "Set `broker` to amqp://" in done.err
    assert "heatlite serve" in done.err
