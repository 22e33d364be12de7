"""Routes, codes and sample shapes of the API reference match the running API.

A sample is what a client sends or gets; one scenario plays all of them in order against the real application.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from webtest import TestResponse

from heatlite import wiring
from heatlite.core import clock
from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.config import Settings
from heatlite.engine.operations.health_marks import row_with_mark
from heatlite.engine.state.hooks import lifecycle_token
from heatlite.features.healing.store.records import HealingScopeRecord, HistoryLine, IncidentRecord, ObservationRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import Brake, IncidentState
from tests.databases import sqlite
from tests.features.nodes.registered_nodes import registered
from tests.waiting import eventually
from tools.openapi.reference import SHOWN, Operation, Reference

from .conftest import Heat, served_routes, template
from .described import unlike
from .test_lock_matrix import READS, REDIRECTS, P, R

SOURCE = Path(__file__).parents[2] / "api-ref" / "source" / "v1"
SAMPLES = SOURCE / "samples"

# -- the reference, read ---------------------------------------------------------------------------

REFERENCE = Reference(SOURCE)
OPERATIONS = [*REFERENCE.operations()]
BY_TITLE = {operation.title: operation for operation in OPERATIONS}


def route(method: str, path: str) -> tuple[str, str]:
    """The reference has its own names for the variables of a path."""
    return method, re.sub(r"\{\w+\}", "{}", path)


def load(name: str) -> object:
    return json.loads((SAMPLES / f"{name}.json").read_text())


# -- two answers compared ---------------------------------------------------------------------------

EXACT = frozenset({
    "code", "title", "explanation", "type", "rel", "stack_name", "stack_status", "stack_status_reason",
    "resource_name", "logical_resource_id", "resource_type", "resource_status", "resource_status_reason",
    "resource_action", "output_key", "required_by", "tags", "locked", "disable_rollback", "timeout_mins", "count",
    "level", "reason", "request", "target", "status", "binary", "topic", "stack_owner",
})  # fmt: skip
"""Keys whose values the scenario fixes, unless they are ids; of all others only the type is compared."""
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def differences(sample: object, real: object, where: str = "body", exact: bool = False) -> list[str]:
    """Yield differences of `real` from `sample`: keys, types, values of EXACT keys.

    In a list every real item has to look like one of the sample's, and every item of the sample like a real one; so a
    sample may leave out items that look like those it shows.
    """
    if isinstance(sample, Mapping) and isinstance(real, Mapping):
        found = [f"{where}: the API lacks {key}" for key in sample.keys() - real.keys()]
        found += [f"{where}: the sample lacks {key}" for key in real.keys() - sample.keys()]
        for key in sample.keys() & real.keys():
            found += differences(sample[key], real[key], f"{where}.{key}", key in EXACT)
        return found
    if isinstance(sample, list) and isinstance(real, list):
        found = []
        for index, item in enumerate(real):
            here = f"{where}[{index}]"
            near = min((differences(shown, item, here, exact) for shown in sample), key=len, default=[f"{here}: new"])
            found += near
        for index, shown in enumerate(sample):
            if all(differences(shown, item, exact=exact) for item in real):
                found.append(f"{where}[{index}]: the API gives no such item")
        return found
    if type(sample) is not type(real):
        return [f"{where}: {type(sample).__name__} in the sample, {type(real).__name__} from the API"]
    if exact and sample != real and not UUID.fullmatch(str(sample)):
        return [f"{where}: {sample!r} in the sample, {real!r} from the API"]
    return []


ITEM = {"id": "1", "tags": ["a", "b"], "items": [{"code": 1}, {"code": 2}]}


@pytest.mark.parametrize(
    "changed",
    [
        {"id": 1},
        {"id": None},
        {"more": None},
        {"tags": ["a"]},
        {"tags": []},
        {"tags": ["a", "b", "c"]},
        {"items": [{"code": 1}]},
        {"items": [{"code": 1}, {"code": 2}, {"code": 3}]},
        {"items": [{"code": 1}, {"code": 2}, {}]},
        {"items": {}},
    ],
)
def test_a_difference_is_seen(changed: Mapping[str, object]) -> None:
    assert differences(ITEM, {**ITEM, **changed})
    assert differences({**ITEM, **changed}, ITEM)


def test_alike_is_alike() -> None:
    assert not differences(ITEM, {"id": "7", "tags": ["b", "a"], "items": [{"code": 2}, {"code": 1}, {"code": 1}]})


# -- the reference against the route table ------------------------------------------------------------


def test_every_route_is_documented_and_nothing_else(refusing: Heat) -> None:
    served = {route(method, path) for method, path in served_routes(refusing.wsgi)}
    served |= {("POST", "/v1/signal/{}"), ("PUT", "/v1/waitcondition/{}")}  # an ARN is no segment for the route table
    documented = {route(operation.method, path) for operation in OPERATIONS for path in operation.paths()}
    assert documented == served


def test_every_sample_is_shown() -> None:
    shown = {name for page in REFERENCE.pages for name in SHOWN.findall(page)}
    assert shown == {path.stem for path in SAMPLES.iterdir()}


def test_titles_are_unique() -> None:
    assert len(BY_TITLE) == len(OPERATIONS)


# -- the samples against the API ----------------------------------------------------------------------


class Play:
    """Sends what the reference shows and notes where the answer looks different."""

    def __init__(self, heat: Heat) -> None:
        self.heat = heat
        self.names: dict[str, object] = {"tenant_id": "demo"}
        self.played: set[str] = set()
        self.samples: set[str] = set()
        self.differences: list[str] = []

    @property
    def stack(self) -> str:
        return "/stacks/{stack_name}/{stack_id}".format(**self.names)

    def __call__(
        self, title: str, code: int | None = None, query: str = "", body: object = None, **names: object
    ) -> TestResponse:
        """Make the call of a section.

        `code` where several are successes, `body` where the sample shows none.
        """
        operation = BY_TITLE[title]
        self.played.add(title)
        request, shown = operation.sample("request"), operation.sample("response")
        if request is not None:
            self.samples.add(request)
            body = load(request)
            if isinstance(body, dict):
                body |= {name: value for name, value in names.items() if name in body}
        response = self._send(operation, query, body, names)
        successes = [*(operation.codes["success"] or operation.codes["error"])]
        expected = successes[0] if code is None else code
        assert response.status_int == expected, f"{title}: {response.status} {response.text}"
        assert expected in successes, title
        if shown is not None:
            self._compare(shown, response)
        if response.content_type == "application/json" and response.body:
            faults = unlike(operation, response.json, code=expected)
            self.differences += [f"{title}: the OpenAPI document differs: {fault}" for fault in faults]
        return response

    def refused(self, sample: str, title: str, body: object = None, **names: object) -> None:
        """Make a call that is refused as the sample says."""
        operation = BY_TITLE[title]
        response = self._send(operation, "", body, names)
        assert response.status_int in operation.codes["error"], f"{title}: {response.status} {response.text}"
        self._compare(sample, response)

    def _send(self, operation: Operation, query: str, body: object, names: Mapping[str, object]) -> TestResponse:
        path = operation.path.format(**{**self.names, **names})
        raw = b"" if body is None else json.dumps(body).encode()
        return self.heat.app.request(
            path + query, method=operation.method, body=raw, content_type="application/json", expect_errors=True
        )

    def _compare(self, sample: str, response: TestResponse) -> None:
        self.samples.add(sample)
        self.differences += [f"{sample}: {difference}" for difference in differences(load(sample), response.json)]


class SampleTime(clock.Clock):
    """A clock that starts at the time of the samples: they name times to come."""

    def __init__(self) -> None:
        self._ahead = clock.from_text("2026-11-21T09:00:00Z") - time.time()

    def now(self) -> float:
        return time.time() + self._ahead


@pytest.fixture
def server(tmp_path: Path) -> Iterator[wiring.Embedded]:
    """A server with nothing in it."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path)), clock=SampleTime())
    yield server
    server.close()


