"""Software configurations and deployments (heat-api §11)."""

from http import HTTPStatus

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.request import Request


class SoftwareConfigs(Handler):
    """The configurations of a project."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The list in pages, newest first."""
        everybody = query.flag(req, "global_tenant")
        if everybody:
            req.require("software_configs:global_index")
        project = None if everybody else req.caller.project
        found = self.store.software_configs.list(project, query.number(req, "limit"), query.text(req, "marker"))
        resp.media = {"software_configs": [views.config_summary(record, everybody) for record in found]}

    def on_post(self, req: Request, resp: Response) -> None:
        """Add one."""
        record = self.software.create_config(req.caller.project, bodies.software_config(req))
        resp.media = {"software_config": views.config(record, views.unseen(req.caller))}

    def on_get_one(self, req: Request, resp: Response, config_id: str) -> None:
        """One with its content."""
        record = self.software.show_config(req.caller.project, config_id)
        resp.media = {"software_config": views.config(record, views.unseen(req.caller))}

    def on_delete_one(self, req: Request, resp: Response, config_id: str) -> None:
        """Forget one."""
        self.software.delete_config(req.caller.project, config_id)
        resp.status = HTTPStatus.NO_CONTENT


class SoftwareDeployments(Handler):
    """The deployments of a project."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The list, or those to one server."""
        found = self.store.software_deployments.list(req.caller.project, query.text(req, "server_id"))
        resp.media = {"software_deployments": [views.deployment(record, views.unseen(req.caller)) for record in found]}

    def on_post(self, req: Request, resp: Response) -> None:
        """Add one."""
        record = self.software.create_deployment(req.caller.project, **bodies.deployment(req)._asdict())
        resp.media = {"software_deployment": views.deployment(record, views.unseen(req.caller))}

    def on_get_one(self, req: Request, resp: Response, deployment_id: str) -> None:
        """One."""
        record = self.software.deployment(req.caller.project, deployment_id)
        resp.media = {"software_deployment": views.deployment(record, views.unseen(req.caller))}

    def on_put_one(self, req: Request, resp: Response, deployment_id: str) -> None:
        """Change what the body names."""
        changes = bodies.deployment_changes(req)
        record = self.software.update_deployment(req.caller.project, deployment_id, changes)
        resp.media = {"software_deployment": views.deployment(record, views.unseen(req.caller))}

    def on_delete_one(self, req: Request, resp: Response, deployment_id: str) -> None:
        """Forget one."""
        self.software.delete_deployment(req.caller.project, deployment_id)
        resp.status = HTTPStatus.NO_CONTENT

    def on_get_metadata(self, req: Request, resp: Response, server_id: str) -> None:
        """What a server is to apply: the configurations deployed to it, by name."""
        found = self.store.software_configs.of_server(req.caller.project, server_id)
        unseen = views.unseen(req.caller, by_agent=True)
        resp.media = {"metadata": [views.config(record, unseen) for record in found]}
