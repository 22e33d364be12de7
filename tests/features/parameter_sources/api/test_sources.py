"""Values of other stacks by request."""

import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.conftest import Heat, Town, template, value
from tests.ways_out import is_complete

SECRET = "tr0ub4dor-and-3"


def owner(*, hidden: bool = False, **outputs: object) -> dict[str, object]:
    """A template whose outputs have the values of parameters of their names."""
    parameters = {name: {"type": "string", "default": of, "hidden": hidden} for name, of in outputs.items()}
    return {
        **template(one=value()),
        "parameters": parameters,
        "outputs": {name: {"value": {"get_param": name}} for name in outputs},
    }


def reader(*names: str, hidden: bool = False, outputs: bool = True) -> dict[str, object]:
    """A template with parameters, a resource for each, and outputs with their values."""
    resources = {f"of_{name}": value({"get_param": name}) for name in names}
    return {
        **template(**resources),
        "parameters": {name: {"type": "string", "hidden": hidden} for name in names},
        "outputs": {name: {"value": {"get_param": name}} for name in names} if outputs else {},
    }


def source(stack: str, output: str = "net") -> dict[str, str]:
    return {"stack": stack, "output": output}


def read(heat: Heat, name: str = "reader", **sources: object) -> str:
    return heat.create(reader(*sources), name, parameter_sources=sources)


def put(heat: Heat, path: str, body: object, method: str = "PUT") -> None:
    heat.call(method, path, body, 202)
    heat.settle(path, "UPDATE_COMPLETE")


def patch(heat: Heat, path: str, **body: object) -> None:
    put(heat, path, body, "PATCH")


def parameters(heat: Heat, path: str) -> Mapping[str, str]:
    found: dict[str, str] = heat.get(path)["stack"]["parameters"]
    return {name: of for name, of in found.items() if not name.startswith("OS::")}


def sources(heat: Heat, path: str) -> list[tuple[str, str, str, str]]:
    found = heat.get(f"{path}/sources")["sources"]
    return [(one["parameter"], one["stack_name"], one["output"], one["state"]) for one in found]


def readers(heat: Heat, path: str) -> list[tuple[str, str, str]]:
    found = heat.get(f"{path}/readers")["readers"]
    return [(one["stack_name"], one["parameter"], one["output"]) for one in found]


def plan(heat: Heat, path: str, body: object, method: str = "PATCH") -> Any:
    return heat.call(method, f"{path}/preview?plan=true", body, 200).json["plan"]


def test_value_read_and_refreshed(heat: Heat) -> None:
    """E1, E2, E3: the value is a copy, which a PATCH reads again only if it says so."""
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    assert parameters(heat, path) == {"net_id": "a"}
    assert sources(heat, path) == [("net_id", "base", "net", "current")]
    assert readers(heat, base) == [("reader", "net_id", "net")]
    patch(heat, base, parameters={"net": "b"})
    assert parameters(heat, path) == {"net_id": "a"}
    assert sources(heat, path) == [("net_id", "base", "net", "behind")]
    patch(heat, path, tags="x")
    patch(heat, path, parameter_sources={"net_id": source("base")})
    assert parameters(heat, path) == {"net_id": "a"}
    found = plan(heat, path, {"refresh": True})
    base_id = base.rpartition("/")[2]
    assert found["sources"] == [
        {"parameter": "net_id", "stack_name": "base", "stack_id": base_id, "output": "net", "old": "a", "new": "b"}
    ]
    assert [one["action"] for one in found["resources"]] == ["update"]
    patch(heat, path, refresh=["net_id"], plan_digest=found["digest"])
    assert parameters(heat, path) == {"net_id": "b"}
    assert sources(heat, path) == [("net_id", "base", "net", "current")]
    assert "sources" not in plan(heat, path, {"refresh": True})


