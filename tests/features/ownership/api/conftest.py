"""A server on a simulated cloud."""

from collections.abc import Iterator

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.api.conftest import Heat
from tests.api.test_commands import nobody  # noqa: F401
from tests.databases import sqlite


@pytest.fixture(scope="module")
def clouded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Heat]:
    """A server on a simulated cloud."""
    folder = tmp_path_factory.mktemp("clouded")
    clouded = wiring.embedded(Settings(database=sqlite(folder), cloud="simulated"))
    yield Heat(clouded.app)
    clouded.close()
