"""Statement of the feature nodes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.core.status import ActionStatus, Verb
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
    from heatlite.core.config import Settings
    from heatlite.core.errors import Problem
    from heatlite.core.timer import Timer
    from heatlite.feature import Work
    from heatlite.store.feature_store import FeatureStore
    from heatlite.store.records import ActionRecord
    from heatlite.template.source.loader import Source


class NodesFeature(Feature):
    """Agents on machines, their actions, and playbooks."""

    name = "nodes"
    commands = {"Actions and nodes": {"heatlite.features.nodes.commands.nodes": ("node",)}}
    modules = (
        "heatlite.features.nodes.agents.deployments",
        "heatlite.features.nodes.agents.orchestrator",
        "heatlite.features.nodes.api.routes",
    )

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.nodes.api.rules import RULES

        return RULES

    def stores(self) -> "Sequence[type[FeatureStore]]":
        from heatlite.features.nodes.store.store import NodeStore

        return (NodeStore,)

    def problems(self, document: "Source") -> "Sequence[Problem] | None":
        from heatlite.features.nodes import playbook_text

        return playbook_text.problems(document) if playbook_text.KEY in document.data else None

    def check_engine(self, settings: "Settings") -> None:
        if settings.node_certificate or settings.node_authority or settings.node_hosts:
            from heatlite.features.nodes.agents.client import Agents

            Agents(settings).check()

    def work(self, components: "Components", timer: "Timer") -> "Work":
        from heatlite.features.nodes.agents.on_demand import OnDemandOrchestrator

        return OnDemandOrchestrator(components, timer)

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if action.verb is Verb.PLAYBOOK:
            from heatlite.features.nodes.operations import NodeOperations

            components.of(NodeOperations).ledger.run_moved(action, after, reason)

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        from heatlite.features.nodes.api.routes import add

        add(routes, components)


feature = NodesFeature()
