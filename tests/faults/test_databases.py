"""A database that goes away under load, and comes back."""

import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.status import state
from heatlite.store.store import Store
from tests.databases import EACH_SERVER, whole
from tests.faults.conftest import LEASE, begin
from tests.faults.judgement import come_to_rest, judge
from tests.faults.machines import Clients, Machines
from tests.faults.operations import OPERATIONS, ask, find, prepare
from tests.faults.proxy import Proxy
from tests.faults.servers import KINDS, Redis


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    with closing(Proxy(url, every=7)) as found:
        yield found


@pytest.mark.parametrize("url", EACH_SERVER, indirect=True)
def test_nobody_answers_a_commit(store: Store, proxy: Proxy, files: Path) -> None:
    """The commit's outcome is unknown; nothing is done twice or left out."""
    rounds = 4
    with (
        closing(wiring.api(Settings(database=store.database.url, lease_seconds=600.0))) as api,
        closing(wiring.embedded(Settings(database=proxy.url, lease_seconds=LEASE))),
    ):
        asked = [(operation, f"{name}-{number}") for name, operation in OPERATIONS.items() for number in range(rounds)]
        for operation, stack in asked:
            prepare(api, operation, stack, "anywhere")
        come_to_rest(store)
        for operation, stack in asked:
            ask(api, operation, stack, "anywhere")
        judge(store, files)
        for operation, stack in asked:
            found = find(api, stack)
            assert found is not None
            assert state(found.verb, found.status) in operation.states, f"{stack}: {found.status_reason}"
    assert proxy.unheard > rounds
    assert proxy.unanswered > rounds


@pytest.mark.slow
@pytest.mark.parametrize("kind", EACH_SERVER)
def test_restarted_under_load(servers: ExitStack, kind: str, tmp_path: Path) -> None:
    """In good order, and by kill -9."""
    database, broker = begin(servers, KINDS[kind]), begin(servers, Redis)
    store = whole(database.url)
    servers.callback(store.database.close)
    store.upgrade()
    machines = servers.enter_context(closing(Machines(tmp_path, database.url, broker.url)))
    api = machines.api()
    for _ in range(2):
        machines.worker()
    with Clients(api) as clients:
        for how in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
            clients.wait_for(10)
            database.stop(how)
            time.sleep(1)
            database.start()
        clients.wait_for(10)
    judge(store, machines.files, clients.accepted, machines.orphans)
    assert machines.complaints() == ""