def test_put_reads_again(heat: Heat) -> None:
    """E2, by an environment."""
    base = heat.create(owner(net="a"), "base")
    environment = {"parameter_sources": {"net_id": source("base")}}
    path = heat.create(reader("net_id"), "reader", environment=environment)
    patch(heat, base, parameters={"net": "b"})
    put(heat, path, {"template": reader("net_id"), "environment": environment})
    assert parameters(heat, path) == {"net_id": "b"}
    assert heat.get(f"{path}/environment")["parameters"] == {"net_id": "b"}
    files = {"one.yaml": "parameter_sources: {net_id: {stack: base, output: none}}",
             "two.yaml": "parameter_sources: {net_id: {stack: base, output: net}}"}
    patch(heat, base, parameters={"net": "c"})
    body = {"template": reader("net_id"), "files": files, "environment_files": ["one.yaml", "two.yaml"]}
    put(heat, path, body)
    assert parameters(heat, path) == {"net_id": "c"}
    put(heat, path, {"template": reader("net_id"), "parameters": {"net_id": "c"}})
    assert sources(heat, path) == []
    assert readers(heat, base) == []


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"parameter_sources": {"net_id": source("no")}}, "there is no stack no"),
        ({"parameter_sources": {"net_id": source("base", "no")}}, "has no output no. There are: net, null, wrong."),
        ({"parameter_sources": {"net_id": source("base", "null")}}, "has no value"),
        ({"parameter_sources": {"net_id": source("base", "wrong")}}, "Output wrong of stack base has an error"),
        ({"parameter_sources": {"other": source("base")}}, "the template has no parameter other"),
        ({"parameter_sources": {"net_id": {**source("base"), "outputs": "x"}}}, "parameter_sources.net_id"),
        ({"parameter_sources": {"net_id": {"stack": "base"}}}, "parameter_sources.net_id"),
        ({"parameter_sources": {"net_id": source("base")}, "parameters": {"net_id": "x"}}, "also has a value"),
        ({"parameter_sources": {"net_id": source("base")}, "environment": {"parameters": {"net_id": "x"}}}, "also has"),
        ({"environment": {"parameter_sources": {"net_id": source("base")}}, "parameters": {"net_id": "x"}}, "also has"),
        ({"environment": {"parameter_sources": {"net_id": {"stack": 1, "output": "net"}}}}, "environment.parameter_so"),
        ({"environment": {"parameter_source": {}}}, 'wrong section "parameter_source"'),
        ({"parameter_sources": {"net_id": source("base")}, "targets": ["x"]}, "unknown key targets: "),
        ({"refresh": True, "parameter": {}}, "unknown key parameter: "),
        ({"refresh": True, "parameters": {"net_id": "x"}}, "refresh is valid in a PATCH only"),
        ({"refresh": "net_id", "parameters": {"net_id": "x"}}, "refresh"),
    ],
)  # fmt: skip
def test_refused(heat: Heat, body: Mapping[str, object], text: str) -> None:
    """E4 and Z2: nothing is made."""
    base = {
        **owner(net="a"),
        "resources": {"one": value()},
        "outputs": {
            "net": {"value": "a"},
            "null": {"value": None},
            "wrong": {"value": {"map_merge": [{"get_attr": ["one", "value"]}]}},
        },
    }
    heat.create(base, "base")
    whole = {"stack_name": "reader", "template": reader("net_id"), **body}
    for path in ("/stacks", "/stacks/preview"):
        assert text in heat.fault("POST", path, whole)[1]
    assert [one["stack_name"] for one in heat.get("/stacks")["stacks"]] == ["base"]


def test_foreign_project(heat: Heat) -> None:
    """E4: without a grant a stack of another project is not there."""
    heat.other.create(owner(net="a"), "base")
    for given, code in (({"project": heat.other.project}, 404), ({}, 400)):
        body = {"stack_name": "reader", "template": reader("net_id"),
                "parameter_sources": {"net_id": {**source("base"), **given}}}
        heat.fault("POST", "/stacks", body, code)
    heat.create(owner(net="a"), "base")
    read(heat, net_id={**source("base"), "project": heat.project})


def grant(heat: Heat, path: str, *grants: tuple[str, str]) -> None:
    """Let projects read outputs, by patterns."""
    told = [{"project": project, "outputs": [pattern]} for project, pattern in grants]
    policy = {"change_policy": "2026-11-28", "reads": "refuse", "grants": told}
    heat.call("PUT", f"{path}/change_policy", policy, 200)


