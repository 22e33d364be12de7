"""Statement of the feature simulator."""

from pathlib import Path
from typing import TYPE_CHECKING

from heatlite.core.config import SIMULATED, FeatureSettings, Settings
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.features.simulator.cloud import SimulatedCloud


class SimulatorSettings(FeatureSettings, frozen=True):
    """Settings of the simulated cloud."""

    simulation: str | None = None
    """File that scripts the simulated cloud (docs/trials.md)."""


class Simulator(Feature):
    """A cloud for trials."""

    name = "simulator"
    settings = SimulatorSettings
    commands = {"Templates": {"heatlite.features.simulator.trials": ("test",)}}

    def cloud(self, settings: Settings, database: Path | None) -> "SimulatedCloud | None":
        if settings.cloud != SIMULATED:
            return None
        from heatlite.features.simulator.cloud import SimulatedCloud

        return SimulatedCloud(settings, database)


feature = Simulator()
