"""The cloud of a stack by auth URL, region and project of the token."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heatlite.clients.cloud import OtherCloud
from heatlite.core.clouds import CloudIdentity
from heatlite.core.status import state
from heatlite.store.records import StackRecord
from tests.clouds.services import Answer, FakeCloud, Network, clouds_yaml, fake_cloud
from tests.engine.conftest import Engine, place, resource, template  # noqa: F401 - a fixture

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")

NET = template(net=resource("OS::Neutron::Net"))
AWAY = Answer(503, {"error": {"code": 503, "message": "Down for maintenance"}})


class Land:
    """Two clouds, and an engine that is started anew on one of them."""

    def __init__(self, ends: ExitStack, folder: Path) -> None:
        self.networks = (Network(), Network())
        one, other = (ends.enter_context(fake_cloud(network)) for network in self.networks)
        self.clouds: tuple[FakeCloud, FakeCloud] = (one, other)
        self.folder = folder
        self.engine: Engine | None = None

    def on(self, which: int, **entry: str) -> Engine:
        """The engine, on one of the clouds; it calls both the same."""
        clouds_yaml(self.folder, ours=self.clouds[which].entry(**entry))
        if self.engine is None:
            self.engine = Engine(self.folder, cloud="ours", cloud_timeout=240.0)
        else:
            self.engine.close()
            self.engine.open()
        return self.engine


@pytest.fixture
def land(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Land]:  # noqa: F811 - the fixture
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(place / "clouds.yaml"))
    with ExitStack() as ends:
        found = Land(ends, place)
        yield found
        if found.engine is not None:
            found.engine.close()


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def test_the_record(land: Land) -> None:
    stack = land.on(0).create(NET)
    url = f"{land.clouds[0].url}/identity/v3"
    assert stack.cloud == CloudIdentity("ours", url, "RegionOne", "p1")


def test_another_cloud_of_the_same_name(land: Land) -> None:
    stack = land.on(0).create(NET)
    engine = land.on(1)
    with pytest.raises(OtherCloud, match=land.clouds[1].url):
        engine.delete(stack)
    assert list(land.networks[0].things) == ["n1"]
    assert final(land.on(0).delete(stack)) == "DELETE_COMPLETE"
    assert list(land.networks[0].things) == []


def test_another_project_of_the_same_cloud(land: Land) -> None:
    stack = land.on(0).create(NET)
    land.clouds[0].project = "p2"
    engine = land.on(0)
    with pytest.raises(OtherCloud, match=r"project p1\).*project p2\)"):
        engine.check(stack)


def test_a_cloud_that_cannot_be_asked_is_let_in_and_proves_itself_later(land: Land) -> None:
    """Nobody knows which project it is; what it answers then is asked for that first."""
    stack = land.on(0).create(NET)
    cloud = land.clouds[0]
    cloud.refusal = AWAY
    engine = land.on(0)
    stack = engine.check(stack)
    assert final(stack) == "CHECK_FAILED"
    assert engine.states(stack) == {"net": "CREATE_COMPLETE"}
    assert "could not be looked at (identity: HTTP 503)" in stack.status_reason
    cloud.refusal, cloud.project = None, "p2"
    with pytest.raises(OtherCloud, match="project p2"):
        engine.delete(stack)


def test_what_was_not_known_at_the_create_is_recorded_later(land: Land) -> None:
    cloud = land.clouds[0]
    cloud.refusal = AWAY
    engine = land.on(0)
    stack = engine.create(NET)
    assert final(stack) == "CREATE_FAILED"
    assert stack.cloud == CloudIdentity("ours", f"{cloud.url}/identity/v3", "RegionOne", None)
    cloud.refusal = None
    stack = engine.patch(stack)
    assert final(stack) == "UPDATE_COMPLETE", stack.status_reason
    assert stack.cloud is not None
    assert stack.cloud.project_id == "p1"
