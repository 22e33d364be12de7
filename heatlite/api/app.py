"""The WSGI application, and its most used routes; the others: `further_routes.py`.

Each URL has a handler and a rule for each method.
"""

from collections.abc import Callable, Mapping, Sequence

import falcon
from falcon.media import JSONHandler
from falcon.routing import CompiledRouter

from heatlite.api import faults
from heatlite.api.access.login_throttle import proxies
from heatlite.api.access.policy import OPEN
from heatlite.api.audit import AuditTrail
from heatlite.api.components import Components
from heatlite.api.handlers.audit import KEYS as AUDIT_KEYS
from heatlite.api.handlers.audit import Audit
from heatlite.api.handlers.common import StackFinder
from heatlite.api.handlers.description import Description, Page
from heatlite.api.handlers.events import LIST_KEYS as EVENT_KEYS
from heatlite.api.handlers.events import OF_RESOURCE_KEYS, Events, ProjectEvents
from heatlite.api.handlers.resources.resource_list import LIST_KEYS as RESOURCE_KEYS
from heatlite.api.handlers.resources.resources import Objects, Resource, Resources
from heatlite.api.handlers.server import BuildInfo, Engines, HealthCheck, Metrics, Versions
from heatlite.api.handlers.stacks import (
    ARN,
    LIST_KEYS,
    Counts,
    Stack,
    StackDetails,
    StackDocuments,
    StackLookup,
    Stacks,
)
from heatlite.api.middleware import RequestMiddleware
from heatlite.api.request import Request
from heatlite.api.routes import App, P, Router, Routes, S
from heatlite.core.json import dump
from heatlite.core.runtime.meter import Meter

INSTANT = frozenset({"/", "/versions", "/healthcheck", "/openapi.json", "/docs"})
"""Paths that are answered without the database and without waiting for a thread."""


def create_app(
    components: Components,
    add_features: Callable[[Routes], None],
    off: Sequence[str],
    options: Mapping[str, Mapping[str, Sequence[str]]],
    on_demand: bool = False,
) -> App:
    """Create the WSGI application. Raises BadSetting, MissingLibrary.

    `add_features` adds the routes of features, and `off` names those that are off. `options` are query keys of features
    with their values, by rule. With `on_demand`, further routes and those of features are added when a request needs
    one.
    """
    settings, meter, access = components.settings, components.meter, components.access()
    trail = AuditTrail(components.store.audit, components.clock, proxies(settings.trusted_proxies))
    router = Router() if on_demand else CompiledRouter()
    middleware = RequestMiddleware(
        settings.public_url, settings.max_json_body_size, meter, access, trail, router, options
    )
    app: App = falcon.App(request_type=Request, middleware=middleware, router=router)
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=dump)
    routes = Routes(app, middleware, trail)
    faults.install(app, routes.under_project, off, components.ways_out)
    _add_server(routes, components, meter if settings.metrics else None)
    _add_stacks(routes, components, settings.hidden_stack_tags)
    _add_resources(routes, components)

    def add_further() -> None:
        from heatlite.api import further_routes

        further_routes.add(routes, components)
        add_features(routes)

    if isinstance(router, Router):
        router.add_on_demand(add_further)
    else:
        add_further()
    return app


def _add_server(routes: Routes, components: Components, meter: Meter | None) -> None:
    versions = Versions()
    routes.add("/", versions, GET=OPEN)
    routes.add("/versions", versions, GET=OPEN)
    routes.add("/healthcheck", HealthCheck(components.has_engine), GET=OPEN)
    routes.add("/openapi.json", Description(), GET=OPEN)
    routes.add("/docs", Page(), GET=OPEN)
    if meter is not None:
        routes.add("/metrics", Metrics(meter), GET=OPEN)
    routes.add(P + "/build_info", BuildInfo(components.types), GET="build_info:build_info")
    audit = Audit(components.store)
    routes.add(P + "/audit", audit, query={"GET": AUDIT_KEYS}, GET="audit:index")
    routes.add(P + "/services", Engines(components.store, components.clock, components.has_engine), GET="service:index")


