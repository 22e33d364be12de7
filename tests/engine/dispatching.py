"""How the engine's tests hear of work: within one process, or with HEATLITE_TEST_ENGINE_BROKER=RabbitMQ (or Redis)
through that broker.

Then requests are taken by one side and carried out by another, as on two machines: they share the database and the
broker's queues, and nothing else. Celery takes longer to start than most tests, so each process of the tests has one
connection that sends and one that receives, and what they serve changes from engine to engine.
"""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from heatlite.core.config import Settings
from heatlite.engine.dispatch import Dispatcher, WorkerPort
from heatlite.store.records import Announcement
from tests.brokers import broker

NAME = os.environ.get("HEATLITE_TEST_ENGINE_BROKER")


class Relay:
    """In the worker's place: passes on to that of the engine that there is now. Without one a hint is lost, as hints
    may be."""

    def __init__(self) -> None:
        self._worker: WorkerPort | None = None
        self._thread: ThreadPoolExecutor | None = None
        """Ends with the engine, and with it the thread's connection to the engine's database."""
        self._lock = threading.Lock()

    def begin(self, worker: WorkerPort) -> None:
        with self._lock:
            self._worker, self._thread = worker, ThreadPoolExecutor(1, "hint")

    def end(self) -> None:
        with self._lock:
            self._worker = None
            if self._thread is not None:
                self._thread.shutdown()
                self._thread = None

    def wake(self) -> None:
        worker = self._worker
        if worker is not None:
            worker.wake()

    def take(self, action_id: str) -> None:
        with self._lock:
            if self._worker is not None and self._thread is not None:
                self._thread.submit(self._worker.take, action_id).result()


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

    def attach(self, worker: WorkerPort) -> None:
        self._has_worker = True
        self._relay.begin(worker)

    def detach(self) -> None:
        if self._has_worker:
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
    with broker(name) as found:
        settings = Settings("sqlite:///unused", broker=found.url, queue_prefix=found.prefix)
        requests, work, relay = real(settings, found.url), real(settings, found.url), Relay()
        work.attach(relay)
        distributed.CeleryDispatcher = lambda *_: Kept(requests, work, relay)  # type: ignore[assignment, misc]
        try:
            yield {"broker": found.url, "queue_prefix": found.prefix}
        finally:
            distributed.CeleryDispatcher = real  # type: ignore[misc]
            for one in (work, requests):
                one.detach()
                one.close()


DISPATCHING = Dispatching()
