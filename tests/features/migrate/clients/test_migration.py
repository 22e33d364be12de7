"""Stacks of a real Heat, taken over with `heatlite migrate` and used afterwards.

The Heat is installed from PyPI and started in a region of the cloud. It has `enable_stack_adopt`, but no abandon: so it
hides values, and retains stacks.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.acceptance.processes import CommandLine, Server
from tests.clients import installing
from tests.clients.real_services import CREDENTIALS, running
from tests.clients.region import BareRegion, bare_region, connection
from tests.clouds import real
from tests.waiting import eventually

pytestmark = pytest.mark.clients

CLOUD = "ours"
TEMPLATES = Path(__file__).with_name("heat_stacks")
NAMES = ("flat", "nested", "groups", "software", "waiting")
PATIENCE = 600
"""Seconds for a stack of the Heat: its machine may be busy."""
ANSWER = {"deploy_status_code": 0, "deploy_stdout": "hello", "deploy_stderr": "", "answer": "yes"}
SIGNALS = {
    "software": [("deployment", ANSWER)],
    "waiting": [
        ("handle", {"id": "a", "data": "one"}),
        ("handle", {"id": "b", "data": "two"}),
        ("cfn_handle", {"Status": "SUCCESS", "Reason": "r", "Data": "d", "UniqueId": "u"}),
    ],
}


ACCESS = f"""\
[DEFAULT]
region_name_for_services = {{region.name}}
server_keystone_endpoint_type = public
stack_user_domain_name = {{region.agents}}
stack_domain_admin = {{region.agents}}
stack_domain_admin_password = {{region.agents}}
[clients_keystone]
auth_uri = {{region.auth_url}}
[keystone_authtoken]
www_authenticate_uri = {{region.auth_url}}
{CREDENTIALS}[trustee]
auth_type = password
auth_url = {{auth_url}}
username = {{username}}
password = {{password}}
user_domain_id = default
"""
OF_THE_SERVICE = (
    "OS::Heat::ScalingPolicy", "OS::Heat::WaitCondition", "OS::Heat::WaitConditionHandle",
    "AWS::CloudFormation::WaitCondition", "AWS::CloudFormation::WaitConditionHandle",
)  # fmt: skip
"""Types whose id is that of a user of the Heat, or of nothing."""


@dataclass
class Peer:
    """The Heat."""

    api: Any
    cloud: Any
    region: BareRegion

    @property
    def variables(self) -> dict[str, str]:
        """The variables of programs that use its cloud."""
        return {"OS_CLIENT_CONFIG_FILE": str(self.region.clouds)}

    def get(self, path: str) -> Any:
        return self.api.request("GET", path)

    def create(self, name: str, body: dict[str, Any]) -> str:
        made = self.api.request("POST", "/stacks", {"stack_name": name, "timeout_mins": 30, **body})
        return f"/stacks/{name}/{made['stack']['id']}"

    def status(self, path: str) -> str:
        return str(self.get(path)["stack"]["stack_status"])

    def settled(self, path: str) -> str:
        eventually(lambda: not self.status(path).endswith("_IN_PROGRESS"), f"{path} settles", PATIENCE)
        return self.status(path)

    def ids(self, path: str) -> dict[str, str]:
        listed = self.get(f"{path}/resources?nested_depth=9")["resources"]
        return {_place(one): one["physical_resource_id"] for one in listed}

    def objects(self, path: str) -> set[str]:
        """The ids of objects of the cloud, and of configs and deployments, at all depths."""
        listed = self.get(f"{path}/resources?nested_depth=9")["resources"]
        of_cloud = [one for one in listed if all(link["rel"] != "nested" for link in one["links"])]
        return {one["physical_resource_id"] for one in of_cloud if one["resource_type"] not in OF_THE_SERVICE}

    def signal(self, path: str, resource: str, details: Any) -> None:
        def made() -> bool:
            listed = self.get(f"{path}/resources")["resources"]
            return any(one["resource_name"] == resource and one["physical_resource_id"] for one in listed)

        eventually(made, f"{resource} is there", PATIENCE)
        self.api.request("POST", f"{path}/resources/{resource}/signal", details)


def _place(one: dict[str, Any]) -> str:
    """A resource's name with that of its parent resource."""
    return f"{one.get('parent_resource', '')}/{one['resource_name']}"


