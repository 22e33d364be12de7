"""Statement of the feature ownership."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.core.errors import Conflict
    from heatlite.core.wire.why import WayOut
    from heatlite.engine.state.requests import StackAction
    from heatlite.store.feature_store import FeatureStore


class OwnershipFeature(Feature):
    """Takes existing objects under the care of stacks, and gives them up alive."""

    name = "ownership"
    commands = {
        "Stacks": {
            "heatlite.features.ownership.commands.importing": ("import",),
            "heatlite.features.ownership.commands.detaching": ("detach",),
            "heatlite.features.ownership.commands.moving": ("move",),
        }
    }
    modules = ("heatlite.features.ownership.api.actions",)

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.ownership.api.rules import RULES

        return RULES

    def stores(self) -> "Sequence[type[FeatureStore]]":
        from heatlite.features.ownership.store.store import OwnershipStore

        return (OwnershipStore,)

    def ways_out(self, error: "Conflict") -> "Sequence[WayOut]":
        from heatlite.features.ownership.errors import given_up

        return given_up(error)

    def stack_actions(self, components: "Components") -> "Mapping[str, StackAction]":
        from heatlite.features.ownership.api.actions import actions

        return actions(components)


feature = OwnershipFeature()
