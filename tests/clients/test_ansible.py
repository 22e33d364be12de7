"""Ansible's modules for stacks: openstack.cloud.stack and stack_info."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.installing import environment
from tests.clients.region import Region

pytestmark = pytest.mark.clients

TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "parameters": {"text": {"type": "string"}},
    "resources": {
        "said": {"type": "OS::Heat::Value", "properties": {"value": {"get_param": "text"}}},
        "net": {"type": "OS::Neutron::Net"},
    },
    "outputs": {"text": {"value": {"get_attr": ["said", "value"]}}},
}
FAILING = {
    "heat_template_version": "2018-08-31",
    "resources": {"bad": {"type": "OS::Heat::TestResource", "properties": {"fail": True}}},
}


def playbook(folder: Path) -> Path:
    """A playbook that makes, changes, lists and deletes a stack."""
    (folder / "stack.yaml").write_text(yaml.safe_dump(TEMPLATE))
    (folder / "failing.yaml").write_text(yaml.safe_dump(FAILING))
    stack = {"cloud": "ours", "name": "by-ansible", "template": str(folder / "stack.yaml"), "tag": "a,b"}

    def said(text: str, **more: object) -> dict[str, object]:
        return {"openstack.cloud.stack": {**stack, "parameters": {"text": text}, **more}}

    failing = {**stack, "name": "failing", "template": str(folder / "failing.yaml"), "rollback": False}
    tasks: list[dict[str, Any]] = [
        {**said("one"), "register": "created"},
        {**said("two"), "register": "updated"},
        {"openstack.cloud.stack_info": {"cloud": "ours", "name": "by-ansible"}, "register": "listed"},
        {"openstack.cloud.stack": {**stack, "state": "absent"}, "register": "deleted"},
        {"openstack.cloud.stack": {**stack, "state": "absent"}, "register": "absent"},
        {"openstack.cloud.stack": failing, "register": "failed", "ignore_errors": True},
        {"openstack.cloud.stack": {**failing, "state": "absent"}},
    ]
    names = ("created", "updated", "listed", "deleted", "absent", "failed")
    seen = "{{ {" + ", ".join(f"'{name}': {name}" for name in names) + "} | to_json }}"
    tasks.append({"ansible.builtin.copy": {"content": seen, "dest": str(folder / "seen.json"), "mode": "0600"}})
    path = folder / "play.yaml"
    path.write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}], sort_keys=False))
    return path


def test_a_playbook(region: Region, tmp_path: Path) -> None:
    programs = environment("ansible", "ansible==12.3.0", "openstacksdk<4.5")
    variables = {
        **os.environ, "OS_CLIENT_CONFIG_FILE": str(region.clouds), "ANSIBLE_LOCALHOST_WARNING": "false",
        "ANSIBLE_PYTHON_INTERPRETER": str(programs / "python"), "HOME": str(tmp_path), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    done = subprocess.run(
        [programs / "ansible-playbook", "-i", "localhost,", "-c", "local", str(playbook(tmp_path))],
        env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["created"]["stack"]["status"] == "CREATE_COMPLETE"
    assert seen["created"]["stack"]["tags"] == ["a", "b"]
    assert seen["updated"]["stack"]["status"] == "UPDATE_COMPLETE"
    assert [(one["name"], one["status"]) for one in seen["listed"]["stacks"]] == [("by-ansible", "UPDATE_COMPLETE")]
    assert [one["output_value"] for one in seen["listed"]["stacks"][0]["outputs"]] == ["two"]
    assert (seen["deleted"]["changed"], seen["absent"]["changed"]) == (True, False)
    assert seen["failed"]["stack"]["status"] == "CREATE_FAILED"
