"""Requests of types over HTTP, also to services that the simulated cloud has.

Each file of `recorded` has for each type what its resource's life asks of the services. `recorded/http` has what real
services have answered. Where it lacks a case, the answers are of the kinds of objects in the file, as the APIs say.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from msgspec.structs import replace

from heatlite.clients.rest import SERVICES
from heatlite.core.errors import InvalidValue, Unavailable
from heatlite.core.json import JsonMap
from heatlite.core.status import state
from heatlite.engine.state.requests import Request
from heatlite.engine.state.stack_document import read_record
from heatlite.plugin.signing import Proof
from heatlite.resources.heat.signals.queues import Queue
from tests.engine.conftest import ADMIN, template
from tests.types.exchanges import Replay, recorded
from tests.types.lives import Living
from tests.types.marking import RECORDED
from tests.types.rest_services import RestServices, rest_services

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")

CASES = [(file, name) for file, content in RECORDED.items() for name in content["cases"]]


class Recording(Living):
    """An engine on a cloud whose answers are of a file or recorded."""

    services: RestServices

    def __init__(self, folder: Path, file: str) -> None:
        content, ends = RECORDED[file], ExitStack()
        services = RestServices(content.get("objects", {}), content.get("answers", {}))
        url = ends.enter_context(rest_services(services))
        names = (*SERVICES, "dns", "image", "key_manager")
        places = {f"{service}_endpoint_override": f"{url}/{service}" for service in names}
        places["database_endpoint_override"] += "/v1.0/PROJECT"
        self.url = url
        super().__init__(folder, services, url, {"auth_type": "none", "auth": {"endpoint": url}, **places})
        self.engine.who = replace(ADMIN, project="PROJECT")
        self.ends.push(ends)


@pytest.fixture(scope="module")
def recordings() -> Iterator[dict[str, Recording]]:
    found: dict[str, Recording] = {}
    yield found
    for one in found.values():
        one.ends.close()


@pytest.mark.share(3)
@pytest.mark.parametrize(("file", "name"), CASES)
def test_a_life_over_http(
    recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory, file: str, name: str
) -> None:
    case = recorded(file).get(name, {})
    if case.get("names") and file in recordings:
        recordings.pop(file).ends.close()  # it has found other objects by these names
    one = recordings.pop(file, None) or Recording(tmp_path_factory.mktemp(file), file)
    one.services.made = 0
    one.services.replay = Replay(case["exchanges"]) if case else None
    one.names.update({found.replace("URL", one.url): told for found, told in case.get("names", {}).items()})
    one.live(name, RECORDED[file]["cases"][name], exact=bool(case))
    one.services.replay = None
    recordings[file] = one  # one that fails is used no more


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


@pytest.mark.parametrize(
    ("whole_body", "details", "sent", "params"),
    [
        (False, None, {"a": 1, "b": 2}, {}),
        (False, {"input": {"a": 3}, "params": {"p": 4}, "current": "alarm"}, {"a": 3, "b": 2}, {"p": 4}),
        (True, {"b": 5}, {"a": 1, "b": 5}, {}),
    ],
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
    [
        ({"input": {"c": 1}}, "Signal data error: Unknown input c"),
        ({"input": [1]}, "Signal data error: input must be a map"),
        ({"params": "p"}, "Signal data error: params must be a map"),
    ],
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


def test_messages_are_read_in_order_and_deleted(recordings: dict[str, Recording], tmp_path: Path) -> None:
    recording = recordings.setdefault("messaging", Recording(tmp_path, "messaging"))
    recording.asked()
    place = "/messaging/v2/queues/q/messages"
    listed = [{"href": "/v2/queues/q/messages/m1?client=x", "body": {"a": 1}}, {"id": "m2", "href": "", "body": "b"}]
    recording.services.answers.update({
        f"GET {place}": {"messages": listed},
        f"POST {place}": {"resources": []},
        f"DELETE {place}/m1": None,
        f"DELETE {place}/m2": None,
    })  # fmt: skip
    clouds = recording.engine.server.components.engine_services.services.clouds
    queue = Queue(clouds.of(ADMIN.project).cloud, "q")
    queue.write({"x": 1})
    assert list(queue.messages()) == [("m1", {"a": 1}), ("m2", "b")]
    assert recording.asked() == [
        {f"POST {place}": {"messages": [{"body": {"x": 1}, "ttl": 3600}]}},
        {f"DELETE {place}/m1": None},
        {f"DELETE {place}/m2": None},
    ]


def test_a_signed_url_of_a_heat_keeps_its_signature(recordings: dict[str, Recording], tmp_path_factory: Any) -> None:
    one = recordings.pop("messaging", None) or Recording(tmp_path_factory.mktemp("messaging"), "messaging")
    engine = one.engine
    signed = {"signature": "s", "expires": "2030", "paths": ["/v2/queues/q"], "methods": ["GET"], "project": "p"}
    definition = template(url={"type": "OS::Zaqar::SignedQueueURL", "properties": {"queue": "q"}})
    definition["outputs"] = {"o": {"value": {"get_attr": ["url", "signature"]}}}
    entry = {"resource_id": "s-url-abcdefghijkl", "resource_data": {"signed": signed}}
    record = read_record({"template": definition, "resources": {"url": entry}})
    stack = engine.settle(engine.stacks.create(engine.who, Request(name="s", adopted=record)))
    assert state(stack.verb, stack.status) == "ADOPT_COMPLETE", stack.status_reason
    assert engine.outputs(stack) == {"o": "s"}
    plan = engine.stacks.preview_update(engine.who, stack, Request(), existing=True, plan=True).plan
    assert plan is not None
    assert [each.action for each in plan.resources] == ["keep"]
    engine.delete(stack)
    assert one.asked() == []
    recordings["messaging"] = one
