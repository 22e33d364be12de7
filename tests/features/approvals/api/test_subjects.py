"""Operations that need an approval and those that do not (laws A2, A4, A6, A8).

The tables are those of the reference.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from heatlite import wiring
from heatlite.core.clock import to_text
from heatlite.core.config import Settings
from heatlite.engine.state.conflict_rules import Operation
from heatlite.features.approvals.store.records import Subject
from tests.api.conftest import Heat, new_project, template
from tests.databases import sqlite
from tests.waiting import eventually

from .test_approvals import THING, Ahead, approve, policy

NETWORK = {"type": "OS::Neutron::Net"}
REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "control.md"
FAILING = {**THING, "properties": {"fail": True}}
DRIFTING = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "live_value": "w"}}
MEMBER = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}
GROUP = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 3, "resource_def": MEMBER}}
WHOLE = template(a=THING, g=GROUP)
MEMBERS = "/resources/g/actions"
ELSEWHERE = {"create", "signal", "node_action", "playbook", "rollback", "cancel_update", "cancel_without_rollback"}
"""Those with a test of their own: the others are requests on a stack at rest."""


@pytest.fixture(scope="module")
def clouded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server on a simulated cloud."""
    database = sqlite(tmp_path_factory.mktemp("clouded"))
    server = wiring.embedded(Settings(database=database, cloud="simulated", lease_seconds=1e10), clock=Ahead())
    yield server
    server.close()


@pytest.fixture
def heat(clouded: wiring.Embedded) -> Heat:
    """A project of its own."""
    return new_project(clouded)


class Sent(Struct, frozen=True):
    """A request on a stack."""

    method: str
    rest: str = ""
    body: Any = None

    def to(self, heat: Heat, path: str, query: str = "") -> Any:
        return heat.call(self.method, f"{path}{self.rest}{query}", self.body)


class Case(Struct, frozen=True):
    """An operation, with what it needs first."""

    request: Callable[[Heat, str], Sent]
    removals: bool = True
    """True if objects go."""
    subject: Subject = Subject.UPDATE
    template: Any = field(default_factory=lambda: WHOLE)


def acts(key: str, options: Any = None, rest: str = "/actions") -> Callable[[Heat, str], Sent]:
    return lambda heat, path: Sent("POST", rest, {key: options})


def planned(key: str, options: Any, rest: str = "/actions", **more: Any) -> Callable[[Heat, str], Sent]:
    """An action that names the digest of its plan."""
    def request(heat: Heat, path: str) -> Sent:
        asked = options(heat, path) if callable(options) else options
        plan = heat.call("PATCH", f"{path}/preview?plan=true", {key: {**asked, **more}}, 200).json["plan"]
        return Sent("POST", rest, {key: {**asked, "plan_digest": plan["digest"]}})

    return request


def after(setup: Callable[[Heat, str], object], request: Callable[[Heat, str], Sent]) -> Callable[[Heat, str], Sent]:
    def both(heat: Heat, path: str) -> Sent:
        setup(heat, path)
        return request(heat, path)

    return both


def update(heat: Heat, path: str, made: Any) -> None:
    heat.call("PUT", path, {"template": made}, 202)
    heat.settle(path)


def snapshot(heat: Heat, path: str) -> str:
    found = heat.call("POST", f"{path}/snapshots", {"name": "n"}, code=200).json["id"]
    heat.settle(path)
    return str(found)


def restore(heat: Heat, path: str) -> Sent:
    taken = snapshot(heat, path)
    update(heat, path, template(b=THING))
    return Sent("POST", f"/snapshots/{taken}/restore")


def check(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"check": None}, 200)
    heat.settle(path)


def mark(name: str) -> Callable[[Heat, str], object]:
    return lambda heat, path: heat.call("PATCH", f"{path}/resources/{name}", {"mark_unhealthy": True}, 200)


