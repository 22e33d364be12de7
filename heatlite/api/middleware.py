"""What happens to every request before and after its handler."""

import logging
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from urllib.parse import urlsplit

import falcon
from falcon import Response
from falcon.constants import COMBINED_METHODS

from heatlite.api import views
from heatlite.api.access.authentication import AccessControl
from heatlite.api.request import Request
from heatlite.core import logs
from heatlite.core.errors import Forbidden, HTTPBadRequest, RequestLimitExceeded
from heatlite.core.meter import Meter

log = logging.getLogger(__name__)


GLOBAL_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""The id of a request to another service, of which this one is a part (the form of oslo.middleware)."""

LOOPBACK = re.compile(r"(localhost|\[::1\]|127(\.[0-9]{1,3}){3})(:[0-9]+)?", re.IGNORECASE)


ACTION = "X-Heatlite-Action"
"""The URL of the action that a request has queued; also `Location`, where Heat sends no other."""


class RequestMiddleware:
    """Request id, request log, limits, and who asks.

    A browser sends what any web page tells it to, and a password that it was once told goes along. So it is heard for
    pages at `public_url` only (`Origin`, RFC 6454). Where nobody is asked who he is, a request has to name this machine
    or `public_url` as its `Host`, too.
    """

    def __init__(self, public_url: str | None, max_body: int, meter: Meter, access: AccessControl) -> None:
        self._meter = meter
        self._access = access
        self._rules: dict[str, Mapping[str, str]] = {}
        self._public_url = public_url.rstrip("/") if public_url else None
        parts = urlsplit(public_url or "")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._max_body = max_body

    def process_request(self, req: Request, resp: Response) -> None:
        """Before routing: refuse what no handler should see."""
        part_of = req.get_header("X-Openstack-Request-Id", default="")
        global_id = part_of if GLOBAL_ID.fullmatch(part_of) else None
        req.logged = logs.begin(request_id=req.request_id, global_request_id=global_id)
        req.base = self._public_url or req.forwarded_prefix
        req.max_body = self._max_body
        origin = req.env.get("HTTP_ORIGIN")
        if origin is not None and origin != self._origin:
            # Any page that a browser on this machine shows could otherwise send text/plain here and delete stacks.
            raise Forbidden("Web pages of other sites may not use this API.")
        if not self._access.is_guarded and not self._is_ours(req.env.get("HTTP_HOST")):
            # A name that its owner has pointed at this machine makes a page of his count as ours.
            raise Forbidden("The Host of the request is neither a loopback address nor that of public_url.")
        if req.method not in COMBINED_METHODS:
            req.method = "TRACE"  # a method that no route has: 405 with Allow, where Falcon would say 400
        if "\x00" in req.path:
            raise falcon.HTTPNotFound
        if "%00" in req.query_string:
            raise HTTPBadRequest("The query holds a NUL character.")
        length = req.content_length
        if length is not None and length > self._max_body:
            raise RequestLimitExceeded(
                f"Request limit exceeded: the body has {length} bytes, {self._max_body} are allowed."
            )
        if req.path.startswith("/v1.0/"):
            req.path = "/v1/" + req.path[6:]

    def _is_ours(self, host: str | None) -> bool:
        """Whether a request was sent to a name of this server (none: HTTP/1.0)."""
        if host is None or host == self._host:
            return True
        return LOOPBACK.fullmatch(host) is not None

    def process_resource(self, req: Request, resp: Response, resource: object, params: dict[str, str]) -> None:
        """The caller, and whether he may."""
        rule = self._rules[req.uri_template or ""].get(req.method)
        req.admit = partial(self._access.admit, req, params.pop("project", None), rule, params)
        req.admit()

    def guard(self, template: str, rules: Mapping[str, str]) -> None:
        """Ask for these rules, by method, at a route.

        One that nobody has guarded answers nobody.
        """
        self._rules[template] = rules

    def guarded(self, rule: str, sink: Callable[..., None]) -> Callable[..., None]:
        """A sink that asks for a rule, in the project and for the stack of its URL."""

        def admit(req: Request, resp: Response, **parts: str) -> None:
            named = {name: parts[name] for name in ("stack_name", "stack_id")}
            self._access.admit(req, parts["project"], rule, named)
            sink(req, resp, **parts)

        return admit

    def process_response(self, req: Request, resp: Response, resource: object, req_succeeded: bool) -> None:
        """The id goes out, and where the action is that was queued; one line goes into the log, and it is counted."""
        resp.set_header("X-Openstack-Request-Id", req.request_id)
        if req_succeeded and req.queued:
            url = views.action_url(req.base, req.caller.project, req.queued[0])
            resp.set_header(ACTION, url)
            if resp.location is None:
                resp.location = url
        if req.method == "OPTIONS" and req_succeeded:
            resp.status = HTTPStatus.NO_CONTENT
        seconds = time.perf_counter() - req.started
        log.info("%s %r %d %.1f ms", req.method, req.path, resp.status_code, seconds * 1000)
        self._meter.request_answered(req.method, req.uri_template or "", resp.status_code, seconds)
        logs.end(req.logged)
