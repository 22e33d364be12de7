"""Requests that wait for an approval, and what has become of them meanwhile."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.clock import to_text
from heatlite.core.config import Settings
from heatlite.feature import installed
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.databases import sqlite
from tests.tables import few
from tests.waiting import eventually

from .test_approvals import THING, Ahead, approve, policy, refused, replacing, succeeded

FAILING = {**THING, "properties": {"fail": True}}
OWNER = template(a=THING, b=THING) | {"outputs": {"o": {"value": "x"}}}
READER = template(r=THING) | {"parameters": {"p": {"type": "string"}}}


def read_base(heat: Heat) -> str:
    """Create a stack whose output another one reads, and that may not be removed."""
    path = heat.create(template(a=THING), "base")
    heat.call("PUT", path, {"template": OWNER}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    heat.create(READER, "reader", parameter_sources={"p": {"stack": "base", "output": "o"}})
    policy(heat, approve="removals", reads="refuse")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "rest", "body"),
    few([
        ("PUT", "", replacing()),
        ("PATCH", "", replacing()),
        ("DELETE", "", None),
        ("POST", "/actions", {"undo": {"to": 1}}),
    ]),
)  # fmt: skip
def test_force_is_kept(own_heat: Heat, method: str, rest: str, body: Any) -> None:
    heat = own_heat
    path = read_base(heat)
    query = f"{path}{rest}?approval=wait"
    assert heat.call(method, query, body, code=409).json["error"]["type"] == "OutputInUse"
    answer = heat.call(method, f"{query}&force=true", body)
    assert answer.status_int in (200, 202), answer.text
    (found,) = heat.get("/approvals")["approvals"]
    assert approve(heat, found)["approval"]["state"] == "DONE"
    eventually(lambda: succeeded(heat, found["action_id"]), "it is done")


@pytest.mark.slow
@pytest.mark.parametrize("approval", ["refuse", "wait"])
def test_each_query_is_a_request_of_its_own(own_heat: Heat, approval: str) -> None:
    """Law A4: an equal request is equal in its query keys, too."""
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    queries = ["", "&force=true", "&quota_check=off", "&quota_check=warn", "&force=true&quota_check=off"]
    ids = []
    for query in [*queries, *queries]:
        heat.call("PUT", f"{path}?approval={approval}{query}", replacing())
        ids.append([one["id"] for one in heat.get("/approvals")["approvals"]])
    assert [len(one) for one in ids] == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5]
    actions = heat.get("/actions?status=INIT")["actions"]
    assert len(actions) == (5 if approval == "wait" else 0)
    (found, *others) = heat.get("/approvals")["approvals"]  # the newest
    assert approve(heat, found)["approval"]["state"] == ("DONE" if approval == "wait" else "APPROVED")
    if approval == "refuse":
        for query in queries[:-1]:
            heat.call("PUT", f"{path}?approval=refuse{query}", replacing(), code=409)
        # The order of keys does not count.
        heat.call("PUT", f"{path}?quota_check=off&force=true", replacing(), code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert {heat.get(f"/approvals/{one['id']}")["approval"]["state"] for one in others} == {"PENDING"}


@pytest.mark.slow
def test_force_is_kept_until_a_time(tmp_path: Path) -> None:
    clock = Ahead()
    server = wiring.embedded(Settings(database=sqlite(tmp_path), lease_seconds=1e10), clock=clock)
    try:
        heat = Heat(server.app)
        path = read_base(heat)
        policy(heat, reads="refuse")
        plan = heat.call("PATCH", f"{path}/preview?plan=true", replacing(), code=200).json["plan"]
        body = {**replacing(), "plan_digest": plan["digest"], "not_before": to_text(clock.now() + 3600)}
        heat.call("POST", f"{path}/actions?force=true", {"update": body})
        (action,) = heat.get("/actions?status=INIT")["actions"]
        clock.ahead = 3601
        eventually(lambda: succeeded(heat, action["id"]), "its time has come")
    finally:
        server.close()


def waiting_retry(heat: Heat) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A stack whose retry waits. Returns its path, the action and the approval."""
    path = heat.create(template(a=THING))
    heat.call("PUT", path, {"template": template(a=THING, b=FAILING), "disable_rollback": True}, code=202)
    heat.settle(path, "UPDATE_FAILED")
    policy(heat, approve="always")
    answer = heat.call("POST", f"{path}/actions?approval=wait", {"retry": None}, code=202)
    policy(heat, approve="never")
    action = answer.json["action"]
    return path, action, heat.get(f"/approvals/{action['data']['approval']['id']}")["approval"]


def decisions(fact: Any) -> list[str]:
    """The decisions that a fact offers."""
    return [one["command"].split()[2] for one in fact["way_out"] if one["command"] is not None]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["update", "suspend"])
