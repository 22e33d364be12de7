"""The route table: every URL with its handler and the rule for each method."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import falcon
from falcon import Response
from falcon.media import JSONHandler
from falcon.routing import map_http_methods

from heatlite.api import faults
from heatlite.api.access.factory import create_access_control
from heatlite.api.access.policy import OPEN, PROVEN, REPORT, SIGNAL
from heatlite.api.components import Components
from heatlite.api.handlers.actions import Actions
from heatlite.api.handlers.common import StackFinder
from heatlite.api.handlers.events import Events
from heatlite.api.handlers.locks import Lock
from heatlite.api.handlers.member_actions import DEEP, MemberActions
from heatlite.api.handlers.resources import Resource, Resources
from heatlite.api.handlers.server import BuildInfo, Engines, HealthCheck, Metrics, Versions
from heatlite.api.handlers.signals import SIGNED, ResourceSignal, SignedSignals
from heatlite.api.handlers.snapshots import Snapshots
from heatlite.api.handlers.software import SoftwareConfigs, SoftwareDeployments
from heatlite.api.handlers.stack_actions import StackActions
from heatlite.api.handlers.stacks import (
    ARN,
    Stack,
    StackDetails,
    StackDocuments,
    StackExport,
    StackLookup,
    Stacks,
)
from heatlite.api.handlers.templates import ResourceTypes, TemplateVersions, Validate
from heatlite.api.healing.intake import IntakeTokens, Objects, Sources
from heatlite.api.healing.policies import HealingPolicies, Incidents
from heatlite.api.middleware import RequestMiddleware
from heatlite.api.nodes.node_actions import NodeActions
from heatlite.api.nodes.nodes import Node, Nodes
from heatlite.api.nodes.playbooks import Playbooks
from heatlite.api.request import Request
from heatlite.core.config import Settings
from heatlite.core.json import dump
from heatlite.core.meter import Meter
from heatlite.nodes.playbooks import APPROVE as APPROVE_RUN
from heatlite.nodes.requests import APPROVE

App: TypeAlias = "falcon.App[Request, Response]"
Sink: TypeAlias = Callable[..., None]

P = "/v1/{project}"
S = P + "/stacks/{stack_name}/{stack_id}"
R = S + "/resources/{resource_name}"

INSTANT = frozenset({"/", "/versions", "/v1", "/healthcheck"})
"""Paths that are answered without the database and without waiting for a thread."""


def create_app(components: Components, settings: Settings, meter: Meter) -> App:
    """Create the WSGI application. Raises BadSetting, MissingLibrary."""
    access = create_access_control(
        settings, components.clock, components.self_auth, components.accounts, components.store
    )
    middleware = RequestMiddleware(settings.public_url, settings.max_json_body_size, meter, access)
    app: App = falcon.App(request_type=Request, middleware=middleware)
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=dump)
    faults.install(app)
    routes = Routes(app, middleware)
    _add_server(routes, components, meter if settings.metrics else None)
    _add_stacks(routes, components, settings.hidden_stack_tags)
    _add_stack_parts(routes, components)
    _add_nodes(routes, components)
    _add_healing(routes, components)
    _add_templates_and_software(routes, components)
    return app


class Routes:
    """Adds routes to the application, with the rule of each method (`access.policy`)."""

    def __init__(self, app: App, middleware: RequestMiddleware) -> None:
        self.app = app
        self._middleware = middleware

    def add(self, template: str, resource: object, suffix: str | None = None, **rules: str) -> None:
        """Add a route. `rules` needs one entry for each method of the handler."""
        assert rules.keys() == map_http_methods(resource, suffix).keys(), f"{template} needs one rule for each method"
        self.app.add_route(template, resource, suffix=suffix)
        self._middleware.guard(template, rules)

    def add_sink(self, pattern: str, sink: Sink, rule: str) -> None:
        """Add a handler for all methods of the paths that match a regular expression."""
        self.app.add_sink(self._middleware.guarded(rule, sink), pattern)

    def add_open_sink(self, pattern: str, sink: Sink) -> None:
        """Add such a handler without a rule: it checks the signature of the URL itself."""
        self.app.add_sink(sink, pattern)


def _add_server(routes: Routes, components: Components, meter: Meter | None) -> None:
    versions = Versions()
    routes.add("/", versions, GET=OPEN)
    routes.add("/versions", versions, GET=OPEN)
    routes.add("/v1", versions, "one", GET=OPEN)
    routes.add("/healthcheck", HealthCheck(), GET=OPEN)
    if meter is not None:
        routes.add("/metrics", Metrics(meter), GET=OPEN)
    routes.add(P + "/build_info", BuildInfo(components.types), GET="build_info:build_info")
    routes.add(P + "/services", Engines(components.store, components.clock), GET="service:index")


def _add_stacks(routes: Routes, components: Components, hidden_tags: Sequence[str]) -> None:
    store, finder = components.store, StackFinder(components.store)

    stacks = Stacks(components.stacks, store, components.accounts, hidden_tags)
    routes.add(P + "/stacks", stacks, GET="stacks:index", POST="stacks:create")
    routes.add(P + "/stacks/detail", stacks, "detail", GET="stacks:detail")
    routes.add(P + "/stacks/preview", stacks, "preview", POST="stacks:preview")

    lookup, looked_up = StackLookup(store), "stacks:lookup"
    every_method = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), looked_up)
    routes.add(P + "/stacks/{stack_name}", lookup, **every_method)
    for child in ("resources", "events", "template", "actions"):
        routes.add(f"{P}/stacks/{{stack_name}}/{child}", lookup, "child", GET=looked_up, POST=looked_up)
    for child in ("environment", "files", "outputs", "lock"):
        routes.add(f"{P}/stacks/{{stack_name}}/{child}", lookup, "readable_child", GET=looked_up)
    routes.add_sink(ARN, lookup.by_arn, looked_up)

    details = StackDetails(store, components.definitions, components.reader, components.accounts)
    stack = Stack(finder, components.stacks, details, components.heal_by_hand)
    routes.add(S, stack, GET="stacks:show", PUT="stacks:update", PATCH="stacks:update_patch", DELETE="stacks:delete")
    routes.add(S + "/preview", stack, "preview", PUT="stacks:preview_update", PATCH="stacks:preview_update_patch")

    documents = StackDocuments(finder, components.definitions, components.reader)
    routes.add(S + "/template", documents, "template", GET="stacks:template")
    routes.add(S + "/environment", documents, "environment", GET="stacks:environment")
    routes.add(S + "/files", documents, "files", GET="stacks:files")
    routes.add(S + "/outputs", documents, "outputs", GET="stacks:list_outputs")
    routes.add(S + "/outputs/{output_key}", documents, "output", GET="stacks:show_output")

    export = StackExport(finder, components.exports)
    routes.add(S + "/abandon", export, "abandon", DELETE="stacks:abandon")
    routes.add(S + "/export", export, GET="stacks:export")


def _add_stack_parts(routes: Routes, components: Components) -> None:
    store, finder = components.store, StackFinder(components.store)
    maintenance, reading, signals = components.maintenance, components.reader, components.signals

    by_hand = components.heal_by_hand
    stack_actions = StackActions(finder, components.stacks, maintenance, components.protection, signals, by_hand)
    routes.add(S + "/actions", stack_actions, POST="actions:action")

    actions = Actions(store, components.controls)
    routes.add(P + "/actions", actions, GET="actions:list")
    routes.add(P + "/actions/{action}", actions, "one", GET="actions:show", POST="actions:signal")
    routes.add(P + "/actions/{action}/history", actions, "history", GET="actions:history")

    snapshots = Snapshots(finder, store, components.snapshots)
    routes.add(S + "/snapshots", snapshots, GET="stacks:list_snapshots", POST="stacks:snapshot")
    one = S + "/snapshots/{snapshot_id}"
    routes.add(one, snapshots, "one", GET="stacks:show_snapshot", DELETE="stacks:delete_snapshot")
    routes.add(one + "/restore", snapshots, "restore", POST="stacks:restore_snapshot")

    lock = Lock(finder, store, maintenance, routes.app)
    routes.add(S + "/lock", lock, GET="stacks:show_lock")
    routes.add(S + "/lock/suppressed/{suppressed_id}", lock, "suppressed", DELETE="stacks:drop_suppressed")
    routes.add(S + "/lock/suppressed/{suppressed_id}/replay", lock, "replay", POST="stacks:replay_suppressed")

    resource = Resource(finder, store, reading, components.health)
    routes.add(S + "/resources", Resources(finder, store, reading), GET="resource:index")
    routes.add(R, resource, GET="resource:show", PATCH="resource:mark_unhealthy")
    members = MemberActions(finder, components.groups)
    routes.add(R + "/actions", members, POST="actions:action")
    routes.add_sink(DEEP, members.by_path, "actions:action")
    routes.add(R + "/metadata", resource, "metadata", GET="resource:metadata")
    routes.add(R + "/signal", ResourceSignal(finder, reading, signals), POST=SIGNAL)
    routes.add_open_sink(SIGNED, SignedSignals(reading, signals).by_arn)

    events = Events(finder, store, reading, components.streams)
    routes.add(S + "/events", events, GET="events:index")
    routes.add(R + "/events", events, "of_resource", GET="events:index")
    routes.add(R + "/events/{event_id}", events, "one", GET="events:show")


def _add_nodes(routes: Routes, components: Components) -> None:
    store, finder = components.store, StackFinder(components.store)

    node = Node(components.nodes, components.signals)
    routes.add(R + "/node", node, PUT=PROVEN, POST=PROVEN)
    nodes = Nodes(finder, components.nodes)
    routes.add(S + "/nodes", nodes, GET="nodes:index")
    routes.add(S + "/orchestrate", nodes, "orchestrate", POST="nodes:orchestrate")

    node_actions = NodeActions(finder, store, components.reader, components.node_requests)
    routes.add(P + "/node_actions", node_actions, GET="node_actions:list")
    one = P + "/node_actions/{node_action_id}"
    routes.add(one, node_actions, "one", GET="node_actions:show")
    routes.add(one + "/approve", node_actions, "approve", POST=APPROVE)
    routes.add(one + "/reject", node_actions, "reject", POST="node_actions:reject")
    routes.add(one + "/cancel", node_actions, "cancel", POST="node_actions:cancel")
    routes.add(S + "/node_actions", node_actions, "of_stack", GET="node_actions:list", POST="node_actions:create")

    playbooks = Playbooks(finder, store, components.playbooks)
    routes.add(P + "/node_playbooks", playbooks, GET="node_playbooks:list")
    rules = {"GET": "node_playbooks:show", "PUT": "node_playbooks:put", "DELETE": "node_playbooks:delete"}
    routes.add(P + "/node_playbooks/{playbook}", playbooks, "one", **rules)
    routes.add(S + "/node_playbook_runs", playbooks, "run", POST="node_playbooks:run")
    one = P + "/node_playbook_runs/{run}"
    routes.add(one + "/approve", playbooks, "approve", POST=APPROVE_RUN)
    routes.add(one + "/reject", playbooks, "reject", POST="node_playbooks:reject")


def _add_healing(routes: Routes, components: Components) -> None:
    finder, healing = StackFinder(components.store), components.healing_operations

    policies = HealingPolicies(finder, healing)
    routes.add(S + "/healing", policies, GET="stacks:show_healing", PUT="stacks:healing", DELETE="stacks:healing")
    routes.add(S + "/healing/acknowledge", policies, "acknowledge", POST="health:operate")

    sources = Sources(components.intake)
    one = P + "/health/{source}"
    routes.add(one, sources, GET="health:show", POST=REPORT, PUT=REPORT)
    routes.add(one + "/config", sources, "config", PUT="health:configure", DELETE="health:configure")
    routes.add(one + "/acknowledge", sources, "acknowledge", POST="health:configure")
    tokens = IntakeTokens(components.store, components.clock)
    routes.add(P + "/health_tokens", tokens, GET="health:tokens", POST="health:tokens")
    routes.add(P + "/health_tokens/{token_id}", tokens, "one", DELETE="health:tokens")
    routes.add(P + "/resources", Objects(components.store), GET="resource:index")

    incidents = Incidents(components.store, healing)
    routes.add(P + "/incidents", incidents, GET="health:show")
    one = P + "/incidents/{incident_id}"
    routes.add(one, incidents, "one", GET="health:show")
    routes.add(one + "/close", incidents, "close", POST="health:operate")
    routes.add(one + "/approve", incidents, "approve", POST="health:operate")


def _add_templates_and_software(routes: Routes, components: Components) -> None:
    routes.add(P + "/validate", Validate(components.stacks), POST="stacks:validate_template")

    resource_types = ResourceTypes(components.types, components.offer)
    routes.add(P + "/resource_types", resource_types, GET="stacks:list_resource_types")
    routes.add(P + "/resource_types/{type_name}", resource_types, "one", GET="stacks:resource_schema")
    routes.add(P + "/resource_types/{type_name}/template", resource_types, "template", GET="stacks:generate_template")

    template_versions = TemplateVersions()
    routes.add(P + "/template_versions", template_versions, GET="stacks:list_template_versions")
    functions = P + "/template_versions/{version}/functions"
    routes.add(functions, template_versions, "functions", GET="stacks:list_template_functions")

    configs = SoftwareConfigs(components.store, components.software)
    routes.add(P + "/software_configs", configs, GET="software_configs:index", POST="software_configs:create")
    one = P + "/software_configs/{config_id}"
    routes.add(one, configs, "one", GET="software_configs:show", DELETE="software_configs:delete")

    deployments = SoftwareDeployments(components.store, components.software)
    every = P + "/software_deployments"
    routes.add(every, deployments, GET="software_deployments:index", POST="software_deployments:create")
    routes.add(
        every + "/{deployment_id}",
        deployments,
        "one",
        GET="software_deployments:show",
        PUT="software_deployments:update",
        DELETE="software_deployments:delete",
    )
    routes.add(every + "/metadata/{server_id}", deployments, "metadata", GET="software_deployments:metadata")
