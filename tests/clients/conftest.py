"""A region of a real cloud with a heatlite in it, for unmodified clients of Heat."""

from collections.abc import Iterator

import pytest

from tests.clients import installing
from tests.clients.region import Region
from tests.clouds import real


@pytest.fixture(scope="session")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    """One region for all clients."""
    installing.folder()
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install 'heatlite[openstack]'")
    pytest.importorskip("keystonemiddleware", reason="keystonemiddleware is not installed (extra `keystone`)")
    real.needed()
    from tests.clients.region import region

    with region(tmp_path_factory.mktemp("region"), HEATLITE_HIDDEN_STACK_TAGS="hidden") as made:
        yield made
        made.server.stop()
        assert made.server.complaints() == ""
