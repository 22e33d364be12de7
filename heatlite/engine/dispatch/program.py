"""Worker program: a Celery worker whose tasks name actions to the engine.

Decision 0009. The engine claims the action and runs it in a slot of its own, as without Celery. So it also works while
the broker is away. Remote control reaches the actions: `inspect active` lists those with a slot, `control revoke`
cancels.
"""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from celery import bootsteps, signals
from celery.exceptions import WorkerShutdown
from celery.worker.control import control_command, inspect_command

from heatlite.core.config import Settings
from heatlite.core.errors import HeatliteError
from heatlite.core.runtime import logs
from heatlite.core.status import WorkKind
from heatlite.engine.dispatch import ClaimFilter
from heatlite.engine.dispatch.distributed import BROKER_TIMEOUT, TASK, Shown, application
from heatlite.engine.dispatch.slots import Slots
from heatlite.store.records import ActionRecord

log = logging.getLogger(__name__)


class WorkerEngine(Protocol):
    """The engine of a worker program."""

    def take(self, action_id: str) -> None:
        """Claim this action and run it, if a slot is free. Returns at once."""

    def active(self) -> list[ActionRecord]:
        """Return the actions that have a slot."""

    def stack_name(self, stack_id: str) -> str | None:
        """Return the name of a stack."""

    def revoke(self, action_ids: Iterable[str]) -> None:
        """Cancel these actions soon."""

    def close(self) -> None:
        """Release unfinished actions and stop."""


class WorkerProgram:
    """The Celery application of a worker, and its engine while a worker runs."""

    def __init__(self, settings: Settings, broker: str, start: Callable[[Slots], WorkerEngine]) -> None:
        """Create the application. `start` starts the engine, once Celery's worker starts."""
        self.app = application(settings, broker)
        self.failed: HeatliteError | None = None
        """The error that kept the engine from starting."""
        self._settings = settings
        self._start = start
        self._engine: WorkerEngine | None = None
        self._slots = settings.engine_slots
        connection = self.app.connection_for_read()
        self._outages = Outages((*connection.connection_errors, *connection.channel_errors))
        signals.celeryd_init.connect(self._set_up)
        signals.setup_logging.connect(self._set_up_logging)  # otherwise Celery adds handlers

        @self.app.task(name=TASK, shared=False)  # type: ignore[untyped-decorator]  # Celery has no types
        def take(action_id: str, **_shown: str) -> None:
            if self._engine is not None:
                self._engine.take(action_id)

        self._add_commands()
        self.app.steps["worker"].add(_engine_step(self))
        self.app.steps["consumer"].add(_report_step(self._outages))

    def run(self) -> None:
        """Run a worker in the main thread until SIGTERM or SIGINT."""
        hostname = f"heatlite-{os.getpid()}@{socket.gethostname()}"
        self.app.Worker(hostname=hostname, quiet=True, without_gossip=True, without_mingle=True).start()
        if self.failed is not None:
            raise self.failed

    def _add_commands(self) -> None:
        """Replace commands of remote control that would see tasks, in place of actions."""

        @inspect_command()  # type: ignore[untyped-decorator]
        def active(_state: Any, **_: object) -> list[dict[str, object]]:
            """List of actions that have a slot."""
            if self._engine is None:
                return []
            shown, actions = Shown(self._engine.stack_name), self._engine.active()
            named = [{"id": one.id, "args": [one.id], "kwargs": shown.of(one.stack_id, one.verb)} for one in actions]
            return [{"name": TASK, **one} for one in named]

        @control_command(variadic="task_id", signature="[id1 [id2 [... [idN]]]]")  # type: ignore[untyped-decorator]
        def revoke(_state: Any, task_id: str | list[str], **_: object) -> dict[str, str]:
            """Cancel actions by their ids."""
            ids = [task_id] if isinstance(task_id, str) else task_id
            if self._engine is not None:
                self._engine.revoke(ids)
            return {"ok": f"to be cancelled: {', '.join(ids)}"}

    def _set_up(self, options: dict[str, Any], **_: object) -> None:
        """Read the option -c."""
        self._slots = options.get("concurrency") or self._slots
        self._set_up_logging()

    def _set_up_logging(self, **_: object) -> None:
        """Configure logging in Celery's place."""
        logs.configure(self._settings.log_format)
        logging.getLogger("celery").setLevel(logging.WARNING)  # it logs several lines per message
        for handler in logging.getLogger().handlers:
            handler.addFilter(self._outages)

    def begin(self) -> None:
        """Start the engine."""
        signals.worker_shutting_down.connect(_die_at_next_signal)
        try:
            self._engine = self._start(Slots(self._slots, self.claim_filter))
        except HeatliteError as error:
            self.failed = error
            log.critical("%s", error.message)
            raise WorkerShutdown(1) from error

    def claim_filter(self) -> ClaimFilter:
        """Return the kinds and zones whose queues the worker consumes from."""
        prefix = f"{self._settings.queue_prefix}."
        parts = [name.removeprefix(prefix).partition(".") for name in [*self.app.amqp.queues.consume_from]]
        kinds = frozenset(kind for kind in WorkKind if any(kind == part[0] for part in parts))
        return ClaimFilter(kinds, frozenset(zone for _, _, zone in parts if zone))

    def end(self) -> None:
        """Stop the engine. The process ends soon, even while a broker is frozen."""
        engine, self._engine = self._engine, None
        if engine is not None:
            log.info("stopping: releasing running actions")
            engine.close()
        farewell = threading.Timer(2 * BROKER_TIMEOUT, os._exit, (0 if self.failed is None else 1,))
        farewell.daemon = True
        farewell.start()


class Outages(logging.Filter):
    """Reports a lost broker once, in place of what Celery says of it."""

    def __init__(self, errors: tuple[type[Exception], ...]) -> None:
        """`errors` are those of a lost connection."""
        super().__init__()
        self._errors = errors
        self._is_connected = self._is_reported = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace Celery's records of an outage."""
        if not record.name.startswith(("celery", "kombu", "amqp")):
            return True
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, self._errors):
            self._is_connected = False
        if self._is_connected:
            return True
        if not self._is_reported:
            self._is_reported = True
            reason = error or record.getMessage().partition("\n")[0]
            log.warning("cannot reach the broker; polling once a second meanwhile: %s", reason)
        return False

    def ended(self) -> None:
        """Report the next one."""
        self._is_connected, self._is_reported = True, False


def _engine_step(program: WorkerProgram) -> type[bootsteps.StartStopStep]:
    class EngineStep(bootsteps.StartStopStep):  # type: ignore[misc]
        """Starts the engine before messages come, and stops it before the connection ends."""

        requires = ("celery.worker.components:Pool",)

        def start(self, _controller: Any) -> None:
            program.begin()

        def close(self, _controller: Any) -> None:
            program.end()

        terminate = stop = close

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

        def start(self, consumer: Any) -> None:
            outages.ended()
            log.info("receiving hints from %s", consumer.connection.as_uri())

    return ReportStep


def _die_at_next_signal(**_: object) -> None:
    """Let a second signal end the process at once."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
