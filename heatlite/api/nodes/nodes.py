"""Nodes: their agents register, and say that something has changed; people look at them."""

from dataclasses import replace
from http import HTTPStatus
from typing import Any

from falcon import Response
from jsonschema import Draft202012Validator

from heatlite.api import bodies, query
from heatlite.api.handlers.handler import Handler
from heatlite.api.nodes import views as node_views
from heatlite.api.request import Request
from heatlite.nodes import agents
from heatlite.nodes.registration import Registered
from heatlite.plugin.signing import NODE
from heatlite.store.records import ResourceRecord, StackRecord

REGISTRATION = Draft202012Validator(
    {
        "properties": {
            "url": {"type": "string", "maxLength": 2048},
            "secret": {"type": "string", "minLength": 32, "maxLength": 256},
            "instance": agents.INSTANCE,
            "agent": agents.VERSION,
            "kinds": agents.KINDS,
            "deployments": {"type": "boolean"},
        },
        "required": ["url", "secret", "instance", "agent", "kinds"],
        "additionalProperties": False,
    }
)
NOTHING = Draft202012Validator({"properties": {}, "additionalProperties": False})


class Node(Handler):
    """R/node, for agents: with a signed URL, and nobody else."""

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Register, or register anew."""
        stack, row = self._proven(req, stack_name, stack_id, resource_name)
        given: dict[str, Any] = bodies.checked(req, REGISTRATION)
        node = self.nodes.register(stack, row, Registered(**given))
        resp.media = {"node": node_views.node(node, {}, None)}

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Something has changed at the agent."""
        stack, row = self._proven(req, stack_name, stack_id, resource_name)
        bodies.checked_or_empty(req, NOTHING)
        self.nodes.changed(stack, row)
        resp.status = HTTPStatus.ACCEPTED

    def _proven(
        self, req: Request, stack_name: str, stack_id: str, resource_name: str
    ) -> tuple[StackRecord, ResourceRecord]:
        found = self.signals.proven(query.proof(req), NODE, req.caller.project, stack_name, stack_id, resource_name)
        req.caller = replace(req.caller, user=found[1].physical_name)
        return found


class Nodes(Handler):
    """S/nodes and S/orchestrate."""

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The nodes of the stack and of those nested in it, and when somebody has looked after them."""
        seen = self.nodes.seen(self.find_live(req, stack_name, stack_id))
        resp.media = {
            "nodes": [node_views.node(node, counts, seen.orchestration) for node, counts in seen.nodes],
            "orchestration": node_views.orchestration(seen.orchestration),
        }

    def on_post_orchestrate(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Have them looked after as soon as possible."""
        bodies.checked_or_empty(req, NOTHING)
        self.nodes.orchestrate(self.find_live(req, stack_name, stack_id))
        resp.status = HTTPStatus.ACCEPTED
