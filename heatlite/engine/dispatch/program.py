"""Worker program: a Celery worker that runs actions in its pool (decision 0009).

A message names an action. Its task claims the row and runs the action, or returns at once if the row is not claimable.
Actions that the claim loop finds, and attempts that continue after a wait, become tasks of the same pool without a
message. So Celery shows, counts and limits all of them, also while the broker is away.
"""

import logging
import os
import signal
import socket
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from math import inf
from typing import Any, Protocol

from celery import bootsteps, signals
from celery.exceptions import TaskRevokedError, WorkerShutdown
from celery.utils.threads import bound_open_broker_sockets
from celery.worker import WorkController, state
from celery.worker.consumer import Consumer
from celery.worker.request import Request
from kombu import Message

from heatlite.core import logs
from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.core.status import Kind
from heatlite.engine.dispatch import ClaimFilter, WorkerPort
from heatlite.engine.dispatch.distributed import BROKER_TIMEOUT, SPARE_THREADS, TASK, UNTIL, Shown, application
from heatlite.store.records import ActionRecord

log = logging.getLogger(__name__)

OUTAGE_LOGGERS = (
    "celery.bootsteps",
    "celery.worker.consumer.consumer",
    "celery.worker.loops",
    "celery.worker.request",
)
"""Loggers of Celery that report what follows from a lost connection."""


class Engine(Protocol):
    """The engine of a worker program."""

    @property
    def worker(self) -> WorkerPort:
        """Its worker."""

    def close(self) -> None:
        """Release unfinished actions and stop."""


class CelerySlots:
    """Runs actions as tasks in the pool of a Celery worker."""

    def __init__(self, controller: WorkController, settings: Settings, task: Any) -> None:
        self._shown = Shown(lambda _: None)
        self._controller = controller
        self._prefix = f"{settings.queue_prefix}."
        self._task = task
        self._changed = threading.Condition()
        self._waiting: deque[tuple[ActionRecord, Callable[[], None]]] = deque()
        """Calls for which no slot is free."""
        self._calls: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)
        """Action id → calls that the pool has, and no thread has begun."""
        self._busy = 0
        """Number of slots in use."""
        self._closed = False

    def show_names(self, stack_name: Callable[[str], str | None]) -> None:
        """Show stacks' names beside actions. `stack_name` returns that of an id."""
        self._shown = Shown(stack_name)

    @property
    def limit(self) -> int:
        """Maximum of actions that run at once: the pool's threads but the spare ones."""
        return max(1, int(self._controller.pool.num_processes) - SPARE_THREADS)

    @property
    def claim_filter(self) -> ClaimFilter:
        """Kinds and zones whose queues the worker consumes from."""
        names = [*self._controller.app.amqp.queues.consume_from]
        parts = [name.removeprefix(self._prefix).partition(".") for name in names]
        kinds = frozenset(kind for kind in Kind if any(kind == part[0] for part in parts))
        return ClaimFilter(kinds, frozenset(zone for _, _, zone in parts if zone))

    def submit(self, action: ActionRecord, call: Callable[[], None]) -> None:
        """Have a thread of the pool call it, as soon as a slot is free."""
        with self._changed:
            self._waiting.append((action, call))
        self._start_waiting()

    def revoked(self) -> Collection[str]:
        """Return the ids that were revoked by remote control."""
        return [one for one in state.revoked if isinstance(one, str)]

    def forget_revoked(self, action_id: str) -> None:
        """Drop a revoked id, so that Celery no longer drops its messages."""
        state.revoked.discard(action_id)

    def close(self) -> None:
        """Wait for the calls in progress. Later ones are dropped."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._busy -= sum(map(len, self._calls.values()))
            self._calls.clear()
            self._changed.wait_for(lambda: self._busy == 0)

    def perform(self, action_id: str, take: Callable[[], None]) -> None:
        """Run the call submitted for the action, or else `take` (in a pool thread)."""
        call = self._next_call(action_id)
        if call is None:
            with self._changed:
                if self._closed:
                    return
                self._busy += 1
        self._call(call or take)

    def _call(self, call: Callable[[], None]) -> None:
        """Call it in a slot that is counted already."""
        try:
            call()
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
            self._start_waiting()

    def _next_call(self, action_id: str) -> Callable[[], None] | None:
        with self._changed:
            calls = self._calls.get(action_id)
            if calls is None:
                return None
            call = calls.popleft()
            if not calls:
                del self._calls[action_id]
            return call

    def _start_waiting(self) -> None:
        """Submit calls to the pool while slots are free."""
        while True:
            with self._changed:
                if self._closed or not self._waiting or self._busy >= self.limit:
                    return
                self._busy += 1
                action, call = self._waiting.popleft()
                self._calls[action.id].append(call)
            self._start(action)

    def _start(self, action: ActionRecord) -> None:
        """Have the pool run the task for the action, as if a message had come for it."""

        def run_if_left(*_: object) -> None:
            # Celery drops the task of a revoked action, and fails one that it is to terminate. Its call has to run.
            call = self._next_call(action.id)
            if call is not None:
                self._call(call)

        request = self._request(action)
        state.task_reserved(request)
        request.send_event("task-received", name=TASK, args=request.argsrepr, kwargs=request.kwargsrepr)
        pool = self._controller.pool
        try:
            try:
                request.execute_using_pool(pool).f.add_done_callback(run_if_left)
            except TaskRevokedError:
                pool.apply_async(run_if_left, callback=run_if_left)
        except RuntimeError:  # the pool is stopping
            if self._next_call(action.id) is not None:
                with self._changed:
                    self._busy -= 1
                    self._changed.notify_all()

    def _request(self, action: ActionRecord) -> Request:
        app, consumer = self._controller.app, self._controller.consumer
        shown = self._shown.of(action.stack_id, action.verb)
        made = app.amqp.as_task_v2(action.id, TASK, (action.id,), shown, ignore_result=True)
        return Request(
            Message(headers=made.headers, properties=made.properties),
            app=app,
            hostname=self._controller.hostname,
            task=self._task,
            eventer=consumer.event_dispatcher,
            body=made.body,
            headers=made.headers,
            decoded=True,
        )


class WorkerProgram:
    """The Celery application of a worker, and its engine while a worker runs."""

    def __init__(self, settings: Settings, broker: str, start: Callable[[CelerySlots], Engine]) -> None:
        """Create the application. `start` starts the engine, once Celery's worker starts."""
        self.app = application(settings, broker)
        self.failed: HeatliteError | None = None
        """The error that kept the engine from starting."""
        self._settings = settings
        self._start = start
        self._engine: Engine | None = None
        self._slots: CelerySlots | None = None
        self._outages = Outages(self.app.connection_for_read().connection_errors)
        signals.celeryd_init.connect(self._set_up_logging)
        signals.setup_logging.connect(self._set_up_logging)  # otherwise Celery adds handlers

        @self.app.task(name=TASK, bind=True, shared=False)  # type: ignore[untyped-decorator]  # Celery has no types
        def take(task: Any, action_id: str, **_shown: str) -> None:
            if self._slots is not None and time.time() < getattr(task.request, UNTIL, inf):
                self._slots.perform(action_id, lambda: self._take(action_id))

        self.app.steps["worker"].add(_engine_step(self))
        self.app.steps["consumer"].add(_report_step(self._outages))

    def run(self) -> None:
        """Run a worker in the main thread until SIGTERM or SIGINT."""
        hostname = f"heatlite-{os.getpid()}@{socket.gethostname()}"
        self.app.Worker(hostname=hostname, quiet=True, without_gossip=True, without_mingle=True).start()
        if self.failed is not None:
            raise self.failed

    def _set_up_logging(self, **_: object) -> None:
        """Configure logging in Celery's place."""
        logs.configure(self._settings.log_format)
        logging.getLogger("celery").setLevel(logging.WARNING)  # it logs several lines per message
        for name in OUTAGE_LOGGERS:
            logging.getLogger(name).addFilter(self._outages)

    def begin(self, controller: WorkController) -> None:
        """Start the engine of a worker whose pool has started."""
        signals.worker_shutting_down.connect(_die_at_next_signal)
        controller.consumer.update_strategies()  # tasks run before the broker is reachable
        self._slots = CelerySlots(controller, self._settings, self.app.tasks[TASK])
        try:
            self._engine = self._start(self._slots)
        except HeatliteError as error:
            self.failed = error
            log.critical("%s", error.message)
            raise WorkerShutdown(1) from error

    def _take(self, action_id: str) -> None:
        engine = self._engine
        if engine is not None:
            engine.worker.take(action_id)

    def end(self) -> None:
        """Stop the engine."""
        if self._engine is not None:
            log.info("stopping: releasing running actions")
            self._engine.close()
            self._engine = None


