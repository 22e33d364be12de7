"""Routes of agents, nodes, their actions and playbooks."""

from heatlite.api.access.policy import PROVEN
from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import P, R, Routes, S
from heatlite.features.nodes.api.node_actions import KEYS, OF_STACK_KEYS, NodeActions
from heatlite.features.nodes.api.nodes import Node, Nodes
from heatlite.features.nodes.api.playbooks import Playbooks
from heatlite.features.nodes.operations import NodeOperations
from heatlite.features.nodes.playbooks import APPROVE as APPROVE_RUN
from heatlite.features.nodes.requests import APPROVE


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    store, finder, made = components.store, StackFinder(components.store), components.of(NodeOperations)

    node = Node(made.nodes, components.signals)
    routes.add(R + "/node", node, query={"PUT": None, "POST": None}, PUT=PROVEN, POST=PROVEN)
    nodes = Nodes(finder, made.nodes)
    routes.add(S + "/nodes", nodes, GET="nodes:index")
    routes.add(S + "/orchestrate", nodes, "orchestrate", POST="nodes:orchestrate")

    node_actions = NodeActions(finder, store, components.reader, made.requests)
    routes.add(P + "/node_actions", node_actions, query={"GET": KEYS}, GET="node_actions:list")
    one = P + "/node_actions/{node_action_id}"
    routes.add(one, node_actions, "one", GET="node_actions:show")
    routes.add(one + "/approve", node_actions, "approve", POST=APPROVE)
    routes.add(one + "/reject", node_actions, "reject", POST="node_actions:reject")
    routes.add(one + "/cancel", node_actions, "cancel", POST="node_actions:cancel")
    rules = {"GET": "node_actions:list", "POST": "node_actions:create"}
    routes.add(S + "/node_actions", node_actions, "of_stack", query={"GET": OF_STACK_KEYS}, **rules)

    playbooks = Playbooks(finder, store, made.playbooks, components.reasons)
    routes.add(P + "/node_playbooks", playbooks, query={"GET": ("limit", "marker")}, GET="node_playbooks:list")
    routes.add(
        P + "/node_playbooks/{playbook}",
        playbooks,
        "one",
        GET="node_playbooks:show",
        PUT="node_playbooks:put",
        DELETE="node_playbooks:delete",
    )
    routes.add(S + "/node_playbook_runs", playbooks, "run", POST="node_playbooks:run")
    one = P + "/node_playbook_runs/{run}"
    routes.add(one + "/approve", playbooks, "approve", POST=APPROVE_RUN)
    routes.add(one + "/reject", playbooks, "reject", POST="node_playbooks:reject")
