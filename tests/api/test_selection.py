"""Choices of what an update touches, and what is shown of them.

Laws D1, D2, D5, D6, Z2.
"""

from typing import Any

import pytest
from msgspec.structs import fields

from heatlite.api.wire.stack_bodies import STRICT, Definition

from .conftest import Heat, template, value

BEFORE = template(web=value("1"), db=value("1"))
AFTER = template(web=value("2"), db=value("2"))
VALUES: dict[str, Any] = {"target": ["web"], "exclude": ["db"], "replace": ["web"], "plan_digest": "0" * 64}
REQUESTS = [(method, where) for method in ("PUT", "PATCH") for where in ("", "/preview?plan=true")]


def test_an_unknown_key_beside_a_strict_one_touches_nothing(heat: Heat) -> None:
    path = heat.create(BEFORE)
    known = {one.encode_name for one in fields(Definition)}
    assert {*STRICT} <= known and VALUES.keys() == {*STRICT}
    for method, where in REQUESTS:
        for key, given in VALUES.items():
            for unknown in ("targets", "excludes", "parameter", "reset", "stackname"):
                body = {"template": AFTER, key: given, unknown: ["web"]}
                _, message = heat.fault(method, path + where, body)
                assert f"unknown key {unknown}" in message, (method, where, key)
        # Without one of them, as Heat does:
        if where:
            heat.call(method, path + where, {"template": AFTER, "targets": ["web"]}, code=200)
    shown = heat.get(path)["stack"]
    assert shown["updated_time"] is None and "restricted" not in shown


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"target": ["web"], "exclude": ["db"]}, "target and exclude"),
        ({"target": []}, "target: needs at least 1 entry"),
        ({"target": ["web", "web"]}, "target: names something twice"),
        ({"replace": [""]}, "may not be empty"),
        ({"exclude": "db"}, "exclude: must be a list"),
        ({"target": [f"n{number}" for number in range(201)]}, "at most 200 entries"),
        ({"target": ["web", "no", "db/0"]}, "no resource no, db/0"),
        ({"target": ["web"], "replace": ["db"]}, "db: to be replaced, but left out"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_choice_is_refused(heat: Heat, body: dict[str, Any], message: str) -> None:
    path = heat.create(BEFORE)
    for method, where in REQUESTS:
        assert message in heat.fault(method, path + where, {"template": AFTER, **body})[1]
    assert heat.get(path)["stack"]["updated_time"] is None


@pytest.mark.parametrize("key", STRICT)
def test_a_new_stack_takes_none_of_them(heat: Heat, key: str) -> None:
    for path in ("/stacks", "/stacks/preview"):
        body = {"stack_name": "s", "template": BEFORE, key: VALUES[key]}
        assert f"{key} is valid for an update only" in heat.fault("POST", path, body)[1]


def test_what_is_left_out_is_told_until_all_is_updated(heat: Heat) -> None:
    path = heat.create(BEFORE)
    plan = heat.call("PUT", f"{path}/preview?plan=true", {"template": AFTER, "target": ["web"]}, code=200).json["plan"]
    parts = {one["resource_name"]: (one["action"], one.get("selection")) for one in plan["resources"]}
    assert parts == {"web": ("update", "named"), "db": ("keep", "left_out")} and "restricted" not in plan
    body = {"template": AFTER, "target": ["web"], "plan_digest": plan["digest"]}
    heat.call("PUT", path, body, code=202)
    shown = heat.settle(path)
    (listed,) = heat.get("/stacks")["stacks"]
    (action, *_) = heat.get(f"/actions?target={shown['id']}")["actions"]
    assert shown["restricted"] == listed["restricted"]
    assert {**shown["restricted"], "since": ""} == {"since": "", "action_id": action["id"], "left_out": ["db"]}
    assert "left out db" in shown["stack_status_reason"]
    (fact,) = heat.get(f"{path}/why")["facts"]
    assert (fact["code"], fact["what"]) == ("restricted", "stack") and "left out db" in fact["text"]
    rest = heat.call("PATCH", f"{path}/preview?plan=true", {}, code=200).json["plan"]
    assert rest["restricted"] == shown["restricted"]
    heat.call("PATCH", path, {}, code=202)
    assert "restricted" not in heat.settle(path) and heat.get(f"{path}/why")["facts"] == []


def test_a_deletion_retains_by_its_plan(heat: Heat) -> None:
    path = heat.create(BEFORE)
    preview = f"{path}/preview?plan=true"
    plan = heat.call("PATCH", preview, {"delete": {"retain": ["web"]}}, code=200).json["plan"]
    parts = {one["resource_name"]: (one["action"], one.get("selection")) for one in plan["resources"]}
    assert parts == {"web": ("keep", "named"), "db": ("delete", None)}
    whole = heat.call("PATCH", preview, {"delete": None}, code=200).json["plan"]
    assert whole["digest"] != plan["digest"]
    kind, _ = heat.fault("DELETE", f"{path}?retain=web&plan_digest={whole['digest']}", code=409)
    assert kind == "PlanChanged"
    for query, told in (
        ("retain=no&retain=nor", "no, nor: there is no such resource"),
        ("retain=web/0", "nested"),
        ("retain=", "may not be empty"),
        ("retain=web&retain=web", "twice"),
        ("retains=web", "Unknown query key retains"),
    ):
        assert told in heat.fault("DELETE", f"{path}?{query}")[1]
    assert "unknown key retains" in heat.fault("PATCH", preview, {"delete": {"retains": ["web"]}})[1]
    assert "takes no other key" in heat.fault("PATCH", preview, {"delete": None, "target": ["web"]})[1]
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
    heat.call("DELETE", f"{path}?retain=web&plan_digest={plan['digest']}", code=204)
    heat.settle(path)
    (action, *_) = heat.get(f"/actions?target={path.rpartition('/')[2]}")["actions"]
    assert action["inputs"]["retain"] == ["web"]
    assert [one["path"] for one in action["outputs"]["retained"]] == ["web"]
    (row,) = [row for row in heat.get("/audit")["audit"] if row.get("plan_digest") == plan["digest"]]
    assert row["outcome"] == "done"
