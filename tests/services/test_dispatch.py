"""Dispatch over real brokers: announced work reaches a worker despite faults."""

import logging
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from heatlite.core.config import BadSetting, Settings
from heatlite.core.status import WorkKind
from heatlite.store.records import Announcement
from tests.acceptance.processes import environment
from tests.brokers import Broker, NoBroker, OwnBroker, own
from tests.databases import on
from tests.waiting import eventually

pytest.importorskip("celery", reason="celery is not installed (extra `distributed`)")

from kombu import Connection, Message

from heatlite.engine.dispatch import distributed
from heatlite.engine.dispatch.distributed import CeleryDispatcher

SECONDS = 240
"""Longest wait: a broker starts slowly on a busy machine."""

RABBITMQ_TAKES_ITS_TIME = (pytest.mark.slow, pytest.mark.rabbitmq)


class Recorder:
    """A worker program that records what it is to take (`recording_worker.py`)."""

    def __init__(self, home: Path, settings: dict[str, str]) -> None:
        number = sum(1 for _ in home.glob("*.log"))
        self._taken, self._log = home / f"taken-{number}", home / f"worker-{number}.log"
        self._taken.touch()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.services.recording_worker", str(self._taken)],
                cwd=home,
                env=environment(home, **settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def taken(self) -> list[str]:
        return self._taken.read_text().splitlines()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def has(self, *action_ids: str) -> bool:
        return set(action_ids) <= set(self.taken)

    def wait(self) -> None:
        """Until it receives messages."""
        eventually(lambda: "receiving hints from" in self.log)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            assert self._process.wait(SECONDS) == 0, self.log
        finally:
            self.kill()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()


class Woken:
    """In a worker's place: counts its wake-ups."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def take(self, action_id: str) -> None:
        raise AssertionError(f"{action_id}: it polls the table")


def ready(action_id: str, kind: WorkKind = WorkKind.STACK, zone: str | None = None) -> Announcement:
    return Announcement(action_id, kind, zone, True)


class Machines:
    """APIs in this process, workers in processes of their own."""

    def __init__(self, home: Path, url: str, prefix: str) -> None:
        self._home = home
        self._url = url
        self._prefix = prefix
        self._all: list[CeleryDispatcher] = []
        self._workers: list[Recorder] = []

    def api(self, stack_name: Callable[[str], str | None] = lambda _: None) -> CeleryDispatcher:
        """A machine without a worker."""
        settings = Settings("sqlite:///unused", broker=self._url, queue_prefix=self._prefix)
        self._all.append(CeleryDispatcher(settings, self._url, stack_name))
        return self._all[-1]

    def worker(self, *kinds: str, zone: str | None = None) -> Recorder:
        """A machine with one."""
        settings = {"HEATLITE_BROKER": self._url, "HEATLITE_QUEUE_PREFIX": self._prefix}
        if kinds:
            settings["HEATLITE_WORKER_KINDS"] = ",".join(kinds)
        if zone is not None:
            settings["HEATLITE_WORKER_ZONE"] = zone
        self._workers.append(Recorder(self._home, settings))
        return self._workers[-1]

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        for one in self._all:
            one.worker = None
            one.close()


@pytest.fixture
def machines(broker: Broker, tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path, broker.url, broker.prefix)
    yield made
    made.close()


def test_a_message_is_an_id_and_goes_to_the_queue_of_its_kind_and_zone(machines: Machines, broker: Broker) -> None:
    sender = machines.api()
    sender.announce(ready("a"))
    sender.announce(ready("b", WorkKind.CHECK))
    sender.announce(ready("c", WorkKind.CHECK, "north"))
    sender.announce(Announcement("d", WorkKind.STACK, None, is_ready=False))
    sender.close()
    for queue, action_id in (("stack", "a"), ("check", "b"), ("check.north", "c")):
        ((body, headers),) = broker.messages(queue)
        arguments, named, _ = body
        assert (arguments, named, headers["task"]) == ([action_id], {}, "heatlite.take")
        assert headers["expires"] is not None, "Celery drops a late one"


def test_a_message_has_the_name_of_its_stack_for_monitors(machines: Machines, broker: Broker) -> None:
    sender = machines.api({"1": "web"}.get)
    sender.announce(Announcement("a", WorkKind.STACK, None, True, "1", "UPDATE"))
    sender.announce(Announcement("b", WorkKind.STACK, None, True, "2", "UPDATE"))
    sender.close()
    (known, headers), (unknown, _) = broker.messages("stack")
    assert known[:2] == [["a"], {"stack": "web", "verb": "UPDATE"}]
    assert headers["id"] == "a", "an operator revokes an action by its id"
    assert unknown[:2] == [["b"], {}]


def test_workers_get_what_they_are_for(machines: Machines) -> None:
    anybody, checks, north = machines.worker(), machines.worker("check", zone="south"), machines.worker(zone="north")
    sender = machines.api()
    for number in range(12):
        sender.announce(ready(f"stack {number}"))
        sender.announce(ready(f"north {number}", zone="north"))
        sender.announce(ready(f"south {number}", WorkKind.CHECK, "south"))
    eventually(lambda: len(anybody.taken) + len(checks.taken) + len(north.taken) >= 36)
    assert sorted(checks.taken) == sorted(f"south {number}" for number in range(12))
    assert {f"north {number}" for number in range(12)} <= set(north.taken)
    assert not [found for found in (*anybody.taken, *checks.taken) if found.startswith("north")]
    assert sorted((*anybody.taken, *north.taken)) == sorted(
        [*(f"stack {number}" for number in range(12)), *(f"north {number}" for number in range(12))]
    )


def test_two_workers_share(machines: Machines) -> None:
    one, other = machines.worker(), machines.worker()
    sender = machines.api()

    def both() -> bool:
        sender.announce(ready("more"))
        return bool(one.taken and other.taken)

    eventually(both)


def test_the_worker_of_the_same_process_is_called_directly(machines: Machines, broker: Broker) -> None:
    worker, both = Woken(), machines.api()
    both.worker = worker
    both.announce(Announcement("a", WorkKind.STACK, None, is_ready=False))
    assert worker.woken == 1
    both.announce(ready("b"))
    assert worker.woken == 2
    both.close()
    assert len(broker.messages("stack")) == 1, "others are told as well"


def test_what_comes_late_is_not_taken(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "MESSAGE_TTL", 1)
    sender = machines.api()
    sender.announce(ready("late"))
    sender.close()
    time.sleep(1.5)
    monkeypatch.undo()
    machines.api().announce(ready("fresh"))
    recorder = machines.worker()
    eventually(lambda: recorder.has("fresh"))
    assert recorder.taken == ["fresh"]


def test_a_worker_that_fails_gets_the_next(machines: Machines) -> None:
    worker, sender = machines.worker(), machines.api()
    sender.announce(ready("bad"))
    sender.announce(ready("good"))
    eventually(lambda: worker.has("bad", "good"))
    assert sorted(worker.taken) == ["bad", "good"]


def test_who_has_stopped_takes_nothing(machines: Machines) -> None:
    worker, sender = machines.worker(), machines.api()
    sender.announce(ready("a"))
    eventually(lambda: worker.has("a"))
    worker.stop()
    sender.announce(ready("b"))
    other = machines.worker()
    eventually(lambda: other.has("b"))
    assert worker.taken == ["a"]


@pytest.fixture(params=[on("Redis"), pytest.param("RabbitMQ", marks=RABBITMQ_TAKES_ITS_TIME)])
def own_broker(request: pytest.FixtureRequest) -> Iterator[OwnBroker]:
    """A broker that the test stops and starts."""
    try:
        found = own(request.param)
    except NoBroker as error:
        pytest.skip(str(error))
    yield found
    found.close()


def assert_told_once(log: str, lost: str, found: str) -> None:
    """Each loss is told of once, however often the connection is tried."""
    told = re.findall(f"{lost}|{found}", log)
    assert (lost, lost) not in pairwise(told), log


def test_a_broker_that_is_away_at_first_and_later(
    own_broker: OwnBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    machines = Machines(tmp_path, own_broker.url, "heatlite")
    try:
        recorder, sender = machines.worker(), machines.api()
        for round_ in ("first", "second"):
            for number in range(1000):
                sender.announce(ready(f"lost {number}"))
            eventually(lambda: "the broker takes no hints" in caplog.text)
            own_broker.start()

            def arrives(action_id: str = round_) -> bool:
                sender.announce(ready(action_id))
                time.sleep(0.1)
                return recorder.has(action_id)

            eventually(arrives)
            eventually(lambda: "the broker takes hints again" in caplog.text)
            assert_told_once(caplog.text, "the broker takes no hints", "the broker takes hints again")
            assert_told_once(recorder.log, "cannot reach the broker", "receiving hints from")
            caplog.clear()  # what is still queued may fail as soon as the broker stops
            own_broker.stop()
    finally:
        machines.close()
    assert not [one.name for one in threading.enumerate() if one.name == "hints"]


@pytest.mark.parametrize("own_broker", [on("Redis")], indirect=True)
def test_a_failed_acknowledgement_does_not_keep_a_worker_from_reconnecting(own_broker: OwnBroker) -> None:
    """Celery closes a lost connection; an error of kombu would end the worker then."""
    own_broker.start()
    own_broker.wait()
    settings = Settings("sqlite:///unused", broker=own_broker.url)
    app = distributed.application(settings, own_broker.url)
    connection, taken = app.connection_for_read(), list[Message]()
    consumer = app.amqp.TaskConsumer(connection, on_message=taken.append)
    consumer.qos(prefetch_count=2)
    consumer.consume()
    app.control.mailbox.Node("worker", channel=connection.channel()).listen()
    sender = CeleryDispatcher(settings, own_broker.url)
    sender.announce(ready("a"))
    sender.close()
    eventually(lambda: bool(_drain(connection) or taken))
    _drain(connection)  # from now on it waits for the next one
    own_broker.stop(signal.SIGKILL)
    taken[0].ack_log_error(logging.getLogger(__name__), connection.connection_errors)
    with suppress(*connection.connection_errors):
        connection.collect(socket_timeout=1)
    with suppress(*connection.connection_errors):
        connection.close()


def _drain(connection: Connection) -> None:
    with suppress(TimeoutError):
        connection.drain_events(timeout=0.1)


def test_a_connection_that_has_gone_stale_meanwhile_loses_no_hint(own_broker: OwnBroker, tmp_path: Path) -> None:
    machines = Machines(tmp_path, own_broker.url, "heatlite")
    try:
        own_broker.start()
        own_broker.wait()
        recorder, sender = machines.worker(), machines.api()
        sender.announce(ready("a"))
        eventually(lambda: recorder.has("a"))
        own_broker.stop()
        own_broker.start()
        own_broker.wait()
        sender.announce(ready("b"))
        eventually(lambda: recorder.has("b"))
    finally:
        machines.close()


def test_a_worker_ends_while_its_broker_is_frozen(own_broker: OwnBroker, tmp_path: Path) -> None:
    machines = Machines(tmp_path, own_broker.url, "heatlite")
    try:
        own_broker.start()
        own_broker.wait()
        worker = machines.worker()
        worker.wait()
        with own_broker.frozen():
            worker.stop()
    finally:
        machines.close()


@pytest.mark.parametrize("broker", ["kafka://host", "host:5672", ""])
def test_other_brokers_are_refused(broker: str) -> None:
    with pytest.raises(BadSetting, match=r"broker: unknown kind .*use amqp://"):
        CeleryDispatcher(Settings("sqlite:///unused"), broker)


def test_a_url_that_makes_no_sense_is_refused_without_its_password() -> None:
    with pytest.raises(BadSetting, match=r"broker: the URL cannot be read; one looks like amqp://") as error:
        CeleryDispatcher(Settings("sqlite:///unused"), "amqp://me:secret/word@host/")
    assert "secret" not in error.value.message


@pytest.mark.parametrize("broker", [on("RabbitMQ")], indirect=True)
def test_a_broker_that_lets_nobody_in_is_asked_again_and_told_of_once(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for url in (broker.url.replace("guest:guest", "guest:wrong"), broker.url.rstrip("/") + "/nowhere"):
        caplog.clear()
        machines = Machines(tmp_path, url, broker.prefix)
        try:
            worker = machines.worker()
            machines.api().announce(ready("a"))
            eventually(lambda: "cannot reach the broker" in worker.log and "takes no hints" in caplog.text)  # noqa: B023
            time.sleep(2.5)
            assert len(caplog.records) == 1, caplog.text
            assert worker.log.count("cannot reach the broker") == 1, worker.log
            assert "Traceback" not in worker.log
        finally:
            machines.close()
