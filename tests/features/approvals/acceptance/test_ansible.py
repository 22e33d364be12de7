"""Ansible's module for stacks, which does not know of approvals."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.processes import Server
from tests.clients.installing import environment
from tests.features.approvals.acceptance.test_openstack_client import THING, send

pytestmark = [pytest.mark.clients, pytest.mark.slow]


def play(server: Server, folder: Path, **options: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook with a task on the stack `web`."""
    programs = environment("ansible", "ansible==12.3.0", "openstacksdk<4.5")
    url = f"{server.url}/v1/demo"
    cloud = {"auth_type": "none", "auth": {"endpoint": url}, "orchestration_endpoint_override": url}
    (folder / "clouds.yaml").write_text(json.dumps({"clouds": {"ours": cloud}}))
    task = {"openstack.cloud.stack": {"cloud": "ours", "name": "web", **options}}
    (folder / "play.yaml").write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
    variables = {
        **os.environ, "OS_CLIENT_CONFIG_FILE": str(folder / "clouds.yaml"), "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_PYTHON_INTERPRETER": str(programs / "python"), "HOME": str(folder), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    words = (programs / "ansible-playbook", "-i", "localhost,", "-c", "local", str(folder / "play.yaml"))
    return subprocess.run(
        words, env=variables, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )


def test_a_playbook(server: Server, tmp_path: Path) -> None:
    """A task that needs an approval fails with the sentence, and passes next time."""
    files = {name: tmp_path / f"{name}.yaml" for name in "ab"}
    for name, file in files.items():
        file.write_text(json.dumps({"heat_template_version": "2021-04-16", "resources": {name: THING}}))
    made = play(server, tmp_path, template=str(files["a"]))
    assert made.returncode == 0, made.stdout
    (shown,) = send(server, "GET", "/stacks?name=web")["stacks"]
    policy = {"change_policy": "2026-11-28", "approve": "removals"}
    send(server, "PUT", f"/stacks/web/{shown['id']}/change_policy", policy)
    for options in ({"template": str(files["b"])}, {"state": "absent"}):
        refused = play(server, tmp_path, **options)
        assert refused.returncode == 2
        assert "needs an approval (approve:removals)" in refused.stdout
        (found,) = send(server, "GET", "/approvals?state=PENDING")["approvals"]
        assert found["id"] in refused.stdout
        send(server, "POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]})
        passed = play(server, tmp_path, **options)
        assert passed.returncode == 0, passed.stdout
        assert "changed=1" in passed.stdout
    assert send(server, "GET", "/stacks?name=web")["stacks"] == []
