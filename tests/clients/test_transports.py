"""Deployments and signals by a real Swift and a real Zaqar.

The tests do what os-collect-config, heat-config-notify and a curl in a script do.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.repairs import follow
from tests.clients.real_services import REDIS, ask
from tests.clients.region import FLAVOR, IMAGE, Region, connection
from tests.waiting import eventually

pytestmark = pytest.mark.clients

SECONDS = 300
"""Time limit for what an agent waits for."""
MADE = ("CREATE_COMPLETE", "UPDATE_COMPLETE")


@pytest.fixture(scope="module", name="place")
def place_of_the_member(place: Region) -> Iterator[Region]:
    """The region, whose server is asked by the member."""
    ours = connection(place.clouds, "ours")
    place.server.project, place.server.token = ours.current_project_id, ours.auth_token
    yield place
    ours.close()
    place.server.token = ""


def containers(place: Region) -> list[str]:
    """The names of the project's containers in Swift."""
    ours = connection(place.clouds, "ours")
    try:
        return [one.name for one in ours.object_store.containers()]
    finally:
        ours.close()


def queues(project: str) -> list[str]:
    """The queues of a project, as Zaqar stores them."""
    import redis

    with redis.Redis.from_url(REDIS) as client:
        return [name.decode().removeprefix(f"{project}.") for name in client.zrange(f"{project}.queues_set", 0, -1)]


def deleted(server: Server, path: str) -> None:
    """Wait until a stack is deleted."""
    eventually(lambda: server.stack(path)["stack_status"] != "DELETE_IN_PROGRESS", "the stack is gone", SECONDS)
    assert server.stack(path)["stack_status"] == "DELETE_COMPLETE", server.stack(path)


def attributes(server: Server, path: str, name: str) -> dict[str, Any]:
    """The attributes of a resource, once it is made."""
    found: list[dict[str, Any]] = []

    def made() -> bool:
        answer: Any = server.request("GET", f"{path}/resources/{name}")
        if answer.status == 200 and answer.data["resource"]["resource_status"] in MADE:
            found.append(answer.data["resource"]["attributes"])
        return bool(found)

    eventually(made, f"{name} is made", SECONDS)
    return found[0]


def settings(server: Server, path: str, name: str = "server") -> dict[str, Any]:
    """The settings of os-collect-config."""
    attributes(server, path, name)
    answer: Any = server.request("GET", f"{path}/resources/{name}/metadata")
    found: dict[str, Any] = answer.data["metadata"]["os-collect-config"]
    return found


def outputs(server: Server, path: str) -> dict[str, Any]:
    answer: Any = server.request("GET", path)
    assert answer.status == 200, answer.data
    return {one["output_key"]: one["output_value"] for one in answer.data["stack"]["outputs"]}


def put(url: str, body: object) -> None:
    """Write an object as curl -X PUT and heat-config-notify do."""
    text = body if isinstance(body, str) else json.dumps(body)
    status, said, _ = ask("PUT", url, text.encode(), {"Content-Type": ""})
    assert status == 201, said


