"""Deployments and signals by queues of Zaqar, which agents read and write."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.simulation import SimulatedProject
from tests.api.conftest import Heat, template
from tests.api.test_deployments import config, deployment
from tests.engine.conftest import resource
from tests.waiting import eventually

pytest.importorskip("keystonemiddleware", reason="keystonemiddleware is not installed (extra `keystone`)")
from tests.api.test_agents import Place, begin, keystone, place  # noqa: F401 - fixtures
from tests.tables import few


@dataclass
class Zaqar:
    """The queues of all projects."""

    queues: dict[tuple[str, str], dict[str, JsonMap]] = field(default_factory=dict)
    asked: int = 0
    sent: int = 0

    def queue(self, view: SimulatedProject, name: Json) -> dict[str, JsonMap]:
        found = self.queues.get((view.project, str(name)))
        if found is None:
            raise CloudNotFound("messaging", f"no queue {name}")
        return found

    def send(self, name: str, body: Any) -> None:
        """Put a message into the queue, as a machine does."""
        (found,) = [queue for (_, one), queue in self.queues.items() if one == name]
        self.sent += 1
        found[f"m{self.sent}"] = {"body": body}

    def read(self, name: str) -> list[Json]:
        (found,) = [queue for (_, one), queue in self.queues.items() if one == name]
        return [one["body"] for one in found.values()]

    # -- verbs of the cloud

    def put_queue(self, view: SimulatedProject, name: Json, metadata: Json) -> Json:
        self.queues.setdefault((view.project, str(name)), {})
        return None

    def delete_queue(self, view: SimulatedProject, name: Json) -> Json:
        self.queues.pop((view.project, str(name)), None)
        return None

    def post_messages(self, view: SimulatedProject, name: Json, messages: list[JsonMap]) -> Json:
        self.queue(view, name)
        for one in messages:
            assert one["ttl"] == 3600
            self.send(str(name), one["body"])
        return None

    def messages(self, view: SimulatedProject, name: Json, echo: Json) -> Json:
        """Zaqar with Redis answers 503 to include_claimed without a marker."""
        self.asked += 1
        found = self.queue(view, name)
        return {"messages": [{"href": f"/v2/queues/{name}/messages/{key}", **one} for key, one in found.items()]}

    def delete_message(self, view: SimulatedProject, name: Json, key: Json) -> Json:
        self.queue(view, name).pop(str(key), None)
        return None


@pytest.fixture
def zaqar(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Zaqar]:  # noqa: F811 - the fixture
    found = Zaqar()
    verbs = cast(dict[str, Any], place.cloud.simulation.verbs)
    for verb in ("put_queue", "delete_queue", "post_messages", "messages", "delete_message"):
        monkeypatch.setitem(verbs, f"messaging.{verb}", getattr(found, verb))
    simulation = place.cloud.simulation
    monkeypatch.setattr(simulation, "services", simulation.services | {"messaging"})
    yield found


TARGET = {"type": "OS::Heat::DeployedServer", "properties": {"software_config_transport": "ZAQAR_MESSAGE"}}


def agent_of(mia: Heat, path: str) -> dict[str, Any]:
    """The settings of os-collect-config."""
    eventually(lambda: "CREATE_COMPLETE" in str(mia.call("GET", f"{path}/resources/server").json))
    return attributes(mia, path, "server")["os_collect_config"]["zaqar"]  # type: ignore[no-any-return]


def attributes(mia: Heat, path: str, name: str) -> dict[str, Any]:
    answer = mia.call("GET", f"{path}/resources/{name}").json
    return answer.get("resource", {}).get("attributes", {})  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_deployment_goes_and_comes_by_queues(place: Place, zaqar: Zaqar) -> None:  # noqa: F811 - the fixture
    mia = place.person("mia")
    answered = deployment(signal_transport="ZAQAR_SIGNAL")
    path = mia.create(template(server=TARGET, c=config(), d=answered), wait=False)
    agent = agent_of(mia, path)
    assert agent.keys() == {"auth_url", "user_id", "password", "project_id", "queue_id"}
    told = eventually(lambda: [one for one in zaqar.read(agent["queue_id"]) if one["deployments"]])[-1]  # type: ignore[call-overload, index]
    (given,) = told["deployments"]
    inputs = {one["name"]: one["value"] for one in given["inputs"]}
    assert (inputs["deploy_queue_id"], "deploy_signal_id" in inputs) == (given["id"], False)
    assert inputs["deploy_project_id"] == agent["project_id"]
    zaqar.send(inputs["deploy_queue_id"], {"deploy_stdout": "done\0\ud800", "deploy_status_code": 0})
    mia.settle(path, "CREATE_COMPLETE")
    assert attributes(mia, path, "d")["deploy_stdout"] == "done??"
    shown = mia.get(f"{path}/resources/server/metadata")["metadata"]
    assert [one["id"] for one in shown["deployments"]] == [given["id"]]
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert (zaqar.queues, place.found()) == ({}, {})


@pytest.mark.slow
def test_deployments_made_by_request_are_written_too(place: Place, zaqar: Zaqar) -> None:  # noqa: F811 - the fixture
    mia = place.person("mia")
    path = mia.create(template(server=TARGET))
    mia.settle(path, "CREATE_COMPLETE")
    agent = agent_of(mia, path)
    server = mia.get(f"{path}/resources/server")["resource"]["physical_resource_id"]
    made = mia.call("POST", "/software_configs", {"name": "c", "config": "x"}).json["software_config"]["id"]
    body = {"server_id": server, "config_id": made}
    one = mia.call("POST", "/software_deployments", body).json["software_deployment"]["id"]
    last: Any = zaqar.read(agent["queue_id"])[-1]
    assert [each["id"] for each in last["deployments"]] == [made]
    mia.call("DELETE", f"/software_deployments/{one}", code=204)
    last = zaqar.read(agent["queue_id"])[-1]
    assert last["deployments"] == []


@pytest.mark.slow
def test_the_agent_finds_another_transport_in_the_queue(place: Place, zaqar: Zaqar) -> None:  # noqa: F811 - the fixture
    mia = place.person("mia")
    path = mia.create(template(server=TARGET))
    mia.settle(path, "CREATE_COMPLETE")
    agent = agent_of(mia, path)
    mia.call("PUT", path, {"template": template(server={"type": TARGET["type"]})}, code=202)
    mia.settle(path, "UPDATE_COMPLETE")
    last: Any = zaqar.read(agent["queue_id"])[-1]
    assert last["os-collect-config"]["collectors"] == ["cfn", "local"]
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert (zaqar.queues, place.found()) == ({}, {})


@pytest.mark.slow
def test_a_handle_takes_signals_from_a_queue(place: Place, zaqar: Zaqar) -> None:  # noqa: F811 - the fixture
    mia = place.person("mia")
    handle = resource("OS::Heat::WaitConditionHandle", signal_transport="ZAQAR_SIGNAL")
    waits = resource("OS::Heat::WaitCondition", handle={"get_resource": "handle"}, timeout=600, count=2)
    path = mia.create(template(handle=handle, wc=waits), wait=False)
    eventually(lambda: "CREATE_COMPLETE" in str(mia.call("GET", f"{path}/resources/handle").json))
    signal = json.loads(attributes(mia, path, "handle")["signal"])
    assert signal.keys() >= {"auth_url", "user_id", "password", "project_id", "queue_id"}
    zaqar.send(signal["queue_id"], {"id": "a", "data": 1})
    zaqar.send(signal["queue_id"], {"data": "\ud800"})
    mia.settle(path, "CREATE_COMPLETE")
    assert json.loads(attributes(mia, path, "wc")["data"]) == {"a": 1, "m2": "?"}
    assert zaqar.read(signal["queue_id"]) == []
    mia.call("DELETE", path, code=204)
    mia.settle(path, "DELETE_COMPLETE")
    assert (zaqar.queues, place.found()) == ({}, {})


@pytest.mark.slow
def test_a_signal_that_cannot_be_kept_is_a_failure(place: Place, zaqar: Zaqar) -> None:  # noqa: F811 - the fixture
    mia = place.person("mia")
    handle = resource("OS::Heat::WaitConditionHandle", signal_transport="ZAQAR_SIGNAL")
    waits = resource("OS::Heat::WaitCondition", handle={"get_resource": "handle"}, timeout=600)
    path = mia.create(template(handle=handle, wc=waits), wait=False)
    eventually(lambda: "CREATE_COMPLETE" in str(mia.call("GET", f"{path}/resources/handle").json))
    zaqar.send(json.loads(attributes(mia, path, "handle")["signal"])["queue_id"], {"data": float("inf")})
    mia.settle(path, "CREATE_FAILED")
    reason = mia.get(f"{path}/resources/wc")["resource"]["resource_status_reason"]
    assert "Signal m1 cannot be kept: infinite and not-a-number values cannot be stored" in reason


@pytest.mark.parametrize(
    "one",
    few(
        [
            TARGET,
            resource("OS::Heat::WaitConditionHandle", signal_transport="ZAQAR_SIGNAL"),
            resource("OS::Heat::SoftwareDeployment", server="x", signal_transport="ZAQAR_SIGNAL"),
        ]
    ),
)
def test_without_a_stack_domain_there_is_no_queue(heat: Heat, one: JsonMap) -> None:
    path = heat.create(template(a=one))
    heat.settle(path, "CREATE_FAILED")
    assert "needs accounts of agents" in heat.get(path)["stack"]["stack_status_reason"]
