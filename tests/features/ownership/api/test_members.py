"""Joins and leaves of groups that are moves."""

from itertools import product
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.json import dump
from tests.api.conftest import Heat
from tests.api.test_commands import Here
from tests.databases import sqlite
from tests.engine.conftest import param, resource, template
from tests.tables import few, sampled

NET = "OS::Neutron::Net"
GROUPS = ("OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup")
MEMBER = resource(NET, name="lan")


def group(kind: str) -> Any:
    if kind == "OS::Heat::ResourceGroup":
        return resource(kind, count=1, resource_def=MEMBER)
    return resource(kind, min_size=0, max_size=3, desired_capacity=1, resource=MEMBER)


def plan(heat: Heat, path: str, body: Any, code: int = 200) -> Any:
    answer = heat.call("PATCH", f"{path}/preview?plan=true", body, code).json
    return answer["plan"] if code == 200 else answer["error"]["type"]


def quiet(heat: Heat, path: str) -> None:
    found = plan(heat, path, {})["resources"]
    assert [one["resource_name"] for one in found if one["action"] != "keep"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", few(GROUPS))
def test_a_resource_joins_and_leaves_with_its_row(clouded: Heat, kind: str) -> None:
    heat, name = clouded, kind.rpartition("::")[2]
    path = heat.create(template(web=group(kind), lone=MEMBER, other=resource(NET, name="other")), name)
    before = heat.get(f"{path}/resources/lone")["resource"]
    asked: Any = {"members": [{"resource": "lone"}]}
    shown = plan(heat, path, {"join": {**asked, "resource": "web"}})
    (entry,) = shown["resources"]
    assert (entry["action"], entry["cause"], entry["path"][0]) == ("move", "from lone", "web")
    heat.call("POST", f"{path}/resources/web/actions", {"join": asked}, 400)  # the digest is required
    body: Any = {"join": {**asked, "plan_digest": shown["digest"]}}
    answer = heat.call("POST", f"{path}/resources/web/actions", body, 202)
    action = heat.get(f"/actions/{answer.json['action']['id']}")["action"]
    member = entry["path"][1]
    assert (action["status"], action["outputs"]["moved"]) == ("SUCCEEDED", {"lone": f"web/{member}"})
    after = heat.get(f"{path}/resources/web/{member}")["resource"]
    assert (after["physical_resource_id"], after["creation_time"], after["moved_from"]) == (
        before["physical_resource_id"], before["creation_time"], "lone",
    )  # fmt: skip
    quiet(heat, path)
    shown = plan(heat, path, {"leave": {"members": [member], "into": name, "resource": "web"}})
    body = {"leave": {"members": [member], "into": name, "plan_digest": shown["digest"]}}
    heat.call("POST", f"{path}/resources/web/actions", body, 202)
    back = heat.get(f"{path}/resources/web_{member}")["resource"]
    assert back["physical_resource_id"] == before["physical_resource_id"]
    quiet(heat, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "is_stack", "number", "differs"),
    sampled(product(GROUPS, (False, True), (1, 2), (False, True)), 8),
)
def test_law_the_next_plan_is_what_was_listed(
    clouded: Heat, kind: str, is_stack: bool, number: int, differs: bool
) -> None:
    """Law 2.4 for resources that become members, and members that leave."""
    heat, name = clouded, f"law-{kind[10:13]}-{is_stack:d}{number}{differs:d}"
    named = template(parameters={"name": {"type": "string"}}, net=resource(NET, name=param("name")))
    files = {"file:///m.yaml": dump(named)} if is_stack else {}
    member, other = (resource("file:///m.yaml" if is_stack else NET, name=one) for one in ("lan", "other"))
    web: Any = resource(kind, count=1, resource_def=member)
    if kind != "OS::Heat::ResourceGroup":
        web = resource(kind, min_size=0, max_size=5, desired_capacity=1, resource=member)
    lone = {f"lone{at}": other if differs else member for at in range(number)}
    told = resource("OS::Heat::Value", value={"get_attr": ["web", "refs"]})
    path = heat.create(template(web=web, told=told, **lone), name, files=files)
    asked: Any = {"members": [{"resource": one} for one in lone], "changes": "list"}
    shown = plan(heat, path, {"join": {**asked, "resource": "web"}})
    came = [one["path"][1] for one in shown["resources"] if one["action"] == "move"]
    heat.call("POST", f"{path}/resources/web/actions", {"join": {**asked, "plan_digest": shown["digest"]}}, 202)
    assert left(heat, path) == shown["after"]
    assert [one["path"][0] for one in shown["after"] if one["path"][0] != "web"] == ["told"]
    heat.call("PATCH", path, {}, 202)
    heat.settle(path)
    quiet(heat, path)
    asked = {"members": came, "into": name}
    shown = plan(heat, path, {"leave": {**asked, "resource": "web"}})
    heat.call("POST", f"{path}/resources/web/actions", {"leave": {**asked, "plan_digest": shown["digest"]}}, 202)
    assert left(heat, path) == shown["after"]


