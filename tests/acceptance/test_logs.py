"""Log of a real server: each line has its ids, and none has a secret."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import START_SECONDS, Server
from tests.waiting import eventually

pytestmark = pytest.mark.slow

FILE: dict[str, object] = {"type": "Example::Local::File"}
"""A type of another package that logs with its own logger."""

Line = dict[str, Any]


def of(server: Server, **wanted: object) -> list[Line]:
    """The lines with these fields, each of which must be JSON."""
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    return [line for line in lines if all(line.get(name) == value for name, value in wanted.items())]


def template(**resources: object) -> dict[str, object]:
    return {"heat_template_version": "2021-04-16", "resources": resources}


def a(kind: str, **properties: object) -> dict[str, object]:
    return {"type": f"OS::Heat::{kind}", "properties": properties}


def group(count: int) -> dict[str, object]:
    return a("ResourceGroup", count=count, resource_def=FILE)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    started = []

    def serve(**variables: str) -> Server:
        started.append(Server(tmp_path, **variables))
        return started[-1]

    yield serve
    for one in started:
        one.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that logs JSON, for all that leave it running."""
    started = Server(tmp_path_factory.mktemp("logs"), HEATLITE_LOG_FORMAT="json")
    yield started
    started.kill()


def ask(server: Server, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    """The code and the id of one request."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)
    try:
        content = {"Content-Type": "application/json", **headers}
        connection.request(method, f"/v1/demo{path}", None if body is None else json.dumps(body), content)
        answer = connection.getresponse()
        answer.read()
        return answer.status, str(answer.headers["X-Openstack-Request-Id"])
    finally:
        connection.close()


def create(server: Server, name: str, **resources: object) -> tuple[str, str]:
    """A stack that has come to rest: its path, and the id of the request."""
    code, request_id = ask(server, "POST", "/stacks", {"stack_name": name, "template": template(**resources)})
    assert code == 201
    path = server.find(name)
    assert server.settled(path) == "CREATE_COMPLETE"
    return path, request_id


def test_one_id_leads_from_the_request_to_the_handlers_of_a_tree(server: Server) -> None:
    path, request_id = create(server, "tree", alone=FILE, group=group(2))
    stack_id = path.rpartition("/")[2]
    made = of(server, logger="example_heatlite_plugin", request_id=request_id)
    assert {line["resource"] for line in made} == {"alone", "0", "1"}
    assert all(line["message"].startswith("made ") and line["level"] == "INFO" for line in made)
    (alone,) = [line for line in made if line["resource"] == "alone"]
    assert alone["stack_id"] == stack_id
    # A nested stack is another one, and its action, too; the request is the same.
    (nested,) = {(line["stack_id"], line["action_id"]) for line in made if line is not alone}
    assert nested[0] == server.resources(path)["group"] != stack_id
    assert nested[1] != alone["action_id"]
    (answered,) = of(server, logger="heatlite.api.middleware", request_id=request_id)
    assert answered["message"].startswith("POST '/v1/demo/stacks' 201 ")
    logger = "heatlite.engine.execution.action_log"
    moves = of(server, logger=logger, request_id=request_id, action_id=alone["action_id"])
    short = f"stack_create_{stack_id[-8:]}"
    # Each is logged by the process's thread that has committed it, so the second may come first.
    assert {f"{short}: INIT -> READY", f"{short}: READY -> RUNNING"} <= {line["message"] for line in moves}
    end = f"{short}: RUNNING -> SUCCEEDED"
    eventually(lambda: bool(of(server, message=end, request_id=request_id)), "the end is logged")


def test_what_gunicorn_says_and_what_nobody_asked_for_has_no_ids(start: Callable[..., Server]) -> None:
    server = start(HEATLITE_LOG_FORMAT="json")
    create(server, "one", a=FILE)
    server.stop()
    lines = of(server)
    gunicorns = [line for line in lines if line["logger"] == "gunicorn.error"]
    api = next(line["process"] for line in lines if line["logger"] == "heatlite.api.middleware")
    for said in ("Starting gunicorn", f"Booting worker with pid: {api}", "Shutting down: Master"):
        assert any(line["message"].startswith(said) for line in gunicorns)
    assert not any(line.keys() & {"request_id", "action_id", "stack_id", "resource"} for line in gunicorns)
    assert all(line.keys() >= {"time", "level", "logger", "message", "process"} for line in lines)


def test_no_line_has_the_id_of_another_request(server: Server) -> None:
    """Eight at once, over threads that are used again and again."""

    def life(number: int) -> tuple[str, list[tuple[str, str]]]:
        name = f"stack-{number}"
        body = {"stack_name": name, "template": template(**{f"{name}-a": FILE, f"{name}-b": FILE})}
        _, created = ask(server, "POST", "/stacks", body)
        path = server.find(name)
        assert server.settled(path) == "CREATE_COMPLETE"
        asked = [(f"{path}/resources", ask(server, "GET", f"{path}/resources")[1]) for _ in range(3)]
        asked.append((f"{path}/nothing", ask(server, "GET", f"{path}/nothing")[1]))
        _, deleted = ask(server, "DELETE", path)
        assert server.settled(path) == "DELETE_COMPLETE"
        return name, [("create", created), ("delete", deleted), *asked]

    with ThreadPoolExecutor(8) as clients:
        lives = dict(clients.map(life, range(24)))
    ids = [request_id for asked in lives.values() for _, request_id in asked]
    assert len({*ids}) == len(ids)
    lines = of(server)
    for name, asked in lives.items():
        of_name = dict(asked[:2])
        made = [line for line in lines if line["message"].startswith("made ") and f"{name}-" in line["resource"]]
        assert sorted(line["resource"] for line in made) == [f"{name}-a", f"{name}-b"]
        assert {line["request_id"] for line in made} == {of_name["create"]}
        of_stack = [line for line in lines if line.get("stack_id") == made[0]["stack_id"]]
        moves = [line for line in of_stack if line["logger"] == "heatlite.engine.execution.action_log"]
        assert {line["request_id"] for line in moves if "_create_" in line["message"]} == {of_name["create"]}
        assert {line["request_id"] for line in moves if "_delete_" in line["message"]} == {of_name["delete"]}
        for path, request_id in asked[2:]:
            (answered,) = [line for line in lines if line.get("request_id") == request_id]
            assert f"/v1/demo{path}'" in answered["message"]
            assert answered.keys().isdisjoint({"action_id", "stack_id", "resource"})


def test_a_global_id_is_taken_from_who_sends_a_sound_one(server: Server) -> None:
    sound = "req-72d4982a-3d88-4dc2-afaf-c01a2f64d3b5"
    _, request_id = ask(server, "GET", "/stacks", **{"X-Openstack-Request-Id": sound})
    assert request_id != sound
    (line,) = of(server, request_id=request_id)
    assert line["global_request_id"] == sound
    for other in ("req-1", f"{sound}x", "72d4982a-3d88-4dc2-afaf-c01a2f64d3b5", "req-" + "7" * 1000):
        _, request_id = ask(server, "GET", "/stacks", **{"X-Openstack-Request-Id": other})
        (line,) = of(server, request_id=request_id)
        assert "global_request_id" not in line


def test_the_audit_log_is_written_and_says_who(server: Server) -> None:
    path, _ = create(server, "audited", a=FILE)
    code, locked = ask(server, "POST", f"{path}/actions", {"lock": {"reason": "rack 7"}})
    assert code in (200, 202)
    eventually(lambda: server.stack(path)["stack_status"] == "LOCK_COMPLETE", "it is locked")
    code, refused = ask(server, "DELETE", path)
    assert code == 409
    (line,) = of(server, logger="heatlite.audit", request_id=locked)
    assert "rack 7" in line["message"]
    (line,) = of(server, logger="heatlite.audit", request_id=refused)
    assert line["message"].startswith("refused stack=")
    shown: Any = server.request("GET", f"{path}/lock").data
    server.request("POST", f"{path}/actions", {"unlock": None})
    eventually(lambda: server.stack(path)["stack_status"] == "UNLOCK_COMPLETE", "it is unlocked")
    code, replayed = ask(server, "POST", f"{path}/lock/suppressed/{shown['suppressed'][0]['id']}/replay")
    assert code == 204
    assert server.settled(path) == "DELETE_COMPLETE"
    (line,) = of(server, logger="heatlite.audit", request_id=replayed)
    assert line["message"].startswith("replay stack=")
    # What was made again is the deed of whoever had it made again.
    moves = of(server, logger="heatlite.engine.execution.action_log", request_id=replayed)
    assert f"stack_delete_{path[-8:]}: READY -> RUNNING" in [move["message"] for move in moves]


SECRETS = {
    "parameter": "hidden-4f1d",
    "number": "90210777",
    "token": "gAAAA-token-77aa",
    "user": "mia-the-user",
    "password": "pass-31c9",
    "region token": "region-5b5b",
    "query": "signature-e0e0",
}


def test_no_secret_is_logged(start: Callable[..., Server]) -> None:
    """No line has a secret, for good runs, wrong values, failed resources and faults."""
    server = start(HEATLITE_LOG_FORMAT="json", HEATLITE_REGION_TOKENS=f"far={SECRETS['region token']}",
                   HEATLITE_REGIONS="far=http://127.0.0.1:1/v1/{project}", HEATLITE_CLIENT_RETRY_LIMIT="0")  # fmt: skip
    proof = {
        "X-Auth-Token": SECRETS["token"], "X-Auth-User": SECRETS["user"], "X-Auth-Key": SECRETS["password"],
    }  # fmt: skip
    parameters = {
        "secret": {"type": "string", "hidden": True, "constraints": [{"length": {"max": 20}}]},
        "fail": {"type": "boolean", "default": False},
    }
    secret = {"get_param": "secret"}
    good = {"file": {**FILE, "properties": {"content": secret}}, "kept": a("Value", value=secret)}
    bad = {
        **good,
        "random": a("RandomString", length={"get_attr": ["kept", "value"]}),
        "failing": a("TestResource", value=secret, fail={"get_param": "fail"}),
    }
    inner = {"heat_template_version": "2021-04-16", "parameters": {"p": {"type": "string", "default": ""}}}
    far = {"far": a("Stack", context={"region_name": "far"}, template=json.dumps(inner), parameters={"p": secret})}
    broken = {"list_join": [{"get_attr": ["kept", "value"]}, {"get_attr": ["file", "content"]}]}

    def hidden(resources: dict[str, object], **outputs: object) -> dict[str, object]:
        return {**template(**resources), "parameters": parameters, "outputs": outputs}

    values = {"secret": SECRETS["parameter"]}

    def post(name: str, template: object, parameters: object, code: int = 201) -> None:
        body = {"stack_name": name, "template": template, "parameters": parameters}
        assert ask(server, "POST", "/stacks", body, **proof)[0] == code

    post("good", hidden(good), values)
    assert server.settled(server.find("good")) == "CREATE_COMPLETE"
    post("bad", hidden(bad, broken={"value": broken}), {**values, "fail": True})
    assert server.settled(server.find("bad")) == "CREATE_FAILED"
    post("far", hidden(far), values)
    assert server.settled(server.find("far")) == "CREATE_FAILED"
    post("long", hidden(good), {"secret": SECRETS["parameter"] * 9}, 400)
    post("unknown", hidden(good), {"secret": SECRETS["parameter"], SECRETS["parameter"]: "1"}, 400)
    path = server.find("bad")
    server.request("GET", path)  # its outputs are asked for, too
    assert server.request("PATCH", path, {"parameters": {"secret": SECRETS["number"]}}).status == 202
    assert server.settled(path) == "UPDATE_FAILED"
    for signed in ("/stacks", "/signal/nothing"):
        ask(server, "GET", f"{signed}?Signature={SECRETS['query']}&AWSAccessKeyId=x", **proof)
    ask(server, "DELETE", path, **proof)
    assert server.settled(path) == "DELETE_COMPLETE"
    server.stop()
    text = server.log.read_text()
    assert {name: text.count(secret) for name, secret in SECRETS.items()} == dict.fromkeys(SECRETS, 0)


def test_a_failure_has_its_traceback_in_one_line(server: Server) -> None:
    fails = {"type": "Example::Local::File", "properties": {"fail": True}}
    _, request_id = ask(server, "POST", "/stacks", {"stack_name": "bad", "template": template(a=fails)})
    assert server.settled(server.find("bad")) == "CREATE_FAILED"
    (line,) = [line for line in of(server, request_id=request_id, resource="a") if "exception" in line]
    assert line["message"] == "resource a: CREATE failed"
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("\nValueError: Example file failed a")


@pytest.mark.slow
def test_text_shows_the_same_ids(start: Callable[..., Server]) -> None:
    server = start()
    path, request_id = create(server, "one", a=FILE)
    (made,) = [line for line in server.log.read_text().splitlines() if "] made " in line]
    stack_id = path.rpartition("/")[2]
    assert f"[INFO] [request_id={request_id} action_id=" in made
    assert f" stack_id={stack_id} resource=a] made /" in made
