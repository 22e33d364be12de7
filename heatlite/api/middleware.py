"""Middleware: request ids, logs, limits, and access control."""

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import urlsplit

import falcon
from falcon import Response
from falcon.constants import COMBINED_METHODS
from falcon.routing import CompiledRouter
from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.access.authentication import AccessControl
from heatlite.api.audit import AuditTrail
from heatlite.api.request import REFUSAL, Request
from heatlite.api.wire import views
from heatlite.core.errors import Forbidden, HeatliteError, HTTPBadRequest, RequestLimitExceeded
from heatlite.core.runtime import logs
from heatlite.core.runtime.meter import Meter

log = logging.getLogger(__name__)


GLOBAL_ID = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""The id of the original request to another service, in the form of oslo.middleware."""

LOOPBACK = re.compile(r"(localhost|\[::1\]|127(\.[0-9]{1,3}){3})(:[0-9]+)?", re.IGNORECASE)


ACTION = "X-Heatlite-Action"
"""Header with the URL of the queued action. `Location` has it, too, unless Heat uses it otherwise."""


IGNORED = "X-Heatlite-Ignored"
"""Header with the reason why a signal or a mark had no effect."""

UNNAMED = frozenset({"project", "tenant", "rest"})
"""Parts of a sink's path that name neither a stack nor what belongs to it."""

OPERATIONS = frozenset({
    "actions:action", "stacks:create", "stacks:preview", "stacks:preview_update", "stacks:preview_update_patch",
    "stacks:update", "stacks:update_patch",
})  # fmt: skip
"""Rules of the requests that take the options of features."""
CHANGES = frozenset({
    "actions:action", "stacks:delete", "stacks:restore_snapshot", "stacks:update", "stacks:update_patch",
})  # fmt: skip
"""Rules of those that take the options of changes of stacks that are there."""
CREATES = frozenset({"stacks:create"})
"""Rules of those that take the options of creates."""

Keys: TypeAlias = Collection[str] | None
"""Query keys of a method of a route; None: any, because they are signed or passed on."""


