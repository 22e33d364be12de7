"""A worker frozen (SIGSTOP) past its lease, taken over, and then woken."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from heatlite.store.store import Store
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT, Worker
from tests.databases import on
from tests.faults.conftest import LEASE, begin
from tests.faults.judgement import come_to_rest, judge
from tests.faults.machines import Clients, Machines
from tests.faults.servers import Redis
from tests.processes import freeze
from tests.waiting import eventually

pytestmark = [
    pytest.mark.skipif(find_spec("celery") is None, reason="celery is not installed (extra `distributed`)"),
    pytest.mark.parametrize("url", [on("PostgreSQL")], indirect=True),
]

TYPES = Path(__file__).parent / "types"
PATH = os.pathsep.join(map(str, (TYPES, ROOT, EXAMPLE_PLUGIN)))


@pytest.fixture
def machines(servers: ExitStack, tmp_path: Path, url: str) -> Machines:
    broker = begin(servers, Redis)
    return servers.enter_context(closing(Machines(tmp_path, url, broker.url, path=PATH)))


@contextmanager
def frozen(worker: Worker) -> Iterator[None]:
    freeze(worker.process.pid)
    try:
        yield
    finally:
        os.killpg(worker.process.pid, signal.SIGCONT)


def lost(store: Store) -> int:
    """Number of takeovers of an action."""
    before, after = store.database.quote("before"), store.database.quote("after")
    ((count,),) = store.database.read(
        f"SELECT COUNT(*) FROM transition WHERE {before} = 'RUNNING' AND {after} = 'RUNNING'"
    )
    return int(count)


@pytest.mark.slow
def test_frozen_under_load(machines: Machines, store: Store) -> None:
    api, workers = machines.api(), [machines.worker(), machines.worker()]
    with Clients(api, count=4) as clients:
        for worker in workers * 8:
            clients.wait_for(4)
            with frozen(worker):
                time.sleep(LEASE + 1.5)  # the other looks once a second
            if lost(store) > 2:
                break
    assert lost(store), "the frozen ones have had something to do"
    judge(store, machines.files, clients.accepted, machines.orphans)
    assert machines.complaints() == ""


SLOW = {"before": {"before": True}, "after": {"after": True}, "deleted": {"before": True}}
"""Properties by which a handler waits before or after it makes its object, until its worker is frozen."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", SLOW)
def test_frozen_while_a_handler_is_called(machines: Machines, store: Store, moment: str) -> None:
    """Frozen before or after it makes its object, or until after the stack is gone.

    What it makes then is found by the other worker, or is removed by the one who has made it.
    """
    template = {"heat_template_version": "2021-04-16", "resources": {"slow": {"type": "Faults::Slow"}}}
    template["resources"]["slow"]["properties"] = SLOW[moment]  # type: ignore[index]
    files = machines.files
    api, first = machines.api(), machines.worker()
    path = api.create("s", template)
    journal = files / ("made" if moment == "after" else "calls")
    eventually(journal.exists, "the handler is called")
    with frozen(first):
        (files / "open").touch()
        machines.worker()
        assert api.settled(path) == "CREATE_COMPLETE"
        if moment == "deleted":
            assert api.request("DELETE", path).status == 204
            assert api.settled(path) == "DELETE_COMPLETE"
    eventually(lambda: "taken over by another engine" in first.log.read_text(), "it has heard of it")
    come_to_rest(store)
    kept = set() if moment == "deleted" else {api.resources(path)["slow"]}
    kept |= {"calls", "made", "open"}
    made = 1 if moment == "after" else 2
    # The thread of the handler may go on after the loop that has heard of the takeover.
    eventually(lambda: len((files / "made").read_text().split()) == made, "each call has made its object")
    eventually(lambda: {one.name for one in files.iterdir()} == kept, "what nobody knows of is removed")
    judge(store, files / "nothing")
    assert machines.complaints() == ""
