"""Registration of agents over HTTP, with a signed URL that opens nothing else."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.config import Auth, Settings
from heatlite.core.errors import HTTPBadRequest
from heatlite.features.nodes.agents import client
from heatlite.features.nodes.agents.client import Agents, NodeFault
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.states import NodeState
from heatlite.features.nodes.store.records import NodeRecord
from tests.api.conftest import Heat, template
from tests.databases import sqlite
from tests.features.nodes.tiny_agent import SECRET, TinyAgent
from tests.waiting import eventually

SERVER = {"type": "OS::Heat::DeployedServer"}


@pytest.fixture
def heat(tmp_path: Path) -> Iterator[Heat]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path)))
    yield Heat(server.app)
    server.close()


@pytest.fixture
def agent() -> Iterator[TinyAgent]:
    agent = TinyAgent()
    yield agent
    agent.close()


def body(agent: TinyAgent, **more: Any) -> dict[str, Any]:
    given = {"url": agent.url, "secret": SECRET, "instance": agent.instance, "agent": "1.0", "kinds": agent.kinds}
    return {**given, **more}


def door(heat: Heat, path: str, name: str = "a") -> str:
    """Registration URL of a resource's agent."""
    url = heat.get(f"{path}/resources/{name}/metadata")["metadata"]["heatlite_agent"]["register"]
    return str(url.partition("8004")[2])


def until_up(heat: Heat, path: str) -> Any:
    eventually(lambda: heat.get(f"{path}/nodes")["nodes"][0]["state"] == "UP")
    return heat.get(f"{path}/nodes")["nodes"][0]


@pytest.mark.slow
def test_an_agent_registers_and_is_seen_and_registers_anew(heat: Heat, agent: TinyAgent) -> None:
    path = heat.create(template(a=SERVER, b=SERVER))
    assert heat.get(f"{path}/nodes") == {"nodes": [], "orchestration": None, "refused": []}
    assert "no agent has registered" in heat.fault("POST", f"{path}/orchestrate", code=404)[1]
    own = door(heat, path)
    heat.fault("POST", own, code=404)
    made = heat.call("PUT", own, body(agent), code=200).json["node"]
    assert (made["state"], made["name"], made["deployments"]) == ("REGISTERED", "a", False)
    node = until_up(heat, path)
    assert node["kinds"] == agent.kinds
    assert SECRET not in heat.call("GET", f"{path}/nodes").text
    asked = len(agent.asked)
    heat.call("POST", own, code=202)
    eventually(lambda: len(agent.asked) > asked)
    again = heat.call("PUT", own, body(agent, deployments=True), code=200).json["node"]
    assert (again["id"], again["deployments"]) == (node["id"], True)
    events = f"{path}/resources/a/events?resource_type=OS::Heat::Node"
    heat.fault("GET", events, code=404)  # none
    # Whoever comes last is the agent, and that it is another one is said.
    other = TinyAgent("t" * 43)
    try:
        heat.call("PUT", own, body(other, secret=other.secret), code=200)
        eventually(lambda: other.asked)
        assert until_up(heat, path)["url"] == other.url
        (event,) = heat.get(events)["events"]
        assert (event["resource_status"], event["physical_resource_id"]) == ("NODE_REPLACED", node["id"])
        assert event["resource_status_reason"] == (
            f"Another agent has registered, at {other.url}, in place of the one at {agent.url}"
        )
    finally:
        other.close()


@pytest.mark.slow
def test_a_copy_of_an_agents_folder_on_another_host_is_told(heat: Heat, agent: TinyAgent) -> None:
    path = heat.create(template(a=SERVER))
    own = door(heat, path)
    for url in (agent.url, "http://127.0.0.1:1"):  # a restart may take another port
        heat.call("PUT", own, body(agent, url=url), code=200)
    events = f"{path}/resources/a/events?resource_type=OS::Heat::Node"
    heat.fault("GET", events, code=404)  # none
    heat.call("PUT", own, body(agent, url="http://127.0.0.2:1"), code=200)
    (event,) = heat.get(events)["events"]
    assert (event["resource_status"], event["resource_status_reason"]) == (
        "NODE_REPLACED",
        "An agent with the same secret has registered, at http://127.0.0.2:1, in place of the one at http://127.0.0.1:1",
    )


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("no url", {"url": None}, "url"),
    ("another scheme", {"url": "ftp://127.0.0.1/"}, "only http and https"),
    ("a host that is not listed", {"url": "http://10.1.2.3:8005"}, "node_hosts"),
    ("metadata of the cloud", {"url": "http://169.254.169.254/"}, "node_hosts"),
    ("a password in it", {"url": "http://me:hushhush@127.0.0.1/"}, "no address"),
    ("a query", {"url": "http://127.0.0.1:1/?a=b"}, "query"),
    ("no port", {"url": "http://127.0.0.1:99999/"}, "url"),
    ("too short a secret", {"secret": "s"}, "secret"),
    ("kinds that are none", {"kinds": ["a\nb"]}, "kinds"),
    ("something else", {"more": 1}, "more"),
]


@pytest.mark.slow
def test_what_is_wrong_is_refused(heat: Heat, agent: TinyAgent) -> None:
    path = heat.create(template(a=SERVER))
    own = door(heat, path)
    for name, change, says in BAD:
        _, message = heat.fault("PUT", own, body(agent, **change))
        assert says in message, name
        assert "hushhush" not in message
    heat.fault("POST", own, {"a": 1})
    heat.fault("POST", f"{path}/orchestrate", {"a": 1})
    assert heat.get(f"{path}/nodes")["nodes"] == []


