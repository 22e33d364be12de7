"""Differences that the definition ignores (acceptance 6)."""

import json
import re
from typing import Any

import pytest

from heatlite.core.errors import HTTPBadRequest, StackValidationFailed
from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import StackRequest
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore
from heatlite.store.records import StackRecord
from tests.engine.conftest import ADMIN, Engine, resource, template, thing
from tests.features.drift.engine.test_drift import drift, told
from tests.features.drift.engine.test_reverting import revert
from tests.tables import few
from tests.types.conftest import Cloudy

IGNORED: JsonMap = {"update_policy": {"ignore_drift": ["/value"]}}


def drifting(**more: Any) -> Any:
    return {**thing("v", live_value="w"), **more}


def state_of(engine: Engine, stack: StackRecord, name: str) -> tuple[DriftState, int, int]:
    record = drift(engine, stack, name)
    assert record is not None
    return record.state, record.number, record.ignored


@pytest.mark.parametrize("entries", few([["/value"], ["*"], ["/client_name", "/value"]]))
def test_in_the_template(engine: Engine, entries: list[str]) -> None:
    stack = engine.create(template(a=drifting(update_policy={"ignore_drift": entries}), b=drifting()))
    stack = engine.check(stack)
    assert state_of(engine, stack, "a") == (DriftState.IN_SYNC, 0, 1)
    assert state_of(engine, stack, "b") == (DriftState.DRIFTED, 1, 0)
    assert "Not as stored: b " in stack.status_reason
    assert told(engine, stack) == ["b DRIFT_DETECTED /value"]
    stack = engine.patch(stack, converge=True)
    assert engine.row(stack, "a").data["live"] == "w"
    assert "live" not in engine.row(stack, "b").data


@pytest.mark.slow
def test_in_the_environment(engine: Engine) -> None:
    """By name, by pattern; the template wins."""
    for blocks, ignored in (
        ({"a": {"ignore_drift": ["/value"]}}, True),
        ({"*": {"ignore_drift": ["*"]}}, True),
        ({"b": {"ignore_drift": ["/value"]}}, False),
        ({"*": {"ignore_drift": ["/value"]}, "a": {"ignore_drift": []}}, False),
    ):
        environment = {"resource_registry": {"resources": blocks}}
        stack = engine.create(template(a=drifting(), b=thing()), environment=environment)
        stack = engine.check(stack)
        assert state_of(engine, stack, "a")[1:] == ((0, 1) if ignored else (1, 0)), blocks
        engine.delete(stack)
    wins = drifting(update_policy={"ignore_drift": ["/client_name"]})
    environment = {"resource_registry": {"resources": {"a": {"ignore_drift": ["/value"]}}}}
    stack = engine.check(engine.create(template(a=wins), environment=environment))
    assert state_of(engine, stack, "a")[1:] == (1, 0)


@pytest.mark.parametrize(
    "block", few([{"n": {"x": {"ignore_drift": ["/value"]}}}, {"n": {"ignore_drift": ["/value"]}}])
)
def test_in_a_nested_stack(engine: Engine, block: JsonMap) -> None:
    child = json.dumps(template(x=drifting(), y=drifting(**IGNORED)))  # one by each way
    environment = {"resource_registry": {"resources": block}}
    stack = engine.create(template(n={"type": "child.yaml"}), files={"child.yaml": child}, environment=environment)
    stack = engine.check(stack)
    assert "Not as stored" not in stack.status_reason
    assert told(engine, stack) == []


@pytest.mark.slow
def test_in_a_group(engine: Engine) -> None:
    """The environment names the group; it is meant for the members."""
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": drifting()}}
    environment = {"resource_registry": {"resources": {"g": {"ignore_drift": ["/value"]}}}}
    stack = engine.check(engine.create(template(g=group), environment=environment))
    assert "Not as stored" not in stack.status_reason
    (below,) = engine.store.stacks.descendants(stack)
    assert [state_of(engine, below, name) for name in "01"] == [(DriftState.IN_SYNC, 0, 1)] * 2


