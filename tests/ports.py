"""Stand-ins for the engine's ports, for tests of types without an engine."""

from pathlib import Path

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.json import Json
from heatlite.engine.operations.software_configs import Software
from heatlite.store.store import Store
from tests.databases import sqlite


def make_software(folder: Path) -> Software:
    """A project's configurations and deployments, over a database of their own."""
    settings = Settings(database=sqlite(folder))
    store = Store.open(settings.database)
    return Software(store, Clock(), settings)


class NoRegions:
    """Other regions do not exist here."""

    def ask(self, *_: object, **__: object) -> tuple[int, Json]:
        raise AssertionError


class NoSoftware(Software):
    """For types that have nothing to do with it: has nothing, takes nothing."""

    def __init__(self) -> None:
        """There is no database."""
