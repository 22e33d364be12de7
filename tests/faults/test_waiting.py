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
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT, Answer, Server, Worker, eventually
from tests.faults.conftest import begin
from tests.faults.judgement import judge
from tests.faults.machines import Machines
from tests.faults.servers import KINDS, Redis

pytestmark = [
    pytest.mark.skipif(find_spec("celery") is None, reason="celery is not installed (extra `distributed`)"),
    pytest.mark.full,
]

HOOKS = Path(__file__).parent / "hooks"
PATH = os.pathsep.join(map(str, (HOOKS, ROOT, EXAMPLE_PLUGIN)))

LEASE = 10.0
"""Seconds: longer than any request may take."""

PENDING = 50
"""Requests at once, of which no thread may wait for long: the server has eight."""

ANSWERED = 5.0
"""Seconds within which a request is answered, whatever hangs."""

FAST = 2.0
"""Seconds by which answers to others may be later than beside as many requests that wait for nothing.

Each round of locks that time out in all threads adds a second or two.
"""

TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::RandomString"}}}


def timed(ask: Callable[[], Answer]) -> tuple[Answer, float]:
    begun = time.monotonic()
    return ask(), time.monotonic() - begun


def check_refused(answers: list[tuple[Answer, float]]) -> None:
    for answer, seconds in answers:
        assert (answer.status, seconds < ANSWERED) == (503, True), (answer.data, seconds)
        assert int(answer.headers["Retry-After"]) > 0


def ask_beside(
    api: Server, pending: Callable[[], Answer], path: str, also: str
) -> tuple[list[tuple[Answer, float]], list[tuple[Answer, float]]]:
    """Ask for other stacks beside `PENDING` requests.

    Returns the answers to the latter, then those of other stacks.
    """
    with ThreadPoolExecutor(PENDING) as pool:
        asked = [pool.submit(timed, pending) for _ in range(PENDING)]
        others = []
        for _ in range(5):
            others.append(timed(lambda: api.request("GET", "/healthcheck")))
            others.append(timed(lambda: api.request("GET", path)))
            others.append(timed(lambda: api.request("POST", f"{path}/actions", {"lock": None})))
            others.append(timed(lambda: api.request("GET", also)))
        assert all(answer.status < 500 for answer, _ in others)
        return [one.result() for one in asked], others


def slowest(answers: list[tuple[Answer, float]]) -> float:
    return max(seconds for _, seconds in answers)


def is_frozen(worker: Worker) -> bool:
    return Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(") ")[2].startswith("T")


@pytest.mark.parametrize("url", ["PostgreSQL", "MariaDB"], indirect=True)
def test_a_worker_is_frozen_inside_a_transaction(servers: ExitStack, tmp_path: Path, url: str, store: Store) -> None:
    broker = begin(servers, Redis)
    machines = servers.enter_context(closing(Machines(tmp_path, url, broker.url, PATH, LEASE)))
    trigger = tmp_path / "freeze"
    api, first = machines.api(), machines.worker(FAULTS_FREEZE=str(trigger))
    held, free = api.create("held", TEMPLATE), api.create("free", TEMPLATE)
    for path in (held, free):
        assert api.settled(path) == "CREATE_COMPLETE"

    _, unhindered = ask_beside(api, lambda: api.request("GET", held), free, held)
    assert api.settled(free) == "LOCK_COMPLETE"
    trigger.touch()
    assert api.request("POST", f"{held}/actions", {"check": None}).status in (200, 201, 202)
    eventually(lambda: is_frozen(first), "it freezes")
    frozen_at = time.monotonic()
    try:
        refused, others = ask_beside(api, lambda: api.request("DELETE", held), free, held)
        assert time.monotonic() - frozen_at < LEASE, "the worker has been given up: what was asked was too slow"
        check_refused(refused)
        told = [seconds for _, seconds in others]
        print(f"others {max(told):.2f} s, beside requests that wait for nothing {slowest(unhindered):.2f} s")
        assert max(told) < FAST + 2 * slowest(unhindered), told

        machines.worker()
        eventually(lambda: not api.stack(held)["stack_status"].endswith("IN_PROGRESS"), "it is taken over", 3 * LEASE)
        assert time.monotonic() - frozen_at < 2 * LEASE + 5
        assert api.stack(held)["stack_status"] == "CHECK_COMPLETE"
    finally:
        os.killpg(first.process.pid, signal.SIGCONT)
    eventually(lambda: "taken over by another engine" in first.log.read_text(), "it has heard of it")
    judge(store, machines.files)
    assert machines.complaints() == ""


@pytest.mark.parametrize("kind", ["PostgreSQL", "MariaDB"])
def test_a_database_never_answers(servers: ExitStack, kind: str, tmp_path: Path) -> None:
    database, broker = begin(servers, KINDS[kind]), begin(servers, Redis)
    store = Store.open(database.url)
    servers.callback(store.database.close)
    store.upgrade()
    machines = servers.enter_context(closing(Machines(tmp_path, database.url, broker.url, lease=LEASE)))
    api = machines.api()
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
            pending = [pool.submit(timed, lambda number=number: ask(api, number)) for number in range(PENDING)]
            health = [timed(lambda: api.request("GET", "/healthcheck")) for _ in range(5)]
            refused = [one.result() for one in pending]
        check_refused(refused)
        assert all(answer.status == 200 for answer, _ in health)
        assert max(seconds for _, seconds in health) < FAST
        check_refused([timed(lambda: ask(api, 1))])  # and so are those who come later
        time.sleep(LEASE)
    eventually(lambda: api.request("GET", path).status == 200, "the database is back")
    assert api.settled(under_way) == "CREATE_COMPLETE"
    judge(store, machines.files)
    assert machines.complaints() == ""
