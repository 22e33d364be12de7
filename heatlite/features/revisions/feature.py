"""Statement of the feature revisions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.core.status import ActionStatus
    from heatlite.engine.admission.claims import NewDefinition
    from heatlite.engine.state.requests import StackAction
    from heatlite.engine.why.tree import Told, Tree
    from heatlite.store.feature_store import FeatureStore
    from heatlite.store.records import ActionRecord


class RevisionsFeature(Feature):
    """Keeps the definitions that stacks were given, and goes back to them."""

    name = "revisions"
    commands = {"Stacks": {"heatlite.features.revisions.commands.history": ("undo",)}}
    extends = {"history": ("heatlite.features.revisions.commands.history",)}
    pages = "heatlite.features.revisions.pages"
    modules = ("heatlite.features.revisions.api.routes", "heatlite.features.revisions.api.actions")

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.revisions.api.rules import RULES

        return RULES

    def stores(self) -> "Sequence[type[FeatureStore]]":
        from heatlite.features.revisions.store.store import RevisionStore

        return (RevisionStore,)

    def defined(self, components: "Components", definition: "NewDefinition") -> None:
        from heatlite.features.revisions.keeping import Keeping

        components.of(Keeping).keep(definition)

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: "ActionStatus", reason: str
    ) -> None:
        from heatlite.core.status import ENDED_ACTIONS
        from heatlite.features.revisions.keeping import Keeping

        if after in ENDED_ACTIONS:
            components.of(Keeping).end(action, after)

    def why(self, components: "Components", tree: "Tree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.revisions.keeping import Keeping
        from heatlite.features.revisions.why import with_undo

        return with_undo(components.of(Keeping), tree, told)

    def noted(self, client: "Client", stack: "Stack") -> "Mapping[str, Object]":
        from heatlite.features.revisions.commands.history import numbers

        return numbers(client, stack)

    def stack_actions(self, components: "Components") -> "Mapping[str, StackAction]":
        from heatlite.features.revisions.api.actions import actions

        return actions(components)

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        from heatlite.features.revisions.api.routes import add

        add(routes, components)


feature = RevisionsFeature()