def left(heat: Heat, path: str) -> list[Any]:
    """Return what the next update does."""
    return [one for one in plan(heat, path, {})["resources"] if one["action"] != "keep"]


def test_one_that_differs(clouded: Heat) -> None:
    heat = clouded
    path = heat.create(template(web=group("OS::Heat::ResourceGroup"), other=resource(NET, name="other")), "b")
    asked: Any = {"members": [{"resource": "other", "as": "1"}]}
    shown = plan(heat, path, {"join": {**asked, "resource": "web"}})
    assert [(one["path"], one["action"]) for one in shown["after"]][-1] == (["web", "1"], "update")
    body = {**asked, "plan_digest": shown["digest"]}
    kind, text = heat.fault("POST", f"{path}/resources/web/actions", {"join": body}, 409)
    assert (kind, "web/1" in text) == ("ImportDiffers", True)
    heat.call("POST", f"{path}/resources/web/actions", {"join": {**body, "changes": "list"}}, 202)


def test_bad_bodies(clouded: Heat) -> None:
    heat = clouded
    path = heat.create(template(web=group("OS::Heat::ResourceGroup"), lone=MEMBER, lane=MEMBER), "c")
    for members in (
        [{"resource": "lone", "id": "x"}], [{"resource": "lone"}, {"id": "x"}], [{"resource": ""}],
        [{"resource": "lone", "as": "1"}, {"resource": "lane", "as": "1"}], [{"resource": "lone", "as": "7"}],
        [{"resource": "lone"}, {"resource": "lone"}], [{"resource": "web/0"}],
    ):  # fmt: skip
        assert plan(heat, path, {"join": {"members": members, "resource": "web"}}, 400)
    assert plan(heat, path, {"join": {"members": [{"resource": "nobody"}], "resource": "web"}}, 404)
    assert plan(heat, path, {"leave": {"members": ["0"], "into": "c", "reduce": False, "resource": "web"}}, 400)
    assert plan(heat, path, {"leave": {"members": ["0"], "into": "nobody", "resource": "web"}}, 404)


def test_a_command_tells_what_the_next_update_does(clouded: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here = clouded, Here(clouded)
    heat.create(template(web=group("OS::Heat::ResourceGroup"), other=resource(NET, name="other")), "h")
    assert here("move h other web/1 --yes") == 0
    told = capsys.readouterr().out
    assert "> web/1 from other  (OS::Neutron::Net)\nThe next update then does:\n" in told
    assert "~ web/1  (OS::Neutron::Net)" in told


@pytest.mark.slow
def test_by_command(clouded: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here = clouded, Here(clouded)
    path = heat.create(template(web=group("OS::Heat::ResourceGroup"), lone=MEMBER), "d")
    assert here("group join d web 1=lone --resource --yes") == 0
    told = capsys.readouterr().out
    assert "> web/1  (OS::Neutron::Net)  from lone" in told and "Plan: 1 moving" in told
    assert heat.get(f"{path}/resources/web/1")["resource"]["moved_from"] == "lone"
    assert here("group leave d web 1 --into d --yes") == 0
    assert heat.get(f"{path}/resources/web_1")["resource"]["moved_from"] == "web/1"
    assert here("group join d web lone --resource --ids --yes") == 2


@pytest.mark.slow
def test_members_that_are_stacks(clouded: Heat) -> None:
    heat, here = clouded, Here(clouded)
    files = {"file:///member.yaml": dump(template(net=MEMBER))}
    member = {"type": "file:///member.yaml"}
    web = resource("OS::Heat::ResourceGroup", count=2, resource_def=member)
    path = heat.create(template(web=web), "f", files=files)
    target = heat.create(template(), "taker")
    inner = heat.get(f"{path}/resources/web/1/net")["resource"]["physical_resource_id"]
    assert plan(heat, path, {"leave": {"members": ["1"], "resource": "web"}}, 409) == "NestedMember"
    assert here("group leave f web 1 --into taker --yes") == 0
    found = heat.get(f"{target}/resources/web_1/net")["resource"]
    assert found["physical_resource_id"] == inner
    for one in (path, target):
        quiet(heat, one)


def test_without_moves(tmp_path: Any) -> None:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), cloud="simulated", features=("simulator",)))
    heat = Heat(server.app)
    path = heat.create(template(web=group("OS::Heat::ResourceGroup"), lone=MEMBER), "e")
    for key, body in (("join", {"members": [{"resource": "lone"}]}), ("leave", {"members": ["0"], "into": "e"})):
        kind, text = heat.fault("PATCH", f"{path}/preview?plan=true", {key: {**body, "resource": "web"}})
        assert (kind, "moves no resources" in text) == ("HTTPBadRequest", True)
    server.close()