def test_grants(heat: Heat) -> None:
    """Acceptance 7: by pattern, and withdrawn, when the kept value stays."""
    other = heat.other
    base = other.create(owner(net_a="a", net_b="b", key="k"), "base")
    from_other = {"project": other.project, "stack": "base"}
    body = {"stack_name": "reader", "template": reader("x"),
            "parameter_sources": {"x": {**from_other, "output": "key"}}}
    heat.fault("POST", "/stacks", body, 404)
    grant(other, base, ("somebody", "*"), (heat.project, "net_*"))
    found = heat.fault("POST", "/stacks", body, 404)
    missing = {**body, "parameter_sources": {"x": {**from_other, "stack": "none", "output": "key"}}}
    assert heat.fault("POST", "/stacks", missing, 404)[0] == found[0]
    path = read(heat, x={**from_other, "output": "net_a"})
    assert parameters(heat, path) == {"x": "a"}
    assert sources(heat, path) == [("x", "base", "net_a", "current")]
    assert other.get(f"{base}/readers")["readers"][0]["project"] == heat.project
    patch(other, base, parameters={"net_a": "a2"})
    assert sources(heat, path) == [("x", "base", "net_a", "behind")]
    patch(heat, path, parameter_sources={"x": {**from_other, "output": "net_a"}})
    assert parameters(heat, path) == {"x": "a"}
    patch(heat, path, refresh=True)
    assert parameters(heat, path) == {"x": "a2"}
    grant(other, base, ("somebody", "*"))
    patch(heat, path, tags="x")
    assert parameters(heat, path) == {"x": "a2"}
    assert sources(heat, path) == [("x", "base", "net_a", "gone")]
    assert "no longer lets this project read" in heat.fault("PATCH", path, {"refresh": True})[1]
    assert ["which is gone" in one["text"] for one in _behind(heat, path)] == [True]
    patch(other, base, template=owner(other="o"))


def test_a_stack_of_this_name_in_both_projects(heat: Heat) -> None:
    """The project counts: a source of the other one is another source."""
    foreign = heat.other.create(owner(net="theirs"), "base")
    heat.create(owner(net="ours"), "base")
    grant(heat.other, foreign, (heat.project, "net"))
    path = read(heat, net_id=source("base"))
    patch(heat, path, parameter_sources={"net_id": {**source("base"), "project": heat.other.project}})
    assert parameters(heat, path) == {"net_id": "theirs"}
    patch(heat, path, parameter_sources={"net_id": source("base")})
    assert parameters(heat, path) == {"net_id": "ours"}


def test_removal_of_what_other_projects_read(heat: Heat) -> None:
    """E7: they are counted, without their names. `force` passes."""
    base = heat.create(owner(net="a"), "base")
    heat.call("PATCH", base, {"template": owner(net="a", more="m")}, 202)
    heat.settle(base, "UPDATE_COMPLETE")
    grant(heat, base, (heat.other.project, "*"))
    theirs = {**source("base", "more"), "project": heat.project}
    heat.other.create(reader("x"), "theirs", parameter_sources={"x": theirs})
    error = heat.call("PATCH", base, {"template": owner(net="a")}, 409).json["error"]
    assert (error["type"], error["readers"], error["others"], error["holder"]["id"]) == ("OutputInUse", [], 1, None)
    assert "theirs" not in error["message"] and "1 of other projects" in error["message"]
    assert ["force=true" in one["text"] for one in error["way_out"]] == [True]
    read(heat, net_id=source("base", "more"))
    error = heat.call("POST", f"{base}/actions", {"undo": {}}, 409).json["error"]
    assert _readers_of(error) == [("reader", "net_id", "more", "removed")] and error["others"] == 1
    assert len(_readers_of(plan(heat, base, {"template": owner(net="a")}))) == 2
    heat.fault("PATCH", f"{base}?force=maybe", {"template": owner(net="a")})
    heat.call("PATCH", f"{base}?force=false", {"template": owner(net="a")}, 409)
    heat.call("POST", f"{base}/actions?force=true", {"undo": {}}, 200)
    heat.settle(base, "UPDATE_COMPLETE")
    heat.call("PUT", f"{base}?force=true", {"template": owner(other="o")}, 202)


def test_cycle_over_projects(heat: Heat) -> None:
    """E5: the path names no stack of another project."""
    first = heat.create(reader("x"), "first", parameters={"x": "1"})
    grant(heat, first, (heat.other.project, "*"))
    second = heat.other.create(
        reader("x"), "second", parameter_sources={"x": {**source("first", "x"), "project": heat.project}}
    )
    grant(heat.other, second, (heat.project, "*"))
    body = {"parameter_sources": {"x": {**source("second", "x"), "project": heat.other.project}}}
    kind, text = heat.fault("PATCH", first, body)
    assert kind == "CircularDependencyException"
    assert text.endswith("first → a stack of another project → first")


