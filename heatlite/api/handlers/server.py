"""The server itself: versions, health, metrics, build information and engines."""

from collections.abc import Callable
from http import HTTPStatus

from falcon import MEDIA_TEXT, Response

import heatlite
from heatlite.api.request import Request
from heatlite.api.wire import views
from heatlite.core.clock import Clock
from heatlite.core.runtime.meter import Meter
from heatlite.engine.dispatch.hints import is_up
from heatlite.plugin.registry import Registry
from heatlite.store.store import Store

NO_ENGINE = "OK, but the engine is not running. Requests are accepted, and their actions wait. The log says why."


class Versions:
    """The version document, which needs no project."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the document at the root, with the status for a choice."""
        self.on_get_one(req, resp)
        resp.status = HTTPStatus.MULTIPLE_CHOICES

    def on_get_one(self, req: Request, resp: Response) -> None:
        """Return the document at the version's own URL."""
        links = [views.link("self", f"{req.base}/v1/")]
        resp.media = {"versions": [{"id": "v1.0", "status": "CURRENT", "links": links}]}


class HealthCheck:
    """/healthcheck."""

    def __init__(self, has_engine: Callable[[], bool]) -> None:
        self._has_engine = has_engine

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer OK: the server accepts requests. Actions wait while it has no engine."""
        resp.content_type = MEDIA_TEXT
        resp.text = "OK" if self._has_engine() else NO_ENGINE


class Metrics:
    """/metrics, if configured."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the metrics in the text format of Prometheus."""
        resp.content_type = "text/plain; version=0.0.4; charset=utf-8"
        resp.data = self._meter.text()


class BuildInfo:
    """P/build_info."""

    def __init__(self, types: Registry) -> None:
        self._types = types

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the version of heatlite, the name of the cloud, and that of the caller."""
        revision = {"revision": heatlite.__version__}
        resp.media = {
            "api": revision,
            "engine": revision,
            "cloud": self._types.installation.cloud or None,
            "user": req.caller.user,
        }


class Engines:
    """P/services."""

    def __init__(self, store: Store, clock: Clock, has_engine: Callable[[], bool]) -> None:
        self._store = store
        self._clock = clock
        self._has_engine = has_engine

    def on_get(self, req: Request, resp: Response) -> None:
        """List the engines with their state and running actions."""
        now = self._clock.now()
        running, project = self._store.actions.running(), req.caller.project
        known = {one: is_up(one, now, self._has_engine) for one in self._store.services.list()}
        resp.media = {"services": [views.service(one, up, running, project) for one, up in known.items()]}
