"""Statement of the feature ownership."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.core.errors import Conflict
    from heatlite.core.wire.why import WayOut
    from heatlite.engine.operations.membership.member_moves import MemberMoves


class OwnershipFeature(Feature):
    """Takes existing objects under the care of stacks, and gives them up alive."""

    name = "ownership"
    actions = "heatlite.features.ownership.api.actions"
    rows = ("heatlite.features.ownership.store.store:OwnershipStore",)
    commands = {
        "Stacks": {
            "heatlite.features.ownership.commands.importing": ("import",),
            "heatlite.features.ownership.commands.detaching": ("detach",),
            "heatlite.features.ownership.commands.moving": ("move",),
        }
    }

    def member_moves(self, components: "Components") -> "MemberMoves":
        from heatlite.features.ownership.api.members import ResourcesAsMembers

        return components.of(ResourcesAsMembers)

    def ways_out(self, error: "Conflict") -> "Sequence[WayOut]":
        from heatlite.features.ownership.errors import given_up

        return given_up(error)


feature = OwnershipFeature()