class Queues:
    """The queues that an account in the stack domain sees."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        from keystoneauth1.identity import V3Password
        from keystoneauth1.session import Session

        login = {name: settings[name] for name in ("auth_url", "user_id", "password", "project_id")}
        self._session = Session(V3Password(**login))
        self._place = {"service_type": "messaging", "region_name": settings["region_name"]}

    def ask(self, method: str, path: str, **more: Any) -> Any:
        headers = {"Client-ID": "3381af92-2b9e-11e3-b191-71861300734c"}
        return self._session.request(f"/v2/queues/{path}", method, endpoint_filter=self._place, headers=headers, **more)

    def pop(self, name: str) -> list[Any]:
        """Take a message, as os-collect-config does."""
        answer = self.ask("DELETE", f"{name}/messages?pop=1")
        return [one["body"] for one in answer.json()["messages"]]

    def post(self, name: str, body: object) -> None:
        """Send a message, as heat-config-notify does."""
        self.ask("POST", f"{name}/messages", json={"messages": [{"body": body, "ttl": 600}]})


class ObjectAgent:
    """An agent with POLL_TEMP_URL and TEMP_URL_SIGNAL."""

    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["collectors"] == ["request", "local"]
        self._url = settings["request"]["metadata_url"]

    def kept(self, place: Region) -> list[str]:
        """The places in the object store."""
        return containers(place)

    def metadata(self) -> dict[str, Any]:
        assert ask("HEAD", self._url, None, {})[0] == 200
        status, said, _ = ask("GET", self._url, None, {})
        assert status == 200, said
        found: dict[str, Any] = json.loads(said)
        return found

    def answer(self, inputs: Mapping[str, str], body: object) -> None:
        assert inputs["deploy_signal_verb"] == "PUT"
        put(inputs["deploy_signal_id"], body)


class QueueAgent:
    """An agent with ZAQAR_MESSAGE and ZAQAR_SIGNAL."""

    def __init__(self, settings: dict[str, Any]) -> None:
        assert settings["collectors"] == ["zaqar", "local"]
        self._queue = settings["zaqar"]["queue_id"]
        self._queues = Queues(settings["zaqar"])
        self._latest: dict[str, Any] = {}
        self._project = settings["zaqar"]["project_id"]

    def kept(self, place: Region) -> list[str]:
        """The queues of the stack."""
        return queues(self._project)

    def metadata(self) -> dict[str, Any]:
        for one in self._queues.pop(self._queue):
            self._latest = one
        return self._latest

    def answer(self, inputs: Mapping[str, str], body: object) -> None:
        assert "deploy_signal_id" not in inputs
        names = ("auth_url", "user_id", "password", "project_id", "region_name")
        queues = Queues({name: inputs[f"deploy_{name}"] for name in names})
        queues.post(inputs["deploy_queue_id"], body)


class Machine:
    """A server of a stack with an agent that applies each config once."""

    def __init__(self, agent: ObjectAgent | QueueAgent) -> None:
        self.agent = agent
        self.applied: set[str] = set()

    def apply(self, body: dict[str, Any]) -> dict[str, str]:
        """Wait for a config, answer it, and return its inputs."""
        found: list[dict[str, Any]] = []

        def told() -> bool:
            found[:] = [one for one in self.agent.metadata().get("deployments", ()) if one["id"] not in self.applied]
            return bool(found)

        eventually(told, "the agent is told a config", SECONDS)
        (config,) = found
        self.applied.add(config["id"])
        inputs = {one["name"]: one["value"] for one in config["inputs"]}
        self.agent.answer(inputs, body)
        return inputs


def story(config: str, signal: str) -> dict[str, Any]:
    """The template with a server and a deployment, which greets."""
    server = {"type": "OS::Heat::DeployedServer", "properties": {"software_config_transport": config}}
    source = {"group": "script", "config": "x", "inputs": [{"name": "who"}], "outputs": [{"name": "greeting"}]}
    deployment = {
        "config": {"get_resource": "config"}, "server": {"get_resource": "server"}, "signal_transport": signal,
        "input_values": {"who": {"get_param": "who"}}, "actions": ["CREATE", "UPDATE", "DELETE"],
    }  # fmt: skip
    return {
        "heat_template_version": "2021-04-16",
        "parameters": {"who": {"type": "string"}},
        "resources": {
            "server": server,
            "config": {"type": "OS::Heat::SoftwareConfig", "properties": source},
            "deployment": {"type": "OS::Heat::SoftwareDeployment", "properties": deployment},
        },
        "outputs": {"greeting": {"value": {"get_attr": ["deployment", "greeting"]}}},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "signal", "kind"),
    [("POLL_TEMP_URL", "TEMP_URL_SIGNAL", ObjectAgent), ("ZAQAR_MESSAGE", "ZAQAR_SIGNAL", QueueAgent)],
)
def test_an_agent_applies_deployments(
    place: Region, config: str, signal: str, kind: type[ObjectAgent | QueueAgent]
) -> None:
    server, template = place.server, story(config, signal)

    def update(who: str) -> None:
        assert follow(server, "PATCH", path, {"parameters": {"who": who}}).status == 202

    path = server.create(signal.lower(), template, parameters={"who": "one"})
    machine = Machine(kind(settings(server, path)))
    given = machine.apply({"greeting": "hello, one", "deploy_stdout": "done", "deploy_status_code": 0})
    assert (given["who"], given["deploy_action"]) == ("one", "CREATE")
    assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
    assert outputs(server, path) == {"greeting": "hello, one"}
    assert attributes(server, path, "deployment")["deploy_stdout"] == "done"

    update("two")
    given = machine.apply({"greeting": "hello, two", "deploy_status_code": "0"})
    assert (given["who"], given["deploy_action"]) == ("two", "UPDATE")
    assert server.settled(path) == "UPDATE_COMPLETE", server.stack(path)
    assert outputs(server, path) == {"greeting": "hello, two"}

    update("three")
    machine.apply({"deploy_stderr": "no disk", "deploy_status_code": 7})
    assert server.settled(path) == "UPDATE_FAILED"
    assert "non-zero status code: 7" in server.stack(path)["stack_status_reason"]
    update("three")  # the failed deployment is replaced, and deployed for its deletion
    given = machine.apply({"greeting": "hello, three", "deploy_status_code": 0})
    assert (given["who"], given["deploy_action"]) == ("three", "CREATE")
    assert machine.apply({"deploy_status_code": 0})["deploy_action"] == "DELETE"
    assert server.settled(path) == "UPDATE_COMPLETE", server.stack(path)
    assert outputs(server, path) == {"greeting": "hello, three"}

    assert machine.agent.kept(place)
    assert server.request("DELETE", path).status == 204
    assert machine.apply({"deploy_status_code": 0})["deploy_action"] == "DELETE"
    deleted(server, path)
    assert machine.agent.kept(place) == []


CONDITIONS = {
    "OS::Heat::SwiftSignal": {"type": "OS::Heat::SwiftSignalHandle"},
    "OS::Heat::WaitCondition": {
        "type": "OS::Heat::WaitConditionHandle", "properties": {"signal_transport": "TEMP_URL_SIGNAL"},
    },
}  # fmt: skip


def waiting(server: Server, name: str, condition: str, handle: dict[str, Any]) -> str:
    """The path of a stack that waits for two signals.

    The metadata of its server has the address for them.
    """
    waits = {"handle": {"get_resource": "handle"}, "timeout": 3600, "count": 2}
    address = "endpoint" if condition == "OS::Heat::SwiftSignal" else "signal"
    resources = {
        "handle": handle,
        "waits": {"type": condition, "properties": waits},
        "server": {"type": "OS::Heat::DeployedServer", "metadata": {"to": {"get_attr": ["handle", address]}}},
    }
    template = {"heat_template_version": "2021-04-16", "resources": resources}
    return server.create(name, {**template, "outputs": {"data": {"value": {"get_attr": ["waits", "data"]}}}})


def told(server: Server, path: str) -> str:
    """Read the address in the metadata of the server."""
    attributes(server, path, "server")
    answer: Any = server.request("GET", f"{path}/resources/server/metadata")
    return str(answer.data["metadata"]["to"])


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("fails", [False, True])
def test_a_condition_waits_for_objects(place: Region, condition: str, fails: bool) -> None:
    server, name = place.server, f"{condition.rpartition(':')[2]}-{fails}"
    path = waiting(server, name, condition, CONDITIONS[condition])
    address = told(server, path)
    url = address if address.startswith("http") else json.loads(address)["alarm_url"]
    put(url, {"data": "one"})
    put(url, {"status": "FAILURE", "reason": "no disk"} if fails else {"id": "x", "data": [2]})
    if fails:
        assert server.settled(path) == "CREATE_FAILED"
        assert "no disk" in server.stack(path)["stack_status_reason"]
    else:
        assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
        assert json.loads(outputs(server, path)["data"]) == {"1": "one", "x": [2]}
    assert containers(place)
    assert server.request("DELETE", path).status == 204
    deleted(server, path)
    assert containers(place) == []


@pytest.mark.slow
def test_a_condition_waits_for_messages(place: Region) -> None:
    server, transport = place.server, {"signal_transport": "ZAQAR_SIGNAL"}
    handle = {"type": "OS::Heat::WaitConditionHandle", "properties": transport}
    path = waiting(server, "messages", "OS::Heat::WaitCondition", handle)
    account = json.loads(told(server, path))
    sender = Queues(account)
    sender.post(account["queue_id"], {"id": "x", "data": [2]})
    sender.post(account["queue_id"], {"data": "one"})
    assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
    data = json.loads(outputs(server, path)["data"])
    assert (data.pop("x"), [*data.values()]) == ([2], ["one"])
    assert queues(account["project_id"]) == [account["queue_id"]]
    assert server.request("DELETE", path).status == 204
    deleted(server, path)
    assert queues(account["project_id"]) == []


@pytest.mark.slow
def test_the_template_names_the_object(place: Region) -> None:
    """Two servers share a container; the names have characters that a URL does not."""
    server = place.server

    def target(name: str) -> dict[str, Any]:
        there = {"container": "of all servers", "object": name}
        more = {"software_config_transport": "POLL_TEMP_URL", "deployment_swift_data": there}
        return {"type": "OS::Heat::DeployedServer", "metadata": {"name": name}, "properties": more}

    names = {"server": "a/meta data?", "other": "50%41 #1"}
    resources = {key: target(name) for key, name in names.items()}
    path = server.create("named", {"heat_template_version": "2021-04-16", "resources": resources})
    assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
    for key, name in names.items():
        assert ObjectAgent(settings(server, path, key)).metadata()["name"] == name
    assert containers(place) == ["of all servers"]
    assert server.request("DELETE", path).status == 204
    deleted(server, path)
    assert containers(place) == []


@pytest.mark.slow
def test_an_update_chooses_another_transport(place: Region) -> None:
    server = place.server
    properties = {"software_config_transport": {"get_param": "transport"}}
    template = {
        "heat_template_version": "2021-04-16",
        "parameters": {"transport": {"type": "string"}},
        "resources": {"server": {"type": "OS::Heat::DeployedServer", "properties": properties}},
    }

    def update(transport: str) -> dict[str, Any]:
        assert follow(server, "PATCH", path, {"parameters": {"transport": transport}}).status == 202
        assert server.settled(path) == "UPDATE_COMPLETE", server.stack(path)
        return settings(server, path)

    path = server.create("chooses", template, parameters={"transport": "ZAQAR_MESSAGE"})
    by_queue = QueueAgent(settings(server, path))
    assert by_queue.metadata()["os-collect-config"]["collectors"] == ["zaqar", "local"]
    chosen = update("POLL_TEMP_URL")
    assert by_queue.metadata()["os-collect-config"] == chosen
    by_object = ObjectAgent(chosen)
    assert by_object.metadata()["os-collect-config"] == chosen
    chosen = update("POLL_SERVER_CFN")
    assert "cfn" in chosen["collectors"]
    assert by_queue.metadata()["os-collect-config"] == by_object.metadata()["os-collect-config"] == chosen
    assert by_queue.kept(place)
    assert by_object.kept(place)
    assert server.request("DELETE", path).status == 204
    deleted(server, path)
    assert (by_queue.kept(place), by_object.kept(place)) == ([], [])


@pytest.mark.slow
def test_a_server_of_nova_reads_an_object(place: Region) -> None:
    server = place.server
    properties = {
        "image": IMAGE, "flavor": FLAVOR, "networks": [{"network": place.network}],
        "user_data_format": "SOFTWARE_CONFIG", "software_config_transport": "POLL_TEMP_URL",
    }  # fmt: skip
    template = story("POLL_TEMP_URL", "TEMP_URL_SIGNAL")
    template["resources"]["server"] = {"type": "OS::Nova::Server", "properties": properties}
    path = server.create("nova", template, parameters={"who": "one"})
    machine = Machine(ObjectAgent(settings(server, path)))
    machine.apply({"greeting": "hello, one", "deploy_status_code": 0})
    assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
    assert server.request("DELETE", path).status == 204
    assert machine.apply({"deploy_status_code": 0})["deploy_action"] == "DELETE"
    deleted(server, path)
    assert containers(place) == []
