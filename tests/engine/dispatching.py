"""Dispatch of the engine's tests: in one process or by a broker.

HEATLITE_TEST_ENGINE_BROKER=RabbitMQ (or Redis) selects the broker. Then one side takes requests and another carries
them out. They share only the database and the broker's queues. Each test process has one connection that sends and one
that receives, for all its engines. A worker program has a process of its own (tests/services, tests/faults), so the
receiver here is less: a thread that passes on what the messages name.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from heatlite.core.config import Settings
from heatlite.core.status import WorkKind
from heatlite.engine.dispatch import Dispatcher, WorkerPort
from heatlite.store.records import Announcement
from tests.brokers import Broker, broker

NAME = os.environ.get("HEATLITE_TEST_ENGINE_BROKER")


class Relay:
    """In the worker's place: passes on to that of the engine that there is now.

    Without one a hint is lost, as hints may be.
    """

    def __init__(self) -> None:
        self._worker: WorkerPort | None = None
        self._lock = threading.Lock()

    def begin(self, worker: WorkerPort) -> None:
        with self._lock:
            self._worker = worker

    def end(self) -> None:
        """Take nothing more."""
        with self._lock:
            self._worker = None

    def wake(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.wake()

    def take(self, action_id: str) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.take(action_id)


class Kept:
    """A dispatcher for one engine, by what stays for the next."""

    def __init__(self, requests: Dispatcher, work: Dispatcher, relay: Relay) -> None:
        self.claim_filter = work.claim_filter
        self._requests = requests
        self._work = work
        self._relay = relay
        self._is_open = True
        self._has_worker = False

    def announce(self, announcement: Announcement) -> None:
        if not announcement.is_ready:
            # The worker would see what is asked of an action within a second; these tests' clocks wait for nobody.
            self._relay.wake()
        elif self._is_open:
            (self._work if self._has_worker else self._requests).announce(announcement)

    @property
    def worker(self) -> WorkerPort | None:
        return None

    @worker.setter
    def worker(self, worker: WorkerPort | None) -> None:
        if worker is not None:
            self._has_worker = True
            self._relay.begin(worker)
        elif self._has_worker:
            self._relay.end()

    def close(self) -> None:
        self._is_open = False


class Dispatching:
    """Objects shared by the engines of this process."""

    def __init__(self) -> None:
        self._made = ExitStack()
        self._broker: dict[str, str] | None = None

    @property
    def settings(self) -> dict[str, str]:
        """For an engine: what is to be set beside its database."""
        if NAME is None:
            return {}
        if self._broker is None:
            self._broker = self._made.enter_context(_through(NAME))
        return self._broker

    def close(self) -> None:
        """Leave nothing in the broker."""
        self._made.close()


@contextmanager
def _through(name: str) -> Iterator[dict[str, str]]:
    """Have engines use this broker, with queues of this process. Raises NoBroker."""
    from heatlite.engine.dispatch import distributed

    real = distributed.CeleryDispatcher
    with broker(name) as found, _receiving(found, relay := Relay()):
        settings = Settings("sqlite:///unused", broker=found.url, queue_prefix=found.prefix)
        requests, work = real(settings, found.url), real(settings, found.url)
        distributed.CeleryDispatcher = lambda *_: Kept(requests, work, relay)  # type: ignore[assignment, misc]
        try:
            yield {"broker": found.url, "queue_prefix": found.prefix}
        finally:
            distributed.CeleryDispatcher = real  # type: ignore[misc]
            for one in (work, requests):
                one.close()


@contextmanager
def _receiving(found: Broker, relay: Relay) -> Iterator[None]:
    """Have a thread pass on the messages of the broker."""
    from kombu import Connection, Consumer, Message, Queue
    from kombu.mixins import ConsumerMixin

    class Receiver(ConsumerMixin):  # type: ignore[misc]  # kombu has no types
        def __init__(self, connection: Connection) -> None:
            self.connection = connection

        def get_consumers(self, consumer: type[Consumer], _channel: object) -> list[Consumer]:
            queues = [Queue(f"{found.prefix}.{kind}", routing_key=f"{found.prefix}.{kind}") for kind in WorkKind]
            return [consumer(queues, callbacks=[self.receive], accept=["json"])]

        def receive(self, body: list[list[str]], message: Message) -> None:
            message.ack()
            relay.take(body[0][0])

    with found.connection() as connection:
        receiver = Receiver(connection)
        thread = threading.Thread(target=receiver.run, name="receiver")
        thread.start()
        try:
            yield
        finally:
            receiver.should_stop = True
            thread.join()


DISPATCHING = Dispatching()
