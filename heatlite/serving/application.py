"""The gunicorn application: API processes behind gunicorn's asynchronous worker.

gunicorn reads and frames HTTP, and supervises the processes. The `Bridge` answers.
"""

import asyncio
import gc
import itertools
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.glogging import Logger

from heatlite import wiring
from heatlite.api.app import INSTANT
from heatlite.core.config import Settings
from heatlite.core.runtime.bulkhead import answer_requests
from heatlite.core.runtime.garbage import freeze_loaded
from heatlite.serving.bridge import Bridge, Message
from heatlite.serving.connection_guard import ConnectionGuard
from heatlite.serving.supervisor import end_with_parent
from heatlite.store.database.row_waits import RowWaits

log = logging.getLogger(__name__)

GRACE = 30
"""Seconds for a graceful stop. After a kill, the next start continues the interrupted work."""
MAX_FILES = 65_536
"""Open files of a process, as far as the system allows. Each connection is one."""
BODY_GRACE = 1.0
"""Seconds for bodies that arrive during a stop. Their requests have not been accepted."""
ACCEPTED = 32
"""Connections that a process accepts in one round of its event loop."""
OF_COPIES = ("Listening at", "ASGI server listening")
CHECK_INTERVAL = 0.25
"""Seconds from one measurement of the event loop's lag to the next, and between looks at connections during a stop."""
LOOK_CHECKS = 4
"""Measurements from one look at connections to the next. A look shows that the process has to stop, too."""


class Log(Logger):  # type: ignore[misc]  # gunicorn has no types
    """Logger of gunicorn that writes to the root logger."""

    def setup(self, cfg: Any) -> None:
        """Forward records to the root logger."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True

    def info(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log a message, but none that names each copy of the listening socket."""
        if not msg.startswith(OF_COPIES):
            super().info(msg, *args, **kwargs)


class Server(BaseApplication):  # type: ignore[misc]
    """The application of all processes.

    `build` creates what answers, in each process after the fork.
    """

    def __init__(
        self,
        settings: Settings,
        build: Callable[[Settings], wiring.Embedded],
        processes: int,
        bound: socket.socket,
        may_reload: bool = True,
    ) -> None:
        """Serve the address of `bound`, whose port `settings` has.

        Without `may_reload` the process has the engine of a SQLite file, which has no second one.
        """
        self._settings = settings
        self._build = build
        self._processes = processes
        self._may_reload = may_reload
        # The event loop accepts one connection of each file after it has looked after all others.
        self._bind = [f"fd://{os.dup(bound.fileno())}" for _ in range(ACCEPTED)]
        bound.close()
        self._embedded: wiring.Embedded | None = None
        super().__init__()

    def load_config(self) -> None:
        """Set the options of gunicorn."""
        options: dict[str, Any] = {
            "bind": self._bind,
            "workers": self._processes,
            "worker_class": "asgi",
            "asgi_lifespan": "on",
            "asgi_loop": "uvloop",
            "asgi_disconnect_grace_period": 0,  # a request that waits for a thread ends with its client
            "http_parser": "python",
            "limit_request_field_size": 4094,  # a length of more than 4300 digits would be an error of Python
            "graceful_timeout": GRACE,
            "timeout": 60,
            "keepalive": 75,
            "proc_name": "heatlite",
            "logger_class": Log,
            "when_ready": self._prepare,
            "post_fork": self._begin_fork,
            "worker_exit": self._end_process,
            "forwarder_headers": "",  # SCRIPT_NAME would let a client change the path that a proxy has checked
            "control_socket_disable": True,  # its default path is shared by all servers of a user
        }
        for name, value in options.items():
            self.cfg.set(name, value)

    def run(self) -> None:
        """Run the processes until the end. The exit code after a failure is 1."""
        first = os.getpid()
        try:
            super().run()
        except BaseException as end:  # gunicorn's own as well, if two processes fail at once
            if os.getpid() != first:
                raise
            raise SystemExit(0 if isinstance(end, SystemExit) and not end.code else 1) from None

    def load(self) -> Callable[..., Awaitable[None]]:
        """Start a process. Returns its ASGI application."""
        settings, embedded = self._settings, self._build(self._settings)
        self._embedded, self._guard = embedded, ConnectionGuard(settings.port)
        embedded.store.database.row_waits = RowWaits(settings.threads)
        self._bridge = Bridge(
            embedded.app,
            settings.threads,
            settings.max_json_body_size,
            self._guard,
            INSTANT,
            self._begin_thread,
            embedded.store.database.path is not None,
        )
        freeze_loaded()
        return self._answer

    async def _answer(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request, or live as long as the process."""
        if scope["type"] == "http":
            await self._bridge(scope, receive, send)
        elif scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            watch = asyncio.create_task(self._watch())
            await receive()
            watch.cancel()
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await send({"type": "websocket.close"})

    async def _watch(self) -> None:
        """Guard the connections. Close them once the process has to stop."""
        assert self._embedded is not None
        for check in itertools.count():
            if check % LOOK_CHECKS == 0 and not self._guard.look():
                break
            begun = time.monotonic()
            await asyncio.sleep(CHECK_INTERVAL)
            self._bridge.lines.lag = time.monotonic() - begun - CHECK_INTERVAL
        self._embedded.components.streams.close()
        end = time.monotonic() + BODY_GRACE
        while True:
            self._guard.look(stops=True)
            if time.monotonic() > end:
                self._bridge.memory.end_bodies()
            await asyncio.sleep(CHECK_INTERVAL)

    def _begin_thread(self) -> None:
        """Prepare a thread that answers requests."""
        assert self._embedded is not None
        answer_requests()
        self._embedded.store.database.use_request_limits()

    def _prepare(self, _server: object) -> None:
        """Prepare the first process, before the others."""
        log.info("Listening at: http://%s (%d)", self._settings.address, os.getpid())
        self._first = os.getpid()
        gc.freeze()  # a collection would write to the memory that processes share after the fork
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        if not self._may_reload:
            # A new process would start beside the old one.
            text = "SIGHUP is ignored: the process has the engine of a SQLite file"
            signal.signal(signal.SIGHUP, lambda *_: log.warning(text))

    def _begin_fork(self, _server: object, _worker: object) -> None:
        end_with_parent(self._first)

    def _end_process(self, _server: object, _worker: object) -> None:
        if self._embedded is not None:
            self._embedded.close()
            self._embedded = None
