"""Server processes in the foreground: gunicorn, an engine, a worker.

gunicorn's arbiter process supervises the processes that answer requests. With the engine there is one of these.
"""

import gc
import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
from gunicorn.glogging import Logger
from gunicorn.http.errors import ParseException

from heatlite import __version__, preflight, wiring
from heatlite.api.app import INSTANT, App
from heatlite.api.faults import on_malformed
from heatlite.core import logs
from heatlite.core.bulkhead import answer_requests
from heatlite.core.config import Auth, Settings
from heatlite.core.meter import Meter
from heatlite.frontend import Frontend

log = logging.getLogger(__name__)

GRACE = 30
"""Seconds for a graceful stop. After a kill, the next start continues the interrupted work."""


class Log(Logger):  # type: ignore[misc]
    """Logger of gunicorn that writes to the root logger."""

    def setup(self, cfg: Config) -> None:
        """Forward records to the root logger."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def exception(self, msg: str, *args: object, **named: Any) -> None:
        """Log a traceback. Removes the query from URLs, as it may contain a signature."""
        super().exception(msg, *(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in args), **named)


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The gunicorn application.

    Its server starts in the worker process, after the fork.
    """

    instant = INSTANT
    """Paths that are answered without a thread and without the database."""

    def __init__(self, settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int) -> None:
        self._settings = settings
        self._build = build
        self._processes = processes
        self._embedded: wiring.Embedded | None = None
        super().__init__()

    def load_config(self) -> None:
        """Set the options of gunicorn."""
        settings = self._settings
        options: dict[str, Any] = {
            "bind": settings.address,
            "workers": self._processes,
            "worker_class": Frontend,
            "threads": settings.threads,
            "graceful_timeout": GRACE,
            "timeout": 60,
            "keepalive": 75,
            "proc_name": "heatlite",
            "logger_class": Log,
            "when_ready": self._listen,
            "worker_exit": self._stop_engine,
            # Its default path is shared by all servers of a user. Older versions have no such socket.
            "control_socket_disable": True,
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> App:
        """Start the server in the worker process. Returns the application."""
        self._embedded = self._build(self._settings)
        self._embedded.app.add_error_handler(ParseException, on_malformed)
        _freeze_garbage_collector()
        return self._embedded.app

    @property
    def max_body(self) -> int:
        """Maximum size of a request's body in bytes."""
        return self._settings.max_json_body_size

    def begin_thread(self) -> None:
        """Prepare a thread that answers requests."""
        answer_requests()
        if self._embedded is not None:
            self._embedded.store.database.use_request_limits()

    def _listen(self, server: Arbiter) -> None:
        """Log the actual address, in the arbiter process before the fork of workers."""
        for listener in server.LISTENERS:
            self._settings = replace(self._settings, port=listener.sock.getsockname()[1])  # it may have been 0
        settings = self._settings
        server.log.info("heatlite %s at http://%s, %s", __version__, settings.address, settings.shown_database)
        server.log.info('Point the openstack command at it: eval "$(heatlite env)"')

    def _stop_engine(self, _server: object, _worker: object) -> None:
        if self._embedded is not None:
            self._embedded.close()
            self._embedded = None


def _freeze_garbage_collector() -> None:
    """Exclude loaded code from garbage collection.

    With Python's defaults, a template of a thousand resources triggers full collections, which take five times as long
    as the request. Objects that are loaded now are permanent.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def serve(settings: Settings) -> None:
    """Run API and engine until SIGTERM or SIGINT; both stop gracefully.

    Raises EngineBusy, NotLoopback, and errors of opening the database. Does not return.
    """
    _run(settings, lambda found: wiring.embedded(found, url=f"http://{found.address}"), 1)


def serve_api(settings: Settings) -> None:
    """Run the API for workers in other processes until SIGTERM or SIGINT.

    Raises NotDistributed, NotLoopback, and errors of opening the database. Does not return.
    """
    preflight.check_distributed(settings, "api")
    _run(settings, wiring.api, settings.api_processes)


def _run(settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int) -> None:
    preflight.check_servable(settings)
    logs.configure(settings.log_format)
    if settings.public_url is None and settings.host in ("0.0.0.0", "::"):
        text = "public_url is not set: signed URLs for machines point to %s, which they cannot reach"
        log.warning(text, settings.host)
    if settings.auth is Auth.BASIC and settings.public_url is not None and not settings.trusted_proxies:
        log.warning("trusted_proxies is not set: failed logins of one caller behind a proxy delay all of them")
    Server(settings, build, processes).run()


def serve_metrics(settings: Settings, meter: Meter) -> Callable[[], None]:
    """Serve the metrics of a worker process at `metrics_port`, if configured.

    Returns a function that stops it.
    Raises NoPort.
    """
    if not settings.metrics or not settings.metrics_port:
        return lambda: None
    from heatlite.metrics import Metrics, serve

    assert isinstance(meter, Metrics)
    try:
        return serve(meter, settings.host, settings.metrics_port)
    except OSError as error:
        port, setting = settings.metrics_port, "the setting metrics_port"
        raise preflight.NoPort(host=settings.host, port=port, reason=error.strerror, setting=setting) from error


def work(settings: Settings) -> None:
    """Run an engine without the API until SIGTERM or SIGINT.

    Then claims no more actions, releases running ones after the current calls, and returns. A second signal ends the
    process at once. Raises NotDistributed, and errors of opening the database.
    """
    preflight.check_distributed(settings, "worker")
    logs.configure(settings.log_format)
    told, tells = socket.socketpair()
    tells.setblocking(False)
    # Python runs signal handlers in the main thread only. A byte in the socket wakes it, even if the system has
    # delivered the signal to another thread.
    signal.set_wakeup_fd(tells.fileno())

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    embedded = wiring.embedded(settings)
    try:
        stop_metrics = serve_metrics(settings, embedded.meter)
        _freeze_garbage_collector()
        log.info("heatlite %s: a worker, %s", __version__, settings.shown_database)
        if settings.public_url is None:
            log.warning("public_url is not set: signed URLs of this worker point to this machine")
        told.recv(1)
        log.info("stopping: releasing running actions")
        stop_metrics()
    finally:
        embedded.close()
