"""Adds routes to the application, with their rules."""

import re
from collections.abc import Callable, Mapping
from threading import RLock
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import falcon
from falcon import Response
from falcon.constants import COMBINED_METHODS
from falcon.routing import CompiledRouter, map_http_methods

from heatlite.api.access.policy import SIGNAL
from heatlite.api.audit import AuditTrail
from heatlite.api.middleware import Keys, RequestMiddleware
from heatlite.api.request import Request

App: TypeAlias = "falcon.App[Request, Response]"
Sink: TypeAlias = Callable[..., None]

VERSION = "/v1"
"""Path of the version document."""
P = "/v1/{project}"
S = P + "/stacks/{stack_name}/{stack_id}"
R = S + "/resources/{resource_name}"

_DEEP = r"(?P<resource_name>[^/]+(?:/[^/]+)+)"
"""A path into nested stacks; its slashes prevent an ordinary route."""
_SEGMENT = re.compile(r"\{(\w+)\}")


class Router(CompiledRouter):
    """A router that adds some routes at the first path that no other route has.

    One command uses few routes, and the handlers of the others take long to import.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = RLock()
        self._add_others: Callable[[], None] | None = None

    def add_on_demand(self, add_others: Callable[[], None]) -> None:
        """Set the function that adds the other routes."""
        self._add_others = add_others

    def find(self, uri: str, req: Any = None) -> Any:
        """Return the route of a path, or None."""
        if self._add_others is None:
            return super().find(uri, req)
        with self._lock:
            found = super().find(uri, req)
            if found is None and self._add_others is not None:
                add_others, self._add_others = self._add_others, None
                add_others()
                found = super().find(uri, req)
            return found


class Routes:
    """Adds routes to the application, with the rule of each method (`access.policy`)."""

    def __init__(self, app: App, middleware: RequestMiddleware, trail: AuditTrail) -> None:
        self.app = app
        self.trail = trail
        self.under_project: set[str] = set()
        """First segments of the paths below a project."""
        self._middleware = middleware

    def add(
        self,
        template: str,
        resource: object,
        suffix: str | None = None,
        query: Mapping[str, Keys] = MappingProxyType({}),
        **rules: str,
    ) -> None:
        """Add a route. `rules` needs one entry for each method of the handler.

        `query` has the query keys of those methods that take any. A route that is added again replaces the former.
        """
        assert rules.keys() == map_http_methods(resource, suffix).keys(), f"{template} needs one rule for each method"
        self.app.add_route(template, resource, suffix=suffix)
        if template.startswith(f"{P}/"):
            self.under_project.add(template.split("/")[3])
        self._middleware.guard(template, rules, query)

    def add_below(
        self,
        rest: str,
        resource: object,
        suffix: str | None = None,
        query: Mapping[str, Keys] = MappingProxyType({}),
        **rules: str,
    ) -> None:
        """Add a route below a resource of a stack, as `add`.

        In place of the resource's name, its path into nested stacks is the `resource_name` of the handler. Among the
        routes that match a path, the last one added answers.
        """
        self.add(R + rest, resource, suffix, query, **rules)
        responders = cast(Mapping[str, Sink], map_http_methods(resource, suffix))

        def respond(req: Request, resp: Response, project: str, **parts: str) -> None:
            responders[req.method](req, resp, **parts)

        deep = R.replace("{resource_name}", _DEEP) + rest
        pattern = _SEGMENT.sub(r"(?P<\1>[^/]+)", deep) + "$"
        self.app.add_sink(self._middleware.guarded(rules, query, respond), pattern)

    def add_sink(self, pattern: str, sink: Sink, rule: str) -> None:
        """Add a handler for all methods of the paths that match a regular expression.

        It passes the query on.
        """
        every = dict.fromkeys(COMBINED_METHODS, rule)
        self.app.add_sink(self._middleware.guarded(every, dict.fromkeys(every), sink), pattern)

    def add_open_sink(self, pattern: str, sink: Sink) -> None:
        """Add such a handler for signals. It checks the signature of the URL itself."""
        self.app.add_sink(self._middleware.recorded(SIGNAL, sink), pattern)