class Outages(logging.Filter):
    """Reports an unreachable broker once, instead of each failure that follows."""

    def __init__(self, errors: tuple[type[Exception], ...]) -> None:
        """`errors` are those of a lost connection."""
        super().__init__()
        self._errors = errors
        self._reported = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace the records of failed attempts."""
        text = str(record.msg)
        if text.startswith("consumer: Cannot connect to") and isinstance(record.args, tuple):
            if not self._reported:
                log.warning("cannot reach the broker; polling once a second meanwhile: %s", record.args[1])
            self._reported = True
            return False
        if record.levelno >= logging.ERROR and record.exc_info and isinstance(record.exc_info[1], self._errors):
            return False  # a message without acknowledgement comes again; the row of its action is the truth
        return not text.startswith("Frequent restarts detected")

    def ended(self) -> None:
        """Report the next one."""
        self._reported = False


def _engine_step(program: WorkerProgram) -> type[bootsteps.StartStopStep]:
    class EngineStep(bootsteps.StartStopStep):  # type: ignore[misc]
        """Starts the engine after the pool, and stops it before."""

        requires = ("celery.worker.components:Pool",)

        def start(self, controller: WorkController) -> None:
            program.begin(controller)

        def close(self, controller: WorkController) -> None:
            # A frozen broker answers no farewell, and `read_timeout` has no effect on TLS.
            dispatcher = controller.consumer.event_dispatcher
            for user in filter(None, (controller.consumer, dispatcher)):
                if user.connection is not None:
                    bound_open_broker_sockets(user.connection, BROKER_TIMEOUT)

        def stop(self, _controller: WorkController) -> None:
            program.end()

        terminate = stop

    return EngineStep


def _report_step(outages: Outages) -> type[bootsteps.StartStopStep]:
    class ReportStep(bootsteps.StartStopStep):  # type: ignore[misc]
        """Reports each connection to the broker, after the first events."""

        # Celery repeats these without end while a broker is frozen, and does not look at signals then.
        requires = (
            "celery.worker.consumer.tasks:Tasks",
            "celery.worker.consumer.heart:Heart",
            "celery.worker.consumer.control:Control",
        )

        def start(self, consumer: Consumer) -> None:
            outages.ended()
            log.info("receiving hints from %s", consumer.connection.as_uri())

    return ReportStep


def _die_at_next_signal(**_: object) -> None:
    """Let a second signal end the process at once."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