@dataclass
class Moved:
    """The stacks after plan, run and finish: names and paths are by template."""

    heat: Peer
    server: Server
    line: CommandLine
    paths: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    before: dict[str, dict[str, str]] = field(default_factory=dict)
    objects: dict[str, set[str]] = field(default_factory=dict)
    reports: dict[str, Any] = field(default_factory=dict)

    def migrate(self, step: str, *words: str) -> Any:
        """Run a step for all stacks, one command for each; the report by template."""
        return {name: self.one(step, name, *words) for name in NAMES}

    def one(self, step: str, name: str, *words: str) -> Any:
        with self.line.start("migrate", step, self.names[name], "--from", CLOUD, "--format", "json", *words) as process:
            out, err = process.communicate(timeout=PATIENCE)
        assert out, err
        return json.loads(out)["stacks"][0]

    def path(self, name: str) -> str:
        return self.server.find(self.names[name])

    def ids(self, name: str) -> dict[str, str]:
        listed = self.server.request("GET", f"{self.path(name)}/resources?nested_depth=9").data
        return {_place(one): one["physical_resource_id"] for one in listed["resources"]}  # type: ignore[index]

    def all_ids(self, name: str) -> set[str]:
        listed = self.server.request("GET", f"{self.path(name)}/resources?nested_depth=9").data["resources"]  # type: ignore[index]
        return {one["physical_resource_id"] for one in listed}

    def outputs(self, name: str) -> dict[str, Any]:
        shown = self.server.request("GET", self.path(name)).data["stack"]  # type: ignore[index]
        return {one["output_key"]: one["output_value"] for one in shown["outputs"]}

    def patch(self, name: str, **body: Any) -> str:
        answer = self.server.request("PATCH", self.path(name), body)
        assert answer.status == 202, answer.data
        return self.settled(name)

    def settled(self, name: str) -> str:
        path = self.path(name)
        eventually(lambda: not self.server.stack(path)["stack_status"].endswith("_IN_PROGRESS"), path, PATIENCE)
        stack = self.server.stack(path)
        return f"{stack['stack_status']} {stack['stack_status_reason']}"

    def deleted(self, name: str) -> None:
        """Delete the stack in heatlite, and see that nothing fails."""
        path = self.path(name)
        assert self.server.request("DELETE", path).status == 204
        eventually(lambda: self.server.request("GET", path).data["stack"]["stack_status"] in (  # type: ignore[index]
            "DELETE_COMPLETE", "DELETE_FAILED"), path, PATIENCE)  # fmt: skip
        stack = self.server.request("GET", path).data["stack"]  # type: ignore[index]
        assert stack["stack_status"] == "DELETE_COMPLETE", stack["stack_status_reason"]


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    installing.folder()
    pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")
    real.needed()
    from heatlite.features.migrate.transport import client

    folder = tmp_path_factory.mktemp("heat")
    with bare_region(folder) as made, pytest.MonkeyPatch.context() as patch:
        fields = {"auth_url": made.auth_url, "username": "heat", "password": made.admin_password}
        access = ACCESS.format_map({**fields, "project_name": "service", "region": made})
        made.announce(made.undo.enter_context(running("orchestration", folder, {"access": access})))
        cloud = connection(made.clouds, CLOUD)
        made.undo.callback(cloud.close)
        patch.setenv("OS_CLIENT_CONFIG_FILE", str(made.clouds))
        yield Peer(client(CLOUD)[0], cloud, made)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, heat: Peer) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("taker"), HEATLITE_CLOUD=CLOUD, **heat.variables)
    yield started
    assert started.complaints() == ""
    started.kill()


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory, heat: Peer, server: Server) -> Iterator[Moved]:
    home = tmp_path_factory.mktemp("migration")
    variables = {**heat.variables, "HEATLITE_ENDPOINT": f"{server.url}/v1/demo"}
    moved = Moved(heat, server, CommandLine(home, variables))
    text = {path.name: path.read_text() for path in TEMPLATES.iterdir()}
    for name in NAMES:
        moved.names[name] = f"{name}-{uuid4().hex[:8]}"
        files = {file: text[file] for file in ("pair.yaml", "deep.yaml") if name in ("nested", "groups")}
        environment = {"nested": yaml.safe_load(text["nested-env.yaml"]), "flat": {"parameters": {"secret": "x"}}}
        body = {"template": text[f"{name}.yaml"], "files": files, "environment": environment.get(name, {})}
        moved.paths[name] = heat.create(moved.names[name], body)
    for name, signals in SIGNALS.items():
        for resource, details in signals:
            heat.signal(moved.paths[name], resource, details)
    for name in NAMES:
        assert heat.settled(moved.paths[name]) == "CREATE_COMPLETE", heat.get(moved.paths[name])
        moved.before[name] = heat.ids(moved.paths[name])
        moved.objects[name] = heat.objects(moved.paths[name])
    values = home / "values.yaml"
    values.write_text(yaml.safe_dump({moved.names["flat"]: {"secret": "x"}}))
    moved.reports["without values"] = moved.one("plan", "flat")
    moved.reports["plan"] = moved.migrate("plan", "--values", str(values))
    moved.reports["stacks after plan"] = server.request("GET", "/stacks").data
    moved.reports["run"] = moved.migrate("run", "--values", str(values), "--yes")
    moved.reports["again"] = moved.migrate("run", "--values", str(values), "--yes")
    moved.reports["outputs"] = {name: moved.outputs(name) for name in NAMES}
    moved.reports["objects"] = {name: moved.all_ids(name) for name in NAMES}
    moved.reports["finish"] = moved.migrate("finish", "--yes")
    yield moved