@pytest.fixture
def heat(server: wiring.Embedded) -> Heat:
    return Heat(server.app)


def updating(heat: Heat, name: str) -> dict[str, str]:
    """A stack whose update never ends by itself; its names."""

    def endless(value: str) -> dict[str, object]:
        properties = {"value": value, "action_wait_secs": {"update": -1}}
        return template(a={"type": "OS::Heat::TestResource", "properties": properties})

    path = heat.create(endless("old"), name=name)
    heat.call("PATCH", path, {"template": endless("new")}, code=202)
    return {"stack_name": name, "stack_id": path.rpartition("/")[2]}


def play_lifecycle(play: Play, server: wiring.Embedded) -> None:
    """A member waits before its deletion; a webhook would have got the token."""
    hook = {"resource_registry": {"resources": {"a": {"hooks": "pre-delete"}}}}
    made = template(a={"type": "OS::Heat::TestResource"})
    path = play.heat.create(made, name="waits-to-go", environment=hook)
    names = {"stack_name": "waits-to-go", "stack_id": path.rpartition("/")[2]}
    play("Delete stack", **names)
    eventually(lambda: server.store.resources.with_token([names["stack_id"]]), "a waits")
    (row,) = server.store.resources.with_token([names["stack_id"]])
    play("Complete lifecycle", complete_lifecycle={"lifecycle_action_token": lifecycle_token(row)}, **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_signals(play: Play) -> None:
    """Signals to a handle in each way, and to a CloudFormation handle."""
    types = {"handle": "OS::Heat::WaitConditionHandle", "ready": "AWS::CloudFormation::WaitConditionHandle"}
    made = template(**{name: {"type": type_name} for name, type_name in types.items()})
    made["resources"]["handle"]["properties"] = {"signal_transport": "CFN_SIGNAL"}  # type: ignore[index]
    path = play.heat.create({**made, "outputs": {"url": {"value": {"get_resource": "ready"}}}}, name="waits")
    names = {"stack_name": "waits", "stack_id": path.rpartition("/")[2]}
    play("Rotate signal keys", **names)
    play("Signal resource", resource_name="handle", **names)
    signal = play.heat.get(f"{path}/resources/handle")["resource"]["attributes"]["signal"]
    given = play.heat.get(f"{path}/outputs/url")["output"]["output_value"]
    for title, url in (
        ("Signal resource with a signed URL", json.loads(signal)["alarm_url"]),
        ("Signal wait condition", given),
    ):
        arn, _, query = url.rpartition("/")[2].partition("?")
        play(title, query=f"?{query}", resource_arn=arn)
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_healing(play: Play, server: wiring.Embedded) -> None:
    """An incident that waits for approval, without a report of a monitoring system."""
    path = play.heat.create(template(a={"type": "OS::Heat::TestResource"}), "healed")
    names = {"stack_name": "healed", "stack_id": path.rpartition("/")[2]}
    play("Put healing policy", **names)
    for which, where in (("", {}), (" of a stack", names)):
        play(f"Put change policy{which}", **where)
        play(f"Show change policy{which}", **where)
        play(f"Delete change policy{which}", **where)
    incident_id = proposed_incident(server, names["stack_id"])
    play("List healing policies")
    play("Show healing", **names)
    play("List incidents")
    play("List audit log", query="?stack=healed&operation=stacks:create")
    shown = play("Show incident", incident_id=incident_id).json["incident"]
    begun = play("Approve incident", incident_id=incident_id, plan_digest=shown["plan_digest"])
    (approved,) = play.heat.get(f"/audit?operation=health:operate&stack={names['stack_id']}")["audit"]
    assert (approved["resource_name"], approved["target"]) == ("a", incident_id)
    assert begun.headers["X-Heatlite-Action"].endswith(approved["action_id"])
    play.heat.settle(path, "UPDATE_COMPLETE")
    eventually(lambda: play.heat.get(f"/incidents/{incident_id}")["incident"]["state"] == "SETTLING", "repaired")
    play("Close incident", incident_id=incident_id)
    with server.store.transaction():
        server.store.of(HealingStore).scopes.save(HealingScopeRecord(names["stack_id"], "type:OS::Heat::TestResource"))
    play("Acknowledge scope", **names)
    play("Repair resources", **names)
    play.heat.settle(path, "UPDATE_COMPLETE")
    play("Delete healing policy", **names)
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_approvals(play: Play) -> None:
    """An update and a deletion that need approvals."""
    made = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}
    path = play.heat.create(template(old=made), "changed")
    names = {"stack_name": "changed", "stack_id": path.rpartition("/")[2]}
    policy = {"change_policy": "2026-11-28", "approve": "removals"}
    play.heat.call("PUT", f"{path}/change_policy", policy, code=200)
    play.heat.call("PUT", f"{path}?approval=wait", {"template": template(new=made)}, code=202)
    play("List approvals", query="?state=PENDING&limit=10")
    (found,) = play.heat.get("/approvals")["approvals"]
    shown = play("Show approval", approval_id=found["id"]).json["approval"]
    play("Approve", approval_id=found["id"], digest=shown["digest"])
    play.heat.settle(path, "UPDATE_COMPLETE")
    play.heat.call("DELETE", path, code=409)
    (found,) = play.heat.get("/approvals?state=PENDING")["approvals"]
    play("Reject", approval_id=found["id"])
    play.heat.call("DELETE", f"{path}/change_policy", code=204)
    play("Delete stack", code=204, **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_schedules(play: Play) -> None:
    """A schedule that is due once a year."""
    path = play.heat.create(template(a={"type": "OS::Heat::TestResource"}), "sleeper")
    names = {"stack_name": "sleeper", "stack_id": path.rpartition("/")[2]}
    made = play("Create schedule", **names).json["schedule"]
    play("List schedules of a stack", **names)
    play("List schedules", query="?stack=sleeper&limit=10")
    play("Show schedule", schedule_id="holidays", **names)
    play("Put schedule", schedule_id=made["id"], **names)
    play("Delete schedule", schedule_id=made["id"], **names)
    play("Put expiry", **names)
    play("Show expiry", **names)
    play("Delete expiry", **names)
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_ownership(play: Play, folder: Path) -> None:
    """A network that no stack has, on a simulated cloud."""
    folder.mkdir()
    server = wiring.embedded(Settings(database=sqlite(folder), cloud="simulated"), clock=SampleTime())
    known, play.heat = play.heat, Heat(server.app)
    heat = play.heat
    given = {"type": "OS::Neutron::Net", "properties": {"name": "backend"}}
    made = heat.create(template(net=given), "made")
    network = heat.get(f"{made}/resources/net")["resource"]["physical_resource_id"]
    heat.call("DELETE", f"{made}/abandon", code=200)
    heat.settle(made)
    path = heat.create(template(), "shop")
    names = {"stack_name": "shop", "stack_id": path.rpartition("/")[2]}
    for title, key, asked in (
        ("Import objects", "import", {"resources": {"net": {"type": "OS::Neutron::Net", "id": network}}}),
        ("Accept drift", "accept_drift", {"resources": ["net"]}),
        ("Move resources", "move", {"moved": [{"from": "net", "to": "backend"}]}),
        ("Detach objects", "detach", {"resources": ["backend"]}),
    ):
        if key == "accept_drift":
            cloud: Any = server.components.engine_services.services.clouds.of("demo").cloud
            cloud.call("network.update_network", network, name="frontend")
            heat.call("POST", f"{path}/actions", {"check": None})
            heat.settle(path, "CHECK_COMPLETE")
        plan = heat.call("PATCH", f"{path}/preview?plan=true", {key: asked}, code=200).json["plan"]
        play(title, **names, **{key: {**asked, "plan_digest": plan["digest"]}})
    play.heat = known
    server.close()


def play_drift(play: Play) -> None:
    """A resource that differs from what is stored."""
    given = {"type": "OS::Heat::TestResource", "properties": {"value": "gold", "live_value": "silver"}}
    path = play.heat.create(template(a=given), "drifted")
    names = {"stack_name": "drifted", "stack_id": path.rpartition("/")[2]}
    play.heat.call("POST", f"{path}/actions", {"check": None})
    play.heat.settle(path, "CHECK_COMPLETE")
    play("List drift")
    play("Show drift", **names)
    play("Put back drift", **names)
    play("Show quota")
    play.heat.settle(path, "UPDATE_COMPLETE")
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_guards(play: Play) -> None:
    """An update that bakes."""
    first = {"type": "OS::Heat::TestResource", "properties": {"value": "one"}}
    path = play.heat.create(template(a=first), "guarded")
    names = {"stack_name": "guarded", "stack_id": path.rpartition("/")[2]}
    play.heat.call("PATCH", path, {"guard": {"bake": 3600}}, code=202)
    eventually(lambda: play.heat.get(path)["stack"]["guard"]["phase"] == "bake", "it bakes")
    play("End bake", **names)
    play.heat.settle(path, "UPDATE_COMPLETE")
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_revisions(play: Play) -> None:
    """A stack that was changed once."""
    first = {"type": "OS::Heat::TestResource", "properties": {"value": "one"}}
    path = play.heat.create(template(a=first), "revised")
    names = {"stack_name": "revised", "stack_id": path.rpartition("/")[2]}
    second = template(a={**first, "properties": {"value": "two"}})
    play.heat.call("PUT", path, {"template": second, "tags": "two"}, code=202)
    play.heat.settle(path, "UPDATE_COMPLETE")
    eventually(lambda: play.heat.get(f"{path}/revisions")["revisions"][0]["result"], "the end of the update is noted")
    play("List revisions", **names)
    play("Show revision", number="2", **names)
    play("Compare revisions", number="2", **names)
    play("Undo", **names)
    play.heat.settle(path, "UPDATE_COMPLETE")
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_sources(play: Play) -> None:
    """A stack with a value from another one."""
    source = {"heat_template_version": "2021-04-16", "outputs": {"net": {"value": "one"}}}
    base = play.heat.create(source, "base")
    reader = {"heat_template_version": "2021-04-16", "parameters": {"net_id": {"type": "string"}}}
    path = play.heat.create(reader, "shop", parameter_sources={"net_id": {"stack": "base", "output": "net"}})
    play("List sources", stack_name="shop", stack_id=path.rpartition("/")[2])
    play("List readers", stack_name="base", stack_id=base.rpartition("/")[2])
    for one in (path, base):
        play.heat.call("DELETE", one, code=204)
        play.heat.settle(one, "DELETE_COMPLETE")


def play_health(play: Play) -> None:
    """Reports of a monitoring system about a stack."""
    path = play.heat.create(template(a={"type": "OS::Heat::TestResource"}), "reported")
    play("Report health", source="generic")
    play("Put health reports", source="generic")
    play("Show health source", source="generic")
    found = play.heat.get(f"{path}/resources/a")["resource"]["physical_resource_id"]
    play("Find resources", query=f"?physical_resource_id={found}")
    play("Put health source", source="generic")
    play("Acknowledge storm", source="generic")
    play("Delete health source", source="generic")
    token = play("Create intake token").json["health_token"]["id"]
    play("List intake tokens")
    key = play("Create access key").json["access_key"]["id"]
    play("List access keys")
    play("Delete access key", access_key_id=key)
    assert "MissingAuthenticationToken" in play.heat.app.post("/v1/", {"Action": "ListStacks"}, status=403).text
    play.played.add("Run query action")  # its answers are XML
    play("Delete intake token", token_id=token)
    play.heat.call("DELETE", path, code=204)
    play.heat.settle(path, "DELETE_COMPLETE")


def proposed_incident(server: wiring.Embedded, stack_id: str) -> str:
    """An incident with a plan for the resource `a` of a stack; its id."""
    store, now = server.store, server.components.clock.now()
    stack, (row,) = store.stacks.get(stack_id), store.resources.of(stack_id)
    assert stack is not None and row.physical_id is not None
    with store.transaction():
        store.resources.save_many([row_with_mark(row, True, "ServerDown: no answer", now)])
    plan = server.components.repairs.plan(stack, Selection({"a": RepairStep.REPLACE}))
    line = HistoryLine(now, "OBSERVED", "CONFIRMED", "confirmed")
    incident = IncidentRecord(
        "7c9e6679-7425-40de-944b-e07fc1f90ae7", stack.project, "alertmanager", stack_id, stack_id, "a", "a",
        "type:OS::Heat::TestResource", row.id, row.physical_id, IncidentState.PROPOSED, now, now, due=now + 1e6,
        evidence_since=now, reason=Brake.AWAITING_APPROVAL, plan_digest=plan.shown.digest, history=(line,),
        summary="ServerDown: no answer", is_marked=True,
    )  # fmt: skip
    episode = ObservationRecord("o", stack.project, "alertmanager", "k", now, now, now, incident_id=incident.id)
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([incident])
        store.of(HealingStore).observations.insert_many([episode])
    return incident.id


def play_node_actions(play: Play, server: wiring.Embedded) -> None:
    """Work for an agent that was not contacted yet."""
    path = play.heat.create(template(app={"type": "OS::Heat::Value", "properties": {"value": "v"}}), "nodes")
    names = {"stack_name": "nodes", "stack_id": path.rpartition("/")[2]}
    stack = server.store.stacks.get(names["stack_id"])
    assert stack is not None
    registered(server.store, stack, "app", kinds=("service.restart",))
    first = play("Create node action", **names).json["node_action"]
    play("List node actions", query="?limit=1&kind=service.restart")
    play("Approve node action", node_action_id=first["id"], digest=first["digest"])
    play("Show node action", node_action_id=first["id"])
    play("Cancel node action", node_action_id=first["id"])
    second = play("Create node action", **names, id="3b1f7a9c-5d2e-4c80-a6b4-9e8d7c6f5a41").json["node_action"]
    play("Reject node action", node_action_id=second["id"])
    play("List node actions of a stack", **names)
    put = {"playbook_name": "restart"}
    play("Put playbook", code=201, **put)
    play("Show playbook", **put)
    play("List playbooks")
    run = play("Run playbook", code=202, **names).json["action"]
    play("Reject playbook run", run_id=run["id"])
    run = play("Run playbook", code=202, **names).json["action"]
    play("Approve playbook run", run_id=run["id"], digest=run["inputs"]["digest"])
    play("Delete playbook", **put)
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def wait_for_end(play: Play, answer: TestResponse) -> None:
    """Wait until the action of an answer has ended."""
    path = f"/actions/{answer.json['action']['id']}"
    eventually(lambda: play.heat.get(path)["action"]["status"] == "SUCCEEDED", "the action has ended")


def play_groups(play: Play) -> None:
    """A group of three, without a cooldown."""
    member = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}
    made = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 3, "resource_def": member}}
    path = play.heat.create(template(g=made), name="group")
    names = {"stack_name": "group", "stack_id": path.rpartition("/")[2], "resource_name": "g"}
    for title in (
        "Scale out group", "Replace group members", "Delete group members", "Resize group", "Scale in group",
        "Check resource",
    ):  # fmt: skip
        wait_for_end(play, play(title, **names))
    for title in ("Attach policy to group", "Update policy of group", "Detach policy from group"):
        play(title, **names)
    left = play("Let members leave a group", **names)
    wait_for_end(play, left)
    shown = play.heat.get(f"/actions/{left.json['action']['id']}")["action"]["outputs"]["removed"]
    asked: dict[str, Any] = {"members": [{"id": key, "as": name} for name, key in shown.items()]}
    plan = play.heat.call("PATCH", f"{path}/preview?plan=true", {"join": {"resource": "g", **asked}}).json["plan"]
    asked["plan_digest"] = plan["digest"]
    wait_for_end(play, play("Let objects join a group", join=asked, **names))
    wait_for_end(play, play("Recover resource", **{**names, "resource_name": "g/1"}))
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


