"""Worker program: an engine without the API, in a Celery worker.

`heatlite worker` and `celery -A heatlite.worker worker` run the same program. `celery -A heatlite.worker inspect` and
the like talk to workers.
"""

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from heatlite import __version__, wiring
from heatlite.api.components import Components
from heatlite.core.config import Settings, load
from heatlite.core.runtime.garbage import freeze_loaded
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.meter import Meter
from heatlite.engine.dispatch.slots import Slots
from heatlite.feature import installed
from heatlite.serving import preflight

if TYPE_CHECKING:
    from heatlite.engine.dispatch.program import WorkerProgram

log = logging.getLogger(__name__)


class Engine:
    """The engine of a worker program, with its metrics."""

    def __init__(self, settings: Settings, slots: Slots) -> None:
        """Start it. Raises NoPort, and errors of opening the database."""
        self._revoked: set[str] = set()
        """Ids of actions that an operator has revoked, until they are cancelled."""
        self._embedded = embedded = wiring.embedded(settings, slots=slots, due=self._cancel_revoked)
        assert embedded.worker is not None
        self.take = embedded.worker.take
        self.active = embedded.worker.active
        self.revoke = self._revoked.update
        self.stack_name = embedded.store.stacks.name_of
        self._stop_metrics: Callable[[], None] = lambda: None
        try:
            self._stop_metrics = serve_metrics(settings, embedded.meter)
        except preflight.NoPort:
            embedded.close()
            raise
        freeze_loaded()
        log.info("heatlite %s: a worker, %s", __version__, settings.shown_database)
        if settings.public_url is None:
            log.warning("public_url is not set: signed URLs of this worker point to this machine")

    def _cancel_revoked(self, components: Components) -> None:
        for action_id in tuple(self._revoked):
            # It would fail at each sweep, and the sweep has other work.
            with logged(log, "action %s, whose task was revoked, cannot be cancelled", action_id):
                components.controls.revoke(action_id)
            self._revoked.discard(action_id)

    def close(self) -> None:
        """Release running actions and stop."""
        self._stop_metrics()
        self._embedded.close()


def work(settings: Settings) -> None:
    """Run a worker in the main thread until SIGTERM or SIGINT.

    Then claims no more actions, releases running ones after the current calls, and returns. A second signal ends the
    process at once. Raises NotDistributed, MissingLibrary, BadSetting, and errors of opening the database.
    """
    program(settings).run()


def program(settings: Settings) -> "WorkerProgram":
    """Return the program for these settings.

    Raises NotDistributed, MissingLibrary, BadSetting.
    """
    preflight.check_distributed(settings, "worker")
    assert settings.broker is not None
    wiring.distributed().check_broker(settings.broker)
    from heatlite.engine.dispatch.program import WorkerProgram

    return WorkerProgram(settings, settings.broker, lambda slots: Engine(settings, slots))


@cache
def _configured() -> "WorkerProgram":
    return program(load(installed))


def __getattr__(name: str) -> Any:
    """Return `app`, the Celery application for the settings of the environment.

    It is made at the first use.
    """
    if name == "app":
        return _configured().app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def serve_metrics(settings: Settings, meter: Meter) -> Callable[[], None]:
    """Serve the metrics of a worker process at `metrics_port`, if configured.

    Returns a function that stops it.
    Raises NoPort.
    """
    if not settings.metrics or not settings.metrics_port:
        return lambda: None
    from heatlite.api.metrics import ProcessMetrics, serve

    assert isinstance(meter, ProcessMetrics)
    try:
        return serve(meter, settings.host, settings.metrics_port)
    except OSError as error:
        port, setting = settings.metrics_port, "the setting metrics_port"
        raise preflight.NoPort(host=settings.host, port=port, reason=error.strerror, setting=setting) from error
