"""Secrets and hidden values are shown only to callers who may export the stack."""

import json
import re
import threading
import time
from base64 import b64encode, urlsafe_b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree import ElementTree

import pytest

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.core.config import Auth, Settings
from heatlite.plugin.signing import NATIVE, NODE, Signalled
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters, Row
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from tests.databases import sqlite
from tests.features.query_api.test_query_api import with_key

from .conftest import Heat, template, value
from .test_access import routes

SCRIPT = {"type": "OS::Heat::SoftwareConfig", "properties": {"group": "script", "config": "true"}}
NESTED = json.dumps(
    {
        "heat_template_version": "2021-04-16",
        "parameters": {"told": {"type": "string"}},
        "resources": {"own": {"type": "OS::Heat::WaitConditionHandle"}, "v": value({"get_param": "told"})},
        "outputs": {"token": {"value": {"get_attr": ["own", "token"]}}},
    }
)
MADE = template(
    server={"type": "OS::Heat::DeployedServer"},
    handle={"type": "OS::Heat::WaitConditionHandle"},
    cfn={"type": "AWS::CloudFormation::WaitConditionHandle"},
    password={"type": "OS::Heat::RandomString"},
    keypair={"type": "OS::Nova::KeyPair", "properties": {"name": "k", "save_private_key": True}},
    config=SCRIPT,
    deployed={
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {
            "server": {"get_resource": "server"},
            "config": {"get_resource": "config"},
            "signal_transport": "CFN_SIGNAL",
        },
    },
    told=value({"text": {"get_attr": ["handle", "curl_cli"]}, "url": {"get_resource": "cfn"}}),
    nested={"type": "nested.yaml", "properties": {"told": {"get_attr": ["handle", "token"]}}},
    after=value({"get_attr": ["nested", "token"]}),
)  # fmt: skip

TEXT, DEFAULT, INNER, NUMBER = "mark-of-a-text", "mark-of-a-default", "mark-of-an-inner-one", 90021977
MAP = {"key-of-a-map": "value-of-a-map", "more": [{"key-within-a-map": 90021978}]}
SINK = "https://sink.example/path-of-a-sink?token=token-of-a-sink"
HIDDEN = (
    TEXT, DEFAULT, INNER, str(NUMBER), "value-of-a-map", "key-of-a-map", "key-within-a-map", "90021978",
    "path-of-a-sink", "token-of-a-sink",
)  # fmt: skip
"""All that is hidden in `HIDES`."""
ALL = {name: {"get_param": name} for name in ("text", "map", "number", "default")}
SAID = {"str_replace": {"template": "#!/bin/sh\nlogin text number map default", "params": ALL}}
CHILD = json.dumps(
    {
        "heat_template_version": "2021-04-16",
        "parameters": {"given": {"type": "json"}, "inner": {"type": "string", "hidden": True, "default": INNER}},
        "resources": {"v": value({"get_param": "given"}), "i": value({"get_param": "inner"})},
    }
)
HIDES = template(
    server={"type": "OS::Heat::DeployedServer", "metadata": ALL},
    vm={
        "type": "OS::Nova::Server",
        "properties": {
            "image": "cirros", "flavor": "m1.nano", "user_data_format": "RAW", "user_data": SAID,
            "networks": [{"network": {"get_resource": "net"}}], "metadata": {"said": SAID},
        },
    },
    net={"type": "OS::Neutron::Net", "properties": {"name": {"get_param": "text"}}},
    sub={"type": "OS::Neutron::Subnet", "properties": {"network": {"get_resource": "net"}, "cidr": "10.0.0.0/24"}},
    kept=value(ALL),
    coded=value(b64encode(f"login {TEXT}, {INNER}".encode()).decode()),
    nested={"type": "child.yaml", "properties": {"given": {"get_param": "map"}}},
    config={"type": "OS::Heat::SoftwareConfig", "properties": {
        "group": "script", "config": SAID, "inputs": [{"name": "login"}, {"name": "map", "type": "Json"}],
        "options": ALL, "outputs": [{"name": "result"}]}},
    deployed={
        "type": "OS::Heat::SoftwareDeployment",
        "properties": {
            "server": {"get_resource": "server"}, "config": {"get_resource": "config"},
            "input_values": {"login": {"get_param": "text"}, "map": {"get_param": "map"}},
            "signal_transport": "NO_SIGNAL",
        },
    },
) | {
    "parameters": {
        "text": {"type": "string", "hidden": True},
        "map": {"type": "json", "hidden": True},
        "number": {"type": "number", "hidden": True},
        "default": {"type": "string", "hidden": True, "default": DEFAULT},
    }
}  # fmt: skip
"""A stack with hidden values at all places."""