def test_a_retry_without_a_failure_is_obsolete(own_heat: Heat, by: str) -> None:
    """The fact offers no approval, and the first try ends what waits."""
    heat = own_heat
    path, action, found = waiting_retry(heat)
    (fact,) = [one for one in heat.get(f"{path}/why")["facts"] if one["code"] == "approval"]
    assert decisions(fact) == ["approve", "reject"]
    if by == "update":
        heat.call("PUT", path, replacing(), code=202)
        heat.settle(path, "UPDATE_COMPLETE")
    else:
        heat.call("POST", f"{path}/actions", {"suspend": None}, code=200)
        heat.settle(path)
    (fact,) = [one for one in heat.get(f"{path}/why")["facts"] if one["code"] == "approval"]
    assert "It can no longer begin: Stack s is" in fact["text"]
    assert decisions(fact) == ["reject"]
    error = approve(heat, found, code=409)["error"]
    assert error["type"] == "InvalidStackState" and "is OBSOLETE now" in error["message"]
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "OBSOLETE"
    ended = heat.get(f"/actions/{action['id']}")["action"]
    assert ended["status"] == "CANCELLED" and "no failed create or update" in ended["status_reason"]


@pytest.mark.slow
def test_a_retry_of_another_failure_is_asked_for_anew(own_heat: Heat) -> None:
    """The action goes on waiting, for an approval of what it would do now."""
    heat = own_heat
    path, action, found = waiting_retry(heat)
    body = {"template": template(a=THING, c=FAILING), "disable_rollback": True}
    heat.call("PUT", path, body, code=202)
    heat.settle(path, "UPDATE_FAILED")
    policy(heat, approve="always")
    assert approve(heat, found, code=409)["error"]["type"] == "PlanChanged"
    old = heat.get(f"/approvals/{found['id']}")["approval"]
    new = heat.get(f"/approvals/{old['replaced_by']}")["approval"]
    assert (old["state"], new["state"], new["action_id"]) == ("OBSOLETE", "PENDING", action["id"])
    assert "c" in [one["resource_name"] for one in new["content"]["plan"]["resources"]]
    assert approve(heat, new)["approval"]["state"] == "DONE"
    heat.settle(path, "UPDATE_FAILED")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("off", "key", "options"),
    [("ownership", "move", {"moved": [{"from": "a", "to": "b"}]}), ("ownership", "detach", {"resources": ["a"]}),
     ("revisions", "undo", {})],
)  # fmt: skip
def test_a_request_of_a_feature_that_is_off(tmp_path: Path, off: str, key: str, options: dict[str, Any]) -> None:
    """It waits on: its decision says what is off, and no right that is missing."""
    settings = Settings(database=sqlite(tmp_path), lease_seconds=1e10)
    server = wiring.embedded(settings)
    heat = Heat(server.app)
    path = heat.create(template(a=THING))
    heat.call("PUT", path, {"template": template(a=THING, c=THING)}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    policy(heat, approve="always")
    digest = heat.call("PATCH", f"{path}/preview?plan=true", {key: options}, code=200).json["plan"]["digest"]
    heat.call("POST", f"{path}/actions?approval=wait", {key: {**options, "plan_digest": digest}}, code=202)
    (found,) = heat.get("/approvals")["approvals"]
    for names in ([one.name for one in installed() if one.name != off], None):
        server.close()
        server = wiring.embedded(replace(settings, features=names if names is None else tuple(names)))
        heat, way = Heat(server.app), f"/approvals/{found['id']}/approve"
        answer = heat.call("POST", way, {"digest": found["digest"]}, code=202 if names is None else 400)
        if names is not None:
            assert answer.json["error"]["type"] == "NotSupported"
            assert f"{key} (its feature is off)" in answer.json["error"]["message"]
            assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "PENDING"
    heat.settle(path, "UPDATE_COMPLETE")
    server.close()


@pytest.mark.slow
def test_its_reason_while_the_feature_is_off(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), lease_seconds=1e10)
    server = wiring.embedded(settings)
    heat = Heat(server.app)
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    action = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]
    server.close()
    server = wiring.embedded(replace(settings, features=()))
    try:
        heat = Heat(server.app)
        (fact,) = heat.get(f"{path}/why")["facts"]
        assert "the feature that decides about it is off. Features that are off here: approvals, " in fact["text"]
        assert "heatlite approval" not in str(fact)
        assert heat.get(f"/actions/{action['id']}")["action"]["status_reason"] == fact["text"]
        operator, cancel = fact["way_out"]
        assert operator["path"] is None and "`features`" in operator["text"]
        heat.call(cancel["method"], cancel["path"], cancel["body"], code=202)
        eventually(
            lambda: heat.get(f"/actions/{action['id']}")["action"]["status"] == "CANCELLED", "it is cancelled"
        )
    finally:
        server.close()


def test_the_command_says_who_sends_it_again(own_heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat = own_heat
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    found = refused(heat, "DELETE", path)
    assert Here(heat)(f"approval approve {found['id']} -y") == 0
    assert "sent again, which a schedule or an expiry does itself" in capsys.readouterr().out
    assert Here(heat)(f"approval show {found['id']}") == 0
    assert "Plan: 0 added, 0 updated, 0 replaced, 1 deleted.\n" in capsys.readouterr().out
