"""Requests of types to services that the simulated cloud does not have."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from heatlite.core.errors import InvalidValue, Unavailable
from heatlite.core.json import JsonMap
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.plugin.signing import Proof
from tests.engine.conftest import template
from tests.tables import few
from tests.types.recordings import Recording

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")


def test_what_a_crash_has_left_is_found_by_its_mark(recordings: dict[str, Recording], tmp_path_factory: Any) -> None:
    one = recordings.pop("shares", None) or Recording(tmp_path_factory.mktemp("shares"), "shares")
    clouds = one.engine.server.components.engine_services.services.clouds
    cloud = clouds.of(one.engine.who.project).cloud
    cloud.call("shared_file_system.create_share", name="n", description="mine")
    found = cloud.call("shared_file_system.shares", name="n")
    assert [thing["description"] for thing in found] == ["mine"]  # type: ignore[index,union-attr]
    one.services.things.clear()
    one.services.asked.clear()
    recordings["shares"] = one


def workflow(recordings: dict[str, Recording], factory: Any) -> Recording:
    one = recordings.get("workflow") or Recording(factory.mktemp("workflow"), "workflow")
    recordings["workflow"] = one
    one.services.asked.clear()
    return one


FLOW = {"type": "direct", "input": {"a": 1, "b": 2}, "tasks": [{"name": "t", "action": "std.noop"}]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("whole_body", "details", "sent", "params"),
    few(
        [
            (False, None, {"a": 1, "b": 2}, {}),
            (False, {"input": {"a": 3}, "params": {"p": 4}, "current": "alarm"}, {"a": 3, "b": 2}, {"p": 4}),
            (True, {"b": 5}, {"a": 1, "b": 5}, {}),
        ]
    ),
)
def test_a_signal_executes_a_workflow(
    recordings: dict[str, Recording],
    tmp_path_factory: Any,
    whole_body: bool,
    details: JsonMap | None,
    sent: JsonMap,
    params: JsonMap,
) -> None:
    one = workflow(recordings, tmp_path_factory)
    engine = one.engine
    properties = {**FLOW, "name": "flow", "use_request_body_as_input": whole_body}
    stack = engine.create(template(a={"type": "OS::Mistral::Workflow", "properties": properties}))
    assert stack.status == "COMPLETE", stack.status_reason
    one.asked()
    signals, row = engine.components.signals, engine.row(stack, "a")
    url = urlsplit(str(engine.components.reader.attribute(stack, row, "alarm_url")))
    proof = Proof(parse_qsl(url.query))
    assert signals.proven(proof, "signal", stack.project, stack.name, stack.id, "a")[1] == row
    assert signals.signal(engine.who, stack, row, details) is None
    given = {"workflow_name": "flow", "input": json.dumps(sent), "params": json.dumps(params)}
    assert one.asked() == [{"POST /workflow/v2/executions": given}]
    (execution,) = engine.components.reader.attribute(stack, row, "executions")  # type: ignore[misc, union-attr]
    assert (execution["id"], execution["output"]["more"]) == ("e-1", [1])  # type: ignore[index, call-overload]
    assert engine.events(stack)[-1].verb == "SIGNAL"
    engine.delete(stack)
    gone = {"DELETE /workflow/v2/executions/e-1": None}, {"DELETE /workflow/v2/workflows/flow": None}
    assert one.asked() == [*gone]


@pytest.mark.parametrize(
    ("details", "text"),
    few(
        [
            ({"input": {"c": 1}}, "Signal data error: Unknown input c"),
            ({"input": [1]}, "Signal data error: input must be a map"),
            ({"params": "p"}, "Signal data error: params must be a map"),
        ]
    ),
)
def test_a_signal_that_a_workflow_cannot_take(
    recordings: dict[str, Recording], tmp_path_factory: Any, details: JsonMap, text: str
) -> None:
    one = workflow(recordings, tmp_path_factory)
    stack = one.engine.create(template(a={"type": "OS::Mistral::Workflow", "properties": FLOW}))
    one.asked()
    with pytest.raises(InvalidValue, match=text):
        one.engine.components.signals.signal(one.engine.who, stack, one.engine.row(stack, "a"), details)
    assert one.asked() == []
    one.engine.delete(stack)


@pytest.mark.parametrize(("status", "error"), [(400, InvalidValue), (503, Unavailable)])
def test_a_signal_that_the_service_does_not_take(
    recordings: dict[str, Recording], tmp_path_factory: Any, status: int, error: type[Exception]
) -> None:
    one = workflow(recordings, tmp_path_factory)
    stack = one.engine.create(template(a={"type": "OS::Mistral::Workflow", "properties": FLOW}))
    answer = one.services.answer
    with pytest.MonkeyPatch.context() as patch, pytest.raises(error, match="of the service"):
        patch.setattr(one.services, "answer", lambda *_: (status, {"message": "a fault of the service"}))
        one.engine.components.signals.signal(one.engine.who, stack, one.engine.row(stack, "a"), {})
    assert one.services.answer == answer
    one.engine.delete(stack)


def test_an_external_resource_can_be_updated_by_every_update(
    recordings: dict[str, Recording], tmp_path_factory: Any
) -> None:
    one = workflow(recordings, tmp_path_factory)
    properties = {"actions": {"UPDATE": {"workflow": "flow"}}, "always_update": True}
    definition = template(a={"type": "OS::Mistral::ExternalResource", "properties": properties})
    stack = one.engine.create(definition)
    assert one.asked() == []
    stack = one.engine.put(stack, definition)
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE", stack.status_reason
    (asked,) = one.asked()
    assert json.loads(asked["POST /workflow/v2/executions"]["params"]) == {"env": {"heat_extresource_data": {}}}
    assert one.engine.row(stack, "a").physical_id == "thing"
    one.engine.delete(stack)


@pytest.mark.slow
def test_a_signed_url_of_a_heat_keeps_its_signature(recordings: dict[str, Recording], tmp_path_factory: Any) -> None:
    one = recordings.pop("messaging", None) or Recording(tmp_path_factory.mktemp("messaging"), "messaging")
    engine = one.engine
    signed = {"signature": "s", "expires": "2030", "paths": ["/v2/queues/q"], "methods": ["GET"], "project": "p"}
    definition = template(url={"type": "OS::Zaqar::SignedQueueURL", "properties": {"queue": "q"}})
    definition["outputs"] = {"o": {"value": {"get_attr": ["url", "signature"]}}}
    entry = {"resource_id": "s-url-abcdefghijkl", "resource_data": {"signed": signed}}
    record = read_record({"template": definition, "resources": {"url": entry}})
    stack = engine.settle(engine.stacks.create(engine.who, StackRequest(name="s", adopted=record)))
    assert state(stack.verb, stack.status) == "ADOPT_COMPLETE", stack.status_reason
    assert engine.outputs(stack) == {"o": "s"}
    plan = engine.stacks.preview_update(engine.who, stack, StackRequest(), existing=True, plan=True).plan
    assert plan is not None
    assert [each.action for each in plan.resources] == ["keep"]
    engine.delete(stack)
    assert one.asked() == []
    recordings["messaging"] = one