def left(heat: Heat, path: str) -> dict[str, Any]:
    """Objects that no stack has: a member has left."""
    answer = heat.call("POST", path + MEMBERS, {"leave": {"members": ["2"], "reduce": True}}, 202).json
    action = heat.get(f"/actions/{answer['action']['id']}")["action"]
    return {"members": [{"id": key} for key in action["outputs"]["removed"].values()]}


def freed(heat: Heat, path: str) -> dict[str, Any]:
    """An object that is detached, to be imported again."""
    sent = planned("detach", {"resources": ["a"]})(heat, path)
    return {"resources": sent.to(heat, path).json["detached"]}


LEAVERS = {"name": "leavers", "type": "deletion"}


def attached(heat: Heat, path: str) -> None:
    heat.call("POST", path + MEMBERS, {"attach_policy": LEAVERS}, 202)


def locked(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, 200)
    heat.settle(path)


def refer(name: str) -> dict[str, str]:
    return {"get_resource": name}


SERVER = {"image": "cirros", "flavor": "m1.nano", "networks": [{"network": refer("net")}]}
BALANCED = template(
    net=NETWORK,
    subnet={"type": "OS::Neutron::Subnet", "properties": {"network": refer("net"), "cidr": "10.8.0.0/24"}},
    lb={"type": "OS::Octavia::LoadBalancer", "properties": {"vip_subnet": refer("subnet")}},
    pool={
        "type": "OS::Octavia::Pool",
        "properties": {
            "name": "web", "loadbalancer": refer("lb"), "protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"
        },
    },
    g={
        "type": "OS::Heat::ResourceGroup",
        "depends_on": ["subnet"],
        "properties": {"count": 1, "resource_def": {"type": "OS::Nova::Server", "properties": SERVER}},
    },
)  # fmt: skip


def balancing(heat: Heat, path: str) -> Sent:
    """Have the members in the pool of the stack."""
    pool = heat.get(f"{path}/resources/pool")["resource"]["physical_resource_id"]
    options = {"pool": pool, "protocol_port": 80}
    return Sent("POST", MEMBERS, {"attach_policy": {"name": "lb", "type": "load_balancing", "options": options}})


def in_pool(key: str, **options: Any) -> Case:
    """A change of the policy that has the members in a pool."""

    def request(heat: Heat, path: str) -> Sent:
        if key == "attach_policy":
            return balancing(heat, path)
        assert balancing(heat, path).to(heat, path).status_int == 202
        eventually(lambda: not opened(heat), "the members are in the pool")
        return Sent("POST", MEMBERS, {key: {"name": "lb", **options}})

    return Case(request, removals=False, subject=Subject.SCALE, template=BALANCED)


NEEDS: dict[str, Case] = {
    "update": Case(lambda heat, path: Sent("PUT", "", {"template": template(b=THING)})),
    "undo": Case(after(lambda heat, path: update(heat, path, template(b=THING)), acts("undo"))),
    "restore": Case(restore),
    "retry": Case(after(lambda heat, path: update(heat, path, template(b=FAILING)), acts("retry"))),
    "delete": Case(lambda heat, path: Sent("DELETE"), subject=Subject.DELETE),
    "force_delete": Case(lambda heat, path: Sent("DELETE", "?force=true"), subject=Subject.DELETE),
    "resize": Case(
        acts("resize", {"adjustment_type": "EXACT_CAPACITY", "number": 1}, MEMBERS), subject=Subject.SCALE
    ),
    "scale_out": Case(acts("scale_out", {}, MEMBERS), removals=False, subject=Subject.SCALE),
    "scale_in": Case(acts("scale_in", {}, MEMBERS), subject=Subject.SCALE),
    "delete_members": Case(acts("delete_members", {"members": ["1"]}, MEMBERS), subject=Subject.SCALE),
    "replace_members": Case(acts("replace_members", {"members": ["1"]}, MEMBERS), subject=Subject.SCALE),
    "leave": Case(acts("leave", {"members": ["1"], "reduce": True}, MEMBERS), subject=Subject.SCALE),
    "join": Case(
        planned("join", left, MEMBERS, resource="g"), removals=False, subject=Subject.SCALE
    ),
    "attach_policy": in_pool("attach_policy"),
    "update_policy": in_pool("update_policy", options={"pool": "web", "protocol_port": 81}),
    "detach_policy": in_pool("detach_policy"),
    "import": Case(planned("import", freed), removals=False, template=template(a=NETWORK)),
    "detach": Case(planned("detach", {"resources": ["a"]}), removals=False),
    "move": Case(planned("move", {"moved": [{"from": "a", "to": "z"}]}), removals=False),
    "accept_drift": Case(
        after(check, planned("accept_drift", {})), removals=False, template=template(a=DRIFTING)
    ),
}  # fmt: skip
"""Requests that need an approval, by the word of the reference."""

