"""Server processes in the foreground: gunicorn, with or without an engine.

gunicorn's arbiter process supervises the processes that answer requests. With the engine there is one of these, and
readers beside it, which accept the connections (docs/decisions/0034-readers.md).
"""

import gc
import logging
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
from gunicorn.errors import HaltServer
from gunicorn.glogging import Logger
from gunicorn.http.errors import ParseException

from heatlite import __version__, preflight, wiring
from heatlite.api.app import INSTANT
from heatlite.api.faults import on_malformed
from heatlite.api.refusal_counts import RefusalCounts
from heatlite.api.routes import App
from heatlite.channels import Channel
from heatlite.core import logs, reading
from heatlite.core.bulkhead import answer_requests
from heatlite.core.config import Auth, Settings
from heatlite.core.garbage import freeze_loaded
from heatlite.frontend import Frontend
from heatlite.store.database.driver import Dialect
from heatlite.store.database.row_waits import RowWaits

log = logging.getLogger(__name__)

GRACE = 30
"""Seconds for a graceful stop. After a kill, the next start continues the interrupted work."""


SHARED_COUNTS = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder through which processes share the counts of `metrics`."""


READER_THREADS = 2
"""Threads of a reader, unless Keystone may let it wait. More of them only compete for Python's lock."""


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


class _Arbiter(Arbiter):  # type: ignore[misc]
    """gunicorn's supervisor, which stops readers before the engine's process.

    They may still pass requests to it.
    """

    LISTENERS: list[Any]

    _is_stopping = False

    def reap_workers(self) -> None:
        """Take note of ended processes.

        One that could not start ends the server, once.
        """
        try:
            super().reap_workers()
        except HaltServer:
            if not self._is_stopping:
                raise

    def stop(self, graceful: bool = True) -> None:
        """Stop all processes."""
        self._is_stopping = True
        if graceful:
            for listener in self.LISTENERS:
                listener.close()
            self.LISTENERS = []
            readers = [pid for pid, worker in self.WORKERS.items() if worker.is_reader]
            for pid in readers:
                self.kill_worker(pid, signal.SIGTERM)
            end = time.monotonic() + self.cfg.graceful_timeout
            while not self.WORKERS.keys().isdisjoint(readers) and time.monotonic() < end:
                self.reap_workers()
                time.sleep(0.05)
        super().stop(graceful)

    def halt(self, reason: str | None = None, exit_status: int = 0) -> None:
        """End the server. Its exit code is 1 after a failure, not gunicorn's."""
        super().halt(reason, min(exit_status, 1))

    def reload(self) -> None:
        """Replace processes by new ones, which run beside the old ones for a moment."""
        if self.app.may_reload:
            super().reload()
        else:
            self.log.warning("SIGHUP is ignored: there are no readers to replace, and the engine stays")


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The gunicorn application.

    Its server starts in the worker process, after the fork.
    """

    instant = INSTANT
    """Paths that are answered without a thread and without the database."""

    def __init__(
        self, settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int, readers: int = 0
    ) -> None:
        """Configure `processes` that answer all requests, or one with `readers` beside it."""
        self._settings = settings
        self._build = build
        self._processes = processes + readers
        self._channels = (Channel(), Channel()) if readers else None
        """Connections on the way to the engine's process, and those on the way back."""
        self._is_reader = False
        self._embedded: wiring.Embedded | None = None
        self._refusals: RefusalCounts | None = None
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
            "pre_fork": self._choose,
            "post_fork": self._begin_process,
            "worker_exit": self._stop_engine,
            "forwarder_headers": "",  # SCRIPT_NAME would let a client change the path that a proxy has checked
            # Its default path is shared by all servers of a user. Older versions have no such socket.
            "control_socket_disable": True,
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def run(self) -> None:
        """Run the processes until the end."""
        _Arbiter(self).run()

    def load(self) -> App:
        """Start the server in the worker process. Returns the application."""
        self._embedded = self._build(self._settings)
        self._embedded.app.add_error_handler(ParseException, on_malformed)
        self._embedded.store.database.row_waits = RowWaits(self._settings.threads)
        self._refusals = RefusalCounts(self._embedded.store.audit, self._embedded.components.admission.suppressed)
        freeze_loaded()
        return self._embedded.app

    def pass_counts(self, put: Callable[[bytes], None]) -> None:
        """Pass this reader's counts of refusals on; see `RefusalCounts.pass_on`."""
        if self._refusals is not None:
            self._refusals.pass_on(put)

    def add_count(self, message: bytes) -> None:
        """Add a count that a reader has passed on."""
        assert self._refusals is not None
        self._refusals.add(message)

    @property
    def has_counts(self) -> bool:
        """True if counts are added and not written."""
        return self._refusals is not None and self._refusals.is_unwritten

    def write_counts(self) -> None:
        """Write the added counts to the database."""
        if self._refusals is not None:
            self._refusals.write()

    @property
    def may_reload(self) -> bool:
        """False if the only process has the engine of a SQLite file.

        That has no second one.
        """
        return self._channels is not None or not self._settings.database.startswith("sqlite:")

    @property
    def max_body(self) -> int:
        """Maximum size of a request's body in bytes."""
        return self._settings.max_json_body_size

    @property
    def has_quick_requests(self) -> bool:
        """True in a reader that waits neither for a database server nor for Keystone."""
        embedded = self._embedded
        if not self._is_reader or embedded is None or self._settings.auth is Auth.KEYSTONE:
            return False
        return embedded.store.database.dialect is Dialect.SQLITE

    def begin_thread(self) -> None:
        """Prepare a thread that answers requests."""
        answer_requests()
        if self._is_reader:
            reading.only_read()
        if self._embedded is not None:
            self._embedded.store.database.use_request_limits()

    def _listen(self, server: Arbiter) -> None:
        """Log the actual address, in the arbiter process before the fork of workers."""
        gc.freeze()  # a collection would write to the memory that processes share after the fork
        for listener in server.LISTENERS:
            self._settings = replace(self._settings, port=listener.sock.getsockname()[1])  # it may have been 0
        settings = self._settings
        server.cfg.set("bind", settings.address)  # a reload would listen anew at another one
        server.log.info("heatlite %s at http://%s, %s", __version__, settings.address, settings.shown_database)
        server.log.info('Point the openstack command at it: eval "$(heatlite env)"')

    def _choose(self, server: Arbiter, worker: Frontend) -> None:
        """Choose the part of a new process, in the arbiter process.

        There is one with the engine, the others are readers.
        """
        if self._channels is None:
            return
        worker.is_reader = not all(one.is_reader for one in server.WORKERS.values())
        if not worker.is_reader:
            worker.age = math.inf  # gunicorn ends the oldest process if there are too many: never this one

    def _begin_process(self, _server: Arbiter, worker: Frontend) -> None:
        """Prepare a new process, in the process itself."""
        self._connect(worker)
        # gunicorn looks a setting up by two calls, some twenty times for each request.
        self.cfg.__dict__.update((name, setting.get()) for name, setting in self.cfg.settings.items())

    def _connect(self, worker: Frontend) -> None:
        """Connect a new process with the others."""
        if self._channels is None:
            return
        to_engine, to_readers = self._channels
        if worker.is_reader:
            worker.inbox, worker.outbox = to_readers, to_engine
            self._is_reader, self._build = True, wiring.beside
            if self._settings.auth is not Auth.KEYSTONE:
                self.cfg.set("threads", READER_THREADS)
            return
        worker.inbox, worker.outbox = to_engine, to_readers
        for listener in worker.sockets:
            listener.close()
        worker.sockets = []

    def _stop_engine(self, _server: object, _worker: object) -> None:
        if self._embedded is not None:
            if not self._is_reader:
                self.write_counts()
            self._embedded.close()
            self._embedded = None


