"""Dispatcher for many machines: sends action ids by Celery (decision 0009).

A message is a hint. Its receiver claims the row, or finds it claimed, and acknowledges at once. So no message is held
while an action runs, and lost, late and duplicate messages do no harm.
"""

import importlib
import logging
import queue
import socket
import threading
import time
from collections.abc import Sequence

from celery import Celery
from celery.exceptions import WorkerShutdown
from celery.worker import WorkController
from celery.worker.consumer import Consumer
from kombu import Connection, Message, Queue
from kombu.exceptions import OperationalError

from heatlite.core import masking
from heatlite.core.config import BadSetting, Settings
from heatlite.core.status import Kind
from heatlite.engine.dispatch import ClaimFilter, WorkerPort
from heatlite.store.records import Announcement

log = logging.getLogger(__name__)

TASK = "heatlite.take"
"""Name of the Celery task."""

MESSAGE_TTL = 60
"""Seconds until a message expires. Polling workers have found the action long before."""

MAX_UNSENT = 10_000
"""Maximum of unsent messages; more are dropped."""

POLL_INTERVAL = 0.5
"""Seconds between two checks of the stop flag."""

RETRY_INTERVAL = 1
"""Seconds between two attempts to reach a broker."""

BROKER_TIMEOUT = 5
"""Timeout in seconds for the broker's answers, and for sending the last messages."""

TRANSPORTS = {"amqp": "amqp", "amqps": "amqp", "redis": "redis", "rediss": "redis"}
"""Scheme of the broker's URL → the package of its driver."""

KEEP_ALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 6}
"""TCP keepalive: detects a silently lost broker after two minutes."""


class CeleryDispatcher:
    """Sends hints to the workers of all machines and receives those for this process."""

    def __init__(self, settings: Settings, broker: str) -> None:
        """Start the sender thread. The broker need not be reachable yet.

        Raises BadSetting for an unusable URL.
        """
        self.check_broker(broker)
        self.claim_filter = ClaimFilter(settings.kinds, frozenset(filter(None, [settings.worker_zone])))
        self._prefix = settings.queue_prefix
        self._app = _application(broker, self._prefix)
        self._worker: WorkerPort | None = None
        self._receiver: _Receiver | None = None
        self._unsent: queue.SimpleQueue[Announcement | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, name="hints", daemon=True)
        self._sender.start()

    @staticmethod
    def check_broker(broker: str) -> None:
        """Raise BadSetting for an unusable broker URL."""
        scheme = masking.scheme(broker)
        if scheme not in TRANSPORTS:
            raise BadSetting(f"broker: unknown kind {scheme!r}; use amqp://user:password@host/vhost or redis://host/0.")
        try:
            importlib.import_module(TRANSPORTS[scheme])
        except ImportError:
            raise BadSetting(f"broker: {scheme}:// needs a package: pip install 'heatlite[distributed]'.") from None
        try:
            Connection(broker)
        except ValueError:
            # The error's text may contain a part of the password.
            raise BadSetting(
                f"broker: the URL cannot be read; one looks like {scheme}://user:password@host:1234/name,"
                " with %2F for a / in the password."
            ) from None

    def announce(self, announcement: Announcement) -> None:
        """Wake the worker of this process and queue the hint for all others.

        A worker elsewhere that runs the action polls its controls itself.
        """
        worker = self._worker
        if worker is not None:
            worker.wake()
        if announcement.is_ready and self._unsent.qsize() < MAX_UNSENT:
            self._unsent.put(announcement)

    def attach(self, worker: WorkerPort) -> None:
        """Receive hints for this worker, as soon as the broker is reachable."""
        self._worker = worker
        kinds, zones = sorted(self.claim_filter.kinds or Kind), sorted(self.claim_filter.zones or ())
        queues = [_queue(self._prefix, kind, zone) for kind in kinds for zone in (None, *zones)]
        self._receiver = _Receiver(self._app, queues, worker)
        self._receiver.start()

    def detach(self) -> None:
        """Stop receiving hints."""
        self._worker = None
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None

    def close(self) -> None:
        """Send the remaining hints, unless the broker takes too long."""
        self._unsent.put(None)
        self._sender.join(BROKER_TIMEOUT)

    def _send_all(self) -> None:
        connection = self._app.connection_for_write()
        errors = (OperationalError, *connection.connection_errors, *connection.channel_errors)
        is_away = False
        while (announcement := self._unsent.get()) is not None:
            try:
                self._send(announcement)
            except errors as error:
                if not is_away:
                    log.warning("the broker takes no hints; workers poll the table meanwhile: %s", error)
                is_away = True
                # Drop the queued hints: each might take as long to fail, and would delay those after the outage.
                while not self._unsent.empty() and announcement is not None:
                    announcement = self._unsent.get()
                if announcement is None:
                    return
            except Exception:
                # An unknown error of one hint must not stop the sender.
                log.exception("a hint cannot be sent")
            else:
                if is_away:
                    log.info("the broker takes hints again")
                is_away = False

    def _send(self, announcement: Announcement) -> None:
        self._app.send_task(
            TASK,
            (announcement.action_id,),
            queue=_queue(self._prefix, announcement.kind, announcement.zone),
            expires=MESSAGE_TTL,  # for the receiver
            expiration=MESSAGE_TTL,  # for a broker that lets messages expire (RabbitMQ)
            # Retry once at once: the connection may have gone stale since the last hint.
            retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0},
        )


