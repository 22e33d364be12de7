"""What happens to every request before and after its handler."""

import logging
import re
import time
from http import HTTPStatus
from urllib.parse import urlsplit

import falcon
from falcon import Response
from falcon.constants import COMBINED_METHODS

from heatlite.api.request import Request
from heatlite.core.context import Context
from heatlite.core.errors import Forbidden, HTTPBadRequest, RequestLimitExceeded

log = logging.getLogger(__name__)


LOOPBACK = re.compile(r"(localhost|\[::1\]|127(\.[0-9]{1,3}){3})(:[0-9]+)?", re.IGNORECASE)


class Frame:
    """Request id, request log, limits, and who asks.

    Access is `none`: nobody is asked who they are, and the project is the one in the URL. So a browser, which sends
    what any web page tells it to, is heard for pages at `public_url` only (`Origin`, RFC 6454), and a request has to
    name this machine or `public_url` as its `Host`.
    """

    def __init__(self, public_url: str | None, max_body: int) -> None:
        self._public_url = public_url.rstrip("/") if public_url else None
        parts = urlsplit(public_url or "")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._max_body = max_body

    def process_request(self, req: Request, resp: Response) -> None:
        """Before routing: refuse what no handler should see."""
        req.base = self._public_url or req.forwarded_prefix
        req.max_body = self._max_body
        origin = req.env.get("HTTP_ORIGIN")
        if origin is not None and origin != self._origin:
            # Any page that a browser on this machine shows could otherwise send text/plain here and delete stacks.
            raise Forbidden("Web pages of other sites may not use this API.")
        if not self._is_ours(req.env.get("HTTP_HOST")):
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
        """The caller, on every route below a project."""
        project = params.pop("project", None)
        if project is not None:
            req.caller = Context(project=project, request_id=req.request_id)

    def process_response(self, req: Request, resp: Response, resource: object, req_succeeded: bool) -> None:
        """The id goes out, one line goes into the log."""
        resp.set_header("X-Openstack-Request-Id", req.request_id)
        if req.method == "OPTIONS" and req_succeeded:
            resp.status = HTTPStatus.NO_CONTENT
        if log.isEnabledFor(logging.INFO):
            milliseconds = (time.perf_counter() - req.started) * 1000
            log.info("%s %s %r %d %.1f ms", req.request_id, req.method, req.path, resp.status_code, milliseconds)
