"""Lost and duplicate hints: the rows are the truth, a message is a hint."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.status import WorkKind
from heatlite.store.actions.table import OPEN
from heatlite.store.records import Announcement
from heatlite.store.store import Store
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT
from tests.databases import claim_one, on
from tests.faults.conftest import begin
from tests.faults.judgement import judge
from tests.faults.machines import Clients, Machines
from tests.faults.operations import OPERATIONS, ask
from tests.faults.servers import KINDS, Redis, Server
from tests.waiting import eventually

OUTAGE = 20.0
"""Seconds that a broker is away: workers try it again several times, with growing pauses."""

HOOKS = Path(__file__).parent / "hooks"

pytestmark = pytest.mark.skipif(find_spec("celery") is None, reason="celery is not installed (extra `distributed`)")


@pytest.fixture
def redis(servers: ExitStack) -> Server:
    return begin(servers, Redis)


@pytest.fixture
def machines(servers: ExitStack, tmp_path: Path, url: str, redis: Server) -> Machines:
    return servers.enter_context(closing(Machines(tmp_path, url, redis.url)))


def ended(store: Store) -> int:
    """Number of actions that have ended."""
    ((count,),) = store.database.read(f"SELECT COUNT(*) FROM action WHERE NOT {OPEN}")
    return int(count)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "kind"), [on("PostgreSQL", "RabbitMQ"), on("MariaDB", "Redis")], indirect=["url"]
)
def test_the_broker_is_away_for_a_while(
    servers: ExitStack, url: str, store: Store, kind: str, tmp_path: Path
) -> None:
    broker = begin(servers, KINDS[kind])
    machines = servers.enter_context(closing(Machines(tmp_path, url, broker.url)))
    api, workers = machines.api(), [machines.worker(), machines.worker()]
    with Clients(api) as clients:
        clients.wait_for(5)
        for worker in workers:  # it runs actions before it has reached the broker
            eventually(lambda: "receiving hints from" in worker.log.read_text(), "hints arrive")  # noqa: B023
        broker.stop()
        ends, before = time.monotonic() + OUTAGE, ended(store)
        clients.wait_for(10)
        eventually(lambda: ended(store) >= before + 10, "work goes on")
        clients.pause = 2.0  # some work all the time, without keeping the other tests from theirs
        time.sleep(max(0, ends - time.monotonic()))
        clients.pause = 0.0
        broker.start()
        eventually(lambda: "the broker takes hints again" in api.log.read_text(), "hints are sent again")
        for worker in workers:
            eventually(lambda: worker.log.read_text().count("receiving hints from") > 1, "hints arrive")  # noqa: B023
        clients.wait_for(5)
    assert clients.unanswered == 0
    assert set(clients.answers) <= {200, 201, 202, 204, 404, 409}
    judge(store, machines.files, clients.accepted, machines.orphans)


@pytest.mark.parametrize("url", [on("PostgreSQL")], indirect=True)
def test_the_api_is_killed_between_commit_and_dispatch(machines: Machines, store: Store) -> None:
    """Processes end after a few requests; gunicorn's first process starts others."""
    path = os.pathsep.join(map(str, (HOOKS, ROOT, EXAMPLE_PLUGIN)))
    api = machines.api(PYTHONPATH=path, FAULTS_DIE_AT="3")
    machines.worker()
    with Clients(api, count=2) as clients:
        eventually(lambda: clients.unanswered >= 5, "it dies, again and again")
    judge(store, machines.files, clients.accepted, machines.orphans)
    unheard = {action_id for (action_id,) in store.database.read("SELECT id FROM action WHERE parent_id IS NULL")}
    assert unheard - set(clients.accepted), "what was committed, and nobody was told of"


@pytest.mark.slow
@pytest.mark.parametrize("url", [on("PostgreSQL")], indirect=True)
def test_messages_that_come_twice_late_or_never(
    machines: Machines, servers: ExitStack, url: str, redis: Server, store: Store
) -> None:
    from heatlite.engine.dispatch.distributed import CeleryDispatcher

    api = machines.api(HEATLITE_QUEUE_PREFIX="nobody")  # never: nobody reads those queues
    for _ in range(2):
        machines.worker()
    sender = servers.enter_context(closing(CeleryDispatcher(Settings(url, broker=redis.url), redis.url)))
    with Clients(api) as clients:
        sent = 0
        while sent < 40:
            fresh = clients.accepted[sent:]
            for action_id in fresh * 5 + clients.accepted[::7]:  # twice, and late
                sender.announce(Announcement(action_id, WorkKind.STACK, None, True))
            sent += len(fresh)
            time.sleep(0.02)
    judge(store, machines.files, clients.accepted, machines.orphans)
    assert machines.complaints() == ""


def test_everybody_claims_the_same(url: str, store: Store, files: Path) -> None:
    """Concurrent claims, half of them by name: one gets the action."""
    rounds, workers = 20, 8
    barrier = threading.Barrier(workers)
    with closing(wiring.api(Settings(database=url))) as api:
        for number in range(rounds):
            ask(api, OPERATIONS["create"], f"s{number}", "nowhere")
    wanted = [action_id for (action_id,) in store.database.read("SELECT id FROM action ORDER BY seq")]

    def claim(number: int) -> list[str]:
        got = []
        for action_id in wanted:
            barrier.wait(240)
            named = action_id if number % 2 else None
            found = claim_one(store, f"worker {number}", time.time(), 60, action_id=named)
            got += [found.id] if found else []
        store.database.close()
        return got

    with ThreadPoolExecutor(workers) as pool:
        claimed = [action_id for got in pool.map(claim, range(workers)) for action_id in got]
    assert sorted(claimed) == sorted(wanted)