def play_nodes(play: Play) -> None:
    """The agent has registered, and is away since."""
    path = play.heat.create(template(machine={"type": "OS::Heat::DeployedServer"}), name="nodes")
    names = {"stack_name": "nodes", "stack_id": path.rpartition("/")[2], "resource_name": "machine"}
    metadata = play.heat.get(f"{path}/resources/machine/metadata")["metadata"]
    query = "?" + metadata["heatlite_agent"]["register"].partition("?")[2]
    play("Register node", query=query, **names)
    play("Tell of a change at a node", query=query, **names)
    eventually(lambda: play.heat.get(f"{path}/nodes")["nodes"][0]["state"] == "UNREACHABLE", "the agent was asked")
    eventually(lambda: play.heat.get(f"{path}/nodes")["orchestration"]["report"], "that is told")
    play("List nodes", **names)
    play("Orchestrate nodes", **names)
    play("Delete stack", **names)
    play.heat.settle(path, "DELETE_COMPLETE")


WITHOUT_STACK = ("/access_keys", "/change_policy", "/health/", "/health_tokens", "/node_playbooks", "/software_")
"""Below the project: what belongs to no stack. The audit log has its id or name."""
UNRECORDED = READS | REDIRECTS | {
    *(f"{method} {R}/node" for method in ("PUT", "POST")),
    *(f"{method} {P}/health/{{source}}" for method in ("PUT", "POST")),
    "POST /v1",
}
"""Requests that leave no row, or one of their own kind (tests/features/query_api/test_query_api.py)."""


