"""Statement of the feature guards."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.core.status import ENDED_ACTIONS, ActionStatus
from heatlite.feature import Feature
from heatlite.features.guards.bodies import GuardKeys

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.engine.state.guarding import Guarding
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.store.records import ActionRecord


class GuardsFeature(Feature):
    """Guards updates until their clean-up."""

    name = "guards"
    rows = ("heatlite.features.guards.store.store:GuardStore",)
    body = GuardKeys
    modules = ("heatlite.features.guards.guards",)
    commands = {"Stacks": {"heatlite.features.guards.commands.guards": ("end-bake",)}}
    extends = dict.fromkeys(("up", "plan", "undo"), ("heatlite.features.guards.commands.guards",))

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        from heatlite.features.guards.commands.guards import planned

        return planned(facts)

    def guarding(self, components: "Components") -> "Guarding":
        from heatlite.features.guards.guards import Guards

        return components.of(Guards)

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.guards.why import with_end

        return with_end(tree, told)

    def add_routes(self, routes: "Routes", components: "Components") -> None:
        from heatlite.feature import is_active
        from heatlite.features.guards.guards import HEALING, Guards

        if is_active(components.settings, HEALING):
            from heatlite.features.healing.reports import watch

            watch(components, components.of(Guards))

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if after in ENDED_ACTIONS and action.inputs.guard is not None:
            from heatlite.features.guards.store.store import GuardStore

            components.store.of(GuardStore).end(action.id, components.clock.now())


feature = GuardsFeature()