class _Receiver(threading.Thread):
    """Receives hints one at a time and passes them to the worker. Survives outages."""

    def __init__(self, app: Celery, queues: Sequence[Queue], worker: WorkerPort) -> None:
        super().__init__(name="receiver", daemon=True)
        self._app = app
        self._queues = queues
        self._stopping = threading.Event()

        @app.task(name=TASK, shared=False)  # type: ignore[untyped-decorator]  # Celery has no types
        def take(action_id: str) -> None:
            worker.take(action_id)

    def stop(self) -> None:
        """Stop receiving."""
        self._stopping.set()
        self.join(BROKER_TIMEOUT)

    def run(self) -> None:
        """Run Celery's worker until it is stopped."""
        self._app.set_current()  # Celery looks for the task in the current application of the thread
        for consumed in self._queues:
            self._app.amqp.queues.add(consumed)
        while not self._stopping.is_set():
            _Controller(self._app, [str(one.name) for one in self._queues], self._stopping).start()
            # It has ended because of an error, which it has logged.
            self._stopping.wait(RETRY_INTERVAL)


class _Controller(WorkController):  # type: ignore[misc]
    """Celery worker in a thread: no signals, no forks, no traffic but with the broker.

    The task runs in the thread that receives messages ("solo"), because it only claims. Claimed actions have threads of
    their own.
    """

    def __init__(self, app: Celery, queues: Sequence[str], stopping: threading.Event) -> None:
        self.stopping = stopping
        super().__init__(
            app=app,
            hostname=f"heatlite@{socket.gethostname()}",
            queues=queues,
            pool="solo",
            concurrency=1,
            consumer_cls=_Consumer,
            use_eventloop=False,
            without_gossip=True,
            without_heartbeat=True,
            without_mingle=True,
        )


class _Consumer(Consumer):  # type: ignore[misc]
    """Celery's consumer without its event loop and its process-wide stop flag."""

    controller: _Controller
    _next_attempt = 0.0

    def ensure_connected(self, connection: Connection) -> Connection:
        """Connect to the broker, with retries. Logs the first failure only."""
        errors = (OperationalError, *connection.connection_errors, *connection.channel_errors)
        is_warned = False
        while True:
            self.controller.stopping.wait(max(0.0, self._next_attempt - time.monotonic()))
            self._stop_if_requested()
            self._next_attempt = time.monotonic() + RETRY_INTERVAL
            try:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                break
            except errors as error:
                if not is_warned:
                    log.warning("cannot reach the broker; polling once a second meanwhile: %s", error)
                is_warned = True
        log.info("receiving hints from %s", connection.as_uri())
        return connection

    def loop(self, *_: object) -> None:
        """Receive, execute and acknowledge messages."""
        handle, received = self.create_task_handler(), list[Message]()

        def receive(message: Message) -> None:
            received.append(message)
            handle(message)

        self.task_consumer.on_message = receive
        self.task_consumer.consume()
        while True:
            self._stop_if_requested()
            self.perform_pending_operations()
            if not all(message.acknowledged for message in received):
                # Celery only logs this, but the broker sends nothing more before the acknowledgement.
                raise ConnectionError("a hint cannot be acknowledged")
            received.clear()
            try:
                self.connection.drain_events(timeout=POLL_INTERVAL)
            except TimeoutError:
                continue

    def _stop_if_requested(self) -> None:
        if self.controller.stopping.is_set():
            raise WorkerShutdown(0)


def _queue(prefix: str, kind: Kind, zone: str | None) -> Queue:
    """Return the queue of a kind of actions, or of a kind in a zone.

    ``heatlite.stack``, or ``heatlite.stack.ZONE``.
    """
    return Queue(f"{prefix}.{kind}" if zone is None else f"{prefix}.{kind}.{zone}", durable=True)


def _application(broker: str, prefix: str) -> Celery:
    """Return the configured Celery application."""
    options: dict[str, object] = {
        "max_retries": 0,
        "socket_timeout": BROKER_TIMEOUT,
        "socket_connect_timeout": BROKER_TIMEOUT,
    }
    if broker.startswith("redis"):
        # Redis also has keys that are not queues.
        options |= {"global_keyprefix": f"{prefix}.", "socket_keepalive": True, "socket_keepalive_options": KEEP_ALIVE}
    app = Celery("heatlite", broker=broker, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_default_exchange=prefix,
        task_default_delivery_mode="transient",  # a hint is too old after a restart of the broker
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        broker_connection_timeout=BROKER_TIMEOUT,
        broker_heartbeat=0,  # an idle connection sends no heartbeats; TCP keepalive detects a lost broker
        broker_connection_retry_on_startup=True,
        broker_transport_options=options,
    )
    logging.getLogger("celery").setLevel(logging.WARNING)  # it logs several lines per message
    # `loop` logs the lost broker once; Celery adds a traceback for each unacknowledged message.
    logging.getLogger("celery.worker.request").addFilter(lambda record: "Couldn't ack" not in str(record.msg))
    return app
