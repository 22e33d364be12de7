"""A region of a real cloud with a heatlite in it, for unmodified clients of Heat."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from tests.clients import installing
from tests.clients.region import Region, connection, region
from tests.clouds import real

PLACES = {"object_store": ("object-store", "/v1/AUTH_%(project_id)s"), "messaging": ("messaging", "")}
"""Service → its type in the catalog and the path of its endpoint."""


@pytest.fixture(scope="session", name="region")
def plain_region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    """One region for all clients."""
    with _region(tmp_path_factory.mktemp("region")) as made:
        yield made
        _end(made)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    """A region with Swift and Zaqar as well."""
    pytest.importorskip("redis", reason="redis is not installed (extra `distributed`)")
    folder = tmp_path_factory.mktemp("place")
    try:
        os.setxattr(folder, "user.heatlite", b"x")
    except OSError as error:
        pytest.skip(f"Swift needs extended attributes, which the file system of {folder} does not have: {error}")
    with ExitStack() as undo:
        made = undo.enter_context(_region(folder, HEATLITE_TEMPLATE_HOSTS="127.0.0.1"))
        from tests.clients.real_services import announce, running

        admin = connection(real.HOME / "clouds.yaml", "fakecloud")
        undo.callback(admin.close)
        fields = {"auth_url": made.auth_url, "password": made.admin_password, "username": "heat"}
        fields |= {"project_name": "service", "region": made.name}
        for name, (kind, path) in PLACES.items():
            url = undo.enter_context(running(name, folder, fields))
            announce(admin, undo, made.name, kind, f"{url}{path}")
        yield made
        _end(made)


def _region(folder: Path, **settings: str) -> AbstractContextManager[Region]:
    installing.folder()
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")
    pytest.importorskip("keystonemiddleware", reason="keystonemiddleware is not installed (extra `keystone`)")
    real.needed()
    return region(folder, HEATLITE_HIDDEN_STACK_TAGS="hidden", **settings)


def _end(made: Region) -> None:
    """Stop the server, before the services that it uses."""
    made.server.stop()
    assert made.server.complaints() == ""