def test_who_may_grant(town: Town) -> None:
    """A grant gives values away, so it loosens a policy. A member may take it back."""
    path = town["member"].create(owner(net="a"), "base")
    member, admin = town["member"], town["admin"]
    policy = {"change_policy": "2026-11-28", "grants": [{"project": "p2", "outputs": ["net", "x*"]}]}
    assert "grants" in member.fault("PUT", f"{path}/change_policy", policy, 403)[1]
    admin.call("PUT", f"{path}/change_policy", policy, 200)
    found = member.get(f"{path}/change_policy")["effective"]["grants"]
    assert found == {"value": policy["grants"], "from": "stack"}
    less = {**policy, "grants": [{"project": "p2", "outputs": ["net"]}]}
    member.call("PUT", f"{path}/change_policy", less, 200)
    member.call("PUT", f"{path}/change_policy", policy, 403)
    assert "unknown key grants" in admin.fault("PUT", "/change_policy", policy)[1]
    member.call("DELETE", f"{path}/change_policy", code=204)


def test_cycle_of_three(heat: Heat) -> None:
    """E5."""
    first = heat.create(reader("x"), "first", parameters={"x": "1"})
    read(heat, "second", x=source("first", "x"))
    read(heat, "third", x=source("second", "x"))
    body = {"parameter_sources": {"x": source("third", "x")}}
    kind, text = heat.fault("PATCH", first, body)
    assert (kind, text) == (
        "CircularDependencyException", "Circular Dependency Found: first → third → second → first"
    )
    kind, _ = heat.fault("PATCH", first, {"parameter_sources": {"x": source("first", "x")}})
    assert kind == "CircularDependencyException"
    patch(heat, "/stacks/second/" + _id(heat, "second"), parameters={"x": "own"})
    patch(heat, first, **body)


def _id(heat: Heat, name: str) -> str:
    return next(str(one["id"]) for one in heat.get("/stacks")["stacks"] if one["stack_name"] == name)


def test_hidden_value(heat: Heat) -> None:
    """E4: a hidden value needs a hidden parameter, and is masked in each answer."""
    heat.create(owner(hidden=True, net=SECRET), "base")
    body = {"stack_name": "reader", "template": reader("net_id"), "parameter_sources": {"net_id": source("base")}}
    _, text = heat.fault("POST", "/stacks", body)
    assert "Make parameter net_id hidden" in text
    assert SECRET not in text
    hidden = reader("net_id", hidden=True, outputs=False)
    path = heat.create(hidden, "reader", parameter_sources=body["parameter_sources"])
    base = f"/stacks/base/{_id(heat, 'base')}"
    patch(heat, base, parameters={"net": f"{SECRET}-new"})
    found = plan(heat, path, {"refresh": True})
    assert [(one["old"], one["new"]) for one in found["sources"]] == [("******", "******")]
    patch(heat, path, refresh=True)
    for place in ("", "/environment", "/sources", "/events", "/resources/of_net_id", "/revisions/2"):
        assert SECRET not in heat.call("GET", f"{path}{place}", code=200).text
    assert SECRET not in heat.call("GET", "/actions", code=200).text
    assert SECRET not in heat.call("GET", f"{base}/readers", code=200).text


def test_made_of_a_hidden_value(heat: Heat) -> None:
    """A text with a hidden value, and one that only depends on it."""
    base: dict[str, Any] = owner(hidden=True, net=SECRET)
    base["outputs"]["url"] = {"value": {"str_replace": {"template": "x://P@", "params": {"P": {"get_param": "net"}}}}}
    base["outputs"]["digest"] = {"value": {"str_split": ["r", {"get_param": "net"}, 0]}}
    base["outputs"]["plain"] = {"value": "a"}
    heat.create(base, "base")
    for output, code in (("url", 400), ("digest", 400), ("plain", 200)):
        body = {"stack_name": "reader", "template": reader("net_id"),
                "parameter_sources": {"net_id": source("base", output)}}
        heat.call("POST", "/stacks/preview", body, code)


