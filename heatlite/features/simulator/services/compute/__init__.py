"""Simulated compute service (Nova)."""

from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.compute import catalog, disks, interfaces, servers
from heatlite.features.simulator.simulation import SimulatedProject, Verb

COLLECTIONS: list[Collection] = [*catalog.COLLECTIONS, servers.SERVERS]

VERBS: dict[str, Verb] = {**catalog.VERBS, **servers.VERBS, **interfaces.VERBS, **disks.VERBS}


def furnish(view: SimulatedProject) -> None:
    """Create the usual flavors."""
    catalog.furnish(view)
