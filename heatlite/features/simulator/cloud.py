"""The simulated cloud as the cloud of an installation."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from heatlite.clients.clouds import Clouds, DomainAdmin
from heatlite.clients.finders import Finder
from heatlite.core.clock import Clock
from heatlite.core.config import SIMULATED, BadSetting, Settings
from heatlite.core.json import JsonMap
from heatlite.features.simulator import simulation
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.features.simulator.scenario import read_scenario
from heatlite.features.simulator.services.registry import simulate

if TYPE_CHECKING:
    from heatlite.clients.stack_domain import StackDomain


def file_of(database: Path) -> Path:
    """Return the file of the simulated cloud for a SQLite database."""
    return database.with_suffix(".cloud")


class SimulatedCloud:
    """A cloud in a file beside the database (`clients.clouds.CloudProvider`)."""

    def __init__(self, settings: Settings, database: Path | None) -> None:
        """Raises BadSetting."""
        if database is None:
            raise BadSetting(
                "cloud: the simulated cloud needs a SQLite database; a database server needs a real cloud."
            )
        self._file = file_of(database)
        path = settings.of(SimulatorSettings).simulation
        self._scenario = simulation.Scenario() if path is None else read_scenario(Path(path))

    def clouds(
        self,
        clock: Clock,
        credential_of: Callable[[str], JsonMap | None],
        finders: Mapping[str, Finder | None],
    ) -> Clouds:
        return Clouds(SIMULATED, clock.now, simulate(self._scenario, clock, self._file).view, finders=finders)

    def stack_domain(self, clouds: Clouds, admin: DomainAdmin) -> "StackDomain":
        from heatlite.clients.stack_domain import StackDomain

        return StackDomain(
            lambda: clouds.of(simulation.ADMIN).cloud,
            lambda *user: clouds.of(user[-1]).cloud,
            admin.domain,
            admin.auth_url,
            None,
        )

    def open(self) -> None:
        """Do nothing: there is no connection."""

    def begin(self) -> None:
        simulation.begin(self._file)
