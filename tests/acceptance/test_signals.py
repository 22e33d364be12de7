"""Wait conditions with curl, as the attributes say, and the unmodified client."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.processes import START_SECONDS, OpenStack, Server
from tests.waiting import eventually


def waiting(count: int = 1, timeout: int = 600) -> dict[str, object]:
    condition = {"handle": {"get_resource": "handle"}, "count": count, "timeout": timeout}
    return {
        "heat_template_version": "2021-04-16",
        "resources": {
            "handle": {"type": "OS::Heat::WaitConditionHandle"},
            "ready": {"type": "OS::Heat::WaitCondition", "properties": condition},
        },
        "outputs": {"data": {"value": {"get_attr": ["ready", "data"]}}},
    }


CFN_WAITING = {
    "AWSTemplateFormatVersion": "2010-09-09",
    "Resources": {
        "handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"},
        "ready": {
            "Type": "AWS::CloudFormation::WaitCondition",
            "Properties": {"Handle": {"Ref": "handle"}, "Timeout": 600},
        },
    },
    "Outputs": {"url": {"Value": {"Ref": "handle"}}, "data": {"Value": {"Fn::GetAtt": ["ready", "Data"]}}},
}


@pytest.fixture(autouse=True)
def curl() -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")


def created(server: Server, name: str, template: object) -> str:
    """The path of a stack whose condition waits."""
    path = server.create(name, template)

    def states() -> dict[str, str]:
        return {one["resource_name"]: one["resource_status"] for one in server.listed(path, "resources")}

    eventually(lambda: states().get("ready") == "CREATE_IN_PROGRESS", "the condition waits")
    return path


def command(server: Server, path: str) -> str:
    answer: Any = server.request("GET", f"{path}/resources/handle").data
    line: str = answer["resource"]["attributes"]["curl_cli"]
    return line


def shell(line: str) -> str:
    """Run the command line in a shell, as a machine would, and return its output."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=START_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def output(server: Server, path: str, key: str) -> Any:
    answer: Any = server.request("GET", f"{path}/outputs/{key}").data
    return answer["output"]["output_value"]


def reason(server: Server, path: str) -> str:
    return server.stack(path)["stack_status_reason"]


def test_machines_say_that_they_are_ready(server: Server) -> None:
    path = created(server, "boots", waiting(count=2))
    line = command(server, path)
    for machine in ("web", "db"):
        assert server.stack(path)["stack_status"] == "CREATE_IN_PROGRESS"
        details = shlex.quote(json.dumps({"status": "SUCCESS", "id": machine, "data": "it's up"}))
        assert shell(f"{line} --data-binary {details}").startswith("HTTP/1.1 200 OK")
    assert server.settled(path) == "CREATE_COMPLETE"
    assert json.loads(output(server, path, "data")) == {"web": "it's up", "db": "it's up"}


def test_a_machine_says_that_it_failed(server: Server) -> None:
    path = created(server, "fails", waiting())
    shell(command(server, path) + """ --data-binary '{"status": "FAILURE", "reason": "no disk"}'""")
    assert server.settled(path) == "CREATE_FAILED"
    assert reason(server, path) == "Resource CREATE failed: WaitConditionFailure: resources.ready: no disk"


def test_nobody_says_anything(server: Server) -> None:
    path = server.create("silent", waiting(timeout=1))
    assert server.settled(path) == "CREATE_FAILED"
    assert reason(server, path) == "Resource CREATE failed: WaitConditionTimeout: resources.ready: 0 of 1 received"


def test_a_machine_without_the_token(server: Server) -> None:
    path = created(server, "strangers", waiting())
    line = command(server, path).replace("X-Auth-Token: ", "X-Auth-Token: x")
    assert shell(line).startswith("HTTP/1.1 403 Forbidden")
    assert server.stack(path)["stack_status"] == "CREATE_IN_PROGRESS"
    shell(command(server, path))
    assert server.settled(path) == "CREATE_COMPLETE"


def test_a_machine_in_the_manner_of_cloudformation(server: Server) -> None:
    path = created(server, "cfn", CFN_WAITING)
    url = shlex.quote(output(server, path, "url"))
    details = """'{"Status": "SUCCESS", "Reason": "done", "UniqueId": "1", "Data": "up"}'"""
    answer = shell(f"curl -s -X PUT -H 'Content-Type:' --data-binary {details} {url}")
    kept = {"1": {"Status": "SUCCESS", "Reason": "done", "Data": "up"}}
    assert json.loads(answer) == {"resource": "handle", "metadata": kept}
    assert server.settled(path) == "CREATE_COMPLETE"
    assert json.loads(output(server, path, "data")) == {"1": "up"}


@pytest.mark.slow
def test_a_signal_outlives_the_server(serve: Callable[[], Server]) -> None:
    server = serve()
    path = created(server, "boots", waiting(count=2))
    assert shell(command(server, path)).startswith("HTTP/1.1 200 OK")
    server.kill()
    again = serve()
    assert again.stack(path)["stack_status"] == "CREATE_IN_PROGRESS"
    assert shell(command(again, path)).startswith("HTTP/1.1 200 OK")
    assert again.settled(path) == "CREATE_COMPLETE"
    assert output(again, path, "data") == '{"1": null, "2": null}'
    again.stop()


def test_openstack_signals(openstack: OpenStack, server: Server) -> None:
    path = created(server, "operator", waiting(count=2))
    openstack.ok("stack", "resource", "signal", "operator", "handle")
    openstack.ok("stack", "resource", "signal", "operator", "handle", "--data", '{"id": "me", "data": {"a": 1}}')
    assert server.settled(path) == "CREATE_COMPLETE"
    metadata = openstack.json("stack", "resource", "metadata", "operator", "handle")
    assert metadata == {
        "1": {"status": "SUCCESS", "reason": "Signal 1 received", "data": None},
        "me": {"status": "SUCCESS", "reason": "Signal me received", "data": {"a": 1}},
    }
    bad = openstack("stack", "resource", "signal", "operator", "handle", "--data", '{"status": "MAYBE"}')
    assert bad.code != 0
    assert "SUCCESS or FAILURE" in bad.err