def test_same_name_made_again(heat: Heat) -> None:
    """E8 and E9: a new stack of the name is not the owner.

    The reader's PATCH passes, and it keeps the value.
    """
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    heat.call("DELETE", base, code=204)
    heat.settle(base, "DELETE_COMPLETE")
    heat.create(owner(net="new"), "base")
    assert sources(heat, path) == [("net_id", "base", "net", "gone")]
    patch(heat, path, tags="x")
    patch(heat, path, parameter_sources={"net_id": source("base")})
    assert parameters(heat, path) == {"net_id": "a"}
    assert "is gone" in heat.fault("PATCH", path, {"refresh": True})[1]
    assert heat.get(f"{path}/export")["environment"]["parameters"] == {"net_id": "a"}
    patch(heat, path, parameter_sources={"net_id": source("base")}, refresh=["net_id"])
    assert parameters(heat, path) == {"net_id": "new"}
    assert sources(heat, path) == [("net_id", "base", "net", "current")]


def test_undo_brings_back_the_reading(heat: Heat) -> None:
    """E9: a revision keeps the kept value; the undo knows what it came from."""
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    patch(heat, base, parameters={"net": "b"})
    patch(heat, path, refresh=True)
    heat.call("POST", f"{path}/actions", {"undo": {}}, 200)
    heat.settle(path, "UPDATE_COMPLETE")
    assert parameters(heat, path) == {"net_id": "a"}
    assert sources(heat, path) == [("net_id", "base", "net", "behind")]


def test_owner_under_lock_and_action(heat: Heat) -> None:
    """E6: the value is that of the owner's last operation."""
    base = heat.create(owner(net="a"), "base")
    heat.call("POST", f"{base}/actions", {"lock": {"reason": "tests"}}, 200)
    heat.settle(base)
    read(heat, net_id=source("base"))


def test_nested_stacks_are_named_by_their_roots(heat: Heat) -> None:
    """Z6."""
    inner = {"heat_template_version": "2021-04-16", "outputs": {"net": {"value": "a"}}}
    whole = template(inside={"type": "inner.yaml"})
    path = heat.create(whole, "whole", files={"inner.yaml": str(inner)})
    nested = heat.get(f"{path}/resources/inside")["resource"]["physical_resource_id"]
    body = {"stack_name": "reader", "template": reader("x"), "parameter_sources": {"x": source(nested)}}
    text = heat.fault("POST", "/stacks", body)[1]
    assert text.endswith("by its root, whole.")
    name = text.split()[1]
    for place in ("sources", "readers"):
        assert heat.fault("GET", f"/stacks/{name}/{nested}/{place}")[1] == text


def test_refresh_names_what_was_read(heat: Heat) -> None:
    heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    text = heat.fault("PATCH", path, {"refresh": ["nets"]})[1]
    assert text == "refresh: nets has no value from another stack. There are: net_id."


def test_validation_takes_the_section(heat: Heat) -> None:
    """A parameter with a source is not missing."""
    body = {
        "template": reader("net_id", "other"),
        "environment": {"parameter_sources": {"net_id": source("base")}},
    }
    heat.call("POST", "/validate", body, 200)
    found = heat.call("POST", "/validate?all_errors=true", body, 200).json["problems"]
    assert ["other" in one["message"] for one in found] == [True], found


def _readers_of(found: Any) -> list[tuple[str, str, str, str]]:
    listed = found.get("readers", [])
    return [(one["stack_name"], one["parameter"], one["output"], one["effect"]) for one in listed]


def test_plan_lists_readers(heat: Heat) -> None:
    """E7: what an update, an undo or a deletion removes or changes; `warn` passes."""
    base = heat.create(owner(net="a", other="o"), "base")
    path = read(heat, net_id=source("base"))
    assert "readers" not in plan(heat, base, {"parameters": {"other": "x"}})
    found = plan(heat, base, {"parameters": {"net": "b"}})
    assert _readers_of(found) == [("reader", "net_id", "net", "changed")]
    patch(heat, base, template=owner(other="o"))
    undone = heat.call("PATCH", f"{base}/preview?plan=true", {"undo": {}}, 200).json["plan"]
    assert "readers" not in undone
    assert _readers_of(plan(heat, base, {"template": owner(net="a")})) == []
    assert sources(heat, path) == [("net_id", "base", "net", "behind")]
    heat.call("POST", f"{base}/actions", {"undo": {}}, 200)
    heat.settle(base, "UPDATE_COMPLETE")
    found = plan(heat, base, {"template": owner(other="o")})
    assert _readers_of(found) == [("reader", "net_id", "net", "removed")]
    undone = heat.call("PATCH", f"{base}/preview?plan=true", {"undo": {"to": 2}}, 200).json["plan"]
    assert _readers_of(undone) == [("reader", "net_id", "net", "removed")]
    heat.call("DELETE", base, code=204)
    heat.settle(base, "DELETE_COMPLETE")
    assert sources(heat, path) == [("net_id", "base", "net", "gone")]