NEVER: dict[str, Case] = {
    "lock": Case(acts("lock", {"level": "stacks"})),
    "unlock": Case(after(locked, acts("unlock"))),
    "protect": Case(acts("protect")),
    "unprotect": Case(after(lambda heat, path: heat.call("POST", f"{path}/actions", {"protect": None}, 200),
                            acts("unprotect"))),
    "mark_unhealthy": Case(lambda heat, path: Sent("PATCH", "/resources/a", {"mark_unhealthy": True})),
    "mark_healthy": Case(
        after(mark("a"), lambda heat, path: Sent("PATCH", "/resources/a", {"mark_unhealthy": False}))
    ),
    "check": Case(acts("check")),
    "heal": Case(after(mark("a"), acts("heal", {"resources": ["a"], "ignore": ["mode_off"]}))),
    "recover": Case(after(mark("a"), acts("recover", {"operation": "RECREATE"}, "/resources/a/actions"))),
    "replace_members": Case(after(mark("g/1"), acts("replace_members", {"members": ["1"]}, MEMBERS))),
    "revert_drift": Case(after(check, acts("revert_drift", {})), template=template(a=DRIFTING)),
    "attach_policy": Case(acts("attach_policy", LEAVERS, MEMBERS)),
    "update_policy": Case(after(attached, acts("update_policy", {"name": "leavers", "enabled": False}, MEMBERS))),
    "detach_policy": Case(after(attached, acts("detach_policy", {"name": "leavers"}, MEMBERS))),
    "abandon": Case(lambda heat, path: Sent("DELETE", "/abandon")),
    "rotate_keys": Case(acts("rotate_keys")),
    "suspend": Case(acts("suspend")),
    "resume": Case(
        after(lambda heat, path: (heat.call("POST", f"{path}/actions", {"suspend": None}), heat.settle(path)),
              acts("resume"))
    ),
    "snapshot": Case(lambda heat, path: Sent("POST", "/snapshots", {"name": "n"})),
    "delete_snapshot": Case(lambda heat, path: Sent("DELETE", f"/snapshots/{snapshot(heat, path)}")),
    "update": Case(lambda heat, path: Sent("PUT", "", {"template": WHOLE})),
}  # fmt: skip
"""Requests that need none."""


def tables() -> Iterator[frozenset[str]]:
    """The words in the first columns of both tables of the reference."""
    _, _, text = REFERENCE.read_text().partition("\n## What needs an approval\n")
    for part in text.partition("\n## ")[0].split("\n\nNothing asks for these:\n"):
        lines = [line.split("|")[1] for line in part.splitlines() if line.startswith("|")][2:]
        words = {word for line in lines for word in re.findall(r"`(\w+)`", line)}
        yield frozenset(words | ({"rollback"} if any("rollback" in line for line in lines) else set()))


def test_the_reference_has_each_operation() -> None:
    needs, never = tables()
    subjects = {"create", "undo", "node_action", "replace_members"}
    assert needs | never == {*map(str, Operation), *subjects, "recover", "rollback"}
    assert needs & never == {"replace_members", "attach_policy", "update_policy", "detach_policy"}
    assert needs == NEEDS.keys() | (ELSEWHERE & needs)
    assert never | {"update"} == NEVER.keys() | (ELSEWHERE & never)


