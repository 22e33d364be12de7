"""Statement of the feature ownership."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import AccessControl
    from heatlite.api.audit import AuditTrail
    from heatlite.api.components import Components
    from heatlite.api.routes import Routes
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
    modules = ("heatlite.features.ownership.api.routes",)

    def rules(self) -> Mapping[str, frozenset[str]]:
        from heatlite.features.ownership.api.rules import RULES

        return RULES

    def stores(self) -> "Sequence[type[FeatureStore]]":
        from heatlite.features.ownership.store.store import OwnershipStore

        return (OwnershipStore,)

    def add_routes(
        self, routes: "Routes", components: "Components", access: "AccessControl", trail: "AuditTrail"
    ) -> None:
        from heatlite.features.ownership.api.routes import add

        add(routes, components)


feature = OwnershipFeature()
