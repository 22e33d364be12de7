"""The `openstack` command, which does not know of approvals."""

import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.acceptance.processes import OpenStack, Server

THING = {"type": "OS::Heat::TestResource", "properties": {"value": "one"}}


def send(server: Server, method: str, path: str, body: object = None) -> Any:
    request = Request(
        f"{server.url}/v1/demo{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request) as answer:
        return json.loads(answer.read() or b"null")


@pytest.mark.slow
def test_an_update_and_a_deletion(server: Server, openstack: OpenStack, tmp_path: Path) -> None:
    """Each is refused with the sentence, and passes when it is sent again."""
    for name in "ab":
        made = {"heat_template_version": "2021-04-16", "resources": {name: THING}}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(made))
    openstack.ok("stack", "create", "-t", str(tmp_path / "a.yaml"), "--wait", "--poll", "0", "approved")
    shown = send(server, "GET", "/stacks?name=approved")["stacks"][0]
    policy = f"/stacks/approved/{shown['id']}/change_policy"
    send(server, "PUT", policy, {"change_policy": "2026-11-28", "approve": "removals"})
    for words in (
        ("stack", "update", "-t", str(tmp_path / "b.yaml"), "--wait", "approved"),
        ("stack", "delete", "--yes", "--wait", "approved"),
    ):
        refused = openstack(*words)
        assert refused.code != 0
        assert "needs an approval (approve:removals)" in refused.out + refused.err
        (found,) = send(server, "GET", "/approvals?state=PENDING")["approvals"]
        assert found["id"] in refused.out + refused.err
        send(server, "POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]})
        openstack.ok(*words)