@contextmanager
def _shared_counts() -> Iterator[None]:
    """Let processes share their counts through a folder.

    Enter before the first import of `metrics`.
    """
    first, folder = os.getpid(), tempfile.mkdtemp(prefix="heatlite-metrics-")
    os.environ[SHARED_COUNTS] = folder
    try:
        yield
    finally:
        if os.getpid() == first:  # forked processes leave by here, too
            shutil.rmtree(folder, ignore_errors=True)


def serve(settings: Settings) -> None:
    """Run API and engine until SIGTERM or SIGINT; both stop gracefully.

    Raises EngineBusy, NotLoopback, and errors of opening the database. Does not return.
    """
    _run(settings, lambda found: wiring.embedded(found, url=f"http://{found.address}"), 1, settings.readers)


def serve_api(settings: Settings) -> None:
    """Run the API for workers in other processes until SIGTERM or SIGINT.

    Raises NotDistributed, NotLoopback, and errors of opening the database. Does not return.
    """
    preflight.check_distributed(settings, "api")
    _run(settings, wiring.api, settings.api_processes)


def _run(settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int, readers: int = 0) -> None:
    with _shared_counts() if settings.metrics and readers else nullcontext():
        _start(settings, build, processes, readers)


def _start(settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int, readers: int) -> None:
    preflight.check_servable(settings)
    logs.configure(settings.log_format)
    if settings.public_url is None and settings.host in ("0.0.0.0", "::"):
        text = "public_url is not set: signed URLs for machines point to %s, which they cannot reach"
        log.warning(text, settings.host)
    if settings.auth is Auth.BASIC and settings.public_url is not None and not settings.trusted_proxies:
        log.warning("trusted_proxies is not set: failed logins of one caller behind a proxy delay all of them")
    Server(settings, build, processes, readers).run()
