"""gunicorn in the foreground: one process answers requests and runs the engine, a second one watches over it."""

import gc
import logging
import socket
import struct
from dataclasses import replace
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.http.errors import ParseException

from heatlite import __version__, wiring
from heatlite.api.app import App
from heatlite.api.faults import on_malformed
from heatlite.core.config import Settings

GRACE = 30
"""Seconds that a drain may take before the process is killed; what was cut off is taken up at the next start."""

PATIENCE = 10
"""Seconds that a client may be silent in the middle of a request, or leave an answer lying."""


class Server(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The gunicorn application. The engine starts in the worker process, after the fork."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedded: wiring.Embedded | None = None
        super().__init__()

    def load_config(self) -> None:
        """Tell gunicorn what we want of it."""
        settings = self._settings
        options: dict[str, Any] = {
            "bind": settings.address,
            "workers": 1,
            "worker_class": "gthread",
            "threads": settings.threads,
            "graceful_timeout": GRACE,
            "timeout": 60,
            "keepalive": 75,
            "proc_name": "heatlite",
            "when_ready": self._listen,
            "worker_exit": self._stop_engine,
            # Its default path is shared by all servers of a user. Older versions have no such socket.
            "control_socket_disable": True,
        }
        for name, value in options.items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def load(self) -> App:
        """In the worker process: start the engine; the application is its face."""
        self._embedded = wiring.embedded(self._settings, url=f"http://{self._settings.address}")
        self._embedded.app.add_error_handler(ParseException, on_malformed)
        _spare_the_collector()
        return self._embedded.app

    def _listen(self, server: Arbiter) -> None:
        """In the watching process, before there is a worker: finish what gunicorn leaves open."""
        for listener in server.LISTENERS:
            # Whoever connects and says nothing is not let in, where the system knows how.
            if defer := getattr(socket, "TCP_DEFER_ACCEPT", None):
                listener.sock.setsockopt(socket.IPPROTO_TCP, defer, PATIENCE)
            # A connection inherits these: half a request, or an answer that nobody fetches, holds a thread no longer.
            for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                listener.sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", PATIENCE, 0))
            self._settings = replace(self._settings, port=listener.sock.getsockname()[1])  # it may have been 0
        server.log.error_log.addFilter(_is_ours)
        settings = self._settings
        server.log.info("heatlite %s at http://%s, %s", __version__, settings.address, settings.shown_database)
        server.log.info('Point the openstack command at it: eval "$(heatlite env)"')

    def _stop_engine(self, _server: object, _worker: object) -> None:
        if self._embedded is not None:
            self._embedded.close()
            self._embedded = None


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether a record tells of more than a client that fell silent, for which gunicorn has a whole traceback."""
    return record.exc_info is None or not isinstance(record.exc_info[1], BlockingIOError)


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
    wiring.check_servable(settings)
    Server(settings).run()
