"""Rules whose endpoints judge plans, through the API."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.features.rules.feature import RulesSettings
from heatlite.store.store import Store
from tests.api.conftest import Heat, template, value
from tests.databases import sqlite
from tests.features.rules.api.test_rules import (
    CHANGED,
    FULL,
    GROUP,
    MEMBER,
    NUMBERED,
    OPERATIONS,
    rule,
    rules,
)
from tests.features.rules.endpoints import Endpoint, answer, listening, says
from tests.waiting import eventually


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    """A server whose operator lists this machine."""
    settings = Settings(
        database=sqlite(tmp_path_factory.mktemp("listing")), of_features=(RulesSettings(rule_hosts=("127.0.0.1",)),)
    )
    server = wiring.embedded(settings)
    yield server
    server.close()


@pytest.fixture
def server(listing: wiring.Embedded) -> wiring.Embedded:
    return listing


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with listening() as made:
        yield made


def at(endpoint: Endpoint, name: str = "cmdb", **keys: Any) -> dict[str, Any]:
    return rule(name, when=None, url=endpoint.url, deadline=20, **keys)


def found(heat: Heat, body: Any) -> list[tuple[str, str, str | None, str]]:
    """The findings of the plan of a create."""
    plan = heat.call("POST", "/stacks/preview?plan=true", body, 200).json["plan"]
    return [(one["name"], one["result"], one["path"], one["message"]) for one in plan["rules"]]


CREATE = {"stack_name": "t", "template": FULL}
UPDATE = {"template": CHANGED}


@pytest.mark.slow
@pytest.mark.parametrize("operation", [*OPERATIONS])
def test_each_operation(heat: Heat, endpoint: Endpoint, operation: str) -> None:
    """The answer about a plan holds in the transaction: it is asked once."""
    method, place, body, code, key = OPERATIONS[operation]
    path = heat.create(FULL)
    url = place(heat, path)
    rules(heat, at(endpoint, on=[key]), rule("hm", on=[key], then="warn"))
    endpoint.behave = says("deny", message="not in the CMDB", findings=[{"path": "a", "message": "unknown"}])
    error = heat.call(method, url, body, 403).json["error"]
    assert [(one["name"], one["result"], one["path"], one["message"]) for one in error["rules"]] == [
        ("cmdb", "deny", "a", "unknown"), ("hm", "warn", None, "not here"),
    ]  # fmt: skip
    assert len(endpoint.bodies) == 1
    endpoint.behave = says("pass")
    heat.call(method, url, body, code)
    assert len(endpoint.bodies) == 2


@pytest.mark.slow
def test_a_signal(heat: Heat, endpoint: Endpoint) -> None:
    """B8, by an endpoint."""
    path = heat.create(FULL)
    rules(heat, at(endpoint, on=["scale"]))
    endpoint.behave = says("deny", message="enough")
    signal = f"{path}/resources/up/signal"
    assert heat.call("POST", signal, {}, 200).headers["X-Heatlite-Ignored"] == "rule"
    endpoint.behave = says("pass")
    assert "X-Heatlite-Ignored" not in heat.call("POST", signal, {}, 200).headers
    assert len(endpoint.bodies) == 2


def test_an_approval(heat: Heat, endpoint: Endpoint) -> None:
    """B1: an endpoint wants one. What is approved passes."""
    path = heat.create(FULL)
    rules(heat, at(endpoint))
    endpoint.behave = says("approve", message="ask Ada")
    plan = heat.call("PUT", f"{path}/preview?plan=true", UPDATE, 200).json["plan"]
    assert plan["approval"] == {"needed": True, "because": ["rule:cmdb"]}
    assert len(endpoint.bodies) == 1
    action = heat.call("PUT", f"{path}?approval=wait", UPDATE, 202)
    assert endpoint.told[1]["plan"]["digest"] == plan["digest"]
    (approval,) = heat.get("/approvals")["approvals"]
    assert approval["digest"] == plan["digest"] and action.status_int == 202
    heat.call("POST", f"/approvals/{approval['id']}/approve", {"digest": plan["digest"]}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert [one["operation"] for one in endpoint.told] == ["update"] * 3


def test_what_it_is_told(heat: Heat, endpoint: Endpoint) -> None:
    """All fields of what changes, nothing hidden (acceptance 8)."""
    told: dict[str, Any] = template(a=value({"get_param": "p"}), b=value("open"), c=value("same"))
    told["parameters"] = {"p": {"type": "string", "hidden": True}}
    rules(heat, at(endpoint))
    made = {"stack_name": "s", "template": told, "parameters": {"p": "s3cret-word"}}
    answered = heat.call("POST", "/stacks/preview?plan=true", made, 200)
    request_id = answered.headers["X-Openstack-Request-Id"]
    path = heat.create(told, parameters={"p": "s3cret-word"})
    told["resources"]["b"] = value("closed")
    heat.call("PUT", path, {"template": told, "parameters": {"p": "s3cret-other"}}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    heat.call("DELETE", path, code=204)
    assert not [one for one in endpoint.bodies if b"s3cret" in one]
    first, _, changed, deleted = endpoint.told
    plan = first.pop("plan")
    assert {**first, "now": ""} == {
        "rules": "2026-11-28", "request_id": request_id, "operation": "create", "project": heat.project, "stack": "s",
        "user": {"name": "anonymous", "roles": first["user"]["roles"]}, "now": "",
    }  # fmt: skip
    assert first["now"].endswith(":00Z")
    assert len(plan["digest"]) == 64 and [one["path"] for one in plan["resources"]] == ["a", "b", "c"]
    assert plan["resources"][1] == {
        "path": "b", "type": "OS::Heat::Value", "action": "create", "physical_id": None,
        "properties": {"value": "open"}, "old": {}, "changed": ["value"], "unknown": [], "protected": False,
    }  # fmt: skip
    (one,) = [one for one in changed["plan"]["resources"] if one["path"] == "b"]
    assert (one["action"], one["properties"]["value"], one["changed"]) == ("update", "closed", ["value"])
    assert {one["action"] for one in deleted["plan"]["resources"]} == {"delete"}


@pytest.mark.parametrize("on_error", [None, "deny", "approve", "warn"])
@pytest.mark.parametrize("fault", ["error", "garbage", "unlisted"])
def test_errors(heat: Heat, endpoint: Endpoint, server: wiring.Embedded, fault: str, on_error: str | None) -> None:
    """B2: the effect is `on_error`, and the message names the error."""
    keys: dict[str, Any] = {} if on_error is None else {"on_error": on_error}
    rules(heat, at(endpoint, **keys))
    reading = heat
    if fault == "unlisted":  # the operator has taken it from the list
        settings = Settings(database=server.components.settings.database)
        reading = Heat(wiring.reader(settings).app, heat.project)
        if on_error != "warn":  # what passes would need an engine
            reading.call("POST", "/stacks", CREATE, 409 if on_error == "approve" else 403)
    endpoint.behave = answer(b"{}", "500 No") if fault == "error" else answer(b"<html>")
    ((_, result, path, message),) = found(reading, CREATE)
    assert (result, path) == (on_error or "deny", None)
    told = {"error": "the endpoint answers 500", "garbage": "another form", "unlisted": "does not list"}[fault]
    assert message.startswith("not here (the rule could not be evaluated: ") and told in message
    assert len(endpoint.bodies) == (fault != "unlisted")


def mark(heat: Heat, path: str, unhealthy: bool) -> None:
    body = {"mark_unhealthy": unhealthy, "resource_status_reason": "x"}
    heat.call("PATCH", f"{path}/resources/r", body, 200)


def test_a_plan_that_changes_meanwhile(heat: Heat, endpoint: Endpoint) -> None:
    """B4: it is asked again once. The answer counts for its digest only."""
    path = heat.create(template(r=MEMBER, a=value("1")))
    rules(heat, at(endpoint))
    changed = {"template": template(r=MEMBER, a=value("2"))}

    def once(peer: socket.socket) -> None:
        if len(endpoint.bodies) == 1:
            mark(heat, path, True)
            says("deny")(peer)
        else:
            says("pass")(peer)

    endpoint.behave = once
    heat.call("PUT", path, changed, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    first, second = endpoint.told
    assert first["plan"]["digest"] != second["plan"]["digest"]
    assert {one["path"]: one["action"] for one in second["plan"]["resources"]} == {"a": "update", "r": "replace"}


def test_a_plan_that_never_stays(heat: Heat, endpoint: Endpoint, store: Store) -> None:
    """B4: then 409 PlanChanged, and nothing is made."""
    path = heat.create(template(r=MEMBER, a=value("1")))
    rules(heat, at(endpoint))

    def each(peer: socket.socket) -> None:
        mark(heat, path, len(endpoint.bodies) % 2 == 1)
        says("pass")(peer)

    endpoint.behave = each
    before = store.database.read("SELECT COUNT(*) FROM action")
    error = heat.call("PUT", path, {"template": template(r=MEMBER, a=value("2"))}, 409).json["error"]
    assert error["type"] == "PlanChanged"
    assert len(endpoint.bodies) == 2 and store.database.read("SELECT COUNT(*) FROM action") == before


def test_a_rule_that_is_added_meanwhile(heat: Heat, endpoint: Endpoint) -> None:
    """Those of the transaction count: a new endpoint is asked, too."""
    path = heat.create(template(a=value("1")))
    rules(heat, at(endpoint))

    def first(peer: socket.socket) -> None:
        if len(endpoint.bodies) == 1:
            rules(heat, at(endpoint), at(endpoint, "other"))
        says("pass" if len(endpoint.bodies) < 3 else "deny")(peer)

    endpoint.behave = first
    heat.call("PUT", path, {"template": template(a=value("2"))}, 403)
    assert len(endpoint.bodies) == 3


def test_no_transaction_is_open(heat: Heat, endpoint: Endpoint) -> None:
    """B4: the endpoint itself changes another stack while it is asked."""
    path = heat.create(template(a=value("1")))
    rules(heat, at(endpoint, on=["create", "update", "delete"]))
    others = iter(range(9))

    def writes(peer: socket.socket) -> None:
        heat.other.create(template(a=value()), f"other{next(others)}", wait=False)
        says("pass")(peer)

    endpoint.behave = writes
    heat.call("PUT", path, {"template": template(a=value("2"))}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    heat.call("DELETE", path, code=204)
    heat.call("POST", "/stacks", {"stack_name": "new", "template": template(a=value())}, 201)
    assert len(endpoint.bodies) == 3


def test_a_repair(heat: Heat, endpoint: Endpoint) -> None:
    """By `on` only. One that would want an approval is denied: repairs have none."""
    path = heat.create(template(r=MEMBER))
    mark(heat, path, True)
    asked = {"heal": {"resources": ["r"], "ignore": ["mode_off"]}}
    rules(heat, at(endpoint, on=["heal"]))
    for result in ("deny", "approve"):
        endpoint.behave = says(result)
        assert heat.call("POST", f"{path}/actions", asked, 403).json["error"]["type"] == "RuleDenied"
    endpoint.behave = says("warn")
    assert heat.call("POST", f"{path}/actions", asked).status_int < 300


def test_a_template_that_is_validated(heat: Heat, endpoint: Endpoint) -> None:
    rules(heat, at(endpoint))
    endpoint.behave = says("warn", findings=[{"path": "a", "message": "old"}])
    (one,) = heat.call("POST", "/validate", {"template": template(a=value())}, 200).json["rules"]
    assert (one["result"], one["path"], one["message"]) == ("warn", "a", "old")


def test_other_operations(heat: Heat, endpoint: Endpoint) -> None:
    """Members that are well are replaced, and some leave: each is asked about once."""
    two = {**GROUP, "properties": {**GROUP["properties"], "desired_capacity": 2}}
    path = heat.create(template(g=two, n=NUMBERED))
    members = [one["resource_name"] for one in heat.get(f"{path}/resources?nested_depth=1")["resources"]]
    rules(heat, at(endpoint, on=["create", "update", "scale", "heal"]))
    heat.call("POST", f"{path}/resources/n/actions", {"replace_members": {"members": ["0"]}})
    eventually(lambda: not heat.get("/actions?status=READY,RUNNING,WAITING")["actions"], "the repair has ended")
    assert [one["operation"] for one in endpoint.told] in (["scale"], ["heal"])
    endpoint.behave = says("deny")
    member = next(one for one in members if one not in ("g", "n", "0"))
    error = heat.call("POST", f"{path}/resources/g/actions", {"leave": {"members": [member]}}, 403).json["error"]
    assert error["type"] == "RuleDenied" and len(endpoint.bodies) == 2