@pytest.mark.slow
def test_who_is_refused_is_in_the_list_of_nodes_the_audit_log_and_the_log(
    heat: Heat, agent: TinyAgent, caplog: pytest.LogCaptureFixture
) -> None:
    heat.app.extra_environ["REMOTE_ADDR"] = "127.0.0.1"
    path = heat.create(template(a=SERVER, b=SERVER))
    own = door(heat, path)
    for _ in range(2):
        _, sentence = heat.fault("PUT", own, body(agent, url="http://10.1.2.3:8005"))
    heat.fault("PUT", f"{path}/resources/b/node?Signature=x", body(agent), code=403)  # anybody can send that
    (refused,) = heat.get(f"{path}/nodes")["refused"]
    assert (refused["name"], refused["reason"], refused["address"]) == ("a", sentence, "127.0.0.1")
    rows = {row["resource_name"]: row for row in heat.get("/audit?operation=nodes:register")["audit"]}
    assert rows["a"]["reason"] == sentence and rows["a"]["stack_id"] == path.rpartition("/")[2]
    assert rows["b"]["user"] is None
    assert f"the agent of a in stack s, from 127.0.0.1, is refused: {sentence}" in caplog.text
    heat.call("PUT", own, body(agent), code=200)
    assert heat.get(f"{path}/nodes")["refused"] == []
    # The machine has moved to an address that is not allowed; what runs at the old one stays registered.
    until_up(heat, path)
    heat.fault("PUT", own, body(agent, url="http://10.1.2.4:8005"))
    found = heat.get(f"{path}/nodes")
    assert [(one["name"], one["state"]) for one in found["nodes"]] == [("a", "UP")]
    assert "10.1.2.4" in found["refused"][0]["reason"]


@pytest.mark.slow
def test_a_nodes_signature_opens_nothing_else(heat: Heat, agent: TinyAgent) -> None:
    waits = {"type": "OS::Heat::WaitConditionHandle", "properties": {"signal_transport": "TOKEN_SIGNAL"}}
    path = heat.create(template(a=SERVER, b=SERVER, handle=waits))
    other = heat.create(template(a=SERVER), name="other")
    own = door(heat, path)
    proof = "?" + own.partition("?")[2]
    arn = f"arn:openstack:heat::demo:stacks{path.removeprefix('/stacks')}/resources/a"
    given = body(agent)
    for method, url in (
        ("PUT", own[:-4] + "AAA="),
        ("PUT", own.partition("?")[0]),
        ("PUT", f"{path}/resources/b/node{proof}"),
        ("PUT", f"{path}/resources/nothing/node{proof}"),
        ("PUT", f"{other}/resources/a/node{proof}"),
        ("POST", f"{other}/resources/a/node{proof}"),
        ("POST", f"{path}/resources/a/signal{proof}"),
        ("POST", f"/v1/signal/{arn}{proof}"),
        ("PUT", f"/v1/waitcondition/{arn}{proof}"),
    ):
        heat.fault(method, url, given, code=403)
    curl = heat.get(f"{path}/resources/handle")["resource"]["attributes"]["curl_cli"]
    token = curl.partition("X-Auth-Token: ")[2].partition("'")[0]
    answer = heat.call("PUT", f"{path}/resources/handle/node", given, headers={"X-Auth-Token": token})
    assert answer.status_int == 403, "a handle is no node"


def test_which_agents_may_be_asked() -> None:
    def vetted(url: str, auth: Auth = Auth.NONE, hosts: tuple[str, ...] = ()) -> bool:
        own = (NodeSettings(node_hosts=hosts),)
        try:
            Agents(Settings(database="sqlite://", auth=auth, of_features=own)).vet(url)
        except HTTPBadRequest:
            return False
        return True

    assert vetted("http://127.0.0.1:8005") and vetted("http://localhost:1") and vetted("http://[::1]:8005")
    assert not vetted("http://[::1")
    for auth, hosts in ((Auth.BASIC, ()), (Auth.TOKENS, ("10.0.0.0/8",))):
        assert not vetted("http://127.0.0.1:8005", auth, hosts)
        assert not vetted("http://localhost:8005", auth, hosts)
    inside = ("10.0.0.0/8", "fd00::/8", "192.0.2.7:8005", "not/a/network")
    for url, may in (
        ("https://10.2.3.4:8005", True),
        ("https://[fd00::1]:8005", True),
        ("http://192.0.2.7:8005", True),
        ("http://192.0.2.7:8006", False),
        ("http://11.0.0.1", False),
        ("http://8.8.8.8", False),
    ):
        assert vetted(url, Auth.TOKENS, inside) is may, url


def test_a_machine_that_is_down_is_not_waited_for_as_long_as_a_slow_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "REACH", 0.2)
    node = NodeRecord("n", "s", "r", "p", "a", "", SECRET, "", 0, "1", (), False, NodeState.UP, "", 1.0)
    with ExitStack() as opened:
        listens = opened.enter_context(socket.socket())
        listens.bind(("127.0.0.1", 0))
        listens.listen(0)
        for _ in range(4):  # nobody accepts: Linux takes no more soon
            waits = opened.enter_context(socket.socket())
            waits.setblocking(False)
            waits.connect_ex(listens.getsockname())
        node = replace(node, url=f"http://127.0.0.1:{listens.getsockname()[1]}")
        asked = Agents(Settings(database="sqlite://"))
        with pytest.raises(NodeFault, match=r"not taken a connection within 0\.2 s"), asked.line(node) as line:
            line.changes("", 0)
