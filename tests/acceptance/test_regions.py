"""OS::Heat::Stack between two real servers, with faults on the connection."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ports import free_port
from tests.acceptance.processes import START_SECONDS, Server
from tests.waiting import eventually

pytestmark = pytest.mark.slow

CHILD = """
heat_template_version: 2021-04-16
parameters: {text: {type: string}}
resources: {said: {type: OS::Heat::Value, properties: {value: {get_param: text}}}}
outputs: {text: {value: {get_attr: [said, value]}}}
"""

THERE = """
heat_template_version: 2021-04-16
parameters: {text: {type: string}, default: {type: string, default: none}}
resources:
  thing: {type: OS::Heat::TestResource, properties: {value: {get_param: text}}}
  child: {type: child.yaml, properties: {text: {get_attr: [thing, output]}}}
outputs:
  text: {value: {get_attr: [child, text]}}
  default: {value: {get_param: default}}
"""

FAILING = """
heat_template_version: 2021-04-16
resources: {boom: {type: OS::Heat::TestResource, properties: {fail: true}}}
"""


def here(text: str = "one", template: str = THERE, region: str | None = "far") -> dict[str, Any]:
    """A template with a stack in another region, and a resource that uses its output."""
    properties: dict[str, Any] = {"template": template, "parameters": {"text": text} if template == THERE else {}}
    if region is not None:
        properties["context"] = {"region_name": region}
    used = {"get_attr": ["remote", "outputs", "text"]}
    return {
        "heat_template_version": "2021-04-16",
        "resources": {
            "remote": {"type": "OS::Heat::Stack", "properties": properties},
            "user": {"type": "OS::Heat::TestResource", "properties": {"value": used}},
        },
        "outputs": {
            "used": {"value": {"get_attr": ["user", "output"]}},
            "default": {"value": {"get_attr": ["remote", "outputs", "default"]}},
            "name": {"value": {"get_attr": ["remote", "stack_name"]}},
        },
    }


MORE = {"files": {"child.yaml": CHILD}, "environment": {"parameter_defaults": {"default": "handed down"}}}


@dataclass
class Way:
    """Proxy of a server that may fail."""

    port: int = 0
    target: int = 0
    token: str | None = None
    """The last X-Auth-Token."""
    down: bool = False
    answered: Callable[[str, str], bool] = field(default=lambda _method, _path: True)
    """Asked with each request that has been carried out: whether the answer goes back."""


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of the other region."""
    started = Server(tmp_path_factory.mktemp("far"))
    yield started
    started.stop()
    assert started.complaints() == ""


