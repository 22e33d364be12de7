"""Server processes in the foreground: `heatlite serve` and `heatlite api`."""

import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from socket import socket

from msgspec.structs import replace

from heatlite import __version__, wiring
from heatlite.administration import hold_engine
from heatlite.core.config import Auth, Settings
from heatlite.core.runtime import logs
from heatlite.core.runtime.meter import SHARED
from heatlite.engine.dispatch.hints import Hints
from heatlite.feature import active
from heatlite.serving import engine, preflight
from heatlite.serving.application import GRACE, Server
from heatlite.serving.supervisor import Child, Supervisor, unblock

log = logging.getLogger(__name__)

COMMON = ("heatlite.api.further_routes",)
"""Modules of the core that would be imported later: processes share what is loaded before the fork."""
STOP_SECONDS = GRACE + 15.0
"""Seconds for a graceful stop of the API, and of the engine after it."""


@contextmanager
def _shared_folder(settings: Settings) -> Iterator[Path]:
    """Create the folder through which processes share hints and counts.

    Enter before the first import of `metrics`.
    """
    first, folder = os.getpid(), tempfile.mkdtemp(prefix="heatlite-")
    if settings.metrics:
        os.environ[SHARED] = folder
    try:
        yield Path(folder)
    finally:
        if os.getpid() == first:  # forked processes leave by here, too
            shutil.rmtree(folder, ignore_errors=True)


def serve(settings: Settings) -> None:
    """Run API and engine until SIGTERM or SIGINT; both stop gracefully.

    Raises EngineBusy, NotLoopback, and errors of opening the database. Does not return.
    """
    if settings.serve_processes:
        with _shared_folder(settings) as folder:
            settings, bound = _listen(settings)
            # Held also while the engine is started again: commands go on asking this server.
            lock = hold_engine(settings, f"http://{settings.address}")
            code = _supervisor(settings, bound, Hints(folder)).run()
            if lock is not None:
                lock.close()
            sys.exit(code)
    settings, bound = _listen(settings)
    build = partial(wiring.embedded, url=f"http://{settings.address}")
    Server(settings, build, 1, bound, may_reload=not settings.database.startswith("sqlite:")).run()


def serve_api(settings: Settings) -> None:
    """Run the API for workers in other processes until SIGTERM or SIGINT.

    Raises NotDistributed, NotLoopback, and errors of opening the database. Does not return.
    """
    preflight.check_distributed(settings, "api")
    settings, bound = _listen(settings)
    Server(settings, wiring.api, settings.api_processes, bound).run()


def _supervisor(settings: Settings, bound: socket, hints: Hints) -> Supervisor:
    """Return the supervisor of an engine and of the API's processes."""

    def run_engine() -> None:
        bound.close()
        engine.run(settings, hints)

    def run_api() -> None:
        unblock()
        Server(settings, partial(wiring.api, hints=hints), settings.serve_processes, bound).run()

    for module in (*COMMON, *(name for one in active(settings) for name in one.shared_modules())):
        import_module(module)
    gc.freeze()  # a collection would write to the memory that processes share after the fork
    children = (Child("the engine", run_engine), Child("the API", run_api, reloads=True))
    return Supervisor(children, STOP_SECONDS, bound.close)


def _listen(settings: Settings) -> tuple[Settings, socket]:
    """Check the settings and bind the address. Returns the settings with its port.

    Raises the errors of `preflight`.
    """
    preflight.check_servable(settings)
    logs.configure(settings.log_format)
    if settings.public_url is None and settings.host in ("0.0.0.0", "::"):
        text = "public_url is not set: signed URLs for machines point to %s, which they cannot reach"
        log.warning(text, settings.host)
    if settings.auth is Auth.BASIC and settings.public_url is not None and not settings.trusted_proxies:
        log.warning("trusted_proxies is not set: failed logins of one caller behind a proxy delay all of them")
    bound = preflight.listen(settings)
    settings = replace(settings, port=bound.getsockname()[1])  # it may have been 0
    log.info("heatlite %s at http://%s, %s", __version__, settings.address, settings.shown_database)
    log.info('Point the openstack command at it: eval "$(heatlite env)"')
    return settings, bound
