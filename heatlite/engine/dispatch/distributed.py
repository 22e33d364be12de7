"""Dispatcher for many machines: sends actions as Celery tasks (decision 0009).

A message is a hint. Its receiver (`program.py`) acknowledges it, and claims the row or finds it claimed. So lost, late
and duplicate messages do no harm.
"""

import importlib
import logging
import queue
import socket
import threading
from collections.abc import Callable
from functools import lru_cache

from celery import Celery
from kombu import Connection, Queue
from kombu.exceptions import OperationalError

from heatlite.core.config import BadSetting, Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.redaction import masking
from heatlite.core.runtime.extras import MissingLibrary
from heatlite.core.runtime.logs import logged
from heatlite.core.status import WorkKind
from heatlite.engine.dispatch import ClaimFilter, Dispatcher
from heatlite.store.records import Announcement

log = logging.getLogger(__name__)

TASK = "heatlite.take"
"""Name of the Celery task: take an action and run it."""

MESSAGE_TTL = 60
"""Seconds until a message expires. Polling workers have found the action long before."""

MAX_UNSENT = 10_000
"""Maximum of unsent messages; more are dropped."""

MAX_NAMES = 4096
"""Maximum of stacks whose names are kept for display."""

BROKER_TIMEOUT = 5
"""Timeout in seconds for the broker's answers, and for sending the last messages."""

TRANSPORTS = {"amqp": "amqp", "amqps": "amqp", "redis": "redis", "rediss": "redis"}
"""Scheme of the broker's URL → the package of its driver."""

KEEP_ALIVE = {socket.TCP_KEEPIDLE: 60, socket.TCP_KEEPINTVL: 10, socket.TCP_KEEPCNT: 6}
"""TCP keepalive: detects a silently lost broker after two minutes."""


class CeleryDispatcher(Dispatcher):
    """Sends hints to the workers of all machines."""

    def __init__(
        self, settings: Settings, broker: str, stack_name: Callable[[str], str | None] = lambda _: None
    ) -> None:
        """Start the sender thread. The broker need not be reachable yet.

        `stack_name` returns the name of the stack with an id, to show it beside the action.
        Raises BadSetting for an unusable URL.
        """
        self.check_broker(broker)
        super().__init__()
        self.claim_filter = ClaimFilter(settings.kinds, frozenset(filter(None, [settings.worker_zone])))
        self._prefix = settings.queue_prefix
        self._app = application(settings, broker)
        self._shown = Shown(stack_name)
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
        except ImportError as error:
            raise MissingLibrary(f"broker: {scheme}://", error.name, "distributed") from None
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
        super().announce(announcement)
        if announcement.is_ready and self._unsent.qsize() < MAX_UNSENT:
            self._unsent.put(announcement)

    def close(self) -> None:
        """Send the remaining hints, unless the broker takes too long."""
        self._unsent.put(None)
        self._sender.join(BROKER_TIMEOUT)

    def _send_all(self) -> None:
        connection = self._app.connection_for_write()
        # kombu's Redis channel raises AttributeError if its connection is lost while it opens another one.
        errors = (OperationalError, AttributeError, *connection.connection_errors, *connection.channel_errors)
        is_away = False
        while (announcement := self._unsent.get()) is not None:
            try:
                with logged(log, "a hint cannot be sent", passing=errors) as sending:
                    self.send(announcement)
            except errors as error:
                if not is_away:
                    log.warning("the broker takes no hints; workers poll the table meanwhile: %s", error)
                is_away = True
                # Drop the queued hints: each might take as long to fail, and would delay those after the outage.
                while not self._unsent.empty() and announcement is not None:
                    announcement = self._unsent.get()
                if announcement is None:
                    return
            else:
                if is_away and not sending.failed:
                    log.info("the broker takes hints again")
                is_away = is_away and sending.failed

    def send(self, announcement: Announcement) -> None:
        """Send a hint before it returns. Raises the errors of the broker's connection."""
        self._app.send_task(
            TASK,
            (announcement.action_id,),
            self._shown.of(announcement.stack_id, announcement.verb),
            task_id=announcement.action_id,
            queue=_queue(self._prefix, announcement.kind, announcement.zone),
            expires=MESSAGE_TTL,
            # Retry once at once: the connection may have gone stale since the last hint.
            retry_policy={"max_retries": 1, "interval_start": 0, "interval_step": 0},
        )


class Shown:
    """Arguments of tasks for display: ``{"stack": "web", "verb": "UPDATE"}``."""

    def __init__(self, stack_name: Callable[[str], str | None]) -> None:
        self._name = lru_cache(MAX_NAMES)(stack_name)

    def of(self, stack_id: str, verb: str) -> dict[str, str]:
        """Return the arguments; fewer while the database is unreachable."""
        try:
            name = self._name(stack_id) if stack_id else None
        except DatabaseUnavailable:
            name = None
        return {} if name is None else {"stack": name, "verb": verb}


def _queue(prefix: str, kind: WorkKind, zone: str | None) -> Queue:
    """Return the queue of a kind of actions, or of a kind in a zone.

    ``heatlite.stack``, or ``heatlite.stack.ZONE``.
    """
    name = f"{prefix}.{kind}" if zone is None else f"{prefix}.{kind}.{zone}"
    return Queue(name, routing_key=name, durable=True)


def application(settings: Settings, broker: str) -> Celery:
    """Return the Celery application of senders, workers and the `celery` command."""
    prefix = settings.queue_prefix
    options: dict[str, object] = {
        "max_retries": 0,
        "socket_timeout": BROKER_TIMEOUT,  # of Redis
        "read_timeout": BROKER_TIMEOUT,  # of RabbitMQ
        "socket_connect_timeout": BROKER_TIMEOUT,
    }
    if broker.startswith("redis"):
        # Redis also has keys that are not queues.
        options |= {"global_keyprefix": f"{prefix}.", "socket_keepalive": True, "socket_keepalive_options": KEEP_ALIVE}
        # Hints need no copy until their acknowledgement. With copies, an acknowledgement that fails ends the worker.
        options["ack_emulation"] = False
    zones = {None, settings.worker_zone}
    queues = [_queue(prefix, kind, zone) for kind in sorted(settings.kinds or WorkKind) for zone in zones]
    app = Celery("heatlite", broker=broker, set_as_current=False)
    app.conf.update(
        accept_content=["json"],
        task_serializer="json",
        task_queues=queues,
        task_default_queue=queues[0].name,
        task_default_exchange=prefix,
        task_default_delivery_mode="transient",  # a hint is too old after a restart of the broker
        task_ignore_result=True,
        control_exchange=prefix,  # another installation on the same broker is not asked
        event_exchange=f"{prefix}.events",
        worker_pool="threads",
        worker_concurrency=settings.engine_slots,
        worker_prefetch_multiplier=1,
        worker_enable_prefetch_count_reduction=False,
        worker_disable_rate_limits=True,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_timeout=BROKER_TIMEOUT,
        broker_connection_retry_on_startup=True,
        broker_channel_error_retry=True,
        broker_transport_options=options,
    )
    return app