@pytest.fixture(scope="module")
def open_way(far: Server) -> Iterator[Way]:
    way = Way(target=far.port)

    class Passes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if way.down:
                return
            way.token = self.headers["X-Auth-Token"]
            length = int(self.headers.get("Content-Length", 0))
            connection = HTTPConnection("127.0.0.1", way.target, timeout=START_SECONDS)
            try:
                headers = {"Content-Type": "application/json"}
                connection.request(self.command, self.path, self.rfile.read(length), headers)
                response = connection.getresponse()
                text = response.read()
            finally:
                connection.close()
            if way.answered(self.command, self.path):
                self.send_response(response.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    passing = ThreadingHTTPServer(("127.0.0.1", 0), Passes)
    passing.daemon_threads = True
    way.port = passing.server_port
    thread = threading.Thread(target=passing.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield way
    passing.shutdown()
    passing.server_close()
    thread.join()


@pytest.fixture
def way(open_way: Way) -> Way:
    """Nothing goes wrong until the test says so."""
    open_way.down, open_way.answered = False, lambda _method, _path: True
    return open_way


def variables(way: Way) -> dict[str, str]:
    regions = f"far=http://127.0.0.1:{way.port}/v1/{{project}},nowhere=http://127.0.0.1:1/v1/{{project}}"
    return {"HEATLITE_REGIONS": regions, "HEATLITE_REGION_TOKENS": "far=open", "HEATLITE_CLIENT_RETRY_LIMIT": "1"}


@pytest.fixture(scope="module")
def near(open_way: Way, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that makes stacks there."""
    started = Server(tmp_path_factory.mktemp("near"), **variables(open_way))
    yield started
    started.stop()
    assert started.complaints() == ""


def outputs(server: Server, path: str) -> dict[str, object]:
    answer: Any = server.request("GET", path).data
    return {one["output_key"]: one["output_value"] for one in answer["stack"]["outputs"]}


def there(far: Server, near: Server, path: str) -> dict[str, str]:
    """The stack in the other region."""
    name = outputs(near, path)["name"]
    return far.stack(f"/stacks/{name}/{near.resources(path)['remote']}")


def reason(server: Server, path: str, name: str) -> str:
    (found,) = [one for one in server.listed(path, "resources") if one["resource_name"] == name]
    return found["resource_status_reason"]


def names(server: Server) -> list[str]:
    answer: Any = server.request("GET", "/stacks").data
    return [stack["stack_name"] for stack in answer["stacks"]]


def act(server: Server, path: str, action: str) -> None:
    assert server.request("POST", f"{path}/actions", {action: None}).status in (200, 201, 202)


def test_a_life_in_another_region(near: Server, far: Server, way: Way) -> None:
    path = near.create("life", here(), **MORE)
    assert near.settled(path) == "CREATE_COMPLETE", near.stack(path)
    first = outputs(near, path)
    assert first == {"used": "one", "default": "handed down", "name": first["name"]}
    assert str(first["name"]).startswith("life-remote-")
    assert way.token == "open"
    before = there(far, near, path)
    assert before["stack_status"] == "CREATE_COMPLETE"

    assert near.request("PUT", path, {"template": here("two"), **MORE}).status == 202
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert outputs(near, path) == {**first, "used": "two"}
    after = there(far, near, path)
    assert (after["id"], after["stack_status"]) == (before["id"], "UPDATE_COMPLETE")

    # Whatever has changed there is made good, although nothing has changed here.
    assert far.request("PATCH", far.find(after["stack_name"]), {"parameters": {"text": "meddled"}}).status == 202
    assert far.settled(far.find(after["stack_name"])) == "UPDATE_COMPLETE"
    assert near.request("PATCH", path, {}).status == 202
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert outputs(far, far.find(after["stack_name"]))["text"] == "two"

    for action in ("check", "suspend", "resume"):
        act(near, path, action)
        assert near.settled(path) == f"{action.upper()}_COMPLETE"
        assert there(far, near, path)["stack_status"] == f"{action.upper()}_COMPLETE"

    # A snapshot is of what is there, whoever has made it so.
    remote = far.find(after["stack_name"])
    assert far.request("PATCH", remote, {"parameters": {"text": "tuned"}}).status == 202
    assert far.settled(remote) == "UPDATE_COMPLETE"
    snapshot: Any = near.request("POST", f"{path}/snapshots", {"name": "before"}).data
    assert near.settled(path) == "SNAPSHOT_COMPLETE"
    assert near.request("PUT", path, {"template": here("three"), **MORE}).status == 202
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert outputs(near, path)["used"] == "three"
    assert near.request("POST", f"{path}/snapshots/{snapshot['id']}/restore").status == 202
    assert near.settled(path) == "RESTORE_COMPLETE"
    assert outputs(near, path) == {**first, "used": "tuned"}
    assert len(far.listed(remote, "snapshots")) == 1
    assert near.request("DELETE", f"{path}/snapshots/{snapshot['id']}").status == 204
    eventually(lambda: far.listed(remote, "snapshots") == [], "its snapshot is gone")

    assert near.request("DELETE", path).status == 204
    eventually(lambda: "life" not in names(near), "the stack is gone")
    assert after["stack_name"] not in names(far)


def test_the_reason_of_a_failure_comes_through(near: Server) -> None:
    path = near.create("failing", here(template=FAILING))
    assert near.settled(path) == "CREATE_FAILED"
    failed = "Resource CREATE failed: ValueError: resources.boom: Test Resource failed boom"
    told = f'ResourceInError: resources.remote: Went to status CREATE_FAILED due to "{failed}"'
    assert reason(near, path, "remote") == told
    assert near.stack(path)["stack_status_reason"] == f"Resource CREATE failed: {told}"


def test_a_create_that_is_refused_there(near: Server, far: Server) -> None:
    path = near.create("refused", here(template=CHILD))  # without its parameter
    assert near.settled(path) == "CREATE_FAILED"
    assert reason(near, path, "remote").startswith("RegionRefused: resources.remote: Region far has answered 400: ")
    assert not [name for name in names(far) if name.startswith("refused-")]


def test_a_template_that_is_refused_there(near: Server) -> None:
    wrong = "heat_template_version: 2021-04-16\nresource: {}"
    body = {"stack_name": "invalid", "template": here(template=wrong)}
    answer: Any = near.request("POST", "/stacks", body)
    assert answer.status == 400
    assert 'region "far" refuses the template: ' in answer.data["error"]["message"]
    assert "resource" in answer.data["error"]["message"]
    assert near.request("POST", "/validate?all_errors=true", body).status == 200
    assert "invalid" not in names(near)


def test_parameters_of_the_stack_do_not_go_there(near: Server) -> None:
    template = {**here(), "parameters": {"own": {"type": "string"}}}
    path = near.create("parametrised", template, **{**MORE, "parameters": {"own": "x"}})
    assert near.settled(path) == "CREATE_COMPLETE"


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({"region_name": "atlantis"}, 'there is no region "atlantis"; the setting regions of the server lists: far'),
        ({"credential_secret_id": "x"}, "credential_secret_id needs a key manager"),
        ({"ca_cert": "trust me"}, "ca_cert holds no certificate"),
    ],
)
def test_what_the_installation_does_not_have_is_refused(near: Server, context: dict[str, str], text: str) -> None:
    template = here()
    template["resources"]["remote"]["properties"]["context"] = context
    answer: Any = near.request("POST", "/stacks", {"stack_name": "bad", "template": template})
    assert answer.status == 400
    assert text in answer.data["error"]["message"]


def test_a_region_that_is_down_fails_the_update_until_it_is_tried_again(near: Server, far: Server, way: Way) -> None:
    path = near.create("outage", here(), **MORE)
    assert near.settled(path) == "CREATE_COMPLETE"
    before = near.resources(path)["remote"]
    way.down = True
    assert near.request("PUT", path, {"template": here("two"), **MORE}).status == 202
    assert near.settled(path) == "UPDATE_FAILED"
    told = reason(near, path, "remote")
    where = f"Region far (http://127.0.0.1:{way.port})"
    assert told.startswith(f"RegionUnavailable: resources.remote: {where} is not available now: ")
    assert told in near.stack(path)["stack_status_reason"]
    way.down = False
    act(near, path, "retry")
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert near.resources(path)["remote"] == before
    assert outputs(near, path)["used"] == "two"


def test_what_was_never_there_can_be_deleted_without_its_region(near: Server) -> None:
    path = near.create("lost", here(region="nowhere"), **MORE)
    assert near.settled(path) == "CREATE_FAILED"
    assert "Region nowhere (http://127.0.0.1:1) is not available now: " in reason(near, path, "remote")
    assert near.request("DELETE", path).status == 204
    eventually(lambda: "lost" not in names(near), "the stack is gone")


def test_a_lost_answer_makes_no_second_stack(near: Server, far: Server, way: Way) -> None:
    lost: list[str] = []

    def lose_the_first(method: str, path: str) -> bool:
        if (method, path) == ("POST", "/v1/demo/stacks") and not lost:
            lost.append(method)
            return False
        return True

    way.answered = lose_the_first
    path = near.create("unheard", here(), **MORE)
    assert near.settled(path) == "CREATE_COMPLETE"
    assert lost
    assert len([name for name in names(far) if name.startswith("unheard-")]) == 1
    assert outputs(near, path)["used"] == "one"


def test_another_region_makes_another_stack(near: Server, far: Server) -> None:
    path = near.create("moving", here(region="nowhere"), **MORE)
    assert near.settled(path) == "CREATE_FAILED"
    assert near.request("PUT", path, {"template": here(), **MORE}).status == 202
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert there(far, near, path)["stack_status"] == "CREATE_COMPLETE"


def test_a_stack_that_is_gone_over_there_is_made_anew(near: Server, far: Server) -> None:
    path = near.create("vanished", here(), **MORE)
    assert near.settled(path) == "CREATE_COMPLETE"
    before = there(far, near, path)
    assert far.request("DELETE", f"/stacks/{before['stack_name']}/{before['id']}").status == 204
    eventually(lambda: before["stack_name"] not in names(far), "the stack is gone over there")
    act(near, path, "check")
    assert near.settled(path) == "CHECK_FAILED"
    assert f"Region far has no stack {before['stack_name']}" in reason(near, path, "remote")
    assert near.request("PUT", path, {"template": here("two"), **MORE}).status == 202
    assert near.settled(path) == "UPDATE_COMPLETE"
    after = there(far, near, path)
    assert after["id"] != before["id"]
    # Also where nobody had looked.
    assert far.request("DELETE", f"/stacks/{after['stack_name']}/{after['id']}").status == 204
    eventually(lambda: after["stack_name"] not in names(far), "the stack is gone over there")
    assert near.request("PATCH", path, {}).status == 202
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert there(far, near, path)["id"] != after["id"]
    assert outputs(near, path)["used"] == "two"


def test_a_stack_that_is_busy_over_there_is_waited_for(near: Server, far: Server) -> None:
    slow = """
heat_template_version: 2021-04-16
parameters: {text: {type: string}}
conditions: {waits: {equals: [{get_param: text}, slow]}}
resources:
  thing: {type: OS::Heat::TestResource, properties: {value: {get_param: text}}}
  handle: {type: OS::Heat::WaitConditionHandle, condition: waits}
  gate: {type: OS::Heat::WaitCondition, condition: waits, properties: {handle: {get_resource: handle}, timeout: 3600}}
outputs: {text: {value: {get_attr: [thing, output]}}}
"""
    template = here(template=slow)
    template["resources"]["remote"]["properties"]["parameters"] = {"text": "one"}
    path = near.create("busy", template)
    assert near.settled(path) == "CREATE_COMPLETE"
    remote = far.find(there(far, near, path)["stack_name"])
    assert far.request("PATCH", remote, {"parameters": {"text": "slow"}}).status == 202
    template["resources"]["remote"]["properties"]["parameters"] = {"text": "two"}
    assert near.request("PUT", path, {"template": template}).status == 202
    assert far.stack(remote)["stack_status"] == "UPDATE_IN_PROGRESS"
    signal = (f"{remote}/resources/handle/signal", {"status": "SUCCESS"})
    eventually(lambda: far.request("POST", *signal).status == 200, "what it waits for happens")
    assert near.settled(path) == "UPDATE_COMPLETE"
    assert outputs(near, path)["used"] == "two"


def test_a_stack_of_somebody_else_can_be_used(near: Server, far: Server) -> None:
    """Of what has an external_id nothing but the id is known."""
    theirs = far.create("theirs", THERE, parameters={"text": "theirs"}, **MORE)
    assert far.settled(theirs) == "CREATE_COMPLETE"
    template = here()
    template["resources"]["remote"]["external_id"] = far.stack(theirs)["id"]
    path = near.create("borrower", template, **MORE)
    assert near.settled(path) == "CREATE_COMPLETE", near.stack(path)
    assert outputs(near, path)["used"] == "theirs"
    assert near.request("DELETE", path).status == 204
    eventually(lambda: "borrower" not in names(near), "the stack is gone")
    assert far.stack(theirs)["stack_status"] == "CHECK_COMPLETE"


@pytest.mark.slow
def test_a_crash_between_the_creation_and_its_record_makes_no_second_stack(
    far: Server, way: Way, tmp_path: Path
) -> None:
    near = Server(tmp_path, **variables(way))
    crashed = threading.Event()

    def crash(method: str, path: str) -> bool:
        if (method, path) == ("POST", "/v1/demo/stacks") and not crashed.is_set():
            near.kill()
            crashed.set()
        return True

    way.answered = crash
    path = near.create("crash", here(), **MORE)
    assert crashed.wait(START_SECONDS)
    again = Server(tmp_path, **variables(way))
    try:
        assert again.settled(path) == "CREATE_COMPLETE"
        assert len([name for name in names(far) if name.startswith("crash-")]) == 1
        assert outputs(again, path)["used"] == "one"
        assert again.request("DELETE", path).status == 204
        eventually(lambda: names(again) == [], "the stack is gone")
        assert not [name for name in names(far) if name.startswith("crash-")]
    finally:
        again.kill()


def test_without_a_region_it_is_a_stack_of_this_server(tmp_path: Path) -> None:
    server = Server(tmp_path, free_port())
    try:
        path = server.create("own", here(region=None), **MORE)
        assert server.settled(path) == "CREATE_COMPLETE", server.stack(path)
        made = [name for name in names(server) if name.startswith("own-")]
        assert made == [outputs(server, path)["name"]]
        assert "parent" not in [name for name, value in server.stack(server.find(made[0])).items() if value]
        assert server.request("DELETE", path).status == 204
        eventually(lambda: names(server) == [], "both are gone")
    finally:
        server.kill()