@pytest.mark.slow
@pytest.mark.parametrize("word", NEEDS)
def test_it_is_asked_for_once(heat: Heat, word: str) -> None:
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    before = heat.get(path)["stack"]
    policy(heat, approve="always")
    answer = sent.to(heat, path)
    assert (answer.status_int, answer.json["error"]["type"]) == (409, "ApprovalRequired"), answer.text
    found = heat.get(f"/approvals/{answer.headers['X-Heatlite-Approval']}")["approval"]
    assert (found["subject"], found["because"]) == (case.subject, ["approve:always"])
    group = "g" if case.subject is Subject.SCALE else None
    assert found["resource"] == group
    paths = ["/".join(one["path"]) for one in found["content"]["plan"]["resources"]]
    assert paths and all(one.startswith("g/") or one == "g" for one in paths if group), paths
    assert sent.to(heat, path).headers["X-Heatlite-Approval"] == found["id"]
    now = heat.get(path)["stack"]
    assert now.pop("approvals") == 1
    assert now == before
    approve(heat, found)
    passed = sent.to(heat, path)
    assert passed.status_int < 300, passed.text
    eventually(lambda: not opened(heat), "it has ended")
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "DONE"


def opened(heat: Heat) -> list[Any]:
    return [one for one in heat.get("/actions")["actions"] if one["status"] not in ("SUCCEEDED", "FAILED", "CANCELLED")]


@pytest.mark.slow
@pytest.mark.parametrize("word", NEEDS)
def test_only_if_objects_go(heat: Heat, word: str) -> None:
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    policy(heat, approve="removals")
    answer = sent.to(heat, path)
    assert (answer.status_int == 409) == case.removals, answer.text
    assert [one["because"] for one in heat.get("/approvals")["approvals"]] == [["approve:removals"]] * case.removals


@pytest.mark.slow
def test_a_policy_of_a_group_by_which_an_object_goes(heat: Heat) -> None:
    """Its action replaces a marked member."""
    path = heat.create(BALANCED)
    mark("g/0")(heat, path)
    sent = balancing(heat, path)
    key, options = next(iter(sent.body.items()))
    policy(heat, approve="removals")
    preview = {key: {**options, "resource": "g"}}
    plan = heat.call("PATCH", f"{path}/preview?plan=true", preview, 200).json["plan"]
    assert plan["approval"] == {"needed": True, "because": ["approve:removals"]}
    answer = sent.to(heat, path)
    found = heat.get(f"/approvals/{answer.headers['X-Heatlite-Approval']}")["approval"]
    told = found["content"]["plan"]
    assert {"/".join(one["path"]): one["action"] for one in told["resources"]} == {"g": "update", "g/0": "replace"}
    assert found["digest"] == plan["digest"]
    assert "policies" not in heat.get(f"{path}/resources/g")["resource"]
    approve(heat, found)
    assert sent.to(heat, path).status_int == 202
    eventually(lambda: not opened(heat), "it has ended")


@pytest.mark.slow
@pytest.mark.parametrize("word", NEEDS)
def test_it_waits_and_begins(heat: Heat, word: str) -> None:
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    policy(heat, approve="always")
    answer = sent.to(heat, path, "&approval=wait" if "?" in sent.rest else "?approval=wait")
    assert answer.status_int in (200, 202), answer.text
    (found,) = heat.get("/approvals")["approvals"]
    assert heat.get(f"/actions/{found['action_id']}")["action"]["status"] == "INIT"
    done = approve(heat, found)["approval"]
    assert (done["state"], done["action_id"]) == ("DONE", found["action_id"])
    eventually(lambda: not opened(heat), "it has ended")
    ended = heat.get(f"/actions/{found['action_id']}")["action"]
    assert (ended["status"] == "SUCCEEDED") == (word != "retry"), ended["status_reason"]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["reject", "expire"])
