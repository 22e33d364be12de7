"""Statement of the feature drift."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.engine.why.tree import ExplainedTree, Told


class DriftFeature(Feature):
    """Lists what differs from the stored properties."""

    name = "drift"
    routes = "heatlite.features.drift.api.routes"
    actions = "heatlite.features.drift.api.actions"
    rows = ("heatlite.features.drift.store.store:DriftStore",)
    commands = {"Health, locks and protection": {"heatlite.features.drift.commands.drift": ("drift",)}}
    extends = {"ls": ("heatlite.features.drift.commands.drift",)}
    pages = "heatlite.features.drift.pages"

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.drift.why import facts

        return [*told, *facts(components, tree)]


feature = DriftFeature()
