"""Answers of a real service get lost: the objects made are found again."""

from pathlib import Path
from typing import cast

import pytest
import yaml

from heatlite.core.json import Json
from tests.clouds.engine import OnCloud
from tests.clouds.real import NETWORK
from tests.clouds.relay import TROUBLE, relay
from tests.engine.conftest import place, resource, template  # noqa: F401 - a fixture

pytestmark = pytest.mark.cloud


def test_each_network_is_made_once(
    project: Path,
    place: Path,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with relay(NETWORK) as way:
        described = yaml.safe_load(project.read_text())
        described["clouds"]["ours"] |= {"network_endpoint_override": way.url, "network_api_version": "2"}
        (place / "clouds.yaml").write_text(yaml.safe_dump(described))
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(place / "clouds.yaml"))
        engine = OnCloud(place, real=True, timeout=10.0)  # a busy machine must not count as a lost answer
        try:
            engine.take_stock()
            nets = {name: resource("OS::Neutron::Net", name=name) for name in TROUBLE}
            stack = engine.well(engine.create(template(**nets)))
            assert sorted(way.met) == sorted(TROUBLE)
            made = [engine.thing(one)["name"] for one in cast(list[Json], engine.cloud.call("network.networks"))]
            assert sorted(name for name in made if name in TROUBLE) == sorted(TROUBLE)
            engine.gone(stack)
        finally:
            engine.clear()
            engine.close()
