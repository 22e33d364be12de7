"""Software configs and deployments with unmodified `openstack` and agent."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import need
from tests.acceptance.processes import START_SECONDS, OpenStack, Server, environment
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SCRIPT = "#!/bin/sh\necho $greeting\n"
DEFINITION = "inputs:\n- name: greeting\n  default: hello\noutputs:\n- name: result\noptions: {}\n"


def test_a_config_and_its_deployment(openstack: OpenStack, tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text(SCRIPT)
    (tmp_path / "definition.yaml").write_text(DEFINITION)
    made: Any = openstack.json(
        "software", "config", "create", "greet", "--group", "script",
        "--config-file", str(tmp_path / "script.sh"), "--definition-file", str(tmp_path / "definition.yaml"),
    )  # fmt: skip
    assert (made["name"], made["group"], made["config"]) == ("greet", "script", SCRIPT)
    assert made["inputs"][0]["default"] == "hello"
    shown: Any = openstack.json("software", "config", "show", made["id"])
    assert shown["id"] == made["id"]
    assert openstack.ok("software", "config", "show", made["id"], "--config-only").out.strip() == SCRIPT.strip()
    listed: Any = openstack.json("software", "config", "list", "--limit", "1")
    assert [row["id"] for row in listed] == [made["id"]]

    deployed: Any = openstack.json(
        "software", "deployment", "create", "greet-web", "--server", "web", "--config", made["id"],
        "--input-value", "greeting=good day", "--action", "UPDATE", "--signal-transport", "NO_SIGNAL",
    )  # fmt: skip
    assert (deployed["server_id"], deployed["status"]) == ("web", "IN_PROGRESS")
    of_web: Any = openstack.json("software", "deployment", "list", "--server", "web", "--long")
    assert [(row["id"], row["status"]) for row in of_web] == [(deployed["id"], "IN_PROGRESS")]
    assert openstack.json("software", "deployment", "list", "--server", "other") == []
    shown = openstack.json("software", "deployment", "show", deployed["id"], "--long")
    assert shown["output_values"] is None

    done = openstack.ok("software", "deployment", "metadata", "show", "web")
    (told,) = done.data  # type: ignore[misc]
    assert told["name"] == "greet-web"
    inputs = {one["name"]: one["value"] for one in told["inputs"]}
    assert inputs == {
        "greeting": "good day", "deploy_server_id": "web", "deploy_action": "UPDATE",
        "deploy_signal_transport": "NO_SIGNAL",
    }  # fmt: skip

    openstack.ok("software", "deployment", "output", "show", deployed["id"], "--all")
    openstack.ok("software", "deployment", "delete", deployed["id"])
    assert "not found" in openstack("software", "deployment", "show", deployed["id"]).err
    assert "not found" in openstack("software", "config", "show", deployed["config_id"]).err
    openstack.ok("software", "config", "delete", made["id"])
    refused = openstack("software", "config", "delete", made["id"])
    assert refused.code == 1


RESOURCES = {
    "server": {
        "type": "OS::Heat::DeployedServer",
        "properties": {"software_config_transport": "POLL_SERVER_HEAT"},
    },
    "data": {"type": "OS::Heat::StructuredConfig", "properties": {"config": {"port": {"get_input": "port"}}}},
    "script": {"type": "OS::Heat::SoftwareConfig", "properties": {"group": "script", "config": "#!/bin/sh\n"}},
    "first": {
        "type": "OS::Heat::StructuredDeployment",
        "properties": {
            "name": "10-data",
            "server": {"get_resource": "server"},
            "config": {"get_resource": "data"},
            "input_values": {"port": 80},
        },
    },
    "second": {
        "type": "OS::Heat::SoftwareDeployment",
        "depends_on": "first",
        "properties": {
            "name": "20-script",
            "server": {"get_resource": "server"},
            "config": {"get_resource": "script"},
            "signal_transport": "HEAT_SIGNAL",
        },
    },
}
SOFTWARE = {
    "heat_template_version": "2021-04-16",
    "resources": RESOURCES,
    "outputs": {"stdout": {"value": {"get_attr": ["second", "deploy_stdout"]}}},
}


@pytest.mark.parametrize("transport", ["POLL_SERVER_HEAT", "POLL_SERVER_CFN"])
def test_an_unmodified_agent_reads_and_answers(server: Server, tmp_path: Path, transport: str) -> None:
    need("os_collect_config", "os-collect-config")
    target = {**RESOURCES["server"], "properties": {"software_config_transport": transport}}
    path = server.create(f"agent-{transport}", {**SOFTWARE, "resources": {**RESOURCES, "server": target}})

    def attributes() -> Any:
        shown: Any = server.request("GET", f"{path}/resources/server").data
        return shown.get("resource", {}).get("attributes", {})

    eventually(lambda: "os_collect_config" in attributes(), "the server is there")
    given = json.dumps([f"{server.url}/v1/demo", attributes()["os_collect_config"]])
    program = [sys.executable, str(Path(__file__).with_name("os_collect_config_program.py"))]
    done = subprocess.run(
        program, input=given, text=True, capture_output=True, cwd=tmp_path, env=environment(tmp_path),
        timeout=START_SECONDS, check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["names"] == ["10-data", "20-script"]
    # What no tool is named for, the agent itself hands on to os-apply-config.
    assert found["applied"] == [["10-data", {"port": 80}]]
    assert server.settled(path) == "CREATE_COMPLETE"
    outputs = server.request("GET", path).data["stack"]["outputs"]  # type: ignore[call-overload, index]
    assert outputs[0]["output_value"] == "20-script"
    server.request("DELETE", path)
    assert server.settled(path) == "DELETE_COMPLETE"


def test_failures_list_shows_what_the_server_has_answered(openstack: OpenStack, server: Server) -> None:
    resources = {name: RESOURCES[name] for name in ("server", "data", "first")}
    path = server.create("failing", {"heat_template_version": "2021-04-16", "resources": resources})

    def deployed() -> bool:
        listed: Any = server.request("GET", "/software_deployments").data
        return "IN_PROGRESS" in [one["status"] for one in listed["software_deployments"]]

    eventually(deployed, "the server is told")
    answer = {"deploy_status_code": 3, "deploy_stderr": "no space left"}
    assert server.request("POST", f"{path}/resources/first/signal", answer).status == 200
    assert server.settled(path) == "CREATE_FAILED"
    shown = openstack.ok("stack", "failures", "list", "failing", "--long").out
    assert "no space left" in shown
    openstack.ok("stack", "delete", "--yes", "failing")
