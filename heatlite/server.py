"""The processes in the foreground: gunicorn for requests, with the engine or without it; an engine alone.

gunicorn's first process watches over those that answer requests; with the engine there is one of them.
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
"""Seconds that a drain may take before the process is killed; what was cut off is taken up at the next start."""


class Log(Logger):  # type: ignore[misc]
    """gunicorn's own lines, among all others."""

    def setup(self, cfg: Config) -> None:
        """Leave it to the root logger to write them."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def exception(self, msg: str, *args: object, **named: Any) -> None:
        """Log a traceback; of the URL that it is about without the query, which may hold a signature."""
        super().exception(msg, *(arg.partition("?")[0] if isinstance(arg, str) else arg for arg in args), **named)


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The gunicorn application.

    What it is the face of starts in the worker process, after the fork.
    """

    instant = INSTANT
    """Paths whose answers need neither a thread nor the database."""

    def __init__(self, settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int) -> None:
        self._settings = settings
        self._build = build
        self._processes = processes
        self._embedded: wiring.Embedded | None = None
        super().__init__()

    def load_config(self) -> None:
        """Tell gunicorn what we want of it."""
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
        """In the worker process: start what there is to start; the application is its face."""
        self._embedded = self._build(self._settings)
        self._embedded.app.add_error_handler(ParseException, on_malformed)
        _spare_the_collector()
        return self._embedded.app

    @property
    def max_body(self) -> int:
        """The most bytes that a request's body may have."""
        return self._settings.max_json_body_size

    def begin_thread(self) -> None:
        """In each thread that answers requests, before its first one."""
        answer_requests()
        if self._embedded is not None:
            self._embedded.store.database.use_request_limits()

    def _listen(self, server: Arbiter) -> None:
        """In the watching process, before there is a worker: finish what gunicorn leaves open."""
        for listener in server.LISTENERS:
            self._settings = replace(self._settings, port=listener.sock.getsockname()[1])  # it may have been 0
        settings = self._settings
        server.log.info("heatlite %s at http://%s, %s", __version__, settings.address, settings.shown_database)
        server.log.info('Point the openstack command at it: eval "$(heatlite env)"')

    def _stop_engine(self, _server: object, _worker: object) -> None:
        if self._embedded is not None:
            self._embedded.close()
            self._embedded = None


def _spare_the_collector() -> None:
    """Keep the garbage collector from walking all the code again and again.

    With Python's defaults one template of a thousand resources makes it look through the whole process, at five times
    the cost of the request itself. What is loaded now stays, so it need not be looked at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def serve(settings: Settings) -> None:
    """API and engine in the foreground, until SIGTERM or SIGINT; both drain.

    Raises EngineBusy, NotLoopback, and what opening the database raises. Does not return.
    """
    _run(settings, lambda found: wiring.embedded(found, url=f"http://{found.address}"), 1)


def serve_api(settings: Settings) -> None:
    """The API in the foreground, for workers elsewhere, until SIGTERM or SIGINT.

    Raises NotDistributed, NotLoopback, and what opening the database raises. Does not return.
    """
    preflight.check_distributed(settings, "api")
    _run(settings, wiring.api, settings.api_processes)


def _run(settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int) -> None:
    preflight.check_servable(settings)
    logs.configure(settings.log_format)
    if settings.public_url is None and settings.host in ("0.0.0.0", "::"):
        log.warning("public_url is not set: signed URLs that machines get lead to %s, where nobody is", settings.host)
    if settings.auth is Auth.BASIC and settings.public_url is not None and not settings.trusted_proxies:
        log.warning("trusted_proxies is not set: where one caller behind a proxy guesses passwords, all have to wait")
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
    """An engine alone in the foreground, until SIGTERM or SIGINT: then it takes no more, gives back what it runs as
    soon as the calls under way have ended, and this returns. A second signal ends the process at once.

    Raises NotDistributed, and what opening the database raises.
    """
    preflight.check_distributed(settings, "worker")
    logs.configure(settings.log_format)
    told, tells = socket.socketpair()
    tells.setblocking(False)
    # Python's own handlers run in the main thread, once it does something: a byte that can be read wakes it, whichever
    # thread the system has interrupted.
    signal.set_wakeup_fd(tells.fileno())

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    embedded = wiring.embedded(settings)
    try:
        stop_metrics = serve_metrics(settings, embedded.meter)
        _spare_the_collector()
        log.info("heatlite %s: a worker, %s", __version__, settings.shown_database)
        if settings.public_url is None:
            log.warning("public_url is not set: signed URLs that this worker gives to machines lead to this machine")
        told.recv(1)
        log.info("stopping: running actions are given back")
        stop_metrics()
    finally:
        embedded.close()
