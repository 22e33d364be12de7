"""Statement of the feature nodes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.core.config import Auth, BadSetting, FeatureSettings, Settings
from heatlite.core.status import ActionStatus, Verb
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.core.actions.decisions import Decider
    from heatlite.core.errors import Problem
    from heatlite.core.runtime.timer import Timer
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.feature import Work
    from heatlite.store.records import ActionRecord
    from heatlite.template.source.loader import SourceText


class NodeSettings(FeatureSettings, frozen=True):
    """Settings of nodes. Times are in seconds."""

    node_approval_by_another: bool = False
    """Require another user than the requester to approve a node action.
    For installations that authenticate callers."""
    node_hosts: tuple[str, ...] = ()
    """Hosts and networks in which the server connects to agents of nodes.
    Hosts as in `template_hosts`, networks as ``10.0.0.0/8``. Without authentication, agents on this machine are
    allowed, too."""
    node_orchestration_interval: float = 60.0
    """Longest time between two polls of a stack's agents."""
    node_connections: int = 50
    """Number of agents of a stack's nodes that are polled at once."""
    node_send_attempts: int = 10
    """Failed sends of a node action before it is FAILED. One is counted per `node_orchestration_interval`."""
    node_certificate: str = ""
    """The certificate (PEM) that the server shows to agents that listen with TLS."""
    node_key: str = ""
    """The key of `node_certificate`, where that file does not have it."""
    node_authority: str = ""
    """Certificate authority of agents (PEM).
    Without it, the authorities that the machine trusts."""

    def check(self, settings: Settings) -> None:
        if self.node_approval_by_another and settings.auth is Auth.NONE:
            raise BadSetting(
                "node_approval_by_another: it needs authentication, and auth is none."
                " Choose another auth."
            )


class NodesFeature(Feature):
    """Agents on machines, their actions, and playbooks."""

    name = "nodes"
    settings = NodeSettings
    routes = "heatlite.features.nodes.api.routes"
    rows = ("heatlite.features.nodes.store.store:NodeStore",)
    commands = {"Actions and nodes": {"heatlite.features.nodes.commands.nodes": ("node",)}}
    modules = (
        "heatlite.features.nodes.agents.deployments",
        "heatlite.features.nodes.agents.orchestrator",
    )
    pages = "heatlite.features.nodes.pages"

    def problems(self, document: "SourceText") -> "Sequence[Problem] | None":
        from heatlite.features.nodes import playbook_text

        return playbook_text.problems(document) if playbook_text.KEY in document.data else None

    def check_engine(self, settings: Settings) -> None:
        own = settings.of(NodeSettings)
        if own.node_certificate or own.node_authority or own.node_hosts:
            from heatlite.features.nodes.agents.client import Agents

            Agents(settings).check()

    def work(self, components: "Components", timer: "Timer") -> "Work":
        from heatlite.features.nodes.agents.on_demand import OnDemandOrchestrator

        return OnDemandOrchestrator(components, timer)

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if action.verb is Verb.RUN:
            from heatlite.features.nodes.operations import NodeOperations

            components.of(NodeOperations).ledger.run_moved(action, after, reason)

    def deciders(self, components: "Components") -> "Mapping[str, Decider]":
        from heatlite.features.nodes.api.deciding import NodeActionDecider, RunDecider
        from heatlite.features.nodes.runs import PLAYBOOK_RUN
        from heatlite.features.nodes.transitions import NODE_ACTION

        return {NODE_ACTION: NodeActionDecider(components), PLAYBOOK_RUN: RunDecider(components)}

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.core.json import as_map
        from heatlite.features.nodes.operations import NodeOperations
        from heatlite.features.nodes.store.store import NodeStore
        from heatlite.features.nodes.why import facts

        rows = components.store.of(NodeStore)
        nodes = rows.nodes.of_root(tree.root.id)
        refused = components.of(NodeOperations).nodes.refused(tree.root.project, tree.by_id, nodes)
        work, last = [], None
        if nodes:
            work, last = rows.node_actions.open_of_root(tree.root.id), rows.orchestrations.get(tree.root.id)
        errors = as_map({} if last is None else last.report.get("errors"))
        return [*told, *facts(tree, nodes, work, errors, refused)]


feature = NodesFeature()