class RequestMiddleware:
    """Handles every request before and after its handler.

    CSRF guard: a browser sends cached passwords with the requests of any web page. So `Origin` (RFC 6454) must be
    that of `public_url`, or that of the request's own URL. Without authentication, `Host` must be a loopback address or
    that of `public_url`.
    """

    def __init__(
        self,
        public_url: str | None,
        max_json_body_size: int,
        meter: Meter,
        access: AccessControl,
        trail: AuditTrail,
        router: CompiledRouter,
        options: Mapping[str, Mapping[str, Sequence[str]]],
    ) -> None:
        """`router` has the routes.

        It names the operations of requests that are refused before routing. `options` are those of features, by rule.
        """
        self._options = options
        self._router = router
        self._meter = meter
        self._trail = trail
        self._access = access
        self._rules: dict[str, Mapping[str, str]] = {}
        self._keys: dict[str, Mapping[str, Keys]] = {}
        self._public_url = public_url.rstrip("/") if public_url else None
        parts = urlsplit(public_url or "")
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._max_json_body_size = max_json_body_size

    def process_request(self, req: Request, resp: Response) -> None:
        """Reject invalid requests before routing."""
        part_of = req.get_header("X-Openstack-Request-Id", default="")
        global_id = part_of if GLOBAL_ID.fullmatch(part_of) else None
        req.logged = logs.begin(request_id=req.request_id, global_request_id=global_id)
        req.base = self._public_url or req.forwarded_prefix
        if REFUSAL in req.env:
            raise req.env.pop(REFUSAL)  # an error that its own traceback leads to would stay in memory for long
        self._trail.begin(req)
        if req.path.startswith("/v1.0/"):
            req.path = "/v1/" + req.path[6:]
        try:
            self._check(req)
        except HeatliteError:
            found = self._router.find(req.path, req)
            if found is not None:
                req.parts = dict(found[2])
                req.operation = self._rules.get(found[3] or "", {}).get(req.method, "")
            raise

    def _check(self, req: Request) -> None:
        """Raise the error of a request that no route may get."""
        origin = req.env.get("HTTP_ORIGIN")
        if origin is not None and origin not in (self._origin, _own_origin(req)):
            # Any web page in a browser on this machine could otherwise send text/plain and delete stacks.
            raise Forbidden("Web pages of other sites may not use this API.")
        if not self._access.is_guarded and not self._is_ours(req.env.get("HTTP_HOST")):
            # DNS rebinding: a foreign name that resolves to this machine would count as the same origin.
            raise Forbidden("The Host of the request is neither a loopback address nor that of public_url.")
        if req.method not in COMBINED_METHODS:
            req.method = "TRACE"  # no route has it: 405 with Allow instead of Falcon's 400
        if "\x00" in req.path:
            raise falcon.HTTPNotFound
        if "%00" in req.query_string:
            raise HTTPBadRequest("The query contains a NUL character.")
        length = req.content_length
        if length is not None and length > self._max_json_body_size:
            raise RequestLimitExceeded(
                f"Request limit exceeded: the body has {length} bytes, {self._max_json_body_size} are allowed."
            )

    def _is_ours(self, host: str | None) -> bool:
        """Return True if the Host is a name of this server (None: HTTP/1.0)."""
        if host is None or host == self._host:
            return True
        return LOOPBACK.fullmatch(host) is not None

    def process_resource(self, req: Request, resp: Response, resource: object, params: dict[str, str]) -> None:
        """Authenticate the caller, and check the rule and the query keys of the route."""
        rule = self._rules[req.uri_template or ""].get(req.method)
        req.operation, req.parts = rule or "", dict(params)
        # Without the request itself: a body in a cycle of references would stay in memory for long.
        req.admit = partial(self._access.admit, project=params.pop("project", None), rule=rule, named=params)
        req.admit(req)
        self._trail.admitted(req)
        if rule is not None:  # otherwise the answer is 405
            self._check_query(req, rule, self._keys[req.uri_template or ""])

    def guard(self, template: str, rules: Mapping[str, str], keys: Mapping[str, Keys]) -> None:
        """Set the rules and the query keys of a route by method.

        A route without rules answers no request.
        """
        self._rules[template] = rules
        self._keys[template] = keys

    def recorded(self, rule: str, sink: Callable[..., None]) -> Callable[..., None]:
        """Wrap a sink that admits its callers itself, for the audit log."""

        def record(req: Request, resp: Response, **parts: str) -> None:
            req.operation, req.parts = rule, parts
            sink(req, resp, **parts)

        return record

    def guarded(
        self, rules: Mapping[str, str], keys: Mapping[str, Keys], sink: Callable[..., None]
    ) -> Callable[..., None]:
        """Wrap a sink with what `process_resource` does for a route.

        `rules` and `keys` as in `guard`, `parts` of the sink as the variables of a route.
        """

        def admit(req: Request, resp: Response, **parts: str) -> None:
            rule = rules.get(req.method)
            if rule is None:
                raise falcon.HTTPMethodNotAllowed([*rules])
            named = {name: part for name, part in parts.items() if name not in UNNAMED}
            req.operation, req.parts = rule, parts
            self._access.admit(req, parts["project"], rule, named)
            self._trail.admitted(req)
            self._check_query(req, rule, keys)
            sink(req, resp, **parts)

        return admit

    def _check_query(self, req: Request, rule: str, keys: Mapping[str, Keys]) -> None:
        """Give the caller the options of the request.

        Raises HTTPBadRequest for a query key without effect on the method, and for an unknown value of an option.
        """
        if not req.query_string:
            return
        known = keys.get(req.method, ())
        options = self._options.get(rule, {})
        own = known or ()  # a route may read a key of this name itself
        if known is not None:
            query.check_known(req, (*own, *options))
        asked = {key: values for key, values in options.items() if key in req.params and key not in own}
        given = {key: query.one_of(req, key, values) for key, values in asked.items()}
        if given:
            req.caller = replace(req.caller, options=given)

    def process_response(self, req: Request, resp: Response, resource: object, req_succeeded: bool) -> None:
        """Add headers for the request id and the queued action; log and count."""
        resp.set_header("X-Openstack-Request-Id", req.request_id)
        ignored = resp.get_header(IGNORED)
        if ignored is not None:
            self._meter.signal_ignored(ignored.partition(";")[0])
        if req_succeeded and req.queued:
            url = views.action_url(req.base, req.caller.project, req.queued[0])
            resp.set_header(ACTION, url)
            if resp.location is None:
                resp.location = url
        if req.method == "OPTIONS" and req_succeeded:
            resp.status = HTTPStatus.NO_CONTENT
        self._trail.end(req, resp.status_code)
        seconds = time.perf_counter() - req.started
        log.info("%s %r %d %.1f ms", req.method, req.path, resp.status_code, seconds * 1000)
        self._meter.request_answered(req.method, req.uri_template or "", resp.status_code, seconds)
        logs.end(req.logged)


def _own_origin(req: Request) -> str:
    """Return the origin of the request's URL.

    A page of another site can set neither Host nor the headers of a proxy.
    """
    return f"{req.forwarded_scheme}://{req.forwarded_host}"
