"""Statement of the feature simulator."""

from pathlib import Path
from typing import TYPE_CHECKING

from heatlite.core.config import SIMULATED, Settings
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.features.simulator.cloud import SimulatedCloud


class Simulator(Feature):
    """A cloud for trials."""

    name = "simulator"
    commands = {"Templates": {"heatlite.features.simulator.trials": ("test",)}}

    def cloud(self, settings: Settings, database: Path | None) -> "SimulatedCloud | None":
        if settings.cloud != SIMULATED:
            return None
        from heatlite.features.simulator.cloud import SimulatedCloud

        return SimulatedCloud(settings, database)


feature = Simulator()
