"""Dispatching among many machines: each action's id goes through a broker, by Celery (decision 0009).

A message is a hint. Its receiver claims the row, or finds that somebody else has, and acknowledges it at once, so an
action of hours holds no message; lost, late and doubled ones do nothing.
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
from heatlite.engine.dispatch import Called, Share
from heatlite.store.records import Announcement

log = logging.getLogger(__name__)

TASK = "heatlite.take"
"""The name that messages call for."""

LIFETIME = 60
"""Seconds after which a hint is of no use: all that look by themselves have found the action long since."""

MOST_UNSENT = 10_000
"""Hints that wait to be sent; more are not kept."""

LOOK = 0.5
"""Seconds between two looks whether to stop."""

PAUSE = 1
"""Seconds between two attempts to reach a broker."""

PATIENCE = 5
"""Seconds that a broker may take for an answer, and the last hints for their way out."""

TRANSPORTS = {"amqp": "amqp", "amqps": "amqp", "redis": "redis", "rediss": "redis"}
"""Scheme of the broker's URL → the package that speaks to it."""

KEEP_ALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 6}
"""So that a broker that has vanished without a word is missed after two minutes."""


class Distributed:
    """Sends hints to the workers of all machines, and brings those for this process to its worker."""

    def __init__(self, settings: Settings, broker: str) -> None:
        """`broker` is its URL; it need not be there yet. Raises BadSetting for a URL that cannot be used here."""
        self.check_broker(broker)
        self.share = Share(settings.kinds, frozenset(filter(None, [settings.worker_zone])))
        self._prefix = settings.queue_prefix
        self._app = _application(broker, self._prefix)
        self._worker: Called | None = None
        self._receiver: _Receiver | None = None
        self._unsent: queue.SimpleQueue[Announcement | None] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, name="hints", daemon=True)
        self._sender.start()

    @staticmethod
    def check_broker(broker: str) -> None:
        """Raise BadSetting for the URL of a broker that cannot be used here."""
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
            # Its text may hold a piece of the password.
            raise BadSetting(
                f"broker: the URL cannot be read; one looks like {scheme}://user:password@host:1234/name,"
                " with %2F for a / in the password."
            ) from None

    def announce(self, announcement: Announcement) -> None:
        """Wake the worker of this process, if there is one, and leave the hint for all others to a thread of its own.

        Who runs an action elsewhere sees by himself what it was asked for.
        """
        worker = self._worker
        if worker is not None:
            worker.wake()
        if announcement.is_ready and self._unsent.qsize() < MOST_UNSENT:
            self._unsent.put(announcement)

    def attach(self, worker: Called) -> None:
        """Bring this worker its hints, as soon as the broker is there."""
        self._worker = worker
        kinds, zones = sorted(self.share.kinds or Kind), sorted(self.share.zones or ())
        queues = [_queue(self._prefix, kind, zone) for kind in kinds for zone in (None, *zones)]
        self._receiver = _Receiver(self._app, queues, worker)
        self._receiver.start()

    def detach(self) -> None:
        """Take no more hints from the broker."""
        self._worker = None
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None

    def close(self) -> None:
        """Send what is still to be sent, if the broker takes it soon."""
        self._unsent.put(None)
        self._sender.join(PATIENCE)

    def _send_all(self) -> None:
        connection = self._app.connection_for_write()
        errors = (OperationalError, *connection.connection_errors, *connection.channel_errors)
        is_away = False
        while (announcement := self._unsent.get()) is not None:
            try:
                self._send(announcement)
            except errors as error:
                if not is_away:
                    log.warning("the broker takes no hints; workers look by themselves meanwhile: %s", error)
                is_away = True
                # Each of the others might take as long to fail, and keep those waiting that come once it is back.
                while not self._unsent.empty() and announcement is not None:
                    announcement = self._unsent.get()
                if announcement is None:
                    return
            except Exception:
                # Whatever it was, the next hint may get through.
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
            expires=LIFETIME,  # for the receiver
            expiration=LIFETIME,  # for a broker that lets messages expire (RabbitMQ)
            # A connection may have gone stale since the last hint: one more attempt, at once.
            retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0},
        )


