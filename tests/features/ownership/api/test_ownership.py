"""Imports, detachments and moves by request and by command."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.template.source.loader import load
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.databases import sqlite
from tests.waiting import eventually

NET = "OS::Neutron::Net"
TEXT = """\
# The shop.
heat_template_version: 2021-04-16
resources:
  a: {type: OS::Heat::Value, properties: {value: 1}}   # what it has
"""


def network(heat: Heat, name: str) -> str:
    """Return the id of a network that no stack has."""
    path = heat.create(template(n={"type": NET, "properties": {"name": name}}), name)
    key = heat.get(f"{path}/resources/n")["resource"]["physical_resource_id"]
    heat.call("DELETE", f"{path}/abandon", None, 200)
    heat.settle(path)
    return str(key)


def plan(heat: Heat, path: str, body: dict[str, Any], code: int = 200) -> Any:
    answer = heat.call("PATCH", f"{path}/preview?plan=true", body, code).json
    return answer["plan"] if code == 200 else answer["error"]["type"]


@pytest.mark.slow
def test_by_request(clouded: Heat) -> None:
    heat = clouded
    key = network(heat, "one")
    path = heat.create(template(), "b")
    asked = {"resources": {"net": {"type": NET, "id": key}}}
    shown = plan(heat, path, {"import": asked})
    assert [one["action"] for one in shown["resources"]] == ["import"]
    assert [one["op"] for one in shown["template_patch"]] == ["add"]
    assert (shown["parameters_patch"], shown["environment_patch"], shown.get("after")) == ([], [], None)
    assert load(shown["template"]).data["resources"]["net"]["type"] == NET
    heat.call("POST", f"{path}/actions", {"import": asked}, 400)
    answer = heat.call("POST", f"{path}/actions", {"import": {**asked, "plan_digest": shown["digest"]}}, 200)
    assert answer.json is None
    (action,) = heat.get("/actions?action=STACK_UPDATE&stack=b")["actions"]
    assert answer.headers["X-Heatlite-Action"].endswith(action["id"])
    assert (action["status"], action["cause"]) == ("SUCCEEDED", "RPC Request")
    assert action["inputs"]["import"]["resources"]["net"]["id"] == key
    line = heat.get("/audit?limit=1")["audit"][0]
    told = (line["operation"], line["resource_name"], line["action_id"], line["plan_digest"])
    assert told == ("actions:import", "net", action["id"], shown["digest"])
    assert action["outputs"]["imported"] == {"net": {"type": NET, "id": key}}
    row = heat.get(f"{path}/resources/net")["resource"]
    assert (row["resource_status"], row["resource_status_reason"]) == ("ADOPT_COMPLETE", "Imported")
    assert heat.get(path)["stack"]["stack_status"] == "UPDATE_COMPLETE"
    events = heat.get(f"{path}/resources/net/events")["events"]
    assert [one["resource_status"] for one in events] == ["ADOPT_COMPLETE"]
    assert plan(heat, path, {"import": asked}, 400) == "HTTPBadRequest"
    heat.create(template(n={"type": NET, "external_id": key}), "refers")
    found = heat.get(f"/resources?physical_resource_id={key}")["resources"]
    assert {one["stack_name"]: one["owned"] for one in found} == {"b": True, "refers": False}
    again = {"import": {"resources": {"other": {"type": NET, "id": key}}}}
    assert plan(heat, path, again, 409) == "ObjectOwned"
    shown = plan(heat, path, {"detach": {"resources": ["net"]}})
    assert shown["template_patch"] == [{"op": "remove", "path": "/resources/net"}]
    body = {"detach": {"resources": ["net"], "plan_digest": shown["digest"]}}
    detached = heat.call("POST", f"{path}/actions", body, 200).json
    assert detached == {"detached": {"net": {"type": NET, "id": key}}}
    shown = plan(heat, path, {"import": {"resources": detached["detached"]}})
    body = {"import": {"resources": detached["detached"], "plan_digest": shown["digest"]}}
    heat.call("POST", f"{path}/actions", body, 200)


def test_a_move(clouded: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here, file = clouded, Here(clouded), tmp_path / "town.yaml"
    file.write_text(TEXT + "  b: {type: OS::Heat::Value, properties: {value: {get_resource: a}}}\n")
    path = heat.create(load(file.read_text()).data, "town")
    asked = {"moved": [{"from": "a", "to": "one"}]}
    shown = plan(heat, path, {"move": asked})
    (item,) = shown["resources"]
    assert (item["resource_name"], item["action"], item["from"], item["cause"]) == ("one", "move", "a", "from a")
    heat.call("POST", f"{path}/actions", {"move": asked}, 400)
    before = heat.get(f"{path}/resources/a/events")["events"]
    assert heat.call("POST", f"{path}/actions", {"move": {**asked, "plan_digest": shown["digest"]}}, 200).json is None
    events = heat.get(f"{path}/resources/one/events")["events"]
    assert [one["id"] for one in events if one["resource_status"] != "MOVE_COMPLETE"] == [one["id"] for one in before]
    assert "Moved from a" in [one["resource_status_reason"] for one in events]
    assert heat.fault("GET", f"{path}/resources/a", code=404)[1].endswith("It has moved to one.")
    assert heat.fault("GET", f"{path}/resources/zz", code=404)[1].endswith("could not be found in Stack town.")
    assert heat.get(f"{path}/resources/one")["resource"]["moved_from"] == "a"
    assert "moved_from" not in heat.get(f"{path}/resources/b")["resource"]
    line = heat.get("/audit?limit=1")["audit"][0]
    assert (line["operation"], line["resource_name"]) == ("actions:move", "a")
    file.write_text(file.read_text().replace("  a:", "  one:").replace("get_resource: a", "get_resource: one"))
    assert here(f"move town one two --write {file} --yes") == 0
    assert "> two from one  (OS::Heat::Value)" in capsys.readouterr().out
    assert load(file.read_text()).data == heat.get(f"{path}/template")
    assert heat.fault("GET", f"{path}/resources/a", code=404)[1].endswith("It has moved to two.")
    moves = tmp_path / "moves.yaml"
    moves.write_text("move:\n  moved: [{from: two, to: b}, {from: b, to: two}]\n")
    assert here(f"move town --from-file {moves} --yes -f json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["moved"][0] == {"from": "two", "to": "b"}
    assert heat.get(f"{path}/template")["resources"]["two"]["properties"]["value"] == {"get_resource": "b"}
    for wrong in ("", "a", f"a b --from-file {moves}"):
        assert here(f"move town {wrong} --yes") == 2


@pytest.mark.slow
def test_a_retained_server_with_what_it_requires_is_imported(clouded: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    """Acceptance 6 of selections: what it requires stays, and can be taken."""
    heat, here, types = clouded, Here(clouded), {"net": NET}
    types |= {"subnet": "OS::Neutron::Subnet", "port": "OS::Neutron::Port", "web": "OS::Nova::Server"}
    own: dict[str, dict[str, Any]] = {
        "net": {},
        "subnet": {"network": {"get_resource": "net"}, "cidr": "10.7.0.0/24"},
        "port": {"network": {"get_resource": "net"}, "fixed_ips": [{"subnet": {"get_resource": "subnet"}}]},
        "web": {"image": "cirros", "flavor": "m1.nano", "networks": [{"port": {"get_resource": "port"}}]},
    }
    site = {name: {"type": types[name], "properties": own[name]} for name in types}
    gone = {"type": "OS::Cinder::Volume", "properties": {"size": 1}}
    path = heat.create(template(**site, gone=gone), "retained")
    ids = {one["resource_name"]: one["physical_resource_id"] for one in heat.get(f"{path}/resources")["resources"]}
    assert here("down retained --retain web --yes") == 0
    assert "1 deleted, 4 retained" in capsys.readouterr().out
    outputs = heat.get("/actions?action=STACK_DELETE")["actions"][0]["outputs"]
    assert {one["path"]: one["physical_id"] for one in outputs["retained"]} == {name: ids[name] for name in types}
    into = heat.create(template(), "taken")
    objects = {name: {"type": kind, "id": ids[name]} for name, kind in types.items()}
    shown = plan(heat, into, {"import": {"resources": objects}})
    body = {"import": {"resources": objects, "plan_digest": shown["digest"]}}
    heat.call("POST", f"{into}/actions", body, 200)
    found = {one["resource_name"]: one["physical_resource_id"] for one in heat.get(f"{into}/resources")["resources"]}
    assert found == {name: ids[name] for name in types}


def test_closed_bodies(clouded: Heat) -> None:
    heat = clouded
    path = heat.create(template(), "closed")
    one = {"a": "x"}
    for wrong in (None, 7, {}, {"resources": {}}, {"resources": {"a": {"ids": 1}}}, {"resources": one, "more": 1}):
        heat.call("PATCH", f"{path}/preview?plan=true", {"import": wrong}, 400)
        heat.call("POST", f"{path}/actions", {"import": wrong}, 400)
    lone = heat.create(template(n={"type": "OS::Cinder::Volume", "properties": {"size": 1}}), "lone")
    heat.call("DELETE", f"{lone}/abandon", None, 200)
    heat.settle(lone)
    for guess in ({}, {"id": ""}, {"name": ""}, {"filter": {}}, {"id": "x", "name": "y"}, {"name": "y", "filter": one}):
        body = {"resources": {"v": {"type": "OS::Cinder::Volume", **guess}}}
        assert plan(heat, path, {"import": body}, 400) == "HTTPBadRequest"
    many = {f"r{number}": {"type": NET, "id": str(number)} for number in range(501)}
    assert plan(heat, path, {"import": {"resources": many}}, 400) == "HTTPBadRequest"
    moved = [{"from": "a", "to": "b"}]
    for wrong in (None, {}, {"moved": []}, {"moved": [{"from": "a"}]}, {"moved": moved, "to_stack": ""}):
        heat.call("PATCH", f"{path}/preview?plan=true", {"move": wrong}, 400)
        heat.call("POST", f"{path}/actions", {"move": wrong}, 400)
    for wrong in (None, {}, {"resources": []}, {"resources": ["a"], "as_external": "x"}, {"resource": "a"}):
        heat.call("PATCH", f"{path}/preview?plan=true", {"detach": wrong}, 400)


@pytest.mark.parametrize("key", ["import", "detach", "move"])
def test_the_feature_is_off(tmp_path: Path, key: str) -> None:
    """Neither a preview nor an action passes for another request."""
    settings = Settings(database=sqlite(tmp_path), cloud="simulated", features=("simulator",))
    server = wiring.embedded(settings)
    heat = Heat(server.app)
    path = heat.create(template(), "s")
    for method, url in (("PATCH", f"{path}/preview?plan=true"), ("POST", f"{path}/actions")):
        kind, text = heat.fault(method, url, {key: {"resources": {}}})
        assert (kind, "Features that are off here: " in text, "ownership" in text) == ("HTTPBadRequest", True, True)
    heat.call("PATCH", f"{path}/preview?plan=true", {"template": template(), key: {}}, 200)
    heat.call("PATCH", f"{path}/preview?plan=true", {}, 200)
    server.close()


class Interrupted(io.StringIO):
    """A terminal with a yes to the first question, and Ctrl-C at the second."""

    def isatty(self) -> bool:
        return True

    def readline(self, size: int | None = -1, /) -> str:
        if self.tell():
            raise KeyboardInterrupt
        return super().readline(-1)


def test_an_interrupted_import_leaves_no_stack(
    clouded: Heat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = network(clouded, "four")
    monkeypatch.setattr("sys.stdin", Interrupted("y\n"))
    assert Here(clouded)(f"import fresh net={key} --generate --type {NET}") == 130
    told = "Import them? [y/N] \nThe stack fresh, made for this import, is deleted again.\n"
    assert capsys.readouterr().err.endswith(told)
    eventually(lambda: "fresh" not in [one["stack_name"] for one in clouded.get("/stacks")["stacks"]], "it is gone")


@pytest.mark.slow
def test_by_command(clouded: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here = clouded, Here(clouded)
    file, key, other = tmp_path / "shop.yaml", network(heat, "two"), network(heat, "three")
    file.write_text(TEXT)
    path = heat.create(load(TEXT).data, "shop")
    assert here(f"import shop net={key} --generate --type {NET} --write {file} --yes") == 0
    text = file.read_text()
    assert text.startswith(TEXT)
    assert load(text).data == heat.get(f"{path}/template")
    assert f"+ net = {key}" in capsys.readouterr().out
    assert here(f"import new net={other} --generate --type net={NET} -y -f json") == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report == {"imported": [{"path": "net", "id": other}], "refused": []}
    assert here(f"import shop more={other} --generate --type {NET} -y -f json") == 1
    refused = json.loads(capsys.readouterr().out)["refused"][0]
    assert (refused["path"], refused["code"]) == ("more", "ObjectOwned")
    assert "net of stack new" in refused["message"]
    assert here(f"import fresh more={other} --generate --type {NET} -y") == 1
    assert "The stack fresh, made for this import, is deleted again." in capsys.readouterr().err
    fresh = "the stack that was made for this only goes"
    eventually(lambda: "fresh" not in [one["stack_name"] for one in heat.get("/stacks")["stacks"]], fresh)
    assert here(f"detach shop net --write {file} --yes") == 0
    assert file.read_text() == TEXT
    mapped = tmp_path / "map.yaml"
    mapped.write_text(f"import:\n  resources:\n    net: {{name: two, type: {NET}}}\n")
    assert here(f"import shop --from-file {mapped} --yes") == 0
    assert here("detach shop net --as-external --yes -f json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"detached": {"net": {"type": NET, "id": key}}}
    defined = tmp_path / "defined.yaml"
    defined.write_text(f"{TEXT}  net: {{type: {NET}, properties: {{name: two}}}}\n")
    assert here(f"import shop {defined} net={key} --yes") == 0
    for wrong in ("", f"net={key}", "net=x --generate --type a=b", f"{file} {defined} net={key}"):
        assert here(f"import shop {wrong} --yes") == 2


@pytest.mark.slow
def test_the_files_of_nested_templates(clouded: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here = clouded, Here(clouded)
    file, inner, key = tmp_path / "außen.yaml", tmp_path / "innen.yaml", network(heat, "nested")
    text = "heat_template_version: 2021-04-16\nresources:\n  data: {type: innen.yaml}   # nested\n"
    file.write_text(text)
    inner.write_text(TEXT)
    assert here(f"up {file} -n haus --yes") == 0
    assert here(f"import haus data/netz={key} --generate --type {NET} --write {file} --yes") == 0
    told = capsys.readouterr()
    assert f"+ data/netz = {key}" in told.out
    assert f"changed {inner}" in told.err
    assert (file.read_text(), inner.read_text().startswith(TEXT)) == (text, True)
    assert here(f"plan {file} -n haus --detailed-exitcode") == 0
    assert here(f"detach haus data/netz --write {file} --yes -f json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"detached": {"data/netz": {"type": NET, "id": key}}}
    assert inner.read_text() == TEXT
    inner.write_text(TEXT.replace("value: 1", "value: 2"))
    assert here(f"import haus data/netz={key} --generate --type {NET} --write {file} --yes -f json") == 0
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[0])["imported"] == [{"path": "data/netz", "id": key}]
    assert f"{inner} stays as it is" in told.err


def test_a_move_to_another_stack(clouded: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here, file = clouded, Here(clouded), tmp_path / "from.yaml"
    file.write_text(TEXT + "  b: {type: OS::Heat::Value, properties: {value: 2}}\n")
    source = heat.create(load(file.read_text()).data, "from")
    target = heat.create(template(), "to")
    assert here(f"move from b to:c --write {file} --yes") == 0
    told = capsys.readouterr()
    assert "> c from b of stack from  (OS::Heat::Value)" in told.out
    assert "# template of stack to" in told.out
    assert (file.read_text(), f"changed {file}" in told.err) == (TEXT, True)
    assert heat.get(f"{target}/resources/c")["resource"]["moved_from"] == "b of stack from"
    assert heat.fault("GET", f"{source}/resources/b", code=404)[1].endswith("It has moved to c of stack to.")
    for name in ("from", "to"):
        (action,) = heat.get(f"/actions?action=STACK_UPDATE&stack={name}")["actions"]
        assert (action["status"], action["outputs"]["moved"]) == ("SUCCEEDED", {"b": "c"})
    line = heat.get("/audit?limit=1")["audit"][0]
    assert (line["operation"], line["stack_name"], line["resource_name"]) == ("actions:move", "from", "b")
    assert here("move to c from:b --yes") == 0
    assert heat.get(f"{source}/resources/b")["resource"]["moved_from"] == "c of stack to"
