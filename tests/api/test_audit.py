"""The audit log: each request that changes something, once, with its outcome."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.core.config import Auth, Settings
from heatlite.store.audit import MAX_DISTINCT, AuditLog
from tests.databases import sqlite
from tests.engine.conftest import HeldClock

from .conftest import Heat, Ticking, template, value


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[wiring.Embedded]:
    settings = Settings(database=sqlite(tmp_path), auth=Auth.TOKENS, tokens_file=str(tmp_path / "tokens.yaml"))
    server = wiring.embedded(settings, clock=Ticking())
    yield server
    server.close()


def client(guarded: wiring.Embedded, tmp_path: Path, user: str, role: str, project: str = "demo") -> Heat:
    token = add_token(tmp_path / "tokens.yaml", user, {project: [role]}, None)
    heat = Heat(guarded.app, project, {"X-Auth-Token": token})
    heat.app.extra_environ["REMOTE_ADDR"] = f"192.0.2.{len(user)}"
    return heat


def listed(heat: Heat, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = heat.get(f"/audit{query}")["audit"]
    return found


@pytest.mark.slow
def test_each_change_and_each_refusal_is_one_row(guarded: wiring.Embedded, tmp_path: Path) -> None:
    mary = client(guarded, tmp_path, "mary", "member")
    rick = client(guarded, tmp_path, "rick", "reader")
    stack = mary.create(template(a=value("1")))
    resources = mary.get(f"{stack}/resources")  # a read leaves no row
    assert resources["resources"]
    changed = {"template": template(a=value("2"))}
    digest = mary.call("PUT", f"{stack}/preview?plan=true", changed, code=200).json["plan"]["digest"]
    mary.call("POST", "/validate", changed, code=200)
    mary.call("PUT", stack, changed | {"plan_digest": digest}, code=202)
    mary.settle(stack)
    mary.call("PATCH", f"{stack}/resources/a", {"mark_unhealthy": True, "resource_status_reason": "x"}, code=200)
    mary.call("POST", f"{stack}/actions", {"lock": {"level": "stacks"}}, code=200)
    mary.settle(stack)
    for _ in range(3):
        mary.call("DELETE", stack, code=409)
    rick.call("DELETE", stack, code=403)
    rick.call("GET", "/software_configs?x=1")
    Heat(guarded.app).call("DELETE", stack, code=401, headers={"X-Auth-Token": "wrong"})
    mary.call("POST", "/stacks", {"stack_name": "t", "template": {"oops": 1}}, code=400)

    rows = list(reversed(listed(mary)))
    name, _, stack_id = stack.removeprefix("/stacks/").partition("/")
    assert [(row["user"], row["operation"], row["outcome"], row["status"], row["times"]) for row in rows] == [
        ("mary", "stacks:create", "done", None, 1),
        ("mary", "stacks:update", "done", None, 1),
        ("mary", "resource:mark_unhealthy", "done", None, 1),
        ("mary", "actions:lock", "done", None, 1),
        ("mary", "stacks:delete", "refused", 409, 3),
        ("rick", "stacks:delete", "refused", 403, 1),
        (None, "stacks:delete", "refused", 401, 1),
        ("mary", "stacks:create", "refused", 400, 1),
    ]
    assert {(row["stack_name"], row["stack_id"]) for row in rows[:7]} == {(name, stack_id)}
    assert rows[1]["plan_digest"] == digest
    assert rows[2]["resource_name"] == "a"
    assert all(row["action_id"] for row in rows[:2])
    assert "maintenance" in rows[4]["reason"]
    assert {row["address"] for row in rows if row["user"]} == {"192.0.2.4"}
    assert len({row["request_id"] for row in rows}) == len(rows)

    assert listed(rick) == listed(mary), "who may read the project may read its audit log"
    assert [row["status"] for row in listed(mary, "?outcome=refused&user=rick,mary")] == [400, 403, 409]
    assert len(listed(mary, f"?stack={name}&operation=stacks:delete")) == 3
    assert listed(mary, f"?since={rows[0]['time']}&until={rows[0]['time']}") == []
    first = mary.get("/audit?limit=3")
    assert [row["status"] for row in first["audit"]] == [400, 401, 403]
    following = first["links"][0]["href"].split("?")[1]
    assert [row["status"] for row in listed(mary, f"?{following}")] == [409, None, None]
    mary.fault("GET", "/audit?since=yesterday")
    mary.fault("GET", "/audit?who=mary")
    assert listed(client(guarded, tmp_path, "otto", "member", "other")) == []


def test_a_protection_and_its_end_are_rows(guarded: wiring.Embedded, tmp_path: Path) -> None:
    mary = client(guarded, tmp_path, "mary", "member")
    stack = mary.create(template(a=value("1")))
    mary.call("POST", f"{stack}/actions", {"protect": None}, code=200)
    mary.call("DELETE", stack, code=409)
    mary.call("POST", f"{stack}/actions", {"unprotect": None}, code=200)
    mary.call("DELETE", stack, code=204)
    rows = [(row["user"], row["operation"], row["outcome"]) for row in listed(mary)]
    assert rows[::-1][1:] == [
        ("mary", "actions:protect", "done"),
        ("mary", "stacks:delete", "refused"),
        ("mary", "actions:unprotect", "done"),
        ("mary", "stacks:delete", "done"),
    ]


def test_a_request_that_no_route_gets_is_one_row(heat: Heat) -> None:
    """A page of another site sends a cached password; a body is too large."""
    stack = heat.create(template(a=value()))
    heat.call("DELETE", stack, code=403, headers={"Origin": "http://evil.example"})
    heat.call("GET", stack, code=403, headers={"Origin": "http://evil.example"})
    heat.call("POST", f"{stack}/actions", b" " * 5_000_000, code=400)
    rows = [(row["user"], row["operation"], row["status"]) for row in reversed(listed(heat))]
    assert rows[1:] == [(None, "stacks:delete", 403), (None, "actions:action", 400)]
    assert {row["stack_id"] for row in listed(heat)} == {stack.rpartition("/")[2]}


def test_a_signed_signal_and_a_replay_are_one_row_each(heat: Heat) -> None:
    scaled = {"type": "OS::Heat::AutoScalingGroup", "properties": {
        "min_size": 0, "max_size": 5, "resource": {"type": "OS::Heat::RandomString"}}}  # fmt: skip
    policy = {"type": "OS::Heat::ScalingPolicy", "properties": {
        "auto_scaling_group_id": {"get_resource": "g"}, "adjustment_type": "change_in_capacity",
        "scaling_adjustment": 1}}  # fmt: skip
    outputs = {"url": {"value": {"get_attr": ["p", "signal_url"]}}}
    stack = heat.create(template(g=scaled, p=policy) | {"outputs": outputs})
    url = heat.get(f"{stack}/outputs/url")["output"]["output_value"]
    heat.call("POST", f"{stack}/actions", {"lock": {"level": "stacks"}}, code=200)
    heat.settle(stack)
    heat.call("POST", url[url.index("/v1/") :], {})
    entry = heat.get(f"{stack}/lock")["suppressed"][0]["id"]
    heat.call("POST", f"{stack}/actions", {"unlock": None}, code=200)
    heat.settle(stack)
    heat.call("POST", f"{stack}/lock/suppressed/{entry}/replay", code=200)
    rows = [*reversed(listed(heat))]
    assert [row["operation"] for row in rows] == [
        "stacks:create",
        "actions:lock",
        "resource:signal",
        "actions:unlock",
        "stacks:replay_suppressed",
    ]
    name = parse_qs(urlsplit(url).query)["AWSAccessKeyId"][0]
    assert {row["user"] for row in rows} == {"anonymous", f"machine:{name}"}


@pytest.mark.slow
def test_no_account_has_the_name_of_a_machine(guarded: wiring.Embedded, tmp_path: Path) -> None:
    named = client(guarded, tmp_path, "machine:s-h-abcdefghijkl", "member")
    assert "Rename the account" in named.fault("GET", "/stacks", code=403)[1]


def test_a_report_leaves_a_row_only_if_it_is_refused(
    guarded: wiring.Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mary = client(guarded, tmp_path, "mary", "member")
    report = {"reports": [{"key": "k", "status": "healthy"}]}
    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "insert", None)  # not even for a moment: reports are many
        mary.call("POST", "/health/generic", report, code=200)
    client(guarded, tmp_path, "rick", "reader").call("POST", "/health/generic", report, code=403)
    assert [(row["user"], row["operation"], row["status"]) for row in listed(mary)] == [("rick", "health:report", 403)]


def test_a_signature_that_is_not_verified_names_no_caller(
    guarded: wiring.Embedded, tmp_path: Path
) -> None:
    """Sending one needs no account, so the limits of unknown callers hold."""
    mary, anyone = client(guarded, tmp_path, "mary", "member"), Heat(guarded.app)
    stack = mary.create(template(h={"type": "OS::Heat::WaitConditionHandle"}))
    for number in range(5):
        anyone.call("POST", f"/stacks/s{number}/{number}/resources/r/signal?Signature=x", {}, code=403)
        anyone.call("POST", f"{stack}/resources/h/signal?Signature=x{number}", {}, code=403)
    rows = [(row["user"], row["operation"], row["times"]) for row in listed(mary, "?outcome=refused")]
    assert rows == [(None, "resource:signal", 10)]


@pytest.mark.slow
def test_a_caller_does_not_fill_the_log_with_refusals(tmp_path: Path) -> None:
    """Each has another path and another reason."""
    settings = Settings(database=sqlite(tmp_path), auth=Auth.TOKENS, tokens_file=str(tmp_path / "tokens.yaml"))
    clock = HeldClock()
    with clock.held(), closing(wiring.embedded(settings, clock=clock)) as server:
        mary, rick = (client(server, tmp_path, name, role) for name, role in (("mary", "member"), ("rick", "reader")))
        for number in range(MAX_DISTINCT + 30):
            rick.call("DELETE", f"/stacks/s{number}/{number}", code=403)
            mary.call("DELETE", f"/stacks/s{number}/{number}", code=404)
        for user in ("mary", "rick"):
            rows = listed(mary, f"?user={user}&limit=1000")
            assert sorted(row["times"] for row in rows) == [1] * MAX_DISTINCT + [30]
