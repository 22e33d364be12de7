"""Stacks of a real Heat, taken over by their export and abandoned there.

The Heat has `enable_stack_abandon`. It is installed from PyPI and started without a Keystone and a cloud.
It needs a broker (HEATLITE_TEST_AMQP_URL) and MariaDB.
"""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from benchmarks.ports import free_port
from heatlite.cli.client import Client
from heatlite.cli.transport import HTTPTransport
from heatlite.migrate.ledger import load
from heatlite.migrate.moves import Migration
from heatlite.store.database.database import Database
from heatlite.store.database.driver import Dialect
from tests.acceptance.processes import Server, eventually
from tests.clients.installing import environment
from tests.databases import SERVERS

PATIENCE = 600
"""Seconds for the Heat to start, and for its answers and stacks: its machine may be busy."""
BROKER = os.environ.get("HEATLITE_TEST_AMQP_URL", "")
SETTINGS = """\
[DEFAULT]
transport_url = {broker}
deferred_auth_method = password
enable_stack_abandon = true
num_engine_workers = 1
auth_encryption_key = 0123456789abcdef0123456789abcdef
environment_dir = {installed}/environment.d
template_dir = {installed}/templates
rpc_response_timeout = {patience}
[database]
connection = {database}
[paste_deploy]
flavor = noauth
api_paste_config = {installed}/api-paste.ini
[oslo_concurrency]
lock_path = {folder}
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
    if not BROKER:
        pytest.skip("HEATLITE_TEST_AMQP_URL names no broker")
    programs = environment("heat", "openstack-heat==27.0.1", "pymysql")
    with SERVERS[Dialect.MARIADB].database(f"heat_{os.getpid()}") as url:
        parts = urlsplit(url)
        database = parts._replace(scheme="mysql+pymysql", query="charset=utf8").geturl()
        with closing(Database(url)) as tables:
            yield from running_heat(tmp_path_factory, programs, database, tables)


def running_heat(
    tmp_path_factory: pytest.TempPathFactory, programs: Path, database: str, tables: Database
) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("heat"), free_port()
    broker = BROKER.replace("amqp://", "rabbit://")
    installed = programs.parent / "etc" / "heat"
    settings_of = {"broker": broker, "database": database, "folder": folder, "installed": installed}
    (folder / "heat.conf").write_text(SETTINGS.format_map({**settings_of, "patience": PATIENCE}))
    rules = subprocess.run([programs / "python", "-c", RULES], capture_output=True, text=True, check=True).stdout
    (folder / "policy.yaml").write_text(yaml.safe_dump({name: "@" for name in rules.split() if ":" in name}))
    settings = ["--config-file", str(folder / "heat.conf")]
    subprocess.run([programs / "heat-manage", *settings, "db_sync"], capture_output=True, check=True)
    api = [programs / "python", programs / "heat-wsgi-api", "--host", "127.0.0.1", "--port", str(port), "--"]
    commands = ([programs / "heat-engine", *settings], [*api, *settings])
    running = []
    with (folder / "log").open("w") as log:
        try:
            running = [subprocess.Popen(words, stdout=log, stderr=log) for words in commands]
            eventually(lambda: answers(port), "the Heat answers", PATIENCE)
            # A request that comes before the engine listens is lost.
            eventually(lambda: bool(tables.read("SELECT id FROM service")), "its engine listens", PATIENCE)
            yield f"http://127.0.0.1:{port}"
        finally:
            for one in running:
                one.terminate()
            for one in running:
                one.wait(240)


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


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
