"""The dispatcher for many machines, with real brokers: what is announced reaches a worker, whatever the broker does."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from heatlite.core.config import BadSetting, Settings
from heatlite.core.status import Kind
from heatlite.store.records import Announcement
from tests.brokers import Broker, NoBroker, OwnBroker, own

pytest.importorskip("celery", reason="celery is not installed (extra `distributed`)")

from heatlite.engine.dispatch import distributed
from heatlite.engine.dispatch.distributed import CeleryDispatcher

SECONDS = 60

RABBITMQ_TAKES_ITS_TIME = pytest.mark.full


class Recorder:
    """In a worker's place: keeps what it is called for."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.woken = 0

    def take(self, action_id: str) -> None:
        self.taken.append(action_id)

    def wake(self) -> None:
        self.woken += 1

    def has(self, *action_ids: str) -> bool:
        return set(action_ids) <= set(self.taken)


def eventually(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < end, "never happened"
        time.sleep(0.005)


def ready(action_id: str, kind: Kind = Kind.STACK, zone: str | None = None) -> Announcement:
    return Announcement(action_id, kind, zone, True)


class Machines:
    """Dispatchers as on several machines, all in this process."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self.prefix = prefix
        self._all: list[CeleryDispatcher] = []

    def api(self) -> CeleryDispatcher:
        """A machine without a worker."""
        settings = Settings("sqlite:///unused", broker=self.url, queue_prefix=self.prefix)
        self._all.append(CeleryDispatcher(settings, self.url))
        return self._all[-1]

    def worker(self, *kinds: str, zone: str | None = None) -> Recorder:
        """A machine with one."""
        recorder = Recorder()
        settings = Settings("sqlite:///unused", queue_prefix=self.prefix, worker_kinds=kinds, worker_zone=zone)
        self._all.append(CeleryDispatcher(settings, self.url))
        self._all[-1].attach(recorder)
        return recorder

    def close(self) -> None:
        for one in self._all:
            one.detach()
            one.close()


@pytest.fixture
def machines(broker: Broker) -> Iterator[Machines]:
    made = Machines(broker.url, broker.prefix)
    yield made
    made.close()


def test_a_message_is_an_id_and_goes_to_the_queue_of_its_kind_and_zone(machines: Machines, broker: Broker) -> None:
    sender = machines.api()
    sender.announce(ready("a"))
    sender.announce(ready("b", Kind.CHECK))
    sender.announce(ready("c", Kind.CHECK, "north"))
    sender.announce(Announcement("d", Kind.STACK, None, is_ready=False))
    sender.close()
    for queue, action_id in (("stack", "a"), ("check", "b"), ("check.north", "c")):
        ((body, headers),) = broker.messages(queue)
        arguments, named, _ = body
        assert (arguments, named, headers["task"]) == ([action_id], {}, "heatlite.take")


def test_workers_get_what_they_are_for(machines: Machines) -> None:
    anybody, checks, north = machines.worker(), machines.worker("check", zone="south"), machines.worker(zone="north")
    sender = machines.api()
    for number in range(12):
        sender.announce(ready(f"stack {number}"))
        sender.announce(ready(f"north {number}", zone="north"))
        sender.announce(ready(f"south {number}", Kind.CHECK, "south"))
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


def test_the_worker_of_the_same_process_is_called_directly(machines: Machines) -> None:
    recorder = Recorder()
    both = machines.api()
    both.attach(recorder)
    both.announce(Announcement("a", Kind.STACK, None, is_ready=False))
    assert recorder.woken == 1
    both.announce(ready("b"))
    assert recorder.woken == 2
    eventually(lambda: recorder.has("b"))
    assert recorder.taken == ["b"]


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
    class Failing(Recorder):
        def take(self, action_id: str) -> None:
            super().take(action_id)
            if action_id == "bad":
                raise RuntimeError("a fault of ours")

    recorder, machine = Failing(), machines.api()
    machine.attach(recorder)
    machine.announce(ready("bad"))
    machine.announce(ready("good"))
    eventually(lambda: recorder.has("good"))
    assert recorder.taken == ["bad", "good"]


def test_who_has_stopped_takes_nothing(machines: Machines) -> None:
    recorder, machine = Recorder(), machines.api()
    machine.attach(recorder)
    machine.announce(ready("a"))
    eventually(lambda: recorder.has("a"))
    machine.detach()
    machine.announce(ready("b"))
    other = machines.worker()
    eventually(lambda: other.has("b"))
    assert recorder.taken == ["a"]


@pytest.fixture(params=["Redis", pytest.param("RabbitMQ", marks=RABBITMQ_TAKES_ITS_TIME)])
def own_broker(request: pytest.FixtureRequest) -> Iterator[OwnBroker]:
    """A broker that the test stops and starts."""
    try:
        found = own(request.param)
    except NoBroker as error:
        pytest.skip(str(error))
    yield found
    found.close()


def test_a_broker_that_is_away_at_first_and_later(own_broker: OwnBroker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    machines = Machines(own_broker.url, "heatlite")
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
            assert caplog.text.count("the broker takes no hints") == 1
            assert caplog.text.count("cannot reach the broker") <= 1
            assert "the broker takes hints again" in caplog.text
            own_broker.stop()
            caplog.clear()
    finally:
        machines.close()
    assert not [one.name for one in threading.enumerate() if one.name in ("hints", "receiver")]


def test_a_connection_that_has_gone_stale_meanwhile_loses_no_hint(own_broker: OwnBroker) -> None:
    machines = Machines(own_broker.url, "heatlite")
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


@pytest.mark.parametrize("broker", ["kafka://host", "host:5672", ""])
def test_other_brokers_are_refused(broker: str) -> None:
    with pytest.raises(BadSetting, match=r"broker: unknown kind .*use amqp://"):
        CeleryDispatcher(Settings("sqlite:///unused"), broker)


def test_a_url_that_makes_no_sense_is_refused_without_its_password() -> None:
    with pytest.raises(BadSetting, match=r"broker: the URL cannot be read; one looks like amqp://") as error:
        CeleryDispatcher(Settings("sqlite:///unused"), "amqp://me:secret/word@host/")
    assert "secret" not in error.value.message


@pytest.mark.parametrize("broker", ["RabbitMQ"], indirect=True)
def test_a_broker_that_lets_nobody_in_is_asked_again_and_told_of_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    for url in (broker.url.replace("guest:guest", "guest:wrong"), broker.url.rstrip("/") + "/nowhere"):
        caplog.clear()
        machines = Machines(url, broker.prefix)
        try:
            machines.worker()
            machines.api().announce(ready("a"))
            eventually(lambda: "cannot reach the broker" in caplog.text and "takes no hints" in caplog.text)
            time.sleep(2.5)
            assert len(caplog.records) == 2, caplog.text
        finally:
            machines.close()
