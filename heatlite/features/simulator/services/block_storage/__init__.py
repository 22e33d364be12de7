"""Simulated block storage service (Cinder)."""

from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.block_storage import backups, quotas, types, volumes
from heatlite.features.simulator.simulation import SimulatedProject, Verb

COLLECTIONS: list[Collection] = [volumes.VOLUMES, *backups.COLLECTIONS, *types.COLLECTIONS]

VERBS: dict[str, Verb] = {**types.VERBS, **volumes.VERBS, **backups.VERBS, **quotas.VERBS}


def furnish(view: SimulatedProject) -> None:
    """Create the default volume type."""
    types.furnish(view)
