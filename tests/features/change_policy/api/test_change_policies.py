"""Routes and commands of change policies."""

from typing import Any

import pytest

from heatlite import wiring
from heatlite.features.change_policy.store.store import ChangePolicyStore
from tests.api.conftest import Heat, Town, template, value
from tests.tables import table

FORM = {"change_policy": "2026-11-28"}
DEFAULTS = {
    "approve": "never", "four_eyes": False, "approval_ttl": 604_800, "signals": "pass", "reads": "warn",
    "revisions": 20, "guard": None, "grants": [],
}  # fmt: skip


def put(heat: Heat, path: str, code: int = 200, **keys: Any) -> Any:
    return heat.call("PUT", f"{path}/change_policy", {**FORM, **keys}, code=code).json


def test_policies_from_begin_to_end(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=value()))
    nothing = {"change_policy": None, "version": 0, "updated_by": None, "updated_at": None}
    found = heat.get("/change_policy")
    assert {key: found[key] for key in nothing} == nothing
    defaults = {**DEFAULTS, "rules": []}
    assert found["effective"] == {key: {"value": one, "from": "default"} for key, one in defaults.items()}
    made = put(heat, "", approve="removals", approval_ttl=3600.0)
    assert (made["change_policy"], made["version"]) == ({**FORM, "approve": "removals", "approval_ttl": 3600}, 1)
    assert made["effective"]["approve"] == {"value": "removals", "from": "project"}
    of_stack = put(heat, path, approve="never", revisions=5)["effective"]
    assert of_stack["approve"] == {"value": "removals", "from": "project"}
    assert of_stack["revisions"] == {"value": 5, "from": "stack"}
    assert of_stack["approval_ttl"] == {"value": 3600, "from": "project"}
    assert put(heat, path, approve="always")["effective"]["approve"] == {"value": "always", "from": "stack"}
    heat.call("DELETE", f"{path}/change_policy", code=204)
    assert heat.get(f"{path}/change_policy")["effective"]["approve"]["from"] == "project"
    heat.call("DELETE", "/change_policy", code=204)
    gone = heat.get("/change_policy")
    assert (gone["change_policy"], gone["version"], gone["effective"]["approve"]["from"]) == (None, 2, "default")


def test_a_version_is_compared(own_heat: Heat) -> None:
    heat = own_heat
    path = heat.create(template(a=value()))
    for place in ("", path):
        assert put(heat, place, version=0)["version"] == 1
        error = heat.call("PUT", f"{place}/change_policy", {**FORM, "version": 0}, code=409).json["error"]
        assert (error["type"], error["holder"]["by"]) == ("PolicyChanged", "anonymous")
        assert heat.get(f"{place}/change_policy")["version"] == 1
        heat.call("DELETE", f"{place}/change_policy", code=204)
        heat.call("PUT", f"{place}/change_policy", {**FORM, "version": 1}, code=409)


@table(
    ("keys", "fault"),
    [
        ({"aprove": "always"}, "unknown key aprove"),
        ({"approve": "sometimes"}, "approve: must be one of"),
        ({"approval_ttl": 59, "revisions": 201}, "revisions: must be at most 200"),
        ({"four_eyes": True}, "four_eyes: it needs authentication"),
        ({"guard": None}, "unknown key guard"),
        ({"rules": [{"name": "a"}]}, "rules[0]: needs for, then, message"),
        ({"change_policy": "2026-11-27"}, "change_policy: must be"),
    ],
)
def test_a_faulty_document(heat: Heat, keys: Any, fault: str) -> None:
    assert fault in heat.fault("PUT", "/change_policy", {**FORM, **keys})[1]


def test_a_nested_stack_has_none(own_heat: Heat) -> None:
    heat = own_heat
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    path = heat.create(template(g=group))
    nested = heat.get(f"{path}/resources/g")["resource"]["physical_resource_id"]
    found = heat.get("/stacks?show_nested=true")["stacks"]
    name = next(one["stack_name"] for one in found if one["id"] == nested)
    message = heat.fault("PUT", f"/stacks/{name}/{nested}/change_policy", FORM)[1]
    assert f"its root has the change policy, stack {path.rpartition('/')[2]}" in message


@pytest.mark.slow
def test_who_may(town: Town) -> None:
    admin, member, reader = town["admin"], town["member"], town["reader"]
    path = member.create(template(a=value()))
    for who, code in ((reader, 403), (member, 403), (admin, 200)):
        put(who, "", code, four_eyes=False)
    for place in ("", path):
        reader.call("GET", f"{place}/change_policy", code=200)
    put(reader, path, 403)
    put(member, path, approve="removals")
    put(member, path, approve="always", revisions=50)
    message = member.fault("PUT", f"{path}/change_policy", {**FORM, "approve": "removals"}, code=403)[1]
    assert "this loosens approve, revisions" in message
    assert member.get(f"{path}/change_policy")["version"] == 2
    member.call("DELETE", f"{path}/change_policy", code=403)
    put(member, path, 403, approve="always", revisions=50, approval_ttl=7_776_000)
    put(admin, path, approve="never")
    rows = admin.get(f"/audit?operation=stacks:change_policy&stack={path.rpartition('/')[2]}")["audit"]
    assert {row["stack_id"] for row in rows} == {path.rpartition("/")[2]}
    admin.call("DELETE", f"{path}/change_policy", code=204)
    admin.call("DELETE", "/change_policy", code=204)


def test_an_update_reads_the_policy_once(own_heat: Heat, own_server: wiring.Embedded) -> None:
    """Several features ask, also where there is no policy."""
    heat, store = own_heat, own_server.store.of(ChangePolicyStore)
    path = heat.create(template(a=value()))
    read, seen = store.database.read, list[bool]()

    def counted(sql: str, *more: Any) -> Any:
        if "FROM change_policy" in sql:
            seen.append(store.database.in_transaction)
        return read(sql, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.database, "read", counted)
        for number in range(4):
            seen.clear()
            heat.call("PUT", path, {"template": template(a=value(number))}, 202)
            assert seen == [True]
            heat.settle(path)
            if number == 2:
                put(heat, path, revisions=3)
