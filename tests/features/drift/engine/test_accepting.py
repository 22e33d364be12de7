"""Drift that is accepted: laws 1.6, 1.7 and acceptance 5."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from heatlite.core.errors import (
    InvalidStackState,
    PlanChanged,
    ResourceNotFound,
    StackLocked,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import LockLevel, Verb
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.drift.accepting import AcceptedDifference, Accepting, AcceptRequest
from heatlite.features.drift.errors import DriftNotAcceptable
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, param, resource, template
from tests.features.drift.engine.test_drift import EVERYTHING, change_all, final, told
from tests.features.drift.engine.test_reverting import drifted, nets, renamed
from tests.tables import few, sampled
from tests.types.conftest import Cloudy


def accepting(cloudy: Cloudy) -> Accepting:
    return Accepting(cloudy.components)


def plan(cloudy: Cloudy, stack: StackRecord, *names: str, **more: Any) -> ShownPlan:
    return accepting(cloudy).plan(MEMBER, cloudy.get(stack), AcceptRequest(names, **more))


def accept(cloudy: Cloudy, stack: StackRecord, *names: str, digest: str | None = None, **more: Any) -> StackRecord:
    """Accept what a plan shows, or that of `digest`."""
    asked = AcceptRequest(names, plan_digest=digest or plan(cloudy, stack, *names, **more).digest, **more)
    body = {"accept_drift": {"resources": [*names], "plan_digest": asked.plan_digest}}
    accepting(cloudy).start(MEMBER, cloudy.get(stack), asked, body)
    return cloudy.get(stack)


def calls(cloudy: Cloudy) -> list[str]:
    """Record the changing calls to the cloud from now on."""
    cloud: Any = cloudy.view().simulation
    made: list[str] = []
    answer = cloud._answer

    def counted(view: Any, verb: str, *rest: Any) -> Any:
        if verb.partition(".")[2].startswith(("create_", "update_", "delete_", "set_", "add_", "remove_")):
            made.append(verb)
        return answer(view, verb, *rest)

    cloud._answer = counted
    return made


def patches(shown: ShownPlan) -> Mapping[str, Any]:
    return shown.details or {}


@pytest.mark.slow
def test_everything_becomes_the_definition(cloudy: Cloudy) -> None:
    """Law 1.6."""
    stack = cloudy.made(EVERYTHING)
    change_all(cloudy, stack)
    stack = cloudy.check(stack)
    before, made, count = cloudy.ids(stack), calls(cloudy), len(told(cloudy, stack))
    stack = accept(cloudy, stack)
    assert (final(stack), cloudy.ids(stack), made) == ("UPDATE_COMPLETE", before, [])
    assert drifted(cloudy, stack, [*before]) == []
    assert len(told(cloudy, stack)) == count + len(before)
    assert cloudy.row(stack, "net").properties["name"] == "wan"
    written: Any = cloudy.components.definitions.of(stack).template.document["resources"]
    assert [one["port_range_min"] for one in written["sg"]["properties"]["rules"]] == [80, 443, 53]
    assert written["vm"]["properties"]["metadata"] == {"tier": "silver", "n": 1}
    stack = cloudy.check(stack)
    assert drifted(cloudy, stack, [*before]) == []
    stack = cloudy.patch(stack, converge=True)
    assert (cloudy.ids(stack), made) == (before, [])
    action = cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None


@pytest.mark.slow
def test_one_difference_of_two(cloudy: Cloudy) -> None:
    net = resource("OS::Neutron::Net", name="lan", tags=["a", "b"])
    stack = cloudy.made({"net": net})
    key = cloudy.row(stack, "net").physical_id
    cloudy.view().call("network.update_network", key, name="wan")
    cloudy.view().call("network.set_tags", "network", key, ["a", "c"])
    stack = cloudy.check(stack)
    chosen = (AcceptedDifference("net", "/tags"),)
    shown = plan(cloudy, stack, differences=chosen)
    assert patches(shown)["template_patch"] == [
        {"op": "replace", "path": "/resources/net/properties/tags", "value": ["a", "c"]}
    ]
    assert patches(shown)["accepted"] == [{"path": "net", "pointer": "/tags/1"}]
    stack = accept(cloudy, stack, differences=chosen)
    assert cloudy.row(stack, "net").properties == {"name": "lan", "tags": ["a", "c"]}
    assert drifted(cloudy, stack, ["net"]) == ["net"]
    with pytest.raises(InvalidStackState):
        plan(cloudy, stack, differences=chosen)


PARAMETERS = {
    "own": {"type": "string", "default": "lan"},
    "shared": {"type": "string", "default": "lan"},
    "hidden": {"type": "string", "default": "hunter2", "hidden": True},
}
OTHER = resource("OS::Neutron::Net", name=param("shared"))


@pytest.mark.parametrize(
    ("name", "fault"),
    few(
        [
            (param("own"), ""),
            ({"get_param": ["own"]}, ""),
            (param("shared"), "parameter shared of net, which 2 places read"),
            (param("hidden"), "net/name (a hidden value)"),
            ({"list_join": ["", [param("own")]]}, "the function list_join at /name"),
        ]
    ),
)
def test_origins(cloudy: Cloudy, name: Any, fault: str) -> None:
    """Acceptance 5."""
    net = resource("OS::Neutron::Net", name=name)
    stack = cloudy.create(template(parameters=PARAMETERS, net=net, other=OTHER))
    cloudy.view().call("network.update_network", cloudy.row(stack, "net").physical_id, name="swordfish")
    stack = cloudy.check(stack)
    if fault:
        with pytest.raises(DriftNotAcceptable) as refused:
            plan(cloudy, stack)
        assert fault in refused.value.message
        assert "swordfish" not in refused.value.message
        return
    shown = plan(cloudy, stack)
    assert patches(shown)["template_patch"] == []
    assert patches(shown)["parameters_patch"] == [{"op": "add", "path": "/own", "value": "swordfish"}]
    before = stack.template_id
    stack = accept(cloudy, stack)
    assert (stack.template_id, stack.environment["parameters"]) == (before, {"own": "swordfish"})
    assert cloudy.row(stack, "net").properties["name"] == "swordfish"


def text(default: str) -> JsonMap:
    return {"type": "string", "default": default}


ORIGINS: Mapping[str, tuple[JsonMap, JsonMap, Any]] = {
    "a list": ({"p": {"type": "comma_delimited_list", "default": "a,b"}}, {"tags": param("p")}, ["a", "c"]),
    "a list of JSON": ({"p": {"type": "json", "default": ["a", "b"]}}, {"tags": param("p")}, ["a", "c"]),
    "an item": ({"p": text("b")}, {"tags": ["a", param("p")]}, "c"),
    "a map": (
        {"p": {"type": "json", "default": {"role": "db", "o": 1}}}, {"metadata": param("p")}, {"role": "web", "o": 1},
    ),
    "a value of a map": ({"p": text("db")}, {"metadata": {"role": param("p"), "o": 1}}, "web"),
    "a part of a parameter": (
        {"p": {"type": "json", "default": {"role": "db", "x": "y"}}},
        {"metadata": {"role": {"get_param": ["p", "role"]}, "o": 1}},
        {"role": "web", "x": "y"},
    ),
}  # fmt: skip
"""Parameters, properties, and the value of the parameter after an acceptance."""


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("origin", sampled(ORIGINS, 3))
def test_parts_of_parameters(cloudy: Cloudy, origin: str, nested: bool) -> None:
    """Acceptance 5: a parameter gives a whole property, an item, or a part of it."""
    parameters, given, expected = ORIGINS[origin]
    kind, more = ("OS::Neutron::Net", {}) if "tags" in given else ("OS::Cinder::Volume", {"size": 1})
    document = template(parameters=parameters, it=resource(kind, **given, **more))
    outer = template(parameters=parameters, n={"type": "in.yaml", "properties": {"p": param("p")}})
    stack = cloudy.create(outer if nested else document, files={"in.yaml": json.dumps(document)} if nested else {})
    below = cloudy.store.stacks.descendants(stack)[0] if nested else stack
    row = cloudy.row(below, "it")
    if kind == "OS::Neutron::Net":
        cloudy.view().call("network.set_tags", "network", row.physical_id, ["c", "a"])
    else:
        cloudy.view().call("block_storage.set_volume_metadata", row.physical_id, role="web")
    stack = cloudy.check(stack)
    shown = patches(plan(cloudy, stack))
    assert (shown["template_patch"], shown.get("files", {})) == ([], {})
    stack, made = accept(cloudy, stack), calls(cloudy)
    accepted = cloudy.components.definitions.of(stack).parameters["p"]
    assert (sorted(accepted) if isinstance(accepted, list) else accepted) == expected
    assert not drifted(cloudy, cloudy.check(stack), ["it"]) if not nested else cloudy.check(stack)
    cloudy.patch(stack, converge=True)
    assert made == []


def test_a_plan_binds(cloudy: Cloudy) -> None:
    """Law 1.7."""
    stack = renamed(cloudy, cloudy.made(nets("a", "b")), "a")
    digest = plan(cloudy, stack).digest
    cloudy.view().call("network.update_network", cloudy.row(stack, "a").physical_id, name="again another")
    before = cloudy.get(stack)
    with pytest.raises(PlanChanged):
        accept(cloudy, stack, digest=digest)
    with pytest.raises(PlanChanged):
        accepting(cloudy).start(MEMBER, cloudy.get(stack), AcceptRequest(), {"accept_drift": {}})
    assert cloudy.get(stack) == before
    for name, error in (("b", InvalidStackState), ("c", ResourceNotFound), ("g/0", ResourceNotFound)):
        with pytest.raises(error):
            plan(cloudy, stack, name)
    cloudy.view().call("network.delete_network", cloudy.row(stack, "a").physical_id)
    with pytest.raises(InvalidStackState, match="it is gone"):
        plan(cloudy, stack)


def test_a_locked_stack(cloudy: Cloudy) -> None:
    stack = renamed(cloudy, cloudy.made(nets("a")), "a")
    digest = plan(cloudy, stack).digest
    stack = cloudy.lock(stack, LockLevel.STACKS)
    with pytest.raises(StackLocked):
        accept(cloudy, stack, digest=digest)
    assert [one.request for one in cloudy.store.suppressed.list(stack.id)] == ["accept_drift"]


@pytest.mark.slow
def test_what_reads_it_waits_for_the_next_update(cloudy: Cloudy) -> None:
    net = resource("OS::Neutron::Net", name="lan")
    reader = resource("OS::Neutron::Net", name={"get_attr": ["net", "name"]})
    stack = cloudy.made({"net": net, "reader": reader})
    cloudy.view().call("network.update_network", cloudy.row(stack, "net").physical_id, name="wan")
    stack = cloudy.check(stack)
    stack = accept(cloudy, stack, "net")
    assert json.dumps(cloudy.row(stack, "net").properties) == '{"name": "wan"}'
    stack = cloudy.patch(stack)
    assert cloudy.thing(stack, "reader")["name"] == "wan"


INNER, DATA = "file:///inner.yaml", "file:///data.yaml"
INNER_TEXT = """\
heat_template_version: 2021-04-16
parameters:
  name: {type: string, default: lan}
  both: {type: string, default: lan}