def check_audit_targets(heat: Heat, routes: list[tuple[str, str]]) -> None:
    """Each row of the audit log names what its request was about."""
    rows = heat.get("/audit?limit=1000")["audit"]
    left = {route for route in routes if route[0] not in ("GET", "HEAD") and f"{route[0]} {route[1]}" not in UNRECORDED}
    for row in rows:
        patterns = {one: re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", one[1]) for one in routes if one[0] == row["method"]}
        found = {one: match for one, pattern in patterns.items() if (match := re.fullmatch(pattern, row["path"]))}
        if not found:  # an ARN
            continue
        route, match = min(found.items(), key=lambda one: one[0][1].count("{"))
        left.discard(route)
        below = route[1].removeprefix("/v1/{project}")
        parts = match.groupdict()
        about = f"{route}: {row}"
        if not below.startswith(WITHOUT_STACK) and row["outcome"] == "done":
            assert row["stack_name"] and row["stack_id"], about
        if "resource_name" in parts or "incidents" in below or "node_action" in below:
            assert row["resource_name"], about
        if below.startswith(WITHOUT_STACK) or parts.keys() - {"project", "stack_name", "stack_id", "resource_name"}:
            assert row["target"], about
    assert not left, "the scenario changes nothing by these routes"


@pytest.mark.slow
def test_the_samples_are_what_the_api_takes_and_gives(heat: Heat, server: wiring.Embedded, tmp_path: Path) -> None:
    play = Play(heat)

    play("List versions")
    play("List versions by name")
    play("Show version 1")
    assert play("Check health").text == "OK"
    play("Show API description")
    play("Show API page")
    play("Show build information")
    eventually(lambda: heat.get("/services")["services"], "the engine has reported")
    play("List services")
    play("List template versions")
    play("List template functions", template_version="heat_template_version.2021-04-16")
    play("List resource types", query="?name=OS::Heat::RandomString")
    play("Show resource type", type_name="OS::Heat::RandomString")
    play("Show resource type template", query="?template_type=hot", type_name="OS::Heat::RandomString")
    play("Validate template")
    play("List template problems", query="?all_errors=true")

    play("Preview stack")
    created = play("Create stack")
    play.names |= {"stack_name": "web", "stack_id": created.json["stack"]["id"], "stack_identity": "web"}
    play.names |= {"resource_name": "password", "output_key": "note"}
    assert created.location.endswith(play.stack)
    heat.settle(play.stack, "CREATE_COMPLETE")

    play("List stacks", query="?limit=1&with_count=true")
    play("List stacks in detail")
    for purpose in ("", " for a change", " for a patch", " for a deletion", " for a post"):
        assert play(f"Find stack{purpose}").location.endswith(play.stack)
    for title in ("Find part of a stack", "Find part of a stack for a post"):
        for part in BY_TITLE[title].parts:
            assert play(title, part=part).location.endswith(f"{play.stack}/{part}")
    play.refused("error-not-found", "Find stack", stack_identity="nope")
    play("Show stack")
    play("Show stack template")
    play("Show stack environment")
    play("Show stack files")
    play("List outputs")
    play("Show output")

    play("List resources")
    play("Show resource")
    play("Show resource metadata", resource_name="note")
    play_signals(play)
    play("Show counts")
    heat.call("GET", "/events", code=400)  # tests/api/test_streams.py plays it: it needs a connection
    play.played.add("Stream events of a project")
    play("List events", query="?sort_dir=asc&limit=2")
    events = play("List resource events").json["events"]
    play("Show event", event_id=events[0]["id"])

    config = play("Create software config").json["software_config"]
    play("List software configs")
    play("Show software config", config_id=config["id"])
    deployment = play("Create software deployment", config_id=config["id"]).json["software_deployment"]
    play("List software deployments")
    play("Show software deployment", deployment_id=deployment["id"])
    play("Show software of a server", server_id="web-1")
    play("Update software deployment", deployment_id=deployment["id"])
    play("Delete software deployment", deployment_id=deployment["id"])
    play("Delete software config", config_id=config["id"])

    play_nodes(play)
    play_healing(play, server)
    play_schedules(play)
    play_approvals(play)
    play_drift(play)
    play_revisions(play)
    play_sources(play)
    play_guards(play)
    play_ownership(play, tmp_path / "clouded")
    play_health(play)
    play_groups(play)

    play("Preview stack update")
    play("Preview stack patch")

    play("Protect stack or resource")
    play.refused("error-deletion-protected", "Delete stack")
    play("Unprotect stack or resource")

    play("Lock stack")
    heat.settle(play.stack, "LOCK_COMPLETE")
    play.refused("error-stack-locked", "Delete stack")
    play.refused("error-stack-locked", "Mark resource unhealthy", {"mark_unhealthy": True})
    play("Show why")
    suppressed = play("Show lock").json["suppressed"]
    play("Delete suppressed request", suppressed_id=suppressed[0]["id"])
    play("Unlock stack")
    heat.settle(play.stack, "UNLOCK_COMPLETE")
    play("Replay suppressed request", code=200, suppressed_id=suppressed[1]["id"])

    play("Mark resource unhealthy")
    play("Mark several resources unhealthy")
    play("Patch stack")
    heat.settle(play.stack, "UPDATE_COMPLETE")
    play("Update stack")
    heat.settle(play.stack, "UPDATE_COMPLETE")
    play("Check stack")
    heat.settle(play.stack, "CHECK_COMPLETE")
    action = play("List actions", query="?status=SUCCEEDED,FAILED&limit=1").json["actions"][0]
    play("Show action", action_id=action["id"])
    play("Show action history", action_id=action["id"])
    play_node_actions(play, server)
    patch = {"parameters": {"length": 24}}
    digest = heat.call("PATCH", f"{play.stack}/preview?plan=true", patch).json["plan"]["digest"]
    play("Schedule update", update={**patch, "plan_digest": digest, "not_before": "2099-01-01T20:00:00Z"})
    play("Schedule delete")
    play("Suspend stack")
    heat.settle(play.stack, "SUSPEND_COMPLETE")
    play("Resume stack")
    heat.settle(play.stack, "RESUME_COMPLETE")

    other = heat.create(template(a={"type": "OS::Heat::Value", "properties": {"value": "v"}}), "other")
    names = {"stack_name": "other", "stack_id": other.rpartition("/")[2]}
    saved = heat.create(template(a={"type": "OS::Heat::Value", "properties": {"value": "v"}}), "saved")
    snapshots = {"stack_name": "saved", "stack_id": saved.rpartition("/")[2]}
    snapshots["snapshot_id"] = play("Take snapshot", **snapshots).json["id"]
    heat.settle(saved, "SNAPSHOT_COMPLETE")
    for title in ("List snapshots", "Show snapshot", "Restore snapshot"):
        play(title, **snapshots)
    heat.settle(saved, "RESTORE_COMPLETE")
    play("Delete snapshot", **snapshots)
    heat.call("DELETE", saved, code=204)
    heat.settle(saved, "DELETE_COMPLETE")
    play("Export stack", **names)
    play("Abandon stack", **names)
    heat.settle(other, "DELETE_COMPLETE")
    failing = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    failed = heat.create(template(a=failing), "failed")
    names = {"stack_name": "failed", "stack_id": failed.rpartition("/")[2]}
    play("Retry stack", **names)
    heat.settle(failed, "CREATE_FAILED")
    play("Delete stack", query="?force=true", **names)
    heat.settle(failed, "DELETE_COMPLETE")
    suspended = updating(heat, "suspended")
    running = "/actions?status=RUNNING&target={stack_id}".format(**suspended)
    eventually(lambda: heat.get(running)["actions"], "the update runs")
    play("Signal action", action_id=heat.get(running)["actions"][0]["id"])
    play("Delete stack", **suspended)
    play_lifecycle(play, server)
    for title in ("Cancel update", "Cancel without rollback"):
        endless = updating(heat, "endless")
        play(title, **endless)
        play("Delete stack", **endless)
        heat.settle("/stacks/{stack_name}/{stack_id}".format(**endless), "DELETE_COMPLETE")
    play("Delete stack")
    misspelt = {"type": "OS::Heat::RandomString", "properties": {"lenght": 8}}
    play.refused("error-validation", "Create stack", {"stack_name": "w", "template": template(password=misspelt)})

    assert not play.differences, "\n".join(play.differences)
    assert play.played == BY_TITLE.keys()
    check_audit_targets(heat, served_routes(server.app))
    conflicts = {"error-resource-is-locked", "error-action-conflict", "error-action-in-progress"}
    assert play.samples | conflicts == {path.stem for path in SAMPLES.iterdir()}


def test_the_samples_of_conflicts(tmp_path: Path) -> None:
    """An unclaimed action stays queued."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path)))
    assert server.worker is not None
    try:
        heat = Heat(server.app)
        play = Play(heat)
        forever = template(a={"type": "OS::Heat::TestResource", "properties": {"wait_secs": -1}})
        play.names |= {"resource_name": "a"}

        running = heat.create(forever, name="running", wait=False)
        play.names |= dict(zip(("stack_name", "stack_id"), running.split("/")[2:], strict=True))
        eventually(lambda: heat.get(f"{running}/resources")["resources"], "the action is taken up")
        play.refused("error-resource-is-locked", "Patch stack", {})
        play.refused("error-action-in-progress", "Mark resource unhealthy", {"mark_unhealthy": True})

        server.worker.stop()
        queued = heat.create(forever, name="queued", wait=False)
        play.names |= dict(zip(("stack_name", "stack_id"), queued.split("/")[2:], strict=True))
        play.refused("error-action-conflict", "Patch stack", {})
    finally:
        server.close()
    assert not play.differences, "\n".join(play.differences)