class Bench:
    """Stacks with secrets of every kind, and callers with tokens."""

    def __init__(self, folder: Path) -> None:
        tokens = folder / "tokens.toml"
        settings = Settings(
            database=sqlite(folder),
            auth=Auth.TOKENS,
            tokens_file=str(tokens),
            cloud="simulated",
            public_url="http://heat.example",
        )
        roles = {"mia": "member", "ria": "reader", "aga": "heat_stack_user"}
        given = {user: add_token(tokens, user, {"demo": frozenset({role})}, None) for user, role in roles.items()}
        self.server = wiring.embedded(settings)
        self.member, self.reader, self.agent = (
            Heat(self.server.app, proof={"X-Auth-Token": given[user]}) for user in roles
        )
        self.path = self.member.create(MADE, wait=False, files={"nested.yaml": NESTED})
        self.hides = self.member.create(
            HIDES,
            "hides",
            wait=False,
            files={"child.yaml": CHILD},
            parameters={"text": TEXT, "map": MAP, "number": NUMBER},
            environment={"event_sinks": [{"type": "webhook", "target": SINK}]},
        )

    def signalled(self, name: str) -> Signalled[Any]:
        stack = self.server.store.stacks.by_name("demo", "s")
        assert stack is not None
        (row,) = self.server.store.resources.by_name(stack.id, [name])
        made = self.server.components.reader.resources_of(stack).make(row)
        assert isinstance(made, Signalled)
        return made

    def stacks(self, *names: str) -> list[StackRecord]:
        """Stacks, and those nested in them."""
        store = self.server.store
        roots = [root for name in names or ("s", "hides") if (root := store.stacks.by_name("demo", name))]
        return [stack for root in roots for stack in (root, *store.stacks.descendants(root))]

    def secrets(self, *names: str) -> list[str]:
        """The secrets of the resources of stacks, and `HIDDEN`."""
        found: list[Any] = [*HIDDEN]
        for stack in self.stacks(*names):
            for row in self.server.store.resources.of(stack.id):
                found += self.server.components.reader.resources_of(stack).make(row).secrets()
        return [str(secret) for secret in found if secret]

    def wait(self) -> None:
        """Wait until all is made but the deployment, which gets no answer."""
        end = time.monotonic() + 240
        while True:
            left = [
                one["resource_name"]
                for one in self.member.get(f"{self.path}/resources")["resources"]
                if one["resource_status"] != "CREATE_COMPLETE"
            ]
            if left == ["deployed"] and self.member.get("/software_deployments")["software_deployments"]:
                return
            assert time.monotonic() < end, left
            time.sleep(0.01)


@contextmanager
def complete(folder: Path) -> Iterator[Bench]:
    """A bench whose stack is complete and has a snapshot."""
    bench = Bench(folder)
    bench.wait()
    url = bench.signalled("deployed").signed_url("signal").partition("heat.example")[2]
    bench.member.call("POST", url, {"deploy_status_code": "0"}, 200)
    bench.member.settle(bench.path, "CREATE_COMPLETE")
    bench.member.call("POST", f"{bench.path}/snapshots", {"name": "first"}, 200)
    bench.member.settle(bench.path, "SNAPSHOT_COMPLETE")
    bench.member.settle(bench.hides, "CREATE_COMPLETE")
    bench.member.call("POST", f"{bench.hides}/snapshots", {"name": "first"}, 200)
    bench.member.settle(bench.hides, "SNAPSHOT_COMPLETE")
    config = bench.member.get(f"{bench.hides}/resources/config")["resource"]["physical_resource_id"]
    applied = {"server": "another", "config": config, "signal_transport": "NO_SIGNAL"}
    made = template(applies={"type": "OS::Heat::SoftwareDeployment", "properties": applied})
    bench.member.settle(bench.member.create(made, "elsewhere"), "CREATE_COMPLETE")
    for path in (bench.path, bench.hides):
        nightly = {"name": "nightly", "cron": "0 3 * * *", "do": {"check": {}}, "enabled": False}
        bench.member.call("POST", f"{path}/schedules", nightly, 201)
        bench.member.call("PUT", f"{path}/expiry", {"expires_at": "2099-01-01T00:00:00Z"}, 200)
    yield bench
    bench.server.close()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with complete(tmp_path_factory.mktemp("secrets")) as bench:
        yield bench


