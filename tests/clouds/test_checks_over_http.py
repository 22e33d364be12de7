"""Checks by HTTP answers: only a definite one marks an object as unhealthy."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.status import state
from tests.clouds.services import REFUSED, Answer, FakeCloud, Network, clouds_yaml, fake_cloud
from tests.engine.conftest import Engine, place, resource, template  # noqa: F401 - a fixture

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")

Change = Callable[[FakeCloud, Network], None]


def answers(status: int, body: Any = None, kind: str = "application/json") -> Change:
    def change(fake: FakeCloud, network: Network) -> None:
        network.said = Answer(status, {"error": {"message": "no"}} if body is None else body, kind)

    return change


def password(fake: FakeCloud, network: Network) -> None:
    """The password is another one now, and the token does not hold any more."""
    fake.password, fake.tokens = "another", fake.tokens + 1


def trust(fake: FakeCloud, network: Network) -> None:
    """The log-in says 404: what it refers to is gone."""
    fake.tokens += 1
    fake.refusal = Answer(404, {"error": {"code": 404, "message": "Could not find trust: 1."}})


def refused(fake: FakeCloud, network: Network) -> None:
    network.said = REFUSED


def silent(fake: FakeCloud, network: Network) -> None:
    network.silent = True


def gone(fake: FakeCloud, network: Network) -> None:
    del network.things["n1"]


def broken(fake: FakeCloud, network: Network) -> None:
    network.things["n1"]["status"] = "ERROR"


def building(fake: FakeCloud, network: Network) -> None:
    network.things["n1"]["status"] = "BUILD"


UNKNOWN = {
    "400": answers(400), "403": answers(403), "409": answers(409), "429": answers(429), "500": answers(500),
    "501": answers(501), "502 page": answers(502, "<html>Bad gateway</html>", "text/html"), "503": answers(503),
    "no JSON": answers(200, "what?"), "401 of the service": refused, "password": password, "log-in 404": trust,
    "no answer": silent, "a passing status": building,
}  # fmt: skip
UNHEALTHY = {"404": gone, "ERROR": broken}


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
def cloud(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCloud]:
    with fake_cloud(network) as fake:
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds_yaml(tmp_path, fake=fake.entry())))
        yield fake


@pytest.fixture
def engine(cloud: FakeCloud, place: Path, request: pytest.FixtureRequest) -> Iterator[Engine]:  # noqa: F811 - the fixture
    timeout = 5.0 if "no answer" in request.node.name else 240.0  # a busy machine must not count as a lost answer
    engine = Engine(place, cloud="fake", cloud_timeout=timeout)
    yield engine
    engine.close()


@pytest.mark.parametrize("change", UNKNOWN.values(), ids=UNKNOWN)
def test_nothing_was_found_out(engine: Engine, cloud: FakeCloud, network: Network, change: Change) -> None:
    stack = engine.create(template(net=resource("OS::Neutron::Net")))
    assert engine.states(stack) == {"net": "CREATE_COMPLETE"}, stack.status_reason
    ids = engine.ids(stack)
    change(cloud, network)
    stack = engine.check(stack)
    assert state(stack.verb, stack.status) == "CHECK_FAILED"
    assert stack.status_reason.startswith("Resource CHECK failed: 1 could not be looked at (")
    assert engine.states(stack) == {"net": "CREATE_COMPLETE"}
    assert engine.row(stack, "net").health is not None
    stack = engine.patch(stack)
    assert (state(stack.verb, stack.status), engine.ids(stack)) == ("UPDATE_COMPLETE", ids)


@pytest.mark.parametrize("change", UNHEALTHY.values(), ids=UNHEALTHY)
def test_a_definite_answer_marks(engine: Engine, cloud: FakeCloud, network: Network, change: Change) -> None:
    stack = engine.create(template(net=resource("OS::Neutron::Net")))
    ids = engine.ids(stack)
    change(cloud, network)
    stack = engine.check(stack)
    assert engine.states(stack) == {"net": "CHECK_FAILED"}
    stack = engine.patch(stack)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
    assert engine.ids(stack) != ids


def test_a_log_in_that_says_404_is_no_deletion(engine: Engine, cloud: FakeCloud, network: Network) -> None:
    stack = engine.create(template(net=resource("OS::Neutron::Net")))
    trust(cloud, network)
    stack = engine.delete(stack)
    assert state(stack.verb, stack.status) == "DELETE_FAILED"
    assert "does not accept the credentials: Could not find trust" in stack.status_reason
    assert list(network.things) == ["n1"]
