"""The route table."""

from typing import TypeAlias

import falcon
from falcon import Response
from falcon.media import JSONHandler

from heatlite.api import faults
from heatlite.api.actions import Actions
from heatlite.api.catalog import BuildInfo, Health, ResourceTypes, Services, TemplateVersions, Validate, Versions
from heatlite.api.events import Events
from heatlite.api.handler import Rooms
from heatlite.api.locks import Lock
from heatlite.api.middleware import Frame
from heatlite.api.request import Request
from heatlite.api.resources import Resource, Resources
from heatlite.api.signals import SIGNED, SignedSignals
from heatlite.api.snapshots import Snapshots
from heatlite.api.software import SoftwareConfigs, SoftwareDeployments
from heatlite.api.stacks import ARN, Lookup, Stack, Stacks
from heatlite.core.json import dump

App: TypeAlias = "falcon.App[Request, Response]"

P = "/v1/{project}"
S = P + "/stacks/{stack_name}/{stack_id}"
R = S + "/resources/{resource_name}"


def create_app(rooms: Rooms, public_url: str | None = None, max_body: int = 4 * 1024 * 1024) -> App:
    """The WSGI application. `public_url` is how clients reach it (None: as each request says), `max_body` in bytes."""
    app: App = falcon.App(request_type=Request, middleware=Frame(public_url, max_body))
    app.req_options.strip_url_path_trailing_slash = True
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = JSONHandler(dumps=dump)
    faults.install(app)
    route = app.add_route

    versions = Versions()
    route("/", versions)
    route("/versions", versions)
    route("/v1", versions, suffix="one")
    route("/healthcheck", Health())

    stacks = Stacks(rooms)
    route(P + "/stacks", stacks)
    route(P + "/stacks/detail", stacks, suffix="detail")
    route(P + "/stacks/preview", stacks, suffix="preview")

    lookup = Lookup(rooms)
    route(P + "/stacks/{stack_name}", lookup)
    for child in ("resources", "events", "template", "actions"):
        route(f"{P}/stacks/{{stack_name}}/{child}", lookup, suffix="child")
    for child in ("environment", "files", "outputs", "lock"):
        route(f"{P}/stacks/{{stack_name}}/{child}", lookup, suffix="readable_child")
    app.add_sink(lookup.by_arn, ARN)

    stack = Stack(rooms)
    route(S, stack)
    for part in ("preview", "template", "environment", "files", "outputs", "abandon", "export"):
        route(f"{S}/{part}", stack, suffix=part)
    route(S + "/outputs/{output_key}", stack, suffix="output")
    route(S + "/actions", Actions(rooms))

    snapshots = Snapshots(rooms)
    route(S + "/snapshots", snapshots)
    route(S + "/snapshots/{snapshot_id}", snapshots, suffix="one")
    route(S + "/snapshots/{snapshot_id}/restore", snapshots, suffix="restore")

    lock = Lock(rooms, app)
    route(S + "/lock", lock)
    route(S + "/lock/suppressed/{suppressed_id}", lock, suffix="suppressed")
    route(S + "/lock/suppressed/{suppressed_id}/replay", lock, suffix="replay")

    resource = Resource(rooms)
    route(S + "/resources", Resources(rooms))
    route(R, resource)
    route(R + "/metadata", resource, suffix="metadata")
    route(R + "/signal", resource, suffix="signal")

    app.add_sink(SignedSignals(rooms).by_arn, SIGNED)

    events = Events(rooms)
    route(S + "/events", events)
    route(R + "/events", events, suffix="of_resource")
    route(R + "/events/{event_id}", events, suffix="one")

    resource_types = ResourceTypes(rooms)
    route(P + "/resource_types", resource_types)
    route(P + "/resource_types/{type_name}", resource_types, suffix="one")
    route(P + "/resource_types/{type_name}/template", resource_types, suffix="template")

    template_versions = TemplateVersions()
    route(P + "/template_versions", template_versions)
    route(P + "/template_versions/{version}/functions", template_versions, suffix="functions")

    configs = SoftwareConfigs(rooms)
    route(P + "/software_configs", configs)
    route(P + "/software_configs/{config_id}", configs, suffix="one")

    deployments = SoftwareDeployments(rooms)
    route(P + "/software_deployments", deployments)
    route(P + "/software_deployments/{deployment_id}", deployments, suffix="one")
    route(P + "/software_deployments/metadata/{server_id}", deployments, suffix="metadata")

    route(P + "/validate", Validate(rooms))
    route(P + "/build_info", BuildInfo())
    route(P + "/services", Services(rooms))
    return app
