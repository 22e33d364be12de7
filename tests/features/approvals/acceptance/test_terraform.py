"""The requests of Terraform's `openstack_orchestration_stack_v1`.

The provider does not know of approvals. It asks by gophercloud: it finds a stack by its id alone, and waits for states.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.acceptance.processes import Server
from tests.clients.test_gophercloud import program
from tests.waiting import eventually

from .test_openstack_client import THING, send

__all__ = ["program"]

pytestmark = pytest.mark.slow

Call = Callable[..., Any]
"""A call of the client by its name and its words. Raises Failed."""


class Failed(Exception):
    """A call has failed. The code of the answer comes first."""


@pytest.fixture(params=["requests", "gophercloud"])
def call(request: pytest.FixtureRequest, server: Server) -> Call:
    """The calls of gophercloud; or the requests that it makes, where there is no Go."""
    if request.param == "requests":
        return lambda name, *words: by_request(server, name, *words)
    made: Path = request.getfixturevalue("program")

    def by_gophercloud(name: str, *words: str) -> Any:
        command = (made, f"{server.url}/v1/demo/", name, *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            raise Failed(done.stderr.removeprefix("gophercloud.ErrDefault"))
        return json.loads(done.stdout)

    return by_gophercloud


def by_request(server: Server, name: str, *words: str) -> Any:
    method, path, body = {
        "create": ("POST", "", {"stack_name": words[0], "disable_rollback": False, "timeout_mins": 10}),
        "find": ("GET", f"/{words[0]}", None),
        "update": ("PUT", f"/{'/'.join(words[:2])}", {}),
        "delete": ("DELETE", f"/{'/'.join(words[:2])}", None),
    }[name]
    if name in ("create", "update"):
        template, parameters = words[1:3] if name == "create" else words[2:4]
        body = {**(body or {}), "template": template, "parameters": json.loads(parameters), "tags": "first,second"}
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    sent = Request(f"{server.url}/v1/demo/stacks{path}", data, headers, method=method)
    try:
        with urlopen(sent) as answer:
            found = json.loads(answer.read() or b"null")
    except HTTPError as error:
        with error:
            raise Failed(f"{error.code} {error.read().decode()}") from None
    return found["stack"] if name in ("create", "find") else found


class Provider:
    """The operations of the provider on a resource."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.seen: list[str] = []
        """The states that it has seen."""

    def refreshed(self, stack_id: str) -> str:
        """Return a state. One that has failed ends the wait."""
        try:
            state: str = self.call("find", stack_id)["stack_status"]
        except Failed as error:
            assert str(error).startswith("404"), error
            state = "DELETE_COMPLETE"
        assert "FAILED" not in state
        self.seen.append(state)
        return state

    def create(self, name: str, template: object) -> str:
        made: str = self.call("create", name, json.dumps(template), "{}", "{}")["id"]
        eventually(lambda: self.refreshed(made) in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_IN_PROGRESS"))
        self.call("find", made)
        return made

    def update(self, stack_id: str, template: object) -> None:
        """It does not wait for the end of an update."""
        name = self.call("find", stack_id)["stack_name"]
        self.call("update", name, stack_id, json.dumps(template), "{}")
        self.call("find", stack_id)

    def delete(self, stack_id: str) -> None:
        found = self.call("find", stack_id)
        if found["stack_status"] != "DELETE_IN_PROGRESS":
            self.call("delete", found["stack_name"], stack_id)
        eventually(lambda: self.refreshed(stack_id) == "DELETE_COMPLETE", "the stack is gone")


def refused(server: Server, apply: Callable[[], object]) -> str:
    """Have the provider fail with the sentence. Returns the approval."""
    with pytest.raises(Failed, match="needs an approval") as failed:
        apply()
    text = str(failed.value)
    assert text.startswith("409") or "409" in text, text
    (found,) = send(server, "GET", "/approvals?state=PENDING")["approvals"]
    assert found["id"] in text
    assert "send the same request again" in text
    return str(found["id"])


def decide(server: Server, approval: str) -> None:
    found = send(server, "GET", f"/approvals/{approval}")["approval"]
    send(server, "POST", f"/approvals/{approval}/approve", {"digest": found["digest"]})


def test_apply_fails_until_it_is_approved(server: Server, call: Call, request: pytest.FixtureRequest) -> None:
    """Each fails with the sentence, and leaves the stack as it is."""
    provider = Provider(call)
    name = f"terraform-{request.node.callspec.id}"
    one, two = ({"heat_template_version": "2021-04-16", "resources": {key: THING}} for key in "ab")
    send(server, "PUT", "/change_policy", {"change_policy": "2026-11-28", "approve": "always"})
    try:
        decide(server, refused(server, lambda: provider.create(name, one)))
        made = provider.create(name, one)
        before = call("find", made)
        decide(server, refused(server, lambda: provider.update(made, two)))
        assert call("find", made) == before
        provider.update(made, two)
        eventually(lambda: call("find", made)["stack_status"] == "UPDATE_COMPLETE", "it is updated")
        approval = refused(server, lambda: provider.delete(made))
        assert provider.refreshed(made) == "UPDATE_COMPLETE"
        decide(server, approval)
        provider.seen.clear()
        provider.delete(made)
        assert provider.seen[-1] == "DELETE_COMPLETE"
        assert {*provider.seen} <= {"DELETE_IN_PROGRESS", "DELETE_COMPLETE"}
    finally:
        send(server, "PUT", "/change_policy", {"change_policy": "2026-11-28"})
    states = {one["subject"]: one["state"] for one in send(server, "GET", f"/approvals?stack={name}")["approvals"]}
    assert states == {"create": "DONE", "update": "DONE", "delete": "DONE"}
