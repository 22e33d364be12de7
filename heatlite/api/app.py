"""The route table."""

from typing import TypeAlias

import falcon
from falcon import Response
from falcon.media import JSONHandler
from falcon.routing import map_http_methods

from heatlite.api import faults
from heatlite.api.access.factory import open_door
from heatlite.api.access.policy import OPEN, PROVEN, SIGNAL
from heatlite.api.handlers.actions import ProjectActions
from heatlite.api.handlers.catalog import (
    BuildInfo,
    Health,
    Metrics,
    ResourceTypes,
    Services,
    TemplateVersions,
    Validate,
    Versions,
)
from heatlite.api.handlers.events import Events
from heatlite.api.handlers.handler import Rooms
from heatlite.api.handlers.locks import Lock
from heatlite.api.handlers.resources import Resource, Resources
from heatlite.api.handlers.signals import SIGNED, SignedSignals
from heatlite.api.handlers.snapshots import Snapshots
from heatlite.api.handlers.software import SoftwareConfigs, SoftwareDeployments
from heatlite.api.handlers.stack_actions import Actions
from heatlite.api.handlers.stacks import ARN, Lookup, Stack, Stacks
from heatlite.api.middleware import Frame
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

P = "/v1/{project}"
S = P + "/stacks/{stack_name}/{stack_id}"
R = S + "/resources/{resource_name}"

INSTANT = frozenset({"/", "/versions", "/v1", "/healthcheck"})
"""Paths that are answered at once: without the database, and without waiting for a thread."""


