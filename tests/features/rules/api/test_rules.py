"""Rules on plans, through the API: what is denied, what passes, and what is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.store.store import Store
from tests.api.conftest import Heat, Town, template, value
from tests.databases import sqlite
from tests.tables import table

FORM = {"change_policy": "2026-11-28"}
MEMBER = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}
GROUP = {
    "type": "OS::Heat::AutoScalingGroup",
    "properties": {"min_size": 1, "max_size": 4, "desired_capacity": 1, "resource": MEMBER},
}
POLICY = {
    "type": "OS::Heat::ScalingPolicy",
    "properties": {
        "adjustment_type": "change_in_capacity",
        "auto_scaling_group_id": {"get_resource": "g"},
        "scaling_adjustment": 1,
    },
}
NUMBERED = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": MEMBER}}
FULL = template(g=GROUP, up=POLICY, n=NUMBERED, a=value("1"))
CHANGED = template(g=GROUP, up=POLICY, n=NUMBERED, a=value("2"))


def rule(name: str = "r", **keys: Any) -> dict[str, Any]:
    told = {"name": name, "for": "plan", "when": "true", "then": "deny", "message": "not here", **keys}
    return {key: one for key, one in told.items() if one is not None}


def rules(heat: Heat, *told: dict[str, Any]) -> None:
    heat.call("PUT", "/change_policy", {**FORM, "rules": [*told]}, 200)


def begin_snapshot(heat: Heat, path: str) -> str:
    found = heat.call("POST", f"{path}/snapshots", {"name": "n"}, 200).json
    heat.settle(path, "SNAPSHOT_COMPLETE")
    heat.call("PUT", path, {"template": CHANGED}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    return f"{path}/snapshots/{found['id']}/restore"


def fail(heat: Heat, path: str) -> str:
    broken = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "fail": True}}
    heat.call("PUT", path, {"template": template(g=GROUP, up=POLICY, n=NUMBERED, a=broken)}, 202)
    heat.settle(path, "UPDATE_FAILED")
    return f"{path}/actions"


def same(path: str) -> Callable[[Heat, str], str]:
    return lambda _heat, stack: f"{stack}{path}"


OPERATIONS: dict[str, tuple[str, Callable[[Heat, str], str], Any, int, str]] = {
    "create": ("POST", lambda _heat, _stack: "/stacks", {"stack_name": "t", "template": FULL}, 201, "create"),
    "update": ("PUT", same(""), {"template": CHANGED}, 202, "update"),
    "update_patch": ("PATCH", same(""), {"template": CHANGED}, 202, "update"),
    "restore": ("POST", begin_snapshot, None, 202, "update"),
    "retry": ("POST", fail, {"retry": None}, 200, "update"),
    "scale_out": ("POST", same("/resources/n/actions"), {"scale_out": {"count": 1}}, 202, "scale"),
    "delete": ("DELETE", same(""), None, 204, "delete"),
}
"""Method, path, body, code of an accepted request, and the key of `on`."""


@pytest.mark.parametrize("operation", [*OPERATIONS])
def test_each_operation_and_each_result(heat: Heat, store: Store, operation: str) -> None:
    """B6, B7: each operation by each result, for its key of `on` and for the others."""
    method, place, body, code, key = OPERATIONS[operation]
    path = heat.create(FULL)
    url = place(heat, path)
    others = [one for one in ("create", "update", "delete", "scale", "heal") if one != key]
    rules(
        heat,
        rule("no", on=[key]),
        rule("hm", on=[key], then="warn", message="look"),
        rule("others", on=others),
        rule("each", on=[key], **{"for": "resource", "then": "warn"}),
    )
    before = _content(heat, store)
    error = heat.call(method, url, body, 403).json["error"]
    assert error["type"] == "RuleDenied"
    told = [(one["name"], one["from"], one["result"], one["message"]) for one in error["rules"] if one["path"] is None]
    assert told == [("no", "project", "deny", "not here"), ("hm", "project", "warn", "look")]
    assert {one["name"] for one in error["rules"] if one["path"]} <= {"each"}
    assert "because of a rule of a change policy: no: not here" in error["message"]
    assert _content(heat, store) <= before
    assert heat.get("/audit?limit=1")["audit"][0]["status"] == 403
    rules(heat, rule("hm", on=[key], then="warn"), rule("others", on=others))
    heat.call(method, url, body, code)


def _content(heat: Heat, store: Store) -> set[tuple[object, ...]]:
    """Return the rows of the project, and the templates of all projects.

    Other tests of the server may have left something at work.
    """
    mine = "WHERE stack_id IN (SELECT id FROM stack WHERE project = ?)"
    rows = [
        row
        for table in ("resource", "action", "event")
        for row in store.database.read(f"SELECT '{table}', id FROM {table} {mine}", [heat.project])
    ]
    rows += store.database.read("SELECT 'stack', id FROM stack WHERE project = ?", [heat.project])
    return {*rows, *store.database.read("SELECT 'template', id FROM template")}


@pytest.mark.parametrize("operation", [*OPERATIONS])
def test_each_operation_that_needs_an_approval(heat: Heat, store: Store, operation: str) -> None:
    """B1 with A: the approval has the rule as its reason."""
    method, place, body, code, key = OPERATIONS[operation]
    path = heat.create(FULL)
    url = place(heat, path)
    rules(heat, rule("ask", on=[key], then="approve"), rule("hm", on=[key], then="warn"))
    before = _content(heat, store)
    refusal = heat.call(method, url, body, 409)
    assert refusal.json["error"]["type"] == "ApprovalRequired"
    approval = heat.get(f"/approvals/{refusal.headers['X-Heatlite-Approval']}")["approval"]
    assert approval["because"] == ["rule:ask"]
    made = {kind for kind, _ in _content(heat, store) - before}
    assert made <= {"event"}
    heat.call("POST", f"/approvals/{approval['id']}/approve", {"digest": approval["digest"]}, 202)
    heat.call(method, url, body, code)


@pytest.mark.slow
def test_a_preview_says_that_an_approval_is_needed(heat: Heat) -> None:
    rules(heat, rule("ask", then="approve", when="plan.counts.update > 0"), rule("hm", then="warn"))
    body = {"stack_name": "s", "template": FULL}
    assert "approval" not in heat.call("POST", "/stacks/preview?plan=true", body, 200).json["plan"]
    path = heat.create(FULL)
    plan = heat.call("PUT", f"{path}/preview?plan=true", {"template": CHANGED}, 200).json["plan"]
    assert plan["approval"] == {"needed": True, "because": ["rule:ask"]}
    assert [one["name"] for one in plan["rules"]] == ["ask", "hm"]


def test_a_plan_without_changes_needs_no_approval(heat: Heat) -> None:
    path = heat.create(FULL)
    rules(heat, rule("ask", then="approve"))
    heat.call("PUT", path, {"template": FULL}, 202)


def test_a_denial_wins_over_an_approval(heat: Heat) -> None:
    rules(heat, rule("ask", then="approve"), rule("no"))
    heat.call("POST", "/stacks", {"stack_name": "s", "template": FULL}, 403)
    assert heat.get("/approvals")["approvals"] == []


def test_a_signal_that_a_rule_denies_is_ignored(heat: Heat) -> None:
    """B8."""
    path = heat.create(FULL)
    rules(heat, rule(on=["scale"], when="plan.counts.create > 0 && plan.stack == 's'"))
    answer = heat.call("POST", f"{path}/resources/up/signal", {}, 200)
    assert answer.headers["X-Heatlite-Ignored"] == "rule"
    reasons = [one["resource_status_reason"] for one in heat.get(f"{path}/resources/up/events")["events"]]
    assert "Signal ignored: rule: A rule of a change policy denies the scaling: r: not here" in reasons
    rules(heat)
    assert "X-Heatlite-Ignored" not in heat.call("POST", f"{path}/resources/up/signal", {}, 200).headers


@pytest.mark.slow
def test_operations_that_no_rule_is_asked_for(heat: Heat) -> None:
    """B6: with a rule that denies everything."""
    path = heat.create(FULL)
    rules(heat, rule(on=["create", "update", "delete", "scale", "heal"]))
    heat.call("POST", f"{path}/actions", {"check": None}, 200)
    heat.settle(path, "CHECK_COMPLETE")
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True, "resource_status_reason": "x"}, 200)
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": False, "resource_status_reason": "x"}, 200)
    for key, options in (("lock", {"reason": "m"}), ("unlock", None)):
        heat.call("POST", f"{path}/actions", {key: options}, 200)
        heat.settle(path)
    heat.call("POST", f"{path}/snapshots", {"name": "n"}, 200)
    heat.settle(path)
    heat.call("DELETE", f"{path}/abandon", code=200)


@pytest.mark.slow
def test_a_rollback_is_not_asked(heat: Heat) -> None:
    """B6: the way back is open, also while a rule denies updates."""
    waiting = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "wait_secs": 1}}
    path = heat.create(template(a=MEMBER))
    heat.call("PUT", path, {"template": template(a=MEMBER, b=waiting)}, 202)
    rules(heat, rule())
    heat.call("POST", f"{path}/actions", {"cancel_update": None}, 200)
    assert heat.settle(path)["stack_status"] in ("ROLLBACK_COMPLETE", "UPDATE_FAILED")


def test_the_preview_finds_what_the_operation_does(heat: Heat) -> None:
    """B3, and the paths of nested stacks."""
    rules(
        heat,
        rule("members", **{"for": "resource"}, types=["OS::Heat::Test*"], when="resource.properties.value == 'v'"),
        rule("who", then="warn", when="user.name != '' && plan.operation == 'create' && plan.tags == ['x', 'y']"),
    )
    body = {"stack_name": "s", "template": FULL, "tags": "x,y"}
    plan = heat.call("POST", "/stacks/preview?plan=true", body, 200).json["plan"]
    error = heat.call("POST", "/stacks", body, 403).json["error"]
    assert plan["rules"] == error["rules"]
    assert [one["name"] for one in plan["rules"]] == ["who", "members", "members"]
    assert plan["rules"][1]["path"].startswith("g/") and plan["rules"][2]["path"] == "n/0"


def test_plans_without_rules_are_as_before(heat: Heat) -> None:
    """Z1."""
    body = {"stack_name": "s", "template": FULL}
    assert "rules" not in heat.call("POST", "/stacks/preview?plan=true", body, 200).json["plan"]
    rules(heat, rule(when="false"))
    assert heat.call("POST", "/stacks/preview?plan=true", body, 200).json["plan"]["rules"] == []


def test_hidden_values_are_masked(heat: Heat) -> None:
    """Z4: expressions see what plans show, so no finding can have more."""
    hidden: dict[str, Any] = template(a=value({"get_param": "p"}), b=value("open"))
    hidden["parameters"] = {"p": {"type": "string", "hidden": True}}
    told = {"stack_name": "s", "template": hidden, "parameters": {"p": "s3cret-word"}}
    seen = rule("seen", **{"for": "resource"}, then="warn", when="resource.properties.value == '******'")
    guessed = rule("guessed", **{"for": "resource"}, then="warn", when="resource.properties.value.startsWith('s3')")
    wrong = rule("wrong", **{"for": "resource"}, then="warn", when="resource.properties.value")
    rules(heat, seen, guessed, wrong)
    answer = heat.call("POST", "/stacks/preview?plan=true", told, 200)
    assert "s3cret" not in answer.text
    assert [(one["name"], one["path"]) for one in answer.json["plan"]["rules"]] == [
        ("seen", "a"), ("wrong", "a"), ("wrong", "b"),
    ]  # fmt: skip
    path = heat.create(hidden, parameters={"p": "s3cret-word"})
    guess = "resource.old.value.startsWith('s3') || resource.old.value != '******'"
    old = rule("old", **{"for": "resource"}, when=guess)
    rules(heat, {**old, "types": ["OS::Heat::Value"]})
    body = {"template": template(b=value("open"))}
    assert heat.call("PUT", f"{path}/preview?plan=true", body, 200).json["plan"]["rules"] == []
    heat.call("DELETE", path, code=204)


@table(
    ("changed", "fault"),
    [
        ({"when": "resource.path == 'a'"}, "rules[0].when (r): line 1, column 9: undeclared reference"),
        ({"when": "1 +"}, "rules[0].when (r): line 1, column 4: Syntax error"),
        ({"when": "1"}, "no bool, but of the type INT"),
        ({"then": "approve", "on": ["update", "heal"]}, "rules[0].then (r): approve is not for heal"),
        ({"on_error": "approve", "on": ["heal"]}, "rules[0].on_error (r): approve is not for heal"),
        ({"url": "https://example.com"}, "rules[0] (r): a rule has either when, an expression, or url, an endpoint"),
        ({"when": None, "url": "https://example.com"}, 'rules[0].url (r): the setting rule_hosts does not list'),
        ({"when": None, "url": "https://e.com", "for": "resource"}, "rules[0].url (r): an endpoint judges the"),
        ({"when": None}, "rules[0] (r): a rule has either when"),
        ({"deadline": 5}, "rules[0].deadline (r): only a rule with a url has a deadline"),
        ({"when": None, "url": "https://e.com", "deadline": 21}, "rules[0].deadline"),
        ({"types": ["OS::*"]}, "rules[0].types: only a rule for: resource has types"),
        ({"then": "allow"}, "rules[0].then: must be one of"),
        ({"message": "m" * 501}, "rules[0].message"),
        ({"on": ["check"]}, "rules[0].on[0]"),
        ({"when": "plan.tags.map(a, a) == []"}, "rules have no map"),
    ],
)
def test_faulty_rules_are_refused(heat: Heat, changed: Any, fault: str) -> None:
    """B5."""
    kind, message = heat.fault("PUT", "/change_policy", {**FORM, "rules": [rule(**changed)]})
    assert kind == "HTTPBadRequest" and fault in message


def test_rules_of_a_document(heat: Heat) -> None:
    message = heat.fault("PUT", "/change_policy", {**FORM, "rules": [rule(), rule()]})[1]
    assert "there are several with the name r" in message
    heat.fault("PUT", "/change_policy", {**FORM, "rules": [rule(f"r{n}") for n in range(101)]})
    rules(heat, *(rule(f"r{n}", when="false") for n in range(100)))
    found = heat.get("/change_policy")
    assert found["effective"]["rules"]["value"][0] == {"name": "r0", "from": "project"}
    assert found["effective"]["rules"]["from"] == "project" and len(found["change_policy"]["rules"]) == 100
    path = heat.create(template(a=value()))
    assert "unknown key rules" in heat.fault("PUT", f"{path}/change_policy", {**FORM, "rules": []})[1]
    assert len(heat.get(f"{path}/change_policy")["effective"]["rules"]["value"]) == 100


def test_other_projects_are_not_judged(heat: Heat) -> None:
    rules(heat, rule())
    heat.other.create(FULL)


@pytest.mark.slow
def test_who_may_store_them(town: Town) -> None:
    """A member, who may send updates, can neither store nor remove rules."""
    body = {**FORM, "rules": [rule()]}
    town["member"].call("PUT", "/change_policy", body, 403)
    town["admin"].call("PUT", "/change_policy", body, 200)
    town["member"].call("POST", "/stacks", {"stack_name": "s", "template": FULL}, 403)
    town["member"].call("DELETE", "/change_policy", code=403)
    town["admin"].call("DELETE", "/change_policy", code=204)




def test_three_results_at_once(heat: Heat) -> None:
    """Acceptance 2: 403 with all three findings."""
    rules(heat, rule("hm", then="warn"), rule("ask", then="approve"), rule("no"))
    error = heat.call("POST", "/stacks", {"stack_name": "s", "template": FULL}, 403).json["error"]
    assert [(one["name"], one["result"]) for one in error["rules"]] == [
        ("hm", "warn"), ("ask", "approve"), ("no", "deny"),
    ]  # fmt: skip
    assert heat.get("/stacks")["stacks"] == []


def test_unknown_values(heat: Heat) -> None:
    """Acceptance 3: what only the operation brings is absent, which is an error."""
    later = template(a=value("x"), b=value({"get_attr": ["a", "value"]}))
    told = {"for": "resource", "types": ["OS::Heat::Value"], "when": "resource.properties.value == 'y'"}
    rules(heat, rule("needs", **told, on_error="warn"), rule("asks", **{**told, "when": "'value' in resource.unknown"}))
    body = {"stack_name": "s", "template": later}
    found = heat.call("POST", "/stacks/preview?plan=true", body, 200).json["plan"]["rules"]
    assert [(one["name"], one["result"], one["path"]) for one in found] == [
        ("needs", "warn", "b"), ("asks", "deny", "b"),
    ]  # fmt: skip
    assert 'Key not found in map : "value"' in found[0]["message"]


@pytest.mark.slow
def test_rules_that_change_after_the_preview(heat: Heat) -> None:
    """Acceptance 5: those of the operation count, whatever the plan has shown."""
    path = heat.create(FULL)
    rules(heat, rule())
    plan = heat.call("PUT", f"{path}/preview?plan=true", {"template": CHANGED}, 200).json["plan"]
    assert [one["name"] for one in plan["rules"]] == ["r"]
    body = {"template": CHANGED, "plan_digest": plan["digest"]}
    heat.call("PUT", path, body, 403)
    rules(heat)
    heat.call("PUT", path, body, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    plan = heat.call("PUT", f"{path}/preview?plan=true", {"template": FULL}, 200).json["plan"]
    rules(heat, rule())
    heat.call("PUT", path, {"template": FULL, "plan_digest": plan["digest"]}, 403)


def test_rules_that_change_while_an_approval_waits(heat: Heat) -> None:
    """A new one denies when it begins, and the approval goes on waiting."""
    path = heat.create(FULL)
    ask = rule("ask", then="approve", on=["update"])
    rules(heat, ask)
    heat.call("PUT", f"{path}?approval=wait", {"template": CHANGED}, 202)
    (approval,) = heat.get("/approvals")["approvals"]
    decide = f"/approvals/{approval['id']}/approve"
    rules(heat, ask, rule("no", on=["update"]))
    error = heat.call("POST", decide, {"digest": approval["digest"]}, 403).json["error"]
    assert [one["name"] for one in error["rules"]] == ["ask", "no"]
    assert [one["state"] for one in heat.get("/approvals")["approvals"]] == ["PENDING"]
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
    rules(heat, ask)
    heat.call("POST", decide, {"digest": approval["digest"]}, 202)
    heat.settle(path, "UPDATE_COMPLETE")


def test_rules_that_change_after_an_approval(heat: Heat) -> None:
    """An approval passes no rule that came later, and is not used up by its denial."""
    path = heat.create(FULL)
    ask = rule("ask", then="approve", on=["update"])
    rules(heat, ask)
    heat.call("PUT", path, {"template": CHANGED}, 409)
    (approval,) = heat.get("/approvals")["approvals"]
    heat.call("POST", f"/approvals/{approval['id']}/approve", {"digest": approval["digest"]}, 202)
    rules(heat, ask, rule("no", on=["update"]))
    heat.call("PUT", path, {"template": CHANGED}, 403)
    assert [one["state"] for one in heat.get("/approvals")["approvals"]] == ["APPROVED"]
    rules(heat, ask)
    heat.call("PUT", path, {"template": CHANGED}, 202)
    assert [one["state"] for one in heat.get("/approvals")["approvals"]] == ["DONE"]


@pytest.mark.slow
def test_a_replayed_request_is_judged_anew(heat: Heat) -> None:
    """The rules of the moment of the replay count."""
    path = heat.create(FULL)
    heat.call("POST", f"{path}/actions", {"lock": {"reason": "m"}}, 200)
    heat.settle(path)
    heat.call("PUT", path, {"template": CHANGED}, 409)
    (entry,) = heat.get(f"{path}/lock")["suppressed"]
    rules(heat, rule("no", on=["update"]))
    heat.call("POST", f"{path}/actions", {"unlock": None}, 200)
    heat.settle(path)
    replay = f"{path}/lock/suppressed/{entry['id']}/replay"
    assert heat.call("POST", replay, None, 403).json["error"]["type"] == "RuleDenied"
    rules(heat)
    heat.call("POST", replay, None)
    heat.settle(path, "UPDATE_COMPLETE")


def test_a_rule_on_deletions_does_not_stop_a_rollback(heat: Heat) -> None:
    """Acceptance 6."""
    rules(heat, rule(on=["delete"]), rule("each", on=["delete"], **{"for": "resource"}))
    broken = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "fail": True}}
    path = heat.create(template(a=MEMBER, b=broken), disable_rollback=False, wait=False)
    assert heat.settle(path)["stack_status"] in ("ROLLBACK_COMPLETE", "DELETE_COMPLETE")
    heat.call("DELETE", path, code=403)


def test_objects_that_stay_are_not_deleted(heat: Heat) -> None:
    """By request, with what they require; by policy; and those of others."""
    kept = {**MEMBER, "deletion_policy": "Retain"}
    above = {**MEMBER, "depends_on": "b"}
    path = heat.create(template(a=above, b=MEMBER, c=kept, d={**MEMBER, "external_id": "x"}))
    deletes = rule("no", when="plan.counts.delete > 0 || plan.resources.exists(r, r.action == 'delete')")
    each = rule("each", **{"for": "resource"}, when="resource.action == 'delete'")
    rules(heat, deletes, each)
    heat.call("DELETE", path, code=403)
    error = heat.call("DELETE", f"{path}?retain=b", code=403).json["error"]
    assert [one["path"] for one in error["rules"]] == [None, "a"]
    plan = heat.call("PATCH", f"{path}/preview?plan=true", {"delete": {"retain": ["a"]}}, 200).json["plan"]
    assert plan["rules"] == []
    assert [one["action"] for one in plan["resources"]].count("delete") == 0
    heat.call("PUT", path, {"template": template(a=above, b=MEMBER)}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    heat.call("DELETE", f"{path}?retain=a", code=204)


def test_a_repair_is_judged_only_by_its_key(heat: Heat) -> None:
    """B6: a repair by hand, by `on`."""
    path = heat.create(FULL)
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True, "resource_status_reason": "x"}, 200)
    asked = {"heal": {"resources": ["a"], "ignore": ["mode_off"]}}
    rules(heat, rule(on=["heal"], when="plan.operation == 'heal' && plan.counts.replace == 1"))
    error = heat.call("POST", f"{path}/actions", asked, 403).json["error"]
    assert error["type"] == "RuleDenied"
    rules(heat, rule())
    assert heat.call("POST", f"{path}/actions", asked).status_int < 300


def test_a_template_that_is_validated(heat: Heat) -> None:
    """`rules` of the plan of a create, if all values are given."""
    told: dict[str, Any] = template(a=value({"get_param": "p"}))
    told["parameters"] = {"p": {"type": "string"}}
    asked = {"template": told, "parameters": {"p": "x"}}
    assert "rules" not in heat.call("POST", "/validate", asked, 200).json
    rules(heat, rule("no", **{"for": "resource"}, when="resource.properties.value == 'x'"))
    (found,) = heat.call("POST", "/validate", asked, 200).json["rules"]
    assert (found["name"], found["result"], found["path"]) == ("no", "deny", "a")
    assert heat.call("POST", "/validate", {**asked, "parameters": {"p": "y"}}, 200).json["rules"] == []
    assert "rules" not in heat.call("POST", "/validate", {"template": told}, 200).json


def test_why_tells_of_the_denial(heat: Heat) -> None:
    """G: until the next request on the stack."""
    path = heat.create(FULL)
    rules(heat, rule("no", on=["update"]))
    heat.call("PUT", path, {"template": CHANGED}, 403)
    (fact,) = [one for one in heat.get(f"{path}/why")["facts"] if one["code"] == "rule_denied"]
    assert "no: not here" in fact["text"]
    rules(heat)
    heat.call("PUT", path, {"template": CHANGED}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert [one["code"] for one in heat.get(f"{path}/why")["facts"]] == []


@pytest.mark.slow
def test_metrics(tmp_path: Path) -> None:
    """Those that strike, and errors, count when an operation is requested."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path), metrics=True))
    try:
        heat = Heat(server.app)
        rules(heat, rule("hm", then="warn"), rule("no"), rule("odd", when="plan.counts.nope == 1", then="warn"))
        body = {"stack_name": "s", "template": template(a=value())}
        heat.call("POST", "/stacks/preview?plan=true", body, 200)
        heat.call("POST", "/stacks", body, 403)
        shown = heat.app.get("/metrics").text.splitlines()
    finally:
        server.close()
    told = [line.rpartition(" ") for line in shown if line.startswith("heatlite_rule")]
    counted = {name: float(number) for name, _, number in told}
    assert counted['heatlite_rule_results_total{result="deny"}'] == 1
    assert counted['heatlite_rule_results_total{result="warn"}'] == 2
    assert counted["heatlite_rule_errors_total"] == 1