def counted(engine: Engine, stack: StackRecord) -> tuple[int, int, list[str], dict[str, int], list[str]]:
    """Return what numbers, pages, stacks, metrics and reasons say about drift."""
    rows = engine.store.of(DriftStore)
    numbers, page = rows.counts("demo"), rows.page("demo", DriftQuery((DriftState.DRIFTED,), limit=10))
    fact: Any = rows.stack_facts([stack.id], [stack.id])[stack.id]["drift"]
    gauges = {one.name: one.values[()] for one in rows.totals()}
    facts = engine.components.reasons.of_stack(ADMIN, engine.get(stack)).facts
    why = [one.path or "" for one in facts if one.code == "drift"]
    return numbers.drifted, fact["drifted"], [one.name for one in page], gauges, why


def agreeing(*names: str) -> tuple[int, int, list[str], dict[str, int], list[str]]:
    number = len(names)
    gauges = {
        "heatlite_resources_drifted": number,
        "heatlite_resources_drift_unknown": 0,
        "heatlite_stacks_drifted": min(number, 1),
    }
    return number, number, [*names], gauges, [*names]


@pytest.mark.database
def test_adding_one_touches_no_object_and_counts_at_once(engine: Engine) -> None:
    stack = engine.check(engine.create(template(a=drifting())))
    assert counted(engine, stack) == agreeing("a")
    mark = engine.now_on(stack)
    stack = engine.put(stack, template(a=drifting(**IGNORED)))
    assert [line for line in engine.told(stack, mark) if line.startswith("a ")] == ["a DRIFT_ENDED"]
    assert (state_of(engine, stack, "a"), counted(engine, stack)) == ((DriftState.IN_SYNC, 0, 1), agreeing())
    stack = engine.check(stack)
    assert told(engine, stack) == ["a DRIFT_DETECTED /value", "a DRIFT_ENDED /value"]
    stack = engine.put(stack, template(a=drifting()))  # what is ignored no more is drift again
    assert (state_of(engine, stack, "a"), counted(engine, stack)) == ((DriftState.DRIFTED, 1, 0), agreeing("a"))
    stack = engine.check(stack)
    assert told(engine, stack) == ["a DRIFT_DETECTED /value", "a DRIFT_ENDED /value", "a DRIFT_DETECTED /value"]


@pytest.mark.slow
@pytest.mark.parametrize("is_group", [True, False])
def test_an_environment_that_ignores_more_counts_at_once(engine: Engine, is_group: bool) -> None:
    """The members of a group, and what is in a nested stack."""
    files = {} if is_group else {"child.yaml": json.dumps(template(x=drifting()))}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": drifting()}}
    document = template(n=group if is_group else {"type": "child.yaml"})
    stack = engine.check(engine.create(document, files=files))
    (below,) = engine.store.stacks.descendants(stack)
    names = "01" if is_group else "x"
    assert [state_of(engine, below, name) for name in names] == [(DriftState.DRIFTED, 1, 0)] * len(names)
    environment = {"resource_registry": {"resources": {"n": {"ignore_drift": ["/value"]}}}}
    stack = engine.put(stack, document, files=files, environment=environment)
    assert [state_of(engine, below, name) for name in names] == [(DriftState.IN_SYNC, 0, 1)] * len(names)


