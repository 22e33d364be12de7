"""Deletions that a service answers with 404."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clouds.services import Answer, Network, clouds_yaml, fake_cloud
from tests.engine.conftest import Engine, place, resource, template  # noqa: F401 - fixtures

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")


class Hasty(Network):
    """A network service that misses a port of the network at the first deletion."""

    is_gone = False

    def __call__(self, method: str, path: str, body: object) -> Answer | None:
        if method == "DELETE" and not self.is_gone:
            self.is_gone = True
            return Answer(404, {"NeutronError": {"type": "PortNotFound", "message": "Port 1 could not be found."}})
        return super().__call__(method, path, body)


@pytest.fixture
def network() -> Hasty:
    return Hasty()


@pytest.fixture
def engine(network: Hasty, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:  # noqa: F811 - the fixture
    with fake_cloud(network) as fake:
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(tmp_path, fake=fake.entry())))
        engine = Engine(place, cloud="fake")
        yield engine
        engine.close()


def test_a_part_that_is_gone_is_not_the_object(engine: Engine, network: Hasty) -> None:
    """The SDK hides the 404 of a deletion."""
    stack = engine.create(template(net=resource("OS::Neutron::Net")))
    assert network.things
    stack = engine.delete(stack)
    assert (stack.verb, stack.status) == ("DELETE", "COMPLETE")
    assert network.things == {}


def test_what_is_gone_is_deleted(engine: Engine, network: Hasty) -> None:
    stack = engine.create(template(net=resource("OS::Neutron::Net")))
    network.things.clear()
    stack = engine.delete(stack)
    assert (stack.verb, stack.status) == ("DELETE", "COMPLETE")