@pytest.fixture
def own_bench(tmp_path: Path) -> Iterator[Bench]:
    """For a test that changes the secrets."""
    with complete(tmp_path) as bench:
        yield bench


def views(heat: Heat, path: str) -> dict[str, str]:
    """The readable contents of the stack, by place."""
    (snapshot,) = heat.get(f"{path}/snapshots")["snapshots"]
    paths = [f"{path}/snapshots", f"{path}/snapshots/{snapshot['id']}", f"{path}/environment", f"{path}/template"]
    paths += [f"{path}/resources?with_detail=true&nested_depth=3", "/software_deployments"]
    listed = heat.get(f"{path}/resources?nested_depth=2")["resources"]
    stacks = {link["href"] for one in listed for link in one["links"] if link["rel"] == "stack"}
    for url in sorted(stacks):
        own = urlsplit(url).path
        paths += [f"{own}?resolve_outputs=false", f"{own}/environment", f"{own}/template"]
        for one in heat.get(f"{own}/resources")["resources"]:
            at = f"{own}/resources/{one['resource_name']}"
            paths += [at, f"{at}?with_attr=token&with_attr=private_key&with_attr=outputs", f"{at}/metadata"]
        for event in heat.get(f"{own}/events")["events"]:
            if event["resource_name"] != own.split("/")[-2]:
                paths.append(f"{own}/resources/{event['resource_name']}/events/{event['id']}")
    paths += [f"/software_configs/{one['id']}" for one in heat.get("/software_configs")["software_configs"]]
    (server,) = (one for one in listed if one["resource_name"] == "server")
    paths.append(f"/software_deployments/metadata/{server['physical_resource_id']}")
    return {one: heat.call("GET", one, code=200).text for one in paths}


def seen(text: str, secrets: list[str]) -> list[str]:
    """The secrets in an answer, also in its texts that are base64."""
    found = "\n".join((text, *decoded(text)))
    return [secret for secret in secrets if secret in found or quote(secret, safe="") in found]


def decoded(text: str) -> Iterator[str]:
    for digits in re.findall(r"[A-Za-z0-9+/=_-]{8,}", text.replace("\\n", "")):
        with suppress(ValueError):
            yield urlsafe_b64decode(digits.replace("+", "-").replace("/", "_")).decode()


@pytest.mark.slow
def test_a_reader_is_shown_no_secret_of_a_resource(bench: Bench) -> None:
    secrets = bench.secrets()
    assert len(secrets) >= 26 + len(HIDDEN)
    shown = views(bench.reader, bench.path)
    assert {where: found for where, text in shown.items() if (found := seen(text, secrets))} == {}


@pytest.mark.slow
def test_a_caller_who_may_export_is_shown_them(bench: Bench) -> None:
    """They show that the test above would have found them."""
    shown = views(bench.member, bench.path)
    found = {where.partition("?")[0].split("/")[-2] for where, text in shown.items() if seen(text, bench.secrets())}
    assert found >= {"snapshots", "resources", "events", "metadata", "software_configs"}
    (snapshot,) = bench.member.get(f"{bench.path}/snapshots")["snapshots"]
    assert snapshot["data"]["resources"]["server"]["resource_data"]["signal_key"]["secret"]


@pytest.mark.slow
def test_a_snapshot_that_a_reader_sees_keeps_its_form(bench: Bench) -> None:
    (snapshot,) = bench.reader.get(f"{bench.path}/snapshots")["snapshots"]
    assert snapshot["data"]["resources"]["server"]["resource_data"] == {}
    assert snapshot["data"]["resources"]["nested"]["resources"]["own"]["resource_data"] == {}
    assert snapshot["data"]["resources"]["server"]["type"] == "OS::Heat::DeployedServer"