@pytest.mark.slow
def test_a_rollback_counts_as_before(engine: Engine) -> None:
    stack = engine.check(engine.create(template(a=drifting())))
    failing = {"a": drifting(**IGNORED), "b": thing(fail=True, depends_on="a")}
    stack = engine.put(stack, template(**failing), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
    assert state_of(engine, stack, "a") == (DriftState.DRIFTED, 1, 0)
    stack = engine.put(stack, template(**failing), disable_rollback=True)
    assert (stack.status, state_of(engine, stack, "a")) == ("FAILED", (DriftState.IN_SYNC, 0, 1))
    assert state_of(engine, engine.check(stack), "a") == (DriftState.IN_SYNC, 0, 1)


@pytest.mark.parametrize(
    ("policy", "text"),
    few(
        [
            (["/no_such"], 'the type has no property "no_such"'),
            (["value"], '"value" is no path of a property'),
            ("/value", "ignore_drift must be a list of paths"),
            ([{"get_param": "OS::stack_name"}], "ignore_drift must be a list of paths"),
            ({"get_param": "OS::stack_name"}, "ignore_drift must be a list of paths"),
        ]
    ),
)
def test_what_is_wrong(engine: Engine, policy: object, text: str) -> None:
    with pytest.raises(StackValidationFailed, match=text):
        engine.create(template(a=drifting(update_policy={"ignore_drift": policy})))


PATHS = {
    "/rules": "", "/rules/2": "", "/rules/-": "", "/rules/2/port_range_min": "", "/rules/2/nope": "nope",
    "/rules/nope": "nope", "/name": "", "/name/x": "x", "/name/0": "0", "/nope": "nope", "*": "",
}  # fmt: skip
"""Paths into the properties of a security group, and the step that leads nowhere."""


@pytest.mark.parametrize("in_template", [True, False])
def test_paths_that_the_type_does_not_have(cloudy: Cloudy, in_template: bool) -> None:
    told = {}
    for path in PATHS:
        entries = {"ignore_drift": [path]}
        sg = resource("OS::Neutron::SecurityGroup", keys={"update_policy": entries} if in_template else {})
        blocks = {} if in_template else {"resource_registry": {"resources": {"sg": entries}}}
        try:
            request = StackRequest(name="s", template=template(sg=sg), environment=blocks)
            cloudy.stacks.preview_create(cloudy.who, request)
            told[path] = ""
        except StackValidationFailed as error:
            told[path] = re.findall(r'has no (?:property )?"(\w+)"', error.message)[0]
    assert told == PATHS


def test_what_is_wrong_in_an_environment(engine: Engine) -> None:
    for entries, text in ((["/no_such"], 'the type has no property "no_such"'), ("x", "must be a list of paths")):
        blocks = {"resource_registry": {"resources": {"a": {"ignore_drift": entries}}}}
        with pytest.raises((StackValidationFailed, HTTPBadRequest), match=text):
            engine.create(template(a=drifting()), environment=blocks)


@pytest.mark.parametrize("reverts", [True, False])
def test_a_sibling_is_put_back(cloudy: Cloudy, reverts: bool) -> None:
    """A property that is written as a whole keeps the live value of what is ignored."""
    ignoring = {"update_policy": {"ignore_drift": ["/metadata/tier", "/metadata/more"]}}
    metadata = {"tier": "gold", "role": "db"}
    stack = cloudy.made(
        {
            "vm": resource("OS::Nova::Server", flavor="m1.small", image="cirros", metadata=metadata, keys=ignoring),
            "vol": resource("OS::Cinder::Volume", size=1, metadata=metadata, keys=ignoring),
        }
    )
    view, key = cloudy.view(), {row.name: row.physical_id for row in cloudy.rows(stack)}
    changed = {"tier": "silver", "role": "web", "more": "1"}
    view.call("compute.set_server_metadata", key["vm"], changed)
    view.call("block_storage.set_volume_metadata", key["vol"], **changed)
    stack = cloudy.check(stack)
    stack = revert(cloudy, stack) if reverts else cloudy.patch(stack, converge=True)
    stack = cloudy.check(stack)
    for name in ("vm", "vol"):
        assert cloudy.thing(stack, name)["metadata"] == {**changed, "role": "db"}
        assert state_of(cloudy, stack, name) == (DriftState.IN_SYNC, 0, 2)
        assert cloudy.row(stack, name).properties["metadata"] == metadata
