"""Marked resources are replaced on a real cloud, each of its types in turn."""

import pytest

from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud
from tests.clouds.real import EVERYTHING
from tests.types.marking import Marks, read

pytestmark = pytest.mark.cloud

OWN = "templates/server.yaml"
OF_USERS = [OWN, "tests/types/examples/neutron.yaml"]
OF_ADMINISTRATORS = [
    f"tests/types/examples/{name}.yaml" for name in ("neutron_admin", "compute", "storage", "identity")
]
SOME = {
    OWN: ["subnet"],
    "tests/types/examples/neutron.yaml": ["shared"],
}
"""Without HEATLITE_TEST_CLOUD_ALL: a subnet, which ports with floating IPs, a router and a server hold, and a floating
IP with a port forwarding."""


def counts(engine: OnCloud) -> dict[str, int]:
    return {kind: len(ids) for kind, ids in engine.holdings().items()}


@pytest.mark.cloud
@pytest.mark.parametrize("file", [*OF_USERS, *OF_ADMINISTRATORS] if EVERYTHING else list(SOME))
def test_what_is_marked_is_replaced(real_cloud: Begin, file: str) -> None:
    engine = real_cloud(admin=file in OF_ADMINISTRATORS)
    engine.patience = 600.0  # dozens of objects, one after the other
    engine.take_stock()
    stack = engine.well(engine.create(read(file)))
    full, marks = counts(engine), Marks(engine, stack)
    for name in read(file)["resources"] if EVERYTHING else SOME[file]:
        marks.replaced(name)
        assert counts(engine) == full, name
    engine.gone(stack)