def _add_stacks(routes: Routes, components: Components, hidden_tags: Sequence[str]) -> None:
    store, finder = components.store, StackFinder(components.store)

    further = components.further
    stacks = Stacks(components.stacks, store, components.accounts, hidden_tags, further)
    keys = {"GET": (*LIST_KEYS, *store.stack_filters)}
    routes.add(P + "/stacks", stacks, query=keys, GET="stacks:index", POST="stacks:create")
    routes.add(P + "/counts", Counts(store), GET="stacks:index")
    routes.add(P + "/stacks/detail", stacks, "detail", GET="stacks:detail")
    routes.add(P + "/stacks/preview", stacks, "preview", query={"POST": ("plan",)}, POST="stacks:preview")

    lookup, looked_up = StackLookup(store), "stacks:lookup"
    every_method = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), looked_up)
    passed_on: dict[str, None] = dict.fromkeys(every_method)
    routes.add(P + "/stacks/{stack_name}", lookup, query=passed_on, **every_method)
    for child in ("resources", "events", "template", "actions"):
        route = f"{P}/stacks/{{stack_name}}/{child}"
        routes.add(route, lookup, "child", query=passed_on, GET=looked_up, POST=looked_up)
    for child in ("environment", "files", "outputs", "lock", "why"):
        route = f"{P}/stacks/{{stack_name}}/{child}"
        routes.add(route, lookup, "readable_child", query=passed_on, GET=looked_up)
    routes.add_sink(ARN, lookup.by_arn, looked_up)

    details = StackDetails(store, components.definitions, components.reader, components.accounts)
    stack = Stack(finder, components.stacks, details, further)
    keys = {"GET": ("resolve_outputs",), "DELETE": ("force", "retain", "plan_digest")}
    rules = {"GET": "stacks:show", "PUT": "stacks:update", "PATCH": "stacks:update_patch", "DELETE": "stacks:delete"}
    routes.add(S, stack, query=keys, **rules)

    documents = StackDocuments(finder, components.definitions, components.reader)
    routes.add(S + "/template", documents, "template", GET="stacks:template")
    routes.add(S + "/environment", documents, "environment", GET="stacks:environment")
    routes.add(S + "/files", documents, "files", GET="stacks:files")
    routes.add(S + "/outputs", documents, "outputs", GET="stacks:list_outputs")
    routes.add(S + "/outputs/{output_key}", documents, "output", GET="stacks:show_output")


def _add_resources(routes: Routes, components: Components) -> None:
    store, finder, reading = components.store, StackFinder(components.store), components.reader

    resource = Resource(finder, store, reading, components.health, components.software)
    resources = Resources(finder, store, reading, components.health)
    objects = Objects(store, reading)
    routes.add(P + "/resources", objects, query={"GET": ("physical_resource_id",)}, GET="resource:index")
    keys = {"GET": RESOURCE_KEYS}
    routes.add(S + "/resources", resources, query=keys, GET="resource:index", PATCH="resource:mark_unhealthy")
    rules = {"GET": "resource:show", "PATCH": "resource:mark_unhealthy"}
    routes.add_below("", resource, query={"GET": ("with_attr",)}, **rules)
    routes.add_below("/metadata", resource, "metadata", GET="resource:metadata")

    events = Events(finder, store, reading, components.streams)
    routes.add(P + "/events", ProjectEvents(components.streams), query={"GET": ("marker",)}, GET="events:index")
    routes.add(S + "/events", events, query={"GET": EVENT_KEYS}, GET="events:index")
    routes.add_below("/events", events, "of_resource", query={"GET": OF_RESOURCE_KEYS}, GET="events:index")
    routes.add_below("/events/{event_id}", events, "one", GET="events:show")
