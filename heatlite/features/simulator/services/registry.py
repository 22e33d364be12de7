"""Registry of all services of a simulated cloud."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from heatlite.core.clock import Clock
from heatlite.features.simulator.services import (
    alarming,
    block_storage,
    compute,
    dns,
    identity,
    image,
    key_manager,
    load_balancer,
    network,
    object_store,
)
from heatlite.features.simulator.services.block_storage.quotas import LIMITS as BLOCK_STORAGE_LIMITS
from heatlite.features.simulator.services.compute.catalog import LIMITS as COMPUTE_LIMITS
from heatlite.features.simulator.simulation import Scenario, SimulatedProject, Simulation, Verb

MODULES: Final = (
    identity, image, network, compute, block_storage, object_store, load_balancer, dns, key_manager, alarming,
)  # fmt: skip

VERBS: Final[Mapping[str, Verb]] = {
    name: verb
    for module in MODULES
    for verbs in (*(collection.verbs() for collection in module.COLLECTIONS), module.VERBS)
    for name, verb in verbs.items()
}
"""Verbs by name; a service's special verb replaces the regular one."""

_COLLECTED: Final = frozenset(collection.kind for module in MODULES for collection in module.COLLECTIONS)

OBJECTS: Final = _COLLECTED | {object_store.CONTAINER}
"""Kinds of objects."""

KINDS: Final = frozenset({
    *_COLLECTED,
    *(f"block_storage.{limit}" for limit in BLOCK_STORAGE_LIMITS),
    *(f"compute.{limit}" for limit in COMPUTE_LIMITS),
})
"""Kinds of objects, and the limits of block storage and compute, that may have a quota."""


def simulate(scenario: Scenario, clock: Clock, path: Path | None = None) -> Simulation:
    """Create a cloud with all services, stored in a SQLite file if `path` is given."""
    return Simulation(scenario, clock, VERBS, _furnish, path)


def _furnish(view: SimulatedProject) -> None:
    for module in MODULES:
        module.furnish(view)
