"""A server of `tests/api` on a simulated cloud."""

from collections.abc import Iterator

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.api.test_commands import nobody  # noqa: F401
from tests.databases import sqlite


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server with a cloud that the tests of a process share."""
    settings = Settings(database=sqlite(tmp_path_factory.mktemp("quota")), cloud="simulated")
    server = wiring.embedded(settings)
    yield server
    server.close()


@pytest.fixture
def server(shared_server: wiring.Embedded) -> wiring.Embedded:
    return shared_server
