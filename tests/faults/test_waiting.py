"""The API during hangs: a worker frozen in a transaction, a silent database."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from heatlite.store.store import Store
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT, Answer, Server, Worker
from tests.databases import EACH_SERVER, whole
from tests.faults.conftest import begin
from tests.faults.judgement import judge
from tests.faults.machines import Machines
from tests.faults.servers import KINDS, Redis
from tests.waiting import eventually

pytestmark = [
    pytest.mark.skipif(find_spec("celery") is None, reason="celery is not installed (extra `distributed`)"),
    pytest.mark.slow,
]

HOOKS = Path(__file__).parent / "hooks"
PATH = os.pathsep.join(map(str, (HOOKS, ROOT, EXAMPLE_PLUGIN)))

LEASE = 30.0
"""Seconds that a lock of a frozen process holds. What is answered before that has not waited for it."""

OUTAGE = 10.0
"""Seconds that a database stands still once all is refused."""

PENDING = 24
"""Requests at once, of which no thread may wait for long: the server has eight."""

TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::RandomString"}}}


def check_refused(answers: list[Answer]) -> None:
    for answer in answers:
        assert answer.status == 503, answer.data
        assert int(answer.headers["Retry-After"]) > 0


def ask_beside(
    api: Server, pending: Callable[[], Answer], path: str, also: str
) -> list[Answer]:
    """Ask for other stacks beside `PENDING` requests.

    Returns the answers to the latter.
    """
    with ThreadPoolExecutor(PENDING) as pool:
        asked = [pool.submit(pending) for _ in range(PENDING)]
        others = []
        for _ in range(5):
            others.append(api.request("GET", "/healthcheck"))
            others.append(api.request("GET", path))
            others.append(api.request("POST", f"{path}/actions", {"lock": None}))
            others.append(api.request("GET", also))
        assert all(answer.status < 500 for answer in others)
        return [one.result() for one in asked]


def is_frozen(worker: Worker) -> bool:
    return Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(") ")[2].startswith("T")


@pytest.mark.parametrize("url", EACH_SERVER, indirect=True)
def test_a_worker_is_frozen_inside_a_transaction(servers: ExitStack, tmp_path: Path, url: str, store: Store) -> None:
    broker = begin(servers, Redis)
    machines = servers.enter_context(closing(Machines(tmp_path, url, broker.url, PATH, LEASE)))
    trigger = tmp_path / "freeze"
    api, first = machines.api(), machines.worker(FAULTS_FREEZE=str(trigger))
    api.patient = False
    held, free = api.create("held", TEMPLATE), api.create("free", TEMPLATE)
    for path in (held, free):
        assert api.settled(path) == "CREATE_COMPLETE"

    ask_beside(api, lambda: api.request("GET", held), free, held)
    assert api.settled(free) == "LOCK_COMPLETE"
    trigger.write_text(held.rpartition("/")[2])
    frozen_at = time.monotonic()
    assert api.request("POST", f"{held}/actions", {"check": None}).status in (200, 201, 202)
    eventually(lambda: is_frozen(first), "it freezes")
    try:
        refused = ask_beside(api, lambda: api.request("DELETE", held), free, held)
        assert time.monotonic() - frozen_at < LEASE, "the worker has been given up: what was asked was too slow"
        check_refused(refused)
        machines.worker()
        eventually(lambda: not api.stack(held)["stack_status"].endswith("IN_PROGRESS"), "it is taken over")
        assert api.stack(held)["stack_status"] == "CHECK_COMPLETE"
    finally:
        os.killpg(first.process.pid, signal.SIGCONT)
    eventually(lambda: "taken over by another engine" in first.log.read_text(), "it has heard of it")
    judge(store, machines.files)
    assert machines.complaints() == ""


@pytest.mark.parametrize("kind", ["PostgreSQL", "MariaDB"])
def test_a_database_never_answers(servers: ExitStack, kind: str, tmp_path: Path) -> None:
    database, broker = begin(servers, KINDS[kind]), begin(servers, Redis)
    store = whole(database.url)
    servers.callback(store.database.close)
    store.upgrade()
    machines = servers.enter_context(closing(Machines(tmp_path, database.url, broker.url, lease=OUTAGE)))
    api = machines.api()
    api.patient = False
    machines.worker()
    path = api.create("before", TEMPLATE)
    assert api.settled(path) == "CREATE_COMPLETE"
    slow = {"type": "OS::Heat::TestResource", "properties": {"wait_secs": 3}}
    under_way = api.create("meanwhile", {**TEMPLATE, "resources": {"a": slow}})

    def ask(api: Server, number: int) -> Answer:
        if number % 2:
            return api.request("GET", path)
        return api.request("POST", "/stacks", {"stack_name": f"s{number}", "template": TEMPLATE})

    with database.frozen():
        with ThreadPoolExecutor(PENDING) as pool:
            pending = [pool.submit(ask, api, number) for number in range(PENDING)]
            health = [api.request("GET", "/healthcheck") for _ in range(5)]
            refused = [one.result() for one in pending]
        check_refused(refused)
        assert all(answer.status == 200 for answer in health)
        check_refused([ask(api, 1)])  # and so are those who come later
        time.sleep(OUTAGE)
    eventually(lambda: api.request("GET", path).status == 200, "the database is back")
    assert api.settled(under_way) == "CREATE_COMPLETE"
    judge(store, machines.files)
    assert machines.complaints() == ""
