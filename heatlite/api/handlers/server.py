"""The server itself: versions, health, metrics, build information and engines."""

from http import HTTPStatus

from falcon import MEDIA_TEXT, Response

import heatlite
from heatlite.api import views
from heatlite.api.request import Request
from heatlite.core.clock import Clock
from heatlite.core.meter import Meter
from heatlite.core.reading import require_engine
from heatlite.plugin.registry import Registry
from heatlite.store.store import Store


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

    def on_get(self, req: Request, resp: Response) -> None:
        """Answer OK: the server accepts requests."""
        resp.content_type = MEDIA_TEXT
        resp.text = "OK"


class Metrics:
    """/metrics, if configured."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def on_get(self, req: Request, resp: Response) -> None:
        """Return the metrics in the text format of Prometheus."""
        require_engine()
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

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def on_get(self, req: Request, resp: Response) -> None:
        """List the engines with their state and running actions."""
        now = self._clock.now()
        running, project = self._store.actions.running(), req.caller.project
        known = self._store.services.list()
        resp.media = {"services": [views.service(record, running, project, now) for record in known]}
