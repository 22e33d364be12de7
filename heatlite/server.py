"""Server processes in the foreground: `heatlite serve` and `heatlite api`."""

import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from msgspec.structs import replace

from heatlite import __version__, preflight, wiring
from heatlite.core import logs
from heatlite.core.config import Auth, Settings
from heatlite.serving.application import Server

log = logging.getLogger(__name__)

SHARED_COUNTS = "PROMETHEUS_MULTIPROC_DIR"
"""Variable with the folder through which processes share the counts of `metrics`."""


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
    _run(settings, lambda found: wiring.embedded(found, url=f"http://{found.address}"), 1)


def serve_api(settings: Settings) -> None:
    """Run the API for workers in other processes until SIGTERM or SIGINT.

    Raises NotDistributed, NotLoopback, and errors of opening the database. Does not return.
    """
    preflight.check_distributed(settings, "api")
    _run(settings, wiring.api, settings.api_processes)


def _run(settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int) -> None:
    with _shared_counts() if settings.metrics and processes > 1 else nullcontext():
        _start(settings, build, processes)


def _start(settings: Settings, build: Callable[[Settings], wiring.Embedded], processes: int) -> None:
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
    Server(settings, build, processes, bound).run()