def test_a_hidden_value_is_asked_for(moved: Moved) -> None:
    report = moved.reports["without values"]
    assert (report["state"], [one["path"] for one in report["findings"] if one["blocks"]]) == ("blocked", ["secret"])


def test_a_plan_writes_nothing(moved: Moved) -> None:
    assert {one["state"] for one in moved.reports["plan"].values()} == {"planned"}
    assert moved.reports["stacks after plan"] == {"stacks": []}


@pytest.mark.parametrize("name", NAMES)
def test_it_has_the_same_objects(moved: Moved, name: str) -> None:
    report = moved.reports["run"][name]
    assert (report["state"], report["outputs_that_differ"], report["reason"]) == ("taken", [], "")
    assert moved.objects[name] <= moved.reports["objects"][name]
    assert moved.reports["again"][name] == report


@pytest.mark.parametrize("name", NAMES)
def test_it_is_let_go_of(moved: Moved, name: str) -> None:
    report = moved.reports["finish"][name]
    assert report["state"] in ("retained", "released"), report
    if report["state"] == "retained":
        assert moved.heat.ids(moved.paths[name]) == moved.before[name]


def test_the_heat_deletes_no_object(moved: Moved) -> None:
    if moved.reports["finish"]["flat"]["state"] == "retained":
        moved.heat.api.request("DELETE", moved.paths["flat"])
        assert moved.heat.settled(moved.paths["flat"]) == "DELETE_COMPLETE"
    server = moved.heat.cloud.compute.get_server(moved.before["flat"]["/server"])
    assert server.status == "ACTIVE"
    assert moved.patch("flat").startswith("UPDATE_COMPLETE")


def test_update_mark_and_delete(moved: Moved) -> None:
    before = moved.ids("flat")
    text = (TEMPLATES / "flat.yaml").read_text().replace("key_name:", "metadata: {a: b}\n      key_name:")
    assert moved.patch("flat", template=text).startswith("UPDATE_COMPLETE")
    assert moved.ids("flat")["/server"] == before["/server"]
    assert moved.heat.cloud.compute.get_server(before["/server"]).metadata["a"] == "b"
    mark = {"mark_unhealthy": True, "resource_status_reason": "a test"}
    assert moved.server.request("PATCH", f"{moved.path('flat')}/resources/server", mark).status == 200
    assert moved.patch("flat").startswith("UPDATE_COMPLETE")
    after = moved.ids("flat")
    assert after["/server"] != before["/server"]
    assert (after["/port"], after["/volume"]) == (before["/port"], before["/volume"])
    assert moved.outputs("flat")["words"] == moved.reports["outputs"]["flat"]["words"]
    # After a resize to another host, Nova's fake driver would not release the port to a new server.
    assert moved.patch("flat", parameters={"flavor": "m1.tiny"}).startswith("UPDATE_COMPLETE")
    assert moved.ids("flat")["/server"] == after["/server"]
    moved.deleted("flat")
    assert moved.heat.cloud.network.find_network(before["/net"]) is None
    assert moved.heat.cloud.compute.find_server(after["/server"]) is None


def test_nested_stacks_go_on(moved: Moved) -> None:
    before = moved.ids("nested")
    mark = {"mark_unhealthy": True, "resource_status_reason": "a test"}
    listed = moved.server.listed(moved.path("nested"), "resources")
    (nested,) = [one for one in listed if one["resource_name"] == "first"]
    href = next(link["href"] for link in nested["links"] if link["rel"] == "nested")  # type: ignore[attr-defined]
    path = href.partition("/v1/demo")[2]
    assert moved.server.request("PATCH", f"{path}/resources/net", mark).status == 200
    assert moved.patch("nested").startswith("UPDATE_COMPLETE")
    after = moved.ids("nested")
    assert after["first/net"] != before["first/net"]
    assert after["second/net"] == before["second/net"]
    moved.deleted("nested")
    assert moved.heat.cloud.network.find_network(after["first/net"]) is None


