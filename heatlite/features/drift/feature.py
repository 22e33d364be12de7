"""Statement of the feature drift."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
    from heatlite.engine.state.requests import StackAction
    from heatlite.engine.why.tree import Told, Tree
    from heatlite.store.feature_store import FeatureStore


class DriftFeature(Feature):
    """Lists what differs from the stored properties."""

    name = "drift"
    commands = {"Health, locks and protection": {"heatlite.features.drift.commands.drift": ("drift",)}}
    extends = {"ls": ("heatlite.features.drift.commands.drift",)}
    pages = "heatlite.features.drift.pages"
    modules = ("heatlite.features.drift.api.routes", "heatlite.features.drift.api.actions")

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.drift.api.rules import RULES

        return RULES

    def stores(self) -> "Sequence[type[FeatureStore]]":
        from heatlite.features.drift.store.store import DriftStore

        return (DriftStore,)

    def why(self, components: "Components", tree: "Tree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.drift.store.store import DriftStore
        from heatlite.features.drift.why import facts

        return [*told, *facts(components.store.of(DriftStore), tree)]

    def stack_actions(self, components: "Components") -> "Mapping[str, StackAction]":
        from heatlite.features.drift.api.actions import actions

        return actions(components)

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        from heatlite.features.drift.api.routes import add

        add(routes, components)


feature = DriftFeature()
