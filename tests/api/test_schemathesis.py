"""Requests from the OpenAPI document get described answers and no 5xx."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server

import pytest

from .conftest import Heat, template, value
from .described import DOCUMENT

PROGRAM = Path(sys.executable).with_name("schemathesis")
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance", "unsupported_method", "negative_data_rejection",
)  # fmt: skip
ENDING = ("delete_stack", "abandon_stack")
CHANGING = (
    "update_stack", "patch_stack", "restore_snapshot", "delete_snapshot", "start_stack_action",
    "mark_resource_unhealthy", "put_healing_policy", "delete_software_config", "delete_software_deployment",
    "delete_playbook",
)  # fmt: skip
"""They work on things of their own, so that the others find what they ask for."""
PLAYBOOK = """\
node_playbook: 2026-11-21
stages: [{name: first, nodes: all, action: {kind: script, args: {config: "true"}}}]
"""


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Kept(WSGIRequestHandler):
    """A connection that answers many requests.

    Each new one costs a thread and a connection to the database.
    """

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet: for the second one the first would have to be acknowledged
    handle = BaseHTTPRequestHandler.handle

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # any method: the application knows which there are
            return self.answer
        raise AttributeError(name)

    def answer(self) -> None:
        """Answer one request, whose body is read whatever the application does with it."""
        body = BytesIO(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        handler = ServerHandler(body, self.wfile, self.get_stderr(), self.get_environ())
        handler.http_version = "1.1"
        handler.request_handler = self  # type: ignore[attr-defined]  # it logs there
        handler.run(self.server.get_app())  # type: ignore[attr-defined]

    def log_message(self, _format: str, *_arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def heat(own_heat: Heat) -> Heat:
    """The project of a server that thousands of requests may treat as they like."""
    return own_heat


@pytest.fixture
def port(heat: Heat) -> Iterator[int]:
    """The port of `heat`'s application on the loopback address."""
    with make_server("127.0.0.1", 0, heat.wsgi, Server, Kept) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def made(heat: Heat, name: str) -> dict[str, str]:
    """A stack with everything that a path can name; the names."""
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": {"type": "OS::Heat::Value"}}}
    group["properties"]["resource_def"]["properties"] = {"value": "v"}  # type: ignore[index]
    resources = {"a": {"type": "OS::Heat::TestResource"}, "b": value(), "g": group}
    path = heat.create({**template(**resources), "outputs": {"o": {"value": 1}}}, name)
    config = heat.call("POST", "/software_configs", {"config": "true"}).json["software_config"]["id"]
    sent = {"config_id": config, "server_id": name}
    deployment = heat.call("POST", "/software_deployments", sent).json["software_deployment"]["id"]
    snapshot = heat.call("POST", f"{path}/snapshots", {"name": "first"}, code=200).json["id"]
    heat.settle(path, "SNAPSHOT_COMPLETE")
    heat.call("PUT", f"/node_playbooks/{name}", {"document": PLAYBOOK}, code=201)
    stack_id = path.rpartition("/")[2]
    (event,) = heat.get(f"{path}/events?resource_name=a&resource_action=CREATE&resource_status=COMPLETE")["events"]
    return {
        "tenant_id": heat.project,
        "stack_name": name,
        "stack_id": stack_id,
        "stack_identity": name,
        "resource_name": "a",
        "output_key": "o",
        "event_id": event["id"],
        "config_id": config,
        "deployment_id": deployment,
        "snapshot_id": snapshot,
        "playbook_name": name,
        "server_id": name,
        "source": "generic",
        "action_id": heat.get(f"/actions?target={stack_id}")["actions"][0]["id"],
        "type_name": "OS::Heat::RandomString",
        "template_version": "heat_template_version.2018-08-31",
    }


def settings(names: Mapping[str, str]) -> str:
    return "".join(f'"path.{name}" = {json.dumps(given)}\n' for name, given in names.items())


@pytest.mark.slow
@pytest.mark.skipif(not PROGRAM.is_file(), reason="needs schemathesis")
@pytest.mark.parametrize("phases", ["coverage", pytest.param("coverage,fuzzing", marks=pytest.mark.thorough)])
def test_requests_made_from_the_document(heat: Heat, port: int, tmp_path: Path, phases: str) -> None:
    """Send a few thousand requests, the same each time."""
    text = f"[parameters]\n{settings(made(heat, 'read'))}"
    for name, ids in (("changed", CHANGING), ("ended", ENDING)):
        text += f"[[operations]]\ninclude-operation-id = {json.dumps(ids)}\n[operations.parameters]\n"
        text += settings(made(heat, name))
    (tmp_path / "schemathesis.toml").write_text(text)
    (tmp_path / "openapi.json").write_text(json.dumps(DOCUMENT))
    command = [
        PROGRAM, "--config-file", "schemathesis.toml", "run", "openapi.json", "--url", f"http://127.0.0.1:{port}",
        "--phases", phases,
        "--request-timeout", "240", "--max-examples", "3", "--seed", "1", "--generation-deterministic",
        "--checks", ",".join(CHECKS), "--continue-on-failure", "--warnings", "off", "--no-color",
    ]  # fmt: skip
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=3600)
    assert ran.returncode == 0, ran.stdout[-8000:] + ran.stderr[-2000:]
