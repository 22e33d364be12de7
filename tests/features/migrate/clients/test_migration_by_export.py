"""Stacks of a real Heat, taken over by their export and abandoned there.

The Heat has `enable_stack_abandon`. It is installed from PyPI and started without a Keystone and a cloud.
"""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from heatlite.cli.client import Client
from heatlite.cli.transport import HTTPTransport
from heatlite.features.migrate.ledger import load
from heatlite.features.migrate.moves import Migration
from tests.acceptance.processes import Server
from tests.clients.installing import environment
from tests.clients.real_services import ALL, running
from tests.waiting import eventually

pytestmark = pytest.mark.clients

PATIENCE = 600
"""Seconds for answers and stacks of the Heat: its machine may be busy."""
ACCESS = """\
flavor = noauth
[DEFAULT]
deferred_auth_method = password
enable_stack_abandon = true
[oslo_policy]
policy_file = {folder}/policy.yaml
"""
RULES = "from heat import policies; print(*(one.name for one in policies.list_rules()))"
INNER = {
    "heat_template_version": "2021-04-16",
    "parameters": {"length": {"type": "number"}},
    "resources": {"word": {"type": "OS::Heat::RandomString", "properties": {"length": {"get_param": "length"}}}},
    "outputs": {"word": {"value": {"get_attr": ["word", "value"]}}},
}
MEMBER = {"type": "OS::Heat::RandomString"}
OUTER = {
    "heat_template_version": "2021-04-16",
    "parameters": {"secret": {"type": "string", "hidden": True}, "count": {"type": "number", "default": 2}},
    "resources": {
        "word": {"type": "OS::Heat::RandomString", "properties": {"salt": {"get_param": "secret"}}},
        "nested": {"type": "inner.yaml", "properties": {"length": 9}},
        "group": {
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": {"get_param": "count"}, "resource_def": MEMBER},
        },
        "scaled": {
            "type": "OS::Heat::AutoScalingGroup",
            "properties": {"min_size": 1, "max_size": 3, "desired_capacity": 2, "resource": MEMBER},
        },
        "value": {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["word", "value"]}}},
    },
    "outputs": {
        "words": {"value": [{"get_attr": ["word", "value"]}, {"get_attr": ["nested", "word"]}]},
        "group": {"value": {"get_attr": ["group", "value"]}},
        "scaled": {"value": {"get_attr": ["scaled", "outputs", "value"]}},
        "value": {"value": {"get_attr": ["value", "value"]}},
    },
}


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Heat."""
    folder = tmp_path_factory.mktemp("heat")
    python = environment("service-orchestration", *ALL["orchestration"].packages) / "python"
    rules = subprocess.run([python, "-c", RULES], capture_output=True, text=True, check=True).stdout
    (folder / "policy.yaml").write_text(yaml.safe_dump({name: "@" for name in rules.split() if ":" in name}))
    with running("orchestration", folder, {"access": ACCESS.format(folder=folder)}) as url:
        yield url


@dataclass
class Moved:
    """A stack with its outputs and ids in the Heat, and the reports of each step."""

    heat: Any
    server: Server
    path: str
    outputs: dict[str, Any]
    ids: dict[str, str]
    reports: dict[str, Any]


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory, heat: str) -> Iterator[Moved]:
    api: Any = Client(HTTPTransport(heat), "/v1/admin")
    body = {
        "stack_name": "web", "template": OUTER, "files": {"inner.yaml": yaml.safe_dump(INNER)}, "timeout_mins": 30,
        "environment": {"parameters": {"secret": "swordfish"}},
    }  # fmt: skip
    path = f"/stacks/web/{api.request('POST', '/stacks', body)['stack']['id']}"
    eventually(lambda: status(api.request("GET", path)) == "CREATE_COMPLETE", "the stack is made", PATIENCE)
    shown = api.request("GET", path)
    server = Server(tmp_path_factory.mktemp("taker"))
    listed = api.request("GET", f"{path}/resources?nested_depth=9")
    found = Moved(api, server, path, outputs(shown), ids(listed), {})
    target = Client(HTTPTransport(server.url), "/v1/demo")
    migration = Migration(api, target, load(tmp_path_factory.mktemp("export") / "record.json"), {})
    for step in (migration.plan, migration.run, migration.finish):
        found.reports[step.__name__] = step("web").to_json()
    yield found
    assert server.complaints() == ""
    server.kill()


def status(shown: Any) -> str:
    return str(shown["stack"]["stack_status"])


def outputs(shown: Any) -> dict[str, Any]:
    return {one["output_key"]: one["output_value"] for one in shown["stack"]["outputs"]}


def ids(listed: Any) -> dict[str, str]:
    """The ids of resources without a nested stack, by parent resource and name."""
    return {
        f"{one.get('parent_resource', '')}/{one['resource_name']}": one["physical_resource_id"]
        for one in listed["resources"]
        if all(link["rel"] != "nested" for link in one["links"])
    }


def test_the_export_has_the_hidden_value(moved: Moved) -> None:
    assert (moved.reports["plan"]["state"], moved.reports["plan"]["findings"]) == ("planned", [])


def test_it_is_the_same_stack(moved: Moved) -> None:
    report = moved.reports["run"]
    assert (report["state"], report["outputs_that_differ"], report["reason"]) == ("taken", [], "")
    path = moved.server.find("web")
    assert outputs(moved.server.request("GET", path).data) == moved.outputs
    assert ids(moved.server.request("GET", f"{path}/resources?nested_depth=9").data) == moved.ids


def test_the_heat_has_abandoned_it(moved: Moved) -> None:
    report = moved.reports["finish"]
    assert (report["state"], report["reason"]) == ("released", "abandoned in Heat")
    eventually(lambda: moved.heat.request("GET", "/stacks") == {"stacks": []}, "the Heat has it no more")


def test_it_goes_on(moved: Moved) -> None:
    path = moved.server.find("web")
    assert moved.server.request("PATCH", path, {"parameters": {"count": 3}}).status == 202
    assert moved.server.settled(path) == "UPDATE_COMPLETE"
    after = ids(moved.server.request("GET", f"{path}/resources?nested_depth=9").data)
    assert {place: one for place, one in after.items() if place in moved.ids} == moved.ids
    assert after.keys() - moved.ids.keys() == {"group/2"}
    assert moved.server.request("DELETE", path).status == 204
    eventually(lambda: status(moved.server.request("GET", path).data) == "DELETE_COMPLETE", "it is deleted")
