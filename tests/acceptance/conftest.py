"""Fixtures of the acceptance tests: servers and unmodified clients."""

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.acceptance.processes import CommandLine, OpenStack, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that do no harm to it."""
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.stop()
    assert started.complaints() == ""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers in the test's own folder, and leaves none behind."""
    started = []

    def start(port: int = 0, **variables: str) -> Server:
        started.append(Server(tmp_path, port, **variables))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def heatlite(tmp_path: Path) -> CommandLine:
    """The command line of a user who has never seen heatlite."""
    return CommandLine(tmp_path)


def need(module: str, package: str) -> None:
    if find_spec(module) is None:
        pytest.skip(f"{package} is not installed (extra `client`)")


@pytest.fixture(scope="session")
def openstack(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenStack]:
    """The `openstack` command with the two variables that `heatlite env` exports."""
    need("openstackclient", "python-openstackclient")
    need("heatclient", "python-heatclient")
    variables = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{server.url}/v1/demo"}
    started = OpenStack(tmp_path_factory.mktemp("openstack"), variables)
    yield started
    started.close()


@pytest.fixture(scope="session")
def lock_commands() -> None:
    """`openstack stack lock` and its like, which come with an installed heatlite."""
    if "stack_lock" not in entry_points(group="openstack.orchestration.v1").names:
        pytest.skip("heatlite is not installed, so `openstack` does not find its commands (pip install -e .)")
