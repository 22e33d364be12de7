"""Nodes: registration by agents, list, and orchestration."""

from http import HTTPStatus

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.errors import EntityNotFound
from heatlite.engine.operations.signals import Signals
from heatlite.features.nodes.agents.registration import NodeRegistry, Registered
from heatlite.features.nodes.api import views as node_views
from heatlite.plugin.signing import NODE
from heatlite.store.records import ResourceRecord, StackRecord


class Node:
    """R/node, for agents. Needs a signed URL."""

    def __init__(self, nodes: NodeRegistry, signals: Signals) -> None:
        self._nodes = nodes
        self._signals = signals

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Register an agent, or replace its registration."""
        stack, row = self._proven(req, stack_name, stack_id, resource_name)
        node = self._nodes.register(stack, row, bodies.checked(req, Registered))
        resp.media = {"node": node_views.node(node, {}, None)}

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Schedule the orchestration after a change at the agent."""
        stack, row = self._proven(req, stack_name, stack_id, resource_name)
        bodies.checked_or_empty(req, bodies.Nothing)
        self._nodes.changed(stack, row)
        resp.status = HTTPStatus.ACCEPTED

    def _proven(
        self, req: Request, stack_name: str, stack_id: str, resource_name: str
    ) -> tuple[StackRecord, ResourceRecord]:
        found = self._signals.proven(query.proof(req), NODE, req.caller.project, stack_name, stack_id, resource_name)
        req.prove(found[1].physical_name)
        return found


class Nodes:
    """S/nodes and S/orchestrate."""

    def __init__(self, finder: StackFinder, nodes: NodeRegistry) -> None:
        self._finder = finder
        self._nodes = nodes

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the nodes of the stack tree, and the time of the last orchestration."""
        listing = self._nodes.listing(self._finder.find_live(req, stack_name, stack_id))
        resp.media = {
            "nodes": [node_views.node(node, counts, listing.orchestration) for node, counts in listing.nodes],
            "orchestration": node_views.orchestration(listing.orchestration),
            "refused": [node_views.refused(one) for one in listing.refused],
        }

    def on_post_orchestrate(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Orchestrate the nodes as soon as possible."""
        bodies.checked_or_empty(req, bodies.Nothing)
        stack = self._finder.find_live(req, stack_name, stack_id)
        if not self._nodes.orchestrate(stack):
            raise EntityNotFound(f"Stack {stack.name} has no nodes: no agent has registered.")
        resp.status = HTTPStatus.ACCEPTED