def test_unknown_value_may_change(heat: Heat) -> None:
    """E7: a value that only the action can know."""
    base: dict[str, Any] = template(made={"type": "OS::Heat::RandomString", "properties": {"length": 8}})
    base["outputs"] = {"net": {"value": {"get_attr": ["made", "value"]}}}
    path = heat.create(base, "base")
    heat.create(reader("net_id", hidden=True), "reader", parameter_sources={"net_id": source("base")})
    assert "readers" not in plan(heat, path, {"tags": "x"})
    base["resources"]["made"]["properties"]["length"] = 9
    assert _readers_of(plan(heat, path, {"template": base})) == [("reader", "net_id", "net", "changed")]


def test_removal_refused(heat: Heat) -> None:
    """E7 under `refuse`: update, undo, deletion; `force` passes, and so does a change."""
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    policy = {"change_policy": "2026-11-28", "reads": "refuse"}
    heat.call("PUT", f"{base}/change_policy", policy, 200)
    patch(heat, base, parameters={"net": "b"})
    for method, place, body in (
        ("PATCH", base, {"template": owner(x="y")}),
        ("PUT", base, {"template": owner(x="y")}),
        ("DELETE", base, None),
    ):
        answer = heat.call(method, place, body, 409).json["error"]
        assert answer["type"] == "OutputInUse"
        assert _readers_of(answer) == [("reader", "net_id", "net", "removed")]
        assert (answer["others"], answer["holder"]["id"]) == (0, path.rpartition("/")[2])
        assert "reader (net_id = net)" in answer["message"]
    assert heat.get(base)["stack"]["stack_status"] == "UPDATE_COMPLETE"
    assert readers(heat, base) == [("reader", "net_id", "net")]
    heat.call("DELETE", f"{base}?force=true", code=204)
    heat.settle(base, "DELETE_COMPLETE")
    assert parameters(heat, path) == {"net_id": "a"}


def test_removal_by_a_move(heat: Heat) -> None:
    """E7: the definitions of a move may lack outputs.

    A move that keeps them changes none.
    """
    kept: dict[str, Any] = {**owner(net="a", other="o"), **template(one=value(), two=value())}
    kept["outputs"]["told"] = {"value": {"get_attr": ["one", "value"]}}
    base = heat.create(kept, "base")
    read(heat, net_id=source("base"), told=source("base", "told"))
    heat.call("PUT", f"{base}/change_policy", {"change_policy": "2026-11-28", "reads": "refuse"}, 200)
    moved: dict[str, Any] = {"moved": [{"from": "one", "to": "three"}]}
    assert "readers" not in plan(heat, base, {"move": moved})
    left = {**kept, "resources": {"three": value(), "two": value()}, "outputs": {"other": kept["outputs"]["other"]}}
    moved["template"] = left
    found = plan(heat, base, {"move": moved})
    assert [one[2:] for one in _readers_of(found)] == [("net", "removed"), ("told", "removed")]
    moved["plan_digest"] = found["digest"]
    error = heat.call("POST", f"{base}/actions", {"move": moved}, 409).json["error"]
    assert (error["type"], _readers_of(error)) == ("OutputInUse", _readers_of(found))
    heat.call("POST", f"{base}/actions?force=true", {"move": moved}, 200)
    assert [*heat.get(f"{base}/template")["outputs"]] == ["other"]


def test_removal_passes_once_nobody_reads(heat: Heat) -> None:
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    heat.call("PUT", "/change_policy", {"change_policy": "2026-11-28", "reads": "refuse"}, 200)
    heat.call("DELETE", base, code=409)
    patch(heat, path, parameters={"net_id": "a"})
    patch(heat, base, template=owner(x="y"))
    heat.call("DELETE", base, code=204)
    heat.settle(base, "DELETE_COMPLETE")


