"""gophercloud, a client in Go, also under a policy that repairs."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.repairs import allow_repairs, heal_another, updates
from tests.waiting import eventually

pytestmark = pytest.mark.clients

PROGRAM = Path(__file__).with_name("gophercloud_program.go")
PACKAGES = Path("/usr/share/gocode")
"""Folder of Debian's Go packages."""
SECONDS = 300
"""Time limit of the compiler."""
TEMPLATE = {
    "heat_template_version": "2018-08-31",
    "description": "A stack of gophercloud",
    "parameters": {"text": {"type": "string"}},
    "resources": {
        "a": {"type": "OS::Heat::TestResource", "properties": {"value": {"get_param": "text"}}},
        "b": {"type": "OS::Heat::TestResource", "metadata": {"known": "value"}},
    },
    "outputs": {"text": {"value": {"get_attr": ["a", "output"]}}},
}
LARGER: dict[str, Any] = {
    **TEMPLATE,
    "resources": {**TEMPLATE["resources"], "c": {"type": "OS::Heat::TestResource"}},  # type: ignore[dict-item]
}

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program. Skip without Go and gophercloud."""
    if which("go") is None or not (PACKAGES / "src/github.com/gophercloud/gophercloud").is_dir():
        pytest.skip("Debian's golang-go and golang-github-gophercloud-gophercloud-dev are not installed")
    folder = tmp_path_factory.mktemp("go")
    variables = {**os.environ, "GO111MODULE": "off", "GOPATH": str(PACKAGES), "GOCACHE": str(folder / "cache")}
    words = ("go", "build", "-o", str(folder / "program"), str(PROGRAM))
    done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    started = Server(tmp_path)
    yield started
    started.stop()
    assert started.complaints() == ""


@pytest.fixture
def call(program: Path, server: Server) -> Call:
    """One call of the client. It returns what gophercloud understood of the answer."""

    def made(name: str, *words: str, fails: str = "") -> Any:
        command = (program, f"{server.url}/v1/demo/", name, *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if fails:
            assert done.stderr.startswith(fails), done.stderr + done.stdout
            return None
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return made


def parameters(text: str) -> str:
    return json.dumps({"text": text})


def create(call: Call, server: Server, name: str) -> tuple[str, str]:
    """Return the words that name the new stack."""
    made = call("create", name, json.dumps(TEMPLATE), parameters("one"), "parameter_defaults: {unused: 1}")
    stack = (name, made["id"])
    assert server.settled("/stacks/" + "/".join(stack)) == "CREATE_COMPLETE"
    return stack


@pytest.mark.slow
def test_the_life_of_a_stack(call: Call, server: Server) -> None:
    previewed = call("preview", "gopher", json.dumps(TEMPLATE), parameters("one"))
    assert {one["resource_name"] for one in previewed["resources"]} == {"a", "b"}
    stack = create(call, server, "gopher")
    path = "/stacks/" + "/".join(stack)

    (listed,) = call("list", "first")
    assert (listed["id"], listed["stack_status"], listed["tags"]) == (stack[1], "CREATE_COMPLETE", ["first", "second"])
    assert call("list", "other") == []
    shown = call("get", *stack)
    assert shown == call("find", stack[0])
    assert (shown["parameters"]["text"], shown["timeout_mins"]) == ("one", 10)
    assert shown["template_description"] == "A stack of gophercloud"
    assert [one["output_value"] for one in shown["outputs"]] == ["one"]
    assert call("template", *stack) == TEMPLATE

    call("update", *stack, json.dumps(LARGER), parameters("two"))
    assert server.settled(path) == "UPDATE_COMPLETE"
    resources = call("resources", *stack)
    assert sorted(one["resource_name"] for one in resources) == ["a", "b", "c"]
    call("patch", *stack, parameters("three"))
    assert server.settled(path) == "UPDATE_COMPLETE"
    assert [one["output_value"] for one in call("get", *stack)["outputs"]] == ["three"]

    call("delete", *stack)
    assert server.settled(path) == "DELETE_COMPLETE"
    assert call("list", "first") == []
    call("find", stack[0], fails="gophercloud.ErrDefault404")


@pytest.mark.slow
def test_resources_events_and_types(call: Call, server: Server) -> None:
    stack = create(call, server, "gopher")
    path = "/stacks/" + "/".join(stack)

    listed = call("find resources", stack[0])
    assert sorted(one["resource_name"] for one in listed) == ["a", "b"]
    shown = call("resource", *stack, "a")
    assert shown["physical_resource_id"] == server.resources(path)["a"]
    assert shown["attributes"]["output"] == "one"
    assert call("metadata", *stack, "b") == {"known": "value"}

    events = call("events", *stack)
    assert len(events) == len({one["id"] for one in events}) == 6
    assert {one["id"] for one in call("find events", stack[0])} == {one["id"] for one in events}
    of_a = call("events of resource", *stack, "a")
    assert {one["resource_status"] for one in of_a} == {"CREATE_IN_PROGRESS", "CREATE_COMPLETE"}
    assert call("event", *stack, "a", of_a[0]["id"])["id"] == of_a[0]["id"]

    assert "value" in call("type", "OS::Heat::TestResource")["properties"]
    assert "OS::Heat::TestResource" in {one["resource_type"] for one in call("types")}
    assert call("build")["api"]["revision"]
    assert call("validate", json.dumps(TEMPLATE))["Description"] == "A stack of gophercloud"


@pytest.mark.slow
def test_a_stack_that_is_abandoned_and_adopted(call: Call, server: Server) -> None:
    stack = create(call, server, "gopher")
    before = server.resources("/stacks/" + "/".join(stack))
    data = call("abandon", *stack)
    eventually(lambda: bool(call("list", "first") == []), "the stack is abandoned")
    adopted = call("adopt", "taken", json.dumps(data), json.dumps(TEMPLATE))
    path = f"/stacks/taken/{adopted['id']}"
    assert server.settled(path) == "ADOPT_COMPLETE"
    assert server.resources(path) == before


@pytest.mark.slow
def test_a_mark_waits_for_an_update(call: Call, server: Server) -> None:
    """A policy repairs marks by request only if it names them."""
    stack = create(call, server, "gopher")
    path = "/stacks/" + "/".join(stack)
    allow_repairs(server, path)
    before = server.resources(path)
    call("mark", *stack, "a", "seen by gophercloud")
    marked = call("resource", *stack, "a")
    assert (marked["resource_status"], marked["resource_status_reason"]) == ("CHECK_FAILED", "seen by gophercloud")
    heal_another(server, "beside-gopher")
    assert updates(server, path) == []
    assert server.resources(path) == before
    call("patch", *stack, parameters("one"))
    assert server.settled(path) == "UPDATE_COMPLETE"
    after = server.resources(path)
    assert after["a"] != before["a"]
    assert after["b"] == before["b"]