def create_app(rooms: Rooms, settings: Settings, meter: Meter) -> App:
    """The WSGI application."""
    door = open_door(settings, rooms.clock, rooms.ourselves, rooms.accounts)
    frame = Frame(settings.public_url, settings.max_json_body_size, meter, door)
    app: App = falcon.App(request_type=Request, middleware=frame)
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=dump)
    faults.install(app)

    def route(template: str, resource: object, suffix: str | None = None, **rules: str) -> None:
        """Add a route, with the rule that each of its methods asks for (`access.policy`)."""
        assert rules.keys() == map_http_methods(resource, suffix).keys(), f"{template} needs one rule for each method"
        app.add_route(template, resource, suffix=suffix)
        frame.guard(template, rules)

    versions = Versions()
    route("/", versions, GET=OPEN)
    route("/versions", versions, GET=OPEN)
    route("/v1", versions, "one", GET=OPEN)
    route("/healthcheck", Health(), GET=OPEN)
    if settings.metrics:
        route("/metrics", Metrics(meter), GET=OPEN)

    stacks = Stacks(rooms)
    route(P + "/stacks", stacks, GET="stacks:index", POST="stacks:create")
    route(P + "/stacks/detail", stacks, "detail", GET="stacks:detail")
    route(P + "/stacks/preview", stacks, "preview", POST="stacks:preview")

    lookup, looked_up = Lookup(rooms), "stacks:lookup"
    route(P + "/stacks/{stack_name}", lookup, **dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), looked_up))
    for child in ("resources", "events", "template", "actions"):
        route(f"{P}/stacks/{{stack_name}}/{child}", lookup, "child", GET=looked_up, POST=looked_up)
    for child in ("environment", "files", "outputs", "lock"):
        route(f"{P}/stacks/{{stack_name}}/{child}", lookup, "readable_child", GET=looked_up)
    app.add_sink(frame.guarded(looked_up, lookup.by_arn), ARN)

    stack = Stack(rooms)
    route(S, stack, GET="stacks:show", PUT="stacks:update", PATCH="stacks:update_patch", DELETE="stacks:delete")
    route(S + "/preview", stack, "preview", PUT="stacks:preview_update", PATCH="stacks:preview_update_patch")
    route(S + "/template", stack, "template", GET="stacks:template")
    route(S + "/environment", stack, "environment", GET="stacks:environment")
    route(S + "/files", stack, "files", GET="stacks:files")
    route(S + "/outputs", stack, "outputs", GET="stacks:list_outputs")
    route(S + "/outputs/{output_key}", stack, "output", GET="stacks:show_output")
    route(S + "/abandon", stack, "abandon", DELETE="stacks:abandon")
    route(S + "/export", stack, "export", GET="stacks:export")
    route(S + "/actions", Actions(rooms), POST="actions:action")

    project_actions = ProjectActions(rooms)
    route(P + "/actions", project_actions, GET="actions:list")
    route(P + "/actions/{action}", project_actions, "one", GET="actions:show", POST="actions:signal")
    route(P + "/actions/{action}/history", project_actions, "history", GET="actions:history")

    snapshots = Snapshots(rooms)
    route(S + "/snapshots", snapshots, GET="stacks:list_snapshots", POST="stacks:snapshot")
    one = S + "/snapshots/{snapshot_id}"
    route(one, snapshots, "one", GET="stacks:show_snapshot", DELETE="stacks:delete_snapshot")
    route(one + "/restore", snapshots, "restore", POST="stacks:restore_snapshot")

    lock = Lock(rooms, app)
    route(S + "/lock", lock, GET="stacks:show_lock")
    route(S + "/lock/suppressed/{suppressed_id}", lock, "suppressed", DELETE="stacks:drop_suppressed")
    route(S + "/lock/suppressed/{suppressed_id}/replay", lock, "replay", POST="stacks:replay_suppressed")

    resource = Resource(rooms)
    route(S + "/resources", Resources(rooms), GET="resource:index")
    route(R, resource, GET="resource:show", PATCH="resource:mark_unhealthy")
    route(R + "/metadata", resource, "metadata", GET="resource:metadata")
    route(R + "/signal", resource, "signal", POST=SIGNAL)

    node = Node(rooms)
    route(R + "/node", node, PUT=PROVEN, POST=PROVEN)
    nodes = Nodes(rooms)
    route(S + "/nodes", nodes, GET="nodes:index")
    route(S + "/orchestrate", nodes, "orchestrate", POST="nodes:orchestrate")

    app.add_sink(SignedSignals(rooms).by_arn, SIGNED)  # whoever has the signature needs nothing else

    events = Events(rooms)
    route(S + "/events", events, GET="events:index")
    route(R + "/events", events, "of_resource", GET="events:index")
    route(R + "/events/{event_id}", events, "one", GET="events:show")

    resource_types = ResourceTypes(rooms)
    route(P + "/resource_types", resource_types, GET="stacks:list_resource_types")
    route(P + "/resource_types/{type_name}", resource_types, "one", GET="stacks:resource_schema")
    route(P + "/resource_types/{type_name}/template", resource_types, "template", GET="stacks:generate_template")

    template_versions = TemplateVersions()
    route(P + "/template_versions", template_versions, GET="stacks:list_template_versions")
    functions = P + "/template_versions/{version}/functions"
    route(functions, template_versions, "functions", GET="stacks:list_template_functions")

    node_actions = NodeActions(rooms)
    route(P + "/node_actions", node_actions, GET="node_actions:list")
    one = P + "/node_actions/{node_action_id}"
    route(one, node_actions, "one", GET="node_actions:show")
    route(one + "/approve", node_actions, "approve", POST=APPROVE)
    route(one + "/reject", node_actions, "reject", POST="node_actions:reject")
    route(one + "/cancel", node_actions, "cancel", POST="node_actions:cancel")
    route(S + "/node_actions", node_actions, "of_stack", GET="node_actions:list", POST="node_actions:create")

    playbooks = Playbooks(rooms)
    route(P + "/node_playbooks", playbooks, GET="node_playbooks:list")
    rules = {"GET": "node_playbooks:show", "PUT": "node_playbooks:put", "DELETE": "node_playbooks:delete"}
    route(P + "/node_playbooks/{playbook}", playbooks, "one", **rules)
    route(S + "/node_playbook_runs", playbooks, "run", POST="node_playbooks:run")
    one = P + "/node_playbook_runs/{run}"
    route(one + "/approve", playbooks, "approve", POST=APPROVE_RUN)
    route(one + "/reject", playbooks, "reject", POST="node_playbooks:reject")

    configs = SoftwareConfigs(rooms)
    route(P + "/software_configs", configs, GET="software_configs:index", POST="software_configs:create")
    one = P + "/software_configs/{config_id}"
    route(one, configs, "one", GET="software_configs:show", DELETE="software_configs:delete")

    deployments = SoftwareDeployments(rooms)
    every = P + "/software_deployments"
    route(every, deployments, GET="software_deployments:index", POST="software_deployments:create")
    route(
        every + "/{deployment_id}",
        deployments,
        "one",
        GET="software_deployments:show",
        PUT="software_deployments:update",
        DELETE="software_deployments:delete",
    )
    route(every + "/metadata/{server_id}", deployments, "metadata", GET="software_deployments:metadata")

    route(P + "/validate", Validate(rooms), POST="stacks:validate_template")
    route(P + "/build_info", BuildInfo(rooms), GET="build_info:build_info")
    route(P + "/services", Services(rooms), GET="service:index")
    return app
