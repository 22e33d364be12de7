"""Software configurations and deployments."""

from collections.abc import Sequence
from http import HTTPStatus

from falcon import Response

from heatlite.api import query
from heatlite.api.request import Request
from heatlite.api.wire import bodies, views
from heatlite.core.context import STACK_USER, Context
from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import NOTHING, Mask
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.types.outputs import StackReader
from heatlite.plugin.signing import Node
from heatlite.store.records import SoftwareConfigRecord, SoftwareDeploymentRecord
from heatlite.store.store import Store


class SoftwareConfigs:
    """P/software_configs and below."""

    def __init__(self, store: Store, software: Software, reader: StackReader) -> None:
        self._store = store
        self._software = software
        self._reader = reader

    def _shown(self, req: Request, record: SoftwareConfigRecord) -> JsonMap:
        mask = self._reader.config_masks(req.caller, [record.id])(record.id)
        return {"software_config": views.config(record, views.masked_inputs(req.caller), mask)}

    def on_get(self, req: Request, resp: Response) -> None:
        """List configurations in pages, newest first."""
        every_project = query.flag(req, "global_tenant")
        if every_project:
            req.require("software_configs:global_index")
        project = None if every_project else req.caller.project
        found = self._store.software_configs.list(project, query.number(req, "limit"), query.text(req, "marker"))
        resp.media = {"software_configs": [views.config_summary(record, every_project) for record in found]}

    def on_post(self, req: Request, resp: Response) -> None:
        """Create a configuration."""
        record = self._software.create_config(req.caller.project, bodies.software_config(req))
        req.concerns(target=record.id)
        resp.media = self._shown(req, record)

    def on_get_one(self, req: Request, resp: Response, config_id: str) -> None:
        """Show a configuration with its content."""
        record = self._software.show_config(req.caller.project, config_id)
        resp.media = self._shown(req, record)

    def on_delete_one(self, req: Request, resp: Response, config_id: str) -> None:
        """Delete a configuration."""
        self._software.delete_config(req.caller.project, config_id)
        resp.status = HTTPStatus.NO_CONTENT


class SoftwareDeployments:
    """P/software_deployments and below."""

    def __init__(self, software: Software, reader: StackReader) -> None:
        self._software = software
        self._reader = reader

    def _shown(self, req: Request, record: SoftwareDeploymentRecord) -> JsonMap:
        mask = self._reader.software_masks(req.caller, [record.id])(record.id)
        return {"software_deployment": views.deployment(record, views.masked_inputs(req.caller), mask)}

    def _publish(self, project: str, server_id: str) -> None:
        """Write the new metadata of a server whose agent does not ask the API."""
        for server in self._reader.holders(project, server_id):
            if isinstance(server, Node):
                server.publish()

    def on_get(self, req: Request, resp: Response) -> None:
        """List the deployments of the project, or of one server."""
        found = [*self._software.deployments(req.caller.project, query.text(req, "server_id"))]
        masks = self._reader.software_masks(req.caller, [record.id for record, _ in found])
        masked, most = views.masked_inputs(req.caller), self._software.largest
        listed = [
            views.deployment(record, masked, masks(record.id)) if whole else views.deployment_outline(record, most)
            for record, whole in found
        ]
        resp.media = {"software_deployments": listed}

    def on_post(self, req: Request, resp: Response) -> None:
        """Create a deployment."""
        given = bodies.checked(req, bodies.Deployment)
        record = self._software.create_deployment(
            req.caller.project,
            given.server_id,
            given.config_id,
            given.input_values or {},
            given.action or "",
            given.status or "",
            given.status_reason or "",
        )
        req.concerns(target=record.id)
        self._publish(record.project, record.server_id)
        resp.media = self._shown(req, record)

    def on_get_one(self, req: Request, resp: Response, deployment_id: str) -> None:
        """Show a deployment."""
        record = self._software.deployment(req.caller.project, deployment_id)
        resp.media = self._shown(req, record)

    def on_put_one(self, req: Request, resp: Response, deployment_id: str) -> None:
        """Change the fields that the body names."""
        changes = bodies.deployment_changes(req)
        record = self._software.update_deployment(req.caller.project, deployment_id, changes)
        if "config_id" in changes:
            self._publish(record.project, record.server_id)
        resp.media = self._shown(req, record)

    def on_delete_one(self, req: Request, resp: Response, deployment_id: str) -> None:
        """Delete a deployment."""
        record = self._software.deployment(req.caller.project, deployment_id)
        self._software.delete_deployment(record.project, record.id)
        self._publish(record.project, record.server_id)
        resp.status = HTTPStatus.NO_CONTENT

    def on_get_metadata(self, req: Request, resp: Response, server_id: str) -> None:
        """Return the configurations that a server has to apply, by name."""
        found = self._software.of_server(req.caller.project, server_id)
        resp.media = {"metadata": for_agent(req.caller, self._reader, found)}


def for_agent(caller: Context, reader: StackReader, found: Sequence[SoftwareConfigRecord]) -> list[Json]:
    """Return the configurations that a server has to apply.

    Its agent gets them in clear; others who may not export stacks do not.
    """
    masked = views.masked_inputs(caller, by_agent=True)
    masks = _unmasked if STACK_USER in caller.roles else reader.config_masks(caller, [one.id for one in found])
    return [views.config(one, masked, masks(one.id)) for one in found]


def _unmasked(_config_id: str) -> Mask:
    return NOTHING
