"""The engine's process of `heatlite serve`."""

import logging
import signal

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.runtime.garbage import freeze_loaded
from heatlite.engine.dispatch.hints import ENGINE, Hints, receive

log = logging.getLogger(__name__)


def run(settings: Settings, hints: Hints) -> None:
    """Run an engine until SIGTERM, which the caller has blocked.

    Raises BadSetting, and errors of opening the database.
    """
    embedded = wiring.embedded(settings, hints=hints)
    stop = receive(hints.inbox(ENGINE), embedded.take)  # its existence says that the engine works
    freeze_loaded()
    log.info("the engine works")
    signal.sigwait({signal.SIGTERM})
    log.info("the engine stops: it gives back what runs")
    stop()
    embedded.close()
