"""Statement of the feature healing."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.core.config import FeatureSettings
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.access.authentication import Credentials
    from heatlite.api.components import Components
    from heatlite.core.actions.decisions import Decider
    from heatlite.core.clock import Clock
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.store.store import Store


class HealingSettings(FeatureSettings, frozen=True):
    """Settings of healing."""

    incident_days: int = 90
    """Retention of closed incidents with their observations, and of ended observations, in days."""


class HealingFeature(Feature):
    """Reports of monitoring systems, incidents, policies and repairs."""

    name = "healing"
    settings = HealingSettings
    routes = "heatlite.features.healing.api.routes"
    actions = "heatlite.features.healing.api.actions"
    rows = ("heatlite.features.healing.store.store:HealingStore",)
    commands = {
        "Health, locks and protection": {
            "heatlite.features.healing.commands.healing": ("heal", "healing", "incident"),
            "heatlite.features.healing.commands.health": ("health",),
        }
    }
    modules = ("heatlite.features.healing.api.tokens",)
    pages = "heatlite.features.healing.pages"

    def credentials(self, store: "Store", clock: "Clock") -> "Sequence[Credentials]":
        from heatlite.features.healing.api.tokens import IntakeTokenAccess

        return (IntakeTokenAccess(store, clock),)

    def sweeps(self, components: "Components", one_command: bool) -> Sequence[Callable[[], None]]:
        from heatlite.features.healing.store.store import HealingStore

        incidents = components.store.of(HealingStore).incidents

        def sweep() -> None:
            # The loop takes long to import, and most commands need none.
            if not one_command or incidents.exist():
                from heatlite.features.healing.parts import Healing

                components.of(Healing).loop.sweep()

        return (sweep,)

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.healing.why import read

        return read(components, tree, told)

    def deciders(self, components: "Components") -> "Mapping[str, Decider]":
        from heatlite.features.healing.api.deciding import RepairDecider
        from heatlite.features.healing.store.incidents import REPAIR

        return {REPAIR: RepairDecider(components)}


feature = HealingFeature()