resources:
  net: {type: OS::Neutron::Net, properties: {name: {get_param: name}, tags: [a, b]}}   # the network
  one: {type: OS::Neutron::Net, properties: {name: {get_param: both}}}
  two: {type: OS::Neutron::Net, properties: {name: {get_param: both}}}
"""


def nested(cloudy: Cloudy, given: JsonMap, **parameters: Any) -> tuple[StackRecord, StackRecord]:
    """Return a stack with a template in a template, and the innermost stack."""
    data = template(parameters=parameters, kern={"type": INNER, "properties": given})
    files = {INNER: INNER_TEXT, DATA: json.dumps(data)}
    outer = {"type": DATA, "properties": dict.fromkeys(parameters, "wan")}
    stack = cloudy.made({"data": outer}, files=files)
    (inner,) = (one for one in cloudy.store.stacks.descendants(stack) if one.parent_resource == "kern")
    return stack, inner


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "file"),
    sampled([({}, DATA), ({"name": "given"}, DATA), ({"name": param("above")}, "")], 3),
)
def test_drift_of_a_nested_stack(cloudy: Cloudy, given: JsonMap, file: str) -> None:
    stack, inner = nested(cloudy, given, **({"above": {"type": "string"}} if not file else {}))
    key = cloudy.row(inner, "net").physical_id
    cloudy.view().call("network.update_network", key, name="größer")
    cloudy.view().call("network.set_tags", "network", key, ["a", "c"])
    stack, made = cloudy.check(stack), calls(cloudy)
    shown = patches(plan(cloudy, stack))
    assert shown["accepted"] == [{"path": "data/kern/net", "pointer": one} for one in ("/name", "/tags/1")]
    assert set(shown["files"]) == {one for one in (INNER, file) if one}
    assert [one["path"] for one in shown["template_patch"]] == ([] if file else ["/resources/data/properties/above"])
    stack = accept(cloudy, stack, "data")
    assert made == []
    assert cloudy.row(inner, "net").properties == {"name": "größer", "tags": ["a", "c"]}
    stored = cloudy.components.definitions.of(stack).template.files
    assert "# the network" in stored[INNER]
    assert cloudy.check(stack).status == "COMPLETE"
    with pytest.raises(InvalidStackState, match="Nothing of that is drifted"):
        plan(cloudy, stack)
    cloudy.patch(stack, converge=True)
    assert (made, cloudy.row(inner, "net").physical_id) == ([], key)
    assert cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0) == []


@pytest.mark.slow
def test_drift_without_an_origin_of_its_own(cloudy: Cloudy) -> None:
    """A parameter of two resources, a member of a group, a template of two resources."""
    stack, inner = nested(cloudy, {})
    cloudy.view().call("network.update_network", cloudy.row(inner, "one").physical_id, name="other")
    stack = cloudy.check(stack)
    with pytest.raises(DriftNotAcceptable, match=r"data/kern/one \(parameter both of one, which 2 places read\)"):
        plan(cloudy, stack)
    group = resource("OS::Heat::ResourceGroup", count=1, resource_def=resource("OS::Neutron::Net", name="lan"))
    lone = json.dumps(template(net=resource("OS::Neutron::Net", name="lan")))
    pair = {name: {"type": "file:///lone.yaml"} for name in ("left", "right")}
    stack = cloudy.made({"group": group, **pair}, "t", files={"file:///lone.yaml": lone})
    below = {one.parent_resource: one for one in cloudy.store.stacks.descendants(stack)}
    for name, member in (("group", "0"), ("left", "net")):
        cloudy.view().call("network.update_network", cloudy.row(below[name], member).physical_id, name="other")
    stack = cloudy.check(stack)
    with pytest.raises(DriftNotAcceptable, match=r"group/0 \(group is a group: .*; left/net \(left has the template"):
        plan(cloudy, stack)