@pytest.mark.parametrize("word", NEEDS)
def test_it_ends_without_a_yes(clouded: wiring.Embedded, heat: Heat, word: str, end: str) -> None:
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    before = heat.get(path)["stack"]
    policy(heat, approve="always", approval_ttl=60)
    sent.to(heat, path, "&approval=wait" if "?" in sent.rest else "?approval=wait")
    (found,) = heat.get("/approvals")["approvals"]
    if end == "reject":
        heat.call("POST", f"/approvals/{found['id']}/reject", {}, code=200)
    else:
        clock = clouded.components.clock
        assert isinstance(clock, Ahead)
        clock.ahead += 61
        approve(heat, found, code=409)
        eventually(lambda: not opened(heat), "the sweep ends it")
    state = {"reject": "REJECTED", "expire": "EXPIRED"}[end]
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == state
    assert heat.get(f"/actions/{found['action_id']}")["action"]["status"] == "CANCELLED"
    assert heat.get(path)["stack"] == before


@pytest.mark.slow
@pytest.mark.parametrize("word", NEVER)
def test_nothing_asks_for_it(heat: Heat, word: str) -> None:
    case = NEVER[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    policy(heat, approve="always")
    answer = sent.to(heat, path)
    assert answer.status_int < 300, answer.text
    assert heat.get("/approvals")["approvals"] == []


@pytest.mark.slow
@pytest.mark.parametrize("rolls_back", [True, False])
def test_a_failed_update_goes_back_unasked(heat: Heat, rolls_back: bool) -> None:
    """A rollback or a cancel deletes what the update has made.

    That is part of what was approved.
    """
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    slow = {**THING, "properties": {"action_wait_secs": {"create": -1}}}
    made = {"a": THING, "b": THING, "c": {**(FAILING if rolls_back else slow), "depends_on": "b"}}
    heat.call("PATCH", path, {"template": template(**made), "disable_rollback": not rolls_back}, 202)
    if not rolls_back:
        eventually(lambda: len(heat.get(f"{path}/resources")["resources"]) == 3, "c is being made")
        heat.call("POST", f"{path}/actions", {"cancel_update": None}, 200)
    heat.settle(path, "ROLLBACK_COMPLETE")
    assert heat.get("/approvals")["approvals"] == []
    assert [one["resource_name"] for one in heat.get(f"{path}/resources")["resources"]] == ["a"]


LATER: dict[str, tuple[str, Callable[[str], Any]]] = {
    "update": ("/actions", lambda at: {"update": {"template": template(b=THING), "not_before": at}}),
    "delete": ("/actions", lambda at: {"delete": {"not_before": at}}),
    "scale_in": (MEMBERS, lambda at: {"scale_in": {"not_before": at}}),
    "replace_members": (MEMBERS, lambda at: {"replace_members": {"members": ["1"], "not_before": at}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("word", LATER)
def test_what_was_scheduled_is_asked_for_at_its_time(word: str, tmp_path: Path) -> None:
    clock = Ahead()
    server = wiring.embedded(Settings(database=sqlite(tmp_path), lease_seconds=1e10), clock=clock)
    try:
        heat = Heat(server.app)
        path = heat.create(WHOLE)
        rest, body = LATER[word]
        asked = body(to_text(clock.now() + 3600))
        if word == "update":
            plan = heat.call("PATCH", f"{path}/preview?plan=true", {"template": template(b=THING)}, 200).json["plan"]
            asked["update"]["plan_digest"] = plan["digest"]
        answer = heat.call("POST", path + rest, asked)
        assert answer.status_int < 300, answer.text
        (action,) = opened(heat)
        policy(heat, approve="removals")
        clock.ahead = 3601
        shown = eventually(
            lambda: (one := heat.get(f"/actions/{action['id']}")["action"])["status"] == "CANCELLED" and one,
            "its time has come",
        )
        (found,) = heat.get("/approvals")["approvals"]
        assert found["id"] in shown["status_reason"]
        assert (found["state"], found["requested_by"]) == ("PENDING", "anonymous")
        assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
    finally:
        server.close()