class _Receiver(threading.Thread):
    """Takes hints from the broker, one at a time, and does for each what it says. Outlives every outage."""

    def __init__(self, app: Celery, queues: Sequence[Queue], worker: Called) -> None:
        super().__init__(name="receiver", daemon=True)
        self._app = app
        self._queues = queues
        self._stopping = threading.Event()

        @app.task(name=TASK, shared=False)  # type: ignore[untyped-decorator]  # Celery has no types
        def take(action_id: str) -> None:
            worker.take(action_id)

    def stop(self) -> None:
        """Take nothing more."""
        self._stopping.set()
        self.join(PATIENCE)

    def run(self) -> None:
        """Be Celery's worker."""
        self._app.set_current()  # for this thread: there Celery looks for the task
        for queue_of_ours in self._queues:
            self._app.amqp.queues.add(queue_of_ours)
        while not self._stopping.is_set():
            _Controller(self._app, [str(one.name) for one in self._queues], self._stopping).start()
            # It has ended by itself: a fault that it has told of.
            self._stopping.wait(PAUSE)


class _Controller(WorkController):  # type: ignore[misc]
    """Celery's worker in a thread: it handles no signals, forks nothing, and talks to nobody but the broker.

    The task is done by the thread that waits for messages ("solo"), because it only claims; what it claims has
    threads of its own.
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
    """Celery's, without the two things that are of one process and not of one worker: its event loop and its way to be
    told to stop."""

    controller: _Controller
    _next_attempt = 0.0

    def ensure_connected(self, connection: Connection) -> Connection:
        """Ask for the broker until it lets us in. Says once that it does not."""
        errors = (OperationalError, *connection.connection_errors, *connection.channel_errors)
        told = False
        while True:
            self.controller.stopping.wait(max(0.0, self._next_attempt - time.monotonic()))
            self._leave_if_told_to()
            self._next_attempt = time.monotonic() + PAUSE
            try:
                connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0)
                break
            except errors as error:
                if not told:
                    log.warning("cannot reach the broker; looking for actions once a second meanwhile: %s", error)
                told = True
        log.info("receiving hints from %s", connection.as_uri())
        return connection

    def loop(self, *_: object) -> None:
        """Wait for messages, do what they say, acknowledge."""
        handle, received = self.create_task_handler(), list[Message]()

        def receive(message: Message) -> None:
            received.append(message)
            handle(message)

        self.task_consumer.on_message = receive
        self.task_consumer.consume()
        while True:
            self._leave_if_told_to()
            self.perform_pending_operations()
            if not all(message.acknowledged for message in received):
                # Of that Celery only tells; but a broker sends nothing more until it has heard of the last one.
                raise ConnectionError("a hint cannot be acknowledged")
            received.clear()
            try:
                self.connection.drain_events(timeout=LOOK)
            except TimeoutError:
                continue

    def _leave_if_told_to(self) -> None:
        if self.controller.stopping.is_set():
            raise WorkerShutdown(0)


def _queue(prefix: str, kind: Kind, zone: str | None) -> Queue:
    """The queue for a kind of work: ``heatlite.stack``, or ``heatlite.stack.NAME`` for that of a zone."""
    return Queue(f"{prefix}.{kind}" if zone is None else f"{prefix}.{kind}.{zone}", durable=True)


def _application(broker: str, prefix: str) -> Celery:
    """Celery, set up so that it does what we need and nothing else."""
    options: dict[str, object] = {"max_retries": 0, "socket_timeout": PATIENCE, "socket_connect_timeout": PATIENCE}
    if broker.startswith("redis"):
        # Not only queues have names there.
        options |= {"global_keyprefix": f"{prefix}.", "socket_keepalive": True, "socket_keepalive_options": KEEP_ALIVE}
    app = Celery("heatlite", broker=broker, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_default_exchange=prefix,
        task_default_delivery_mode="transient",  # a hint that waits for a broker's restart is too old
        task_ignore_result=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_cancel_long_running_tasks_on_connection_loss=True,
        broker_connection_timeout=PATIENCE,
        broker_heartbeat=0,  # who has nothing to send sends no heartbeats either; TCP finds out whether it is there
        broker_connection_retry_on_startup=True,
        broker_transport_options=options,
    )
    logging.getLogger("celery").setLevel(logging.WARNING)  # it has several lines for each message
    # A lost broker is a warning of `loop`; for each message that it takes along there is a traceback besides.
    logging.getLogger("celery.worker.request").addFilter(lambda record: "Couldn't ack" not in str(record.msg))
    return app