@pytest.mark.slow
def test_a_reader_of_a_large_group_reads_each_member_few_times(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def group(made: object) -> dict[str, object]:
        return {"type": "OS::Heat::ResourceGroup", "properties": {"count": 40, "resource_def": made}}

    told = {"list_join": ["", {"get_attr": ["g", "value"]}]}
    nested = group({"type": "nested.yaml", "properties": {"told": told}})
    made = template(g=group({"type": "OS::Heat::RandomString"}), h=nested)
    path = bench.member.create(made, "crowd", wait=False, files={"nested.yaml": NESTED})
    bench.member.settle(path, "CREATE_COMPLETE")
    read, rows = Database.read, []

    def counted(database: Database, sql: str, parameters: Parameters = ()) -> Sequence[Row]:
        found = read(database, sql, parameters)
        if threading.current_thread() is threading.main_thread():
            rows.append(len(found))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Database, "read", counted)
        listed = bench.reader.get(f"{path}/resources?nested_depth=2&with_detail=true")["resources"]
    assert len(listed) == 162
    assert sum(rows) < 25 * len(listed)
    bench.member.call("DELETE", path, code=204)


@pytest.mark.slow
def test_new_keys_make_old_urls_and_tokens_worthless(own_bench: Bench) -> None:
    bench = own_bench
    outsider = Heat(bench.server.app)

    def paths() -> dict[str, str]:
        urls = {name: bench.signalled(name).signed_url("signal") for name in ("deployed", "handle")}
        urls["native"] = bench.signalled("handle").signed_url(NATIVE)
        urls["cfn"] = str(bench.signalled("cfn").reference())
        urls["server"] = bench.signalled("server").signed_url(NODE)
        return {name: url.partition("heat.example")[2] for name, url in urls.items()}

    old, token, secrets = paths(), bench.signalled("handle").token, bench.secrets("s")
    bench.reader.call("POST", f"{bench.path}/actions", {"rotate_keys": None}, 403)
    assert paths() == old
    bench.member.call("POST", f"{bench.path}/actions", {"rotate_keys": None}, 200)
    new = paths()
    assert new.keys() == old.keys() and not {*new.values()} & {*old.values()}
    signature = {name: parse_qs(urlsplit(url).query)["Signature"] for name, url in new.items()}
    assert all(signature[name] != parse_qs(urlsplit(url).query)["Signature"] for name, url in old.items())
    for name in ("native", "handle", "cfn"):
        outsider.call("POST" if name != "cfn" else "PUT", old[name], {}, 403)
    outsider.call("PUT", old["server"], {}, 403)
    native = new["handle"].partition("?")[0]
    outsider.call("POST", native, {}, 403, headers={"X-Auth-Token": token})
    outsider.call("POST", native, {}, 200, headers={"X-Auth-Token": bench.signalled("handle").token})
    outsider.call("POST", new["native"], {}, 200)
    # Those of nested stacks are new as well; strings and key pairs are no keys.
    assert len({*bench.secrets("s")} & {*secrets} - {*HIDDEN}) == 2
    events = bench.reader.get(f"{bench.path}/resources/handle/events")["events"]
    assert events[2]["resource_status_reason"] == "A new signal key was drawn"


@pytest.mark.slow
def test_an_agent_gets_what_it_applies_in_clear(bench: Bench) -> None:
    told = bench.agent.call("GET", f"{bench.hides}/resources/server/metadata", code=200).text
    stack, *_ = bench.stacks("hides")
    (server,) = bench.server.store.resources.by_name(stack.id, ["server"])
    applied = bench.agent.call("GET", f"/software_deployments/metadata/{server.physical_id}", code=200).text
    for text in (told, applied):
        assert {*seen(text, [*HIDDEN])} >= {TEXT, DEFAULT, str(NUMBER), "key-of-a-map", "value-of-a-map"}


UNREAD = frozenset({
    "approvals/{approval_id}",
    "health/{source}", "incidents/{incident_id}", "node_actions/{node_action_id}", "node_playbooks/{playbook}",
    "resource_types/{type_name}", "resource_types/{type_name}/template", "resources", "services",
    "template_versions/{version}/functions",
})  # fmt: skip
"""Routes that tell nothing of these stacks. A new route is read, or has a reason to be here."""