def _behind(heat: Heat, path: str) -> list[Any]:
    return [one for one in heat.get(f"{path}/why")["facts"] if one["code"] == "behind"]


def test_reason_of_what_is_behind(heat: Heat) -> None:
    """Law G with E: the fact, and the way out that is sent."""
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    assert _behind(heat, path) == []
    patch(heat, base, parameters={"net": "b"})
    (fact,) = _behind(heat, path)
    assert fact["text"].startswith("net_id is behind: output net of stack base")
    look, way = fact["way_out"]
    assert way["command"] == "heatlite refresh reader net_id" and way["after"] == 0
    assert heat.call(look["method"], look["path"], look["body"], code=200).json["plan"]
    heat.call(way["method"], way["path"], way["body"], code=202)
    heat.settle(path)
    assert _behind(heat, path) == []
    heat.call("DELETE", base, code=204)
    heat.settle(base, "DELETE_COMPLETE")
    (fact,) = _behind(heat, path)
    assert "which is gone" in fact["text"]
    assert heat.get(f"{path}/why")["waits"] is False


def test_reason_asks_no_cloud(heat: Heat) -> None:
    """Law G6: references are stored, attributes count as current."""
    base: dict[str, Any] = template(one=value("a"), two=value("b"))
    base["outputs"] = {"id": {"value": {"get_resource": "one"}}, "of": {"value": {"get_attr": ["one", "value"]}}}
    owned = heat.create(base, "base")
    path = read(heat, x=source("base", "id"), y=source("base", "of"))
    base["outputs"]["id"]["value"]["get_resource"] = "two"
    base["resources"]["one"] = value("c")
    patch(heat, owned, template=base)
    assert {state for *_, state in sources(heat, path)} == {"behind"}
    assert [one["text"].split()[0] for one in _behind(heat, path)] == ["x"]


def test_undo_that_would_close_a_cycle(heat: Heat) -> None:
    """E5: the undo would bring back a source that reads of its reader by now."""
    first = heat.create(reader("x"), "first", parameters={"x": "1"})
    heat.create(reader("x"), "third", parameters={"x": "3"})
    second = read(heat, "second", x=source("first", "x"))
    patch(heat, second, parameter_sources={"x": source("third", "x")})
    patch(heat, first, parameter_sources={"x": source("second", "x")})
    kind, text = heat.fault("POST", f"{second}/actions", {"undo": {}})
    assert (kind, text) == ("CircularDependencyException", "Circular Dependency Found: second → first → second")
    assert parameters(heat, second) == {"x": "3"}


def test_a_kept_value_stays_hidden(heat: Heat) -> None:
    """E4: the parameter may not cease to be hidden while it has the value."""
    secret = {"type": "string", "hidden": True}
    owner = template(a=value())
    owner |= {"parameters": {"p": secret}, "outputs": {"o": {"value": {"get_param": "p"}}}}
    heat.create(owner, "keeper", parameters={"p": "key-of-keeper"})
    reader = {**template(a=value()), "parameters": {"v": secret}}
    path = heat.create(reader, "bare", parameter_sources={"v": {"stack": "keeper", "output": "o"}})
    bare = {**reader, "parameters": {"v": {"type": "string", "default": "d"}}}
    assert "keeps a hidden value of stack keeper" in heat.fault("PATCH", path, {"template": bare}, code=400)[1]
    heat.call("PATCH", path, {"template": bare, "parameters": {"v": "own"}}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")


@pytest.mark.parametrize("name", ["p", "-p", "--force", "it's $(id)"])
def test_ways_out_name_parameters_as_one_word(heat: Heat, name: str) -> None:
    base = heat.create(owner(net="a"), "base")
    path = read(heat, **{name: source("base")})
    heat.call("PUT", "/change_policy", {"change_policy": "2026-11-28", "reads": "refuse"}, 200)
    way, *_ = heat.call("DELETE", base, code=409).json["error"]["way_out"]
    heat.call("DELETE", f"{base}?force=true", code=204)
    heat.settle(base, "DELETE_COMPLETE")
    (fact,) = heat.get(f"{path}/why")["facts"]
    for one in (way, *fact["way_out"]):
        assert is_complete(one["command"])
        assert shlex.split(one["command"])[-1] == f"--parameter={name}=VALUE"
