"""Restricted types are checked on submission, in previews and on execution."""

import json
from typing import Any

import pytest

from heatlite.api.access.policy import TABLE
from tests.api.conftest import Town, template, value
from tests.api.test_lock_matrix import OPERATIONS
from tests.tables import few
from tests.waiting import eventually

KIND = "OS::Heat::TestResource"
GUARDED = {"type": KIND, "properties": {"value": "v"}}
REFUSED = f"You are not authorized to use {KIND}."
GROUP = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": GUARDED}}

REFUSING = {
    "heal", "revert_drift", "recover", "patch", "delete", "force", "restore", "suspend", "resume", "retry", "detach",
    "import", "move", "accept_drift", "undo",
}  # fmt: skip
"""Operations on a stack with such a type.

The others neither change its resources nor take them away.
"""
LETTING_IN = {
    "create", "put", "check", "check_resource", "abandon", "snapshot", "delete_snapshot", "mark", "marks", "signal",
    "drop", "replay", "cancel_update", "cancel_without_rollback", "lock", "unlock", "protect", "unprotect",
    "rotate_keys",
}  # fmt: skip


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, f"resource_types:{KIND}", frozenset({"admin"}))


def test_every_operation_is_one_or_the_other() -> None:
    assert OPERATIONS.keys() == REFUSING | LETTING_IN


@pytest.mark.slow
@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("resource", few([GUARDED, GROUP]), ids=["in it", "nested"])
def test_what_is_there(town: Town, resource: Any) -> None:
    """A stack that an administrator has made, and what a member may do with it."""
    member, admin = town["member"], town["admin"]
    path = admin.create(template(a=resource))
    snapshot = admin.call("POST", f"{path}/snapshots", {"name": "n"}, code=200).json["id"]
    admin.settle(path)
    for name in sorted(REFUSING):
        route, below, body = OPERATIONS[name]
        url = path + below.replace("SNAPSHOT", snapshot)
        if name == "recover" and resource is GROUP:  # of a group only what is marked is repaired
            url = f"{path}/resources/a/0/actions"
        assert member.fault(route.split()[0], url, body, code=403)[1] == REFUSED, name
    later = {"suspend": {"not_before": "2099-01-01T00:00:00Z"}}
    assert member.fault("POST", f"{path}/actions", later, code=403)[1] == REFUSED
    for method in ("PUT", "PATCH"):
        body = {"template": template(a=resource)}
        assert member.fault(method, f"{path}/preview", body, code=403)[1] == REFUSED
    assert member.fault("PATCH", f"{path}/preview", {}, code=403)[1] == REFUSED
    assert member.get(path)["stack"]["stack_status"] == "SNAPSHOT_COMPLETE"
    without = {"template": template(a=value())}
    member.call("PUT", f"{path}/preview", without, code=200)
    member.call("PUT", path, without, code=202)
    member.settle(path)
    member.call("DELETE", path, code=204)


@pytest.mark.usefixtures("guarded")
@pytest.mark.parametrize("resource", few([GUARDED, GROUP]), ids=["in it", "nested"])
def test_healing_lends_no_rights(town: Town, resource: Any) -> None:
    """Policies and approvals come from callers who may repair.

    The loop itself has no caller.
    """
    member, admin = town["member"], town["admin"]
    path = admin.create(template(a=resource))
    policy = {"healing_policy": "2026-11-22", "mode": "off"}
    assert member.fault("PUT", f"{path}/healing", policy, code=403)[1] == REFUSED
    assert admin.call("PUT", f"{path}/healing", policy, code=200).json["version"] == 1
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "a" if resource is GUARDED else "a/0"}
    (result,) = member.call("POST", "/health/generic", {"reports": [report]}, code=200).json["results"]
    approve = f"/incidents/{result['incident']}/approve"
    assert member.fault("POST", approve, {"plan_digest": "x"}, code=403)[1] == REFUSED
    assert admin.fault("POST", approve, {"plan_digest": "x"}, code=409)[0] == "InvalidStackState"


@pytest.mark.usefixtures("guarded")
def test_all_problems_of_a_template(town: Town) -> None:
    body = {"template": json.dumps(template(a=value(), b=GUARDED, c=GROUP))}
    found = town["member"].call("POST", "/validate?all_errors=true", body, code=200).json["problems"]
    told = [(one["type"], one["path"], one["severity"]) for one in found if REFUSED in one["message"]]
    assert ("Forbidden", "resources.b.type", "error") in told
    assert [path for _, path, _ in told if path.startswith("resources.c")]
    assert town["admin"].call("POST", "/validate?all_errors=true", body, code=200).json["problems"] == []


@pytest.mark.slow
@pytest.mark.usefixtures("guarded")
def test_a_policy_acts_for_all_who_may_signal(town: Town) -> None:
    """Its author has delegated that: a member may read its signed URL, too."""
    member, admin = town["member"], town["admin"]
    group = {"type": "OS::Heat::AutoScalingGroup", "properties": {"min_size": 1, "max_size": 2, "resource": GUARDED}}
    policy = {"type": "OS::Heat::ScalingPolicy", "properties": {
        "auto_scaling_group_id": {"get_resource": "g"}, "adjustment_type": "change_in_capacity",
        "scaling_adjustment": 1}}  # fmt: skip
    path = admin.create(template(g=group, p=policy))
    scaled = member.fault("POST", f"{path}/resources/g/actions", {"scale_out": {"count": 1}}, code=403)
    assert scaled[1] == REFUSED
    member.call("POST", f"{path}/resources/p/signal", {}, code=200)
    url = f"{path}/resources/g?with_attr=current_size"
    eventually(lambda: admin.get(url)["resource"]["attributes"]["current_size"] == 2, "the group grows")