def test_groups_scale(moved: Moved) -> None:
    before = moved.ids("groups")
    assert moved.patch("groups", parameters={"count": 3}).startswith("UPDATE_COMPLETE")
    after = moved.ids("groups")
    assert after["ports/0"] == before["ports/0"]
    assert "ports/2" in after
    eventually(lambda: scaled(moved, len(before)), "the policy scales out", PATIENCE)
    assert moved.settled("groups").split()[0] in ("UPDATE_COMPLETE", "SIGNAL_COMPLETE")
    members = {place: one for place, one in moved.ids("groups").items() if place.startswith("scaled/")}
    assert len(members) == 3
    assert {place: one for place, one in before.items() if place.startswith("scaled/")}.items() <= members.items()
    moved.deleted("groups")
    assert all(moved.heat.cloud.compute.find_server(one) is None for one in members.values())


def scaled(moved: Moved, before: int) -> bool:
    """Signal the policy until the group has another member, despite its cooldown."""
    path = moved.path("groups")
    if moved.server.stack(path)["stack_status"].endswith("_IN_PROGRESS"):
        return False
    members = [one for place, one in moved.ids("groups").items() if place.startswith("scaled/")]
    if len(members) > 2:
        return all(members)
    moved.server.request("POST", f"{path}/resources/more/signal", {})
    time.sleep(0.2)
    return False


def test_software_has_its_ids_and_answers(moved: Moved) -> None:
    ids = moved.ids("software")
    deployment = moved.server.request("GET", f"/software_deployments/{ids['/deployment']}").data["software_deployment"]  # type: ignore[index]
    assert deployment["output_values"] == ANSWER
    assert (deployment["status"], deployment["server_id"]) == ("COMPLETE", ids["/server"])
    config = moved.server.request("GET", f"/software_configs/{ids['/config']}").data["software_config"]  # type: ignore[index]
    assert config["config"] == "#!/bin/sh\necho $word"
    assert moved.reports["outputs"]["software"] == {"answer": "yes", "stdout": "hello"}
    text = (TEMPLATES / "software.yaml").read_text().replace("{x: 1}", "{x: 2}")
    assert moved.patch("software", template=text).startswith("UPDATE_COMPLETE")
    quiet = moved.server.request("GET", f"/software_deployments/{ids['/quiet']}").data["software_deployment"]  # type: ignore[index]
    assert quiet["input_values"] == {"x": 2}
    moved.deleted("software")
    assert moved.server.request("GET", f"/software_configs/{ids['/config']}").status == 404


def test_signals_are_kept_and_new_ones_heard(moved: Moved) -> None:
    assert json.loads(moved.reports["outputs"]["waiting"]["data"]) == {"a": "one", "b": "two"}
    text = (TEMPLATES / "waiting.yaml").read_text().replace("count: 2", "count: 3")
    assert moved.server.request("PATCH", moved.path("waiting"), {"template": text}).status == 202
    signal = f"{moved.path('waiting')}/resources/handle/signal"
    assert moved.server.request("POST", signal, {"id": "c", "data": "three"}).status == 200
    assert moved.settled("waiting").startswith("UPDATE_COMPLETE")
    assert json.loads(moved.outputs("waiting")["data"])["c"] == "three"
    moved.deleted("waiting")


def test_and_back(heat: Peer, server: Server) -> None:
    name = f"back-{uuid4().hex[:8]}"
    port = {"type": "OS::Neutron::Port", "properties": {"network": {"get_resource": "net"}}}
    resources = {"net": {"type": "OS::Neutron::Net"}, "port": port, "word": {"type": "OS::Heat::RandomString"}}
    path = server.create(name, {"heat_template_version": "2021-04-16", "resources": resources})
    assert server.settled(path) == "CREATE_COMPLETE"
    ids = server.resources(path)
    record = server.request("DELETE", f"{path}/abandon").data
    there = heat.create(name, {"adopt_stack_data": json.dumps(record)})
    assert heat.settled(there) == "ADOPT_COMPLETE", heat.get(there)
    listed = heat.get(f"{there}/resources")["resources"]
    assert {one["resource_name"]: one["physical_resource_id"] for one in listed} == ids
    heat.api.request("DELETE", there)
    assert heat.settled(there) == "DELETE_COMPLETE"
    assert heat.cloud.network.find_network(ids["net"]) is None