@pytest.mark.slow
def test_no_route_shows_a_reader_a_secret(bench: Bench) -> None:
    """Each route that reads, with the names and ids of the stacks.

    Outputs are shown to all, and a stream does not end.
    """
    secrets = bench.secrets()
    read = {url: text for url, text in all_read(bench, bench.reader, *EXPORTED) if seen(text, secrets)}
    assert {url: seen(text, secrets) for url, text in read.items()} == {}


@pytest.mark.slow
def test_each_place_of_hidden_values_is_read(bench: Bench) -> None:
    """The member sees values at the places where the reader sees none."""
    shown = {url.partition("?")[0] for url, text in all_read(bench, bench.member) if seen(text, [TEXT])}
    kinds = {re.sub(r"/[0-9a-f]{8}-[0-9a-f-]{27}", "/ID", one.removeprefix("/v1/demo")) for one in shown}
    assert kinds == {
        "/software_configs/ID", "/software_deployments", "/software_deployments/ID",
        "/software_deployments/metadata/ID", "/stacks/hides/ID/resources/server/metadata", "/stacks/hides/ID/export",
        "/stacks/hides/ID/template",
    }  # fmt: skip


EXPORTED = ("stacks/{stack_name}/{stack_id}/export", "health_tokens")
"""Routes that a reader may not read."""


def all_read(bench: Bench, reader: Heat, *refused: str) -> Iterator[tuple[str, str]]:
    """The answers of all routes that read, but `refused` and `UNREAD`."""
    store = bench.server.store
    known = {
        "action": [one["id"] for one in reader.get("/actions")["actions"]],
        "config_id": [one["id"] for one in reader.get("/software_configs")["software_configs"]],
        "schedule_id": ["nightly"],
        "number": ["1"],
        "deployment_id": [one["id"] for one in reader.get("/software_deployments")["software_deployments"]],
        "server_id": [
            row.physical_id or ""
            for stack in bench.stacks()
            for row in store.resources.by_name(stack.id, ["server", "vm"])
        ],
    }
    asked, unread = 0, set()
    for route in routes(bench.server.app):
        method, path = route.split()
        others = "{output_key}" in path or path.endswith("{project}/events")
        short = "{stack_name}" in path and "{stack_id}" not in path  # leads to the route with the id
        if method != "GET" or "{project}" not in path or others or short:
            continue
        unread.add(path)
        for stack in bench.stacks():
            given = {
                **known, "project": ["demo"], "stack_name": [stack.name], "stack_id": [stack.id],
                "resource_name": [row.name for row in store.resources.of(stack.id)],
                "snapshot_id": [one.id for one in store.snapshots.each(stack.id)],
                "event_id": [str(one.id) for one in store.events.list(stack.id, EventQuery())],
            }  # fmt: skip
            names = re.findall(r"\{(\w+)\}", path)
            for values in product(*(given.get(name, ["x"]) for name in names)):
                url = path
                for name, one in zip(names, values, strict=True):
                    url = url.replace(f"{{{name}}}", one)
                query = {"{stack_id}": "?resolve_outputs=false", "diff": "?with=1"}.get(path.rpartition("/")[2], "")
                answer = reader.call("GET", url + query)
                if answer.status_int == 200:
                    asked += 1
                    unread.discard(path)
                    yield url, answer.text
    assert asked > 150
    assert {path.removeprefix("/v1/{project}/") for path in unread} == {*UNREAD, *refused}


@pytest.mark.slow
def test_the_query_api_shows_a_reader_no_secret(bench: Bench) -> None:
    ask, secrets = with_key(bench.reader), bench.secrets()
    stack = bench.server.store.stacks.by_name("demo", "s")
    assert stack is not None
    for action in (
        "DescribeStacks", "DescribeStackEvents", "DescribeStackResources", "GetTemplate", "ListStackResources",
    ):  # fmt: skip
        assert seen(text_of(ask(action, StackName="s")), secrets) == [], action
    for row in bench.server.store.resources.of(stack.id):
        shown = text_of(ask("DescribeStackResource", StackName="s", LogicalResourceId=row.name))
        assert seen(shown, secrets) == [], row.name


def text_of(element: ElementTree.Element) -> str:
    return "\n".join(element.itertext())
