"""The worker as a Celery program: what Celery's tools show of it, and do to it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.config import Settings
from heatlite.core.status import ActionStatus
from heatlite.store.store import Store
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT, START_SECONDS, CeleryWorker, Server
from tests.brokers import Broker
from tests.databases import on
from tests.waiting import eventually

pytest.importorskip("celery", reason="celery is not installed (extra `distributed`)")

from celery import Celery

from heatlite.engine.dispatch.distributed import application

SIMPLE = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::RandomString"}}}
WAITING = {
    "heat_template_version": "2021-04-16",
    "resources": {"a": {"type": "OS::Heat::TestResource", "properties": {"wait_secs": 600}}},
}

PLACES = [on("PostgreSQL", "RabbitMQ"), on("MariaDB", "Redis")]
pytestmark = pytest.mark.parametrize(("server", "broker"), PLACES, indirect=True)


BLOCKING = {
    "heat_template_version": "2021-04-16",
    "resources": {
        "slow": {"type": "Faults::Slow", "properties": {"before": True}},
        "after": {"type": "OS::Heat::RandomString", "depends_on": "slow"},
    },
}
"""Keeps its slot until there is a file `open`."""
TYPES = os.pathsep.join(map(str, (ROOT / "tests" / "faults" / "types", ROOT, EXAMPLE_PLUGIN)))


class Installation:
    """An API, a worker of one slot by the command `celery`, and Celery's view."""

    def __init__(self, home: Path, url: str, broker: Broker) -> None:
        variables = {"HEATLITE_BROKER": broker.url, "HEATLITE_QUEUE_PREFIX": broker.prefix, "PYTHONPATH": TYPES}
        self.prefix = broker.prefix
        self.files = home / "files"
        self.api = Server(home, 0, "api", url, **variables)
        self.api.patient = True
        self.worker = CeleryWorker(home, url, "-c", "1", **variables)
        self.celery: Celery = application(Settings(url, broker=broker.url, queue_prefix=broker.prefix), broker.url)

    def active(self) -> list[dict[str, Any]]:
        """The tasks that `celery inspect active` shows."""
        return [one for shown in (self.celery.control.inspect().active() or {}).values() for one in shown]

    def action(self, path: str) -> str:
        """The id of the latest action of a stack."""
        return str(self.api.listed(path, "actions")[0]["id"])

    def close(self) -> None:
        for process in (self.worker, self.api):
            process.kill()


@pytest.fixture
def installation(tmp_path: Path, url: str, broker: Broker) -> Iterator[Installation]:
    made = Installation(tmp_path, url, broker)
    yield made
    made.close()


def test_celery_shows_the_actions_that_run_with_their_stacks(installation: Installation, store: Store) -> None:
    api = installation.api
    waiting, running = api.create("waiting", WAITING), api.create("web", BLOCKING)
    shown: list[dict[str, Any]] = []

    def is_shown() -> bool:
        shown[:] = installation.active()
        return [one["kwargs"] for one in shown] == [{"stack": "web", "verb": "CREATE"}]

    eventually(is_shown, "the action with a slot is shown, the one that waits is not")
    (action,) = store.actions.live([running.rpartition("/")[2]])
    assert [(one["id"], one["name"], one["args"]) for one in shown] == [(action.id, "heatlite.take", [action.id])]
    third = api.create("third", BLOCKING)
    (parked,) = store.actions.live([waiting.rpartition("/")[2]])
    assert parked.status is ActionStatus.RUNNING, "its worker keeps the lease"
    assert [one.status for one in store.actions.live([third.rpartition("/")[2]])] == [ActionStatus.READY], "no slot"
    installation.worker.process.send_signal(signal.SIGTERM)
    eventually(lambda: "Warm shutdown" in installation.worker.log.read_text(), "it drains")
    (installation.files / "open").touch()
    assert installation.worker.process.wait(START_SECONDS) == 0
    stacks = [path.rpartition("/")[2] for path in (waiting, running, third)]
    assert {one.status for one in store.actions.live(stacks)} == {ActionStatus.READY}, "given back"
    assert installation.worker.complaints() == ""


def test_revoke_cancels(installation: Installation, store: Store) -> None:
    path = installation.api.create("s", WAITING)
    (action,) = store.actions.live([path.rpartition("/")[2]])
    eventually(lambda: store.actions.live([action.stack_id])[0].attempt == 1, "it is claimed")
    installation.celery.control.revoke(action.id)
    assert installation.api.settled(path) == "CREATE_FAILED"
    ended = store.actions.get(action.id)
    assert ended is not None
    assert ended.status is ActionStatus.CANCELLED


def test_a_worker_works_on_the_queues_that_it_consumes_from(installation: Installation, store: Store) -> None:
    api, control = installation.api, installation.celery.control
    north = api.create("n", SIMPLE, tags="zone:north")
    assert api.settled(api.create("p", SIMPLE)) == "CREATE_COMPLETE"
    assert [one.status for one in store.actions.live([north.rpartition("/")[2]])] == [ActionStatus.READY]
    control.add_consumer(f"{installation.prefix}.stack.north", reply=True)
    assert api.settled(north) == "CREATE_COMPLETE"
