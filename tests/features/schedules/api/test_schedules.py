"""Routes and commands of schedules."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.cli.main import run
from heatlite.core.config import Auth, Settings
from heatlite.features.schedules.parts import Schedules
from heatlite.features.schedules.store.store import SchedulesStore
from tests.api.conftest import Heat, Town, template, value
from tests.api.test_commands import Here
from tests.databases import sqlite
from tests.engine.conftest import HeldClock
from tests.tables import table

SLEEP: dict[str, Any] = {
    "name": "sleep", "cron": "0 20 * * mon-fri", "timezone": "Europe/Vienna", "do": {"suspend": {}},
}  # fmt: skip


def test_a_schedule_from_begin_to_end(heat: Heat) -> None:
    path = heat.create(template(a=value())) + "/schedules"
    made = heat.call("POST", path, SLEEP, code=201).json["schedule"]
    assert made == {
        **SLEEP, "id": made["id"], "starts_at": None, "ends_at": None, "enabled": True, "window": 3600,
        "created_by": "anonymous", "next_at": made["next_at"], "last": None,
    }  # fmt: skip
    assert made["next_at"].endswith(":00:00Z")
    assert heat.get(path) == {"schedules": [made]}
    for name in ("sleep", made["id"]):
        assert heat.get(f"{path}/{name}") == {"schedule": made}
    for method, rest in (("GET", ""), ("POST", ""), ("GET", "/sleep"), ("PUT", "/sleep"), ("DELETE", "/sleep")):
        heat.other.call(method, path + rest, SLEEP if method in ("POST", "PUT") else None, code=404)
    paused = heat.call("PUT", f"{path}/sleep", {**SLEEP, "name": "doze", "enabled": False}, code=200).json["schedule"]
    assert paused == {**made, "name": "doze", "enabled": False, "next_at": None}
    assert heat.fault("GET", f"{path}/sleep", code=404)[0] == "EntityNotFound"
    heat.call("DELETE", f"{path}/doze", code=204)
    assert heat.get(path) == {"schedules": []}
    heat.fault("DELETE", f"{path}/doze", code=404)


@pytest.mark.slow
@table(
    ("changes", "faults"),
    [
        ({"cron": "* * * * * *"}, ["cron has 6 fields instead of 5"]),
        ({"cron": "0 0 30 2 *"}, ["cron: 0 0 30 2 * never comes"]),
        ({"cron": "61 * * * *", "timezone": "Mars", "window": -1, "name": "", "enabled": 1, "more": 2, "do": {}},
         ["cron: '61' is no minute.", "there is no time zone 'Mars'", "window: must be at least 0",
          "name: must match", "enabled: must be true or false", "The body: unknown key more", "do: needs one of"]),
        ({"do": {"suspend": {}, "resume": {}}}, ["do: needs one of"]),
        ({"do": {"destroy": {}}}, ["do: unknown key destroy"]),
        ({"do": {"suspend": {"now": True}}}, ["do.suspend: unknown key now"]),
        ({"do": {"resize": {"resource": "g"}}}, ["do.resize: needs min_size, max_size or desired_capacity"]),
        ({"do": {"resize": {"desired_capacity": -1}}}, ["do.resize: needs resource", "desired_capacity: must be at"]),
        ({"do": {"resize": {"resource": "g", "min_size": 3, "max_size": 2}}}, ["min_size is above max_size"]),
        ({"do": []}, ["do: must be an object"]),
        ({"starts_at": "soon", "ends_at": 5}, ['starts_at: "soon" is not a time', "ends_at: must be text or null"]),
        ({"starts_at": "2030-01-02T00:00:00Z", "ends_at": "2030-01-02T00:00:00Z"}, ["ends_at: has to be later"]),
        ({"window": 86_401}, ["window: must be at most 86400"]),
        ({"name": "a/b"}, ["name: must match"]),
    ],
)  # fmt: skip
def test_a_bad_body_is_refused_with_all_its_faults(heat: Heat, changes: dict[str, object], faults: list[str]) -> None:
    found = [one for one in heat.get("/stacks")["stacks"] if one["stack_name"] == "clock"]
    path = f"/stacks/clock/{found[0]['id']}" if found else heat.create(template(a=value()), "clock")
    for method, rest in (("POST", ""), ("PUT", "/x")):
        text = heat.fault(method, f"{path}/schedules{rest}", {**SLEEP, **changes}, code=400)[1]
        assert [one for one in faults if one not in text] == [], text


@pytest.mark.slow
def test_one_too_many_a_doubled_name_a_nested_stack(heat: Heat) -> None:
    path = heat.create(template(a=value())) + "/schedules"
    heat.call("POST", path, SLEEP, code=201)
    assert "has a schedule sleep already" in heat.fault("POST", path, SLEEP, code=400)[1]
    for number in range(99):
        heat.call("POST", path, {**SLEEP, "name": f"n{number}"}, code=201)
    assert "has 100 schedules" in heat.fault("POST", path, {**SLEEP, "name": "more"}, code=400)[1]
    assert "already" in heat.fault("PUT", f"{path}/n1", {**SLEEP, "name": "n2"}, code=400)[1]
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    parent = heat.create(template(g=group), "parent")
    nested = heat.get(f"{parent}/resources/g")["resource"]["physical_resource_id"]
    name = next(one["stack_name"] for one in heat.get("/stacks?show_nested=true")["stacks"] if one["id"] == nested)
    assert "is nested" in heat.fault("POST", f"/stacks/{name}/{nested}/schedules", SLEEP, code=400)[1]


def test_who_may(town: Town) -> None:
    path = town["member"].create(template(a=value()))
    made = town["member"].call("POST", f"{path}/schedules", SLEEP, code=201).json["schedule"]
    assert made["created_by"] == "member"
    reader, one = town["reader"], f"{path}/schedules/sleep"
    assert reader.get(one)["schedule"] == made
    assert [entry["owner"] for entry in reader.get("/schedules")["schedules"]] == ["member"]
    for method, rest, body in (("POST", f"{path}/schedules", SLEEP), ("PUT", one, SLEEP), ("DELETE", one, None)):
        assert reader.fault(method, rest, body, code=403)[0] == "Forbidden"
        town["stranger"].call(method, rest, body, code=403)
    assert town["admin"].of(f"{town.project}-other").call("GET", one).status_int in (403, 404)


def test_the_list_of_a_project_has_all_kinds_in_order(heat: Heat) -> None:
    path, other = heat.create(template(a=value()), "one"), heat.create(template(a=value()), "two")
    heat.call("POST", f"{path}/schedules", {**SLEEP, "starts_at": "2031-01-01T00:00:00Z"}, code=201)
    heat.call("POST", f"{path}/schedules", {**SLEEP, "name": "paused", "enabled": False}, code=201)
    heat.call("POST", f"{path}/actions", {"suspend": {"not_before": "2030-01-01T00:00:00Z"}}, code=200)
    heat.call("POST", f"{path}/actions", {"check": {"not_before": "2030-01-02T00:00:00Z", "interval": 60}}, code=200)
    heat.call("POST", f"{other}/actions", {"lock": {"expires_at": "2030-01-03T00:00:00Z"}}, code=200)
    heat.settle(other, "LOCK_COMPLETE")
    heat.call("PUT", f"{path}/expiry", {"expires_at": "2030-06-01T00:00:00Z"}, code=200)
    listed = heat.get("/schedules")["schedules"]
    assert [(one["kind"], one["stack_name"], one["next_at"], one["do"]) for one in listed] == [
        ("action", "one", "2030-01-01T00:00:00Z", {"suspend": {}}),
        ("series", "one", "2030-01-02T00:00:00Z", {"check": {}}),
        ("lock_expiry", "two", "2030-01-03T00:00:00Z", {"unlock": {}}),
        ("expiry", "one", "2030-06-01T00:00:00Z", {"delete": {}}),
        ("schedule", "one", "2031-01-01T19:00:00Z", {"suspend": {}}),
        ("schedule", "one", None, {"suspend": {}}),
    ]
    paged, query = [], "?limit=1"
    while query:
        page = heat.get(f"/schedules{query}")
        paged += page["schedules"]
        query = "?" + page["links"][0]["href"].partition("?")[2] if "links" in page else ""
    assert paged == listed
    assert heat.get("/schedules?stack=two")["schedules"] == listed[2:3]
    assert heat.get("/schedules?stack=nope")["schedules"] == []
    assert heat.other.get("/schedules")["schedules"] == []
    for marker in ("x", "nan/schedule/1", "1.0/other/1", "1.0/schedule/"):
        assert "is none of this list" in heat.fault("GET", f"/schedules?marker={marker}", code=400)[1]
    assert "Unknown query key kind" in heat.fault("GET", "/schedules?kind=series", code=400)[1]
    assert {one["owner"] for one in listed} == {"anonymous"}
    for at in (0, 1):
        heat.call("POST", f"/actions/{listed[at]['id']}", {"signal": "CANCEL"}, code=202)
    heat.call("DELETE", f"{path}/schedules/sleep", code=204)
    heat.call("DELETE", f"{path}/expiry", code=204)
    heat.call("POST", f"{other}/actions", {"unlock": None}, code=200)
    heat.settle(other, "UNLOCK_COMPLETE")
    assert [(one["kind"], one["name"]) for one in heat.get("/schedules")["schedules"]] == [("schedule", "paused")]


def test_changes_of_groups_are_listed_by_their_names_with_the_root(heat: Heat) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    outer = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": group}}
    path = heat.create(template(g=outer))
    asked = {"scale_out": {"not_before": "2030-01-01T00:00:00Z"}}
    begun = [
        heat.call("POST", f"{path}/resources/{place}/actions", asked, code=202).json["action"] for place in ("g", "g/0")
    ]
    for query in ("", "?stack=s"):
        listed = heat.get(f"/schedules{query}")["schedules"]
        assert {(one["id"], one["name"]) for one in listed} == {(one["id"], one["name"]) for one in begun}
        assert [one["do"] for one in listed] == [{"scale_out": {}}] * 2


def test_what_is_exported_has_no_schedules(heat: Heat) -> None:
    path = heat.create(template(a=value()))
    heat.call("POST", f"{path}/schedules", SLEEP, code=201)
    assert "schedule" not in str(heat.get(f"{path}/export"))
    heat.call("DELETE", f"{path}/abandon", code=200)
    heat.settle(path, "DELETE_COMPLETE")
    assert heat.get("/schedules")["schedules"] == []


@pytest.mark.slow
def test_from_the_command_line(heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heat.create(template(a=value()))
    here = Here(heat)
    added = ["schedule", "add", "s", "sleep", "suspend", "--project", heat.project, "--cron"]
    assert run([*added, "0 20 * * 1-5", "--timezone", "Europe/Vienna", "--window", "60"], here) == 0
    assert capsys.readouterr().out.startswith("sleep: next at 20")
    assert here("schedule pause s slep") == 1
    told = "heatlite: The Schedule (slep) could not be found. Stack s has: sleep. (HTTP 404)\n"
    assert capsys.readouterr().err == told
    assert here("schedule pause s sleep") == 0
    assert capsys.readouterr().out == "sleep: paused\n"
    assert here("schedule show s sleep -c enabled -c next_at -c window -f json") == 0
    assert '"enabled": false' in capsys.readouterr().out
    assert here("schedule unpause s sleep") == 0
    assert here("schedule list s -c name -c do -c owner -f csv") == 0
    assert "sleep,suspend,anonymous" in capsys.readouterr().out
    night = ["schedule", "add", "s", "night", "resize", "g", "--project", heat.project, "--cron", "0 2 * * *"]
    assert run([*night, "--min", "1", "--max", "4", "--desired", "2"], here) == 0
    sizes = {"resource": "g", "min_size": 1, "max_size": 4, "desired_capacity": 2}
    assert [one["do"] for one in heat.get("/schedules")["schedules"] if one["name"] == "night"] == [{"resize": sizes}]
    capsys.readouterr()
    assert here("explain s") == 0
    (following,) = [one["next_schedule"] for one in heat.get("/stacks")["stacks"]]
    told = f"next: {following['do']} at {following['next_at']}, by schedule {following['name']}"
    assert told in " ".join(capsys.readouterr().out.split())
    assert here("schedule remove s sleep") == 0
    assert here("schedule remove s sleep") == 1
    assert run([*added, "0 20 * *"], here) == 1
    assert "cron has 4 fields" in capsys.readouterr().err


@pytest.mark.slow
def test_a_plan_says_when_the_stack_sleeps_and_ends(
    heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = heat.create(template(a=value()), "web"), tmp_path / "web.yaml"
    file.write_text(json.dumps(template(a=value("new"))))
    plan = ["plan", str(file), "--project", heat.project]
    assert run(plan, Here(heat)) == 0
    assert "web is" not in capsys.readouterr().out
    for name, at in (("later", "2031-01-01T00:00:00Z"), ("sleep", "2030-01-01T00:00:00Z")):
        heat.call("POST", f"{path}/schedules", {**SLEEP, "name": name, "starts_at": at}, code=201)
    often = {"name": "often", "cron": "0 * * * *", "do": {"check": {}}}
    heat.call("POST", f"{path}/schedules", often, code=201)
    heat.call("PUT", f"{path}/expiry", {"expires_at": "2099-01-01T20:00:00Z"}, code=200)
    assert run(plan, Here(heat)) == 0
    assert capsys.readouterr().out.endswith(
        "web is suspended at 2030-01-01T19:00:00Z (schedule sleep, by anonymous)\n"
        "web is deleted at 2099-01-01T20:00:00Z (expiry web, by anonymous)\n"
    )
    assert run([*plan, "-f", "json"], Here(heat)) == 0
    assert "web is" not in capsys.readouterr().out


def test_an_owner_who_has_lost_the_role_is_refused(tmp_path: Path) -> None:
    file, clock = tmp_path / "tokens.toml", HeldClock()
    file.touch()
    settings = Settings(database=sqlite(tmp_path), auth=Auth.TOKENS, tokens_file=str(file))
    server = wiring.embedded(settings, clock=clock)
    token = add_token(file, "mia", {"demo": frozenset({"member"})}, None)
    heat = Heat(server.app, "demo", {"X-Auth-Token": token})
    path = heat.create(template(a=value())) + "/schedules"
    rows, sweep = server.store.of(SchedulesStore), server.components.of(Schedules).sweep
    with clock.held():
        heat.call("POST", path, SLEEP, code=201)
        (due,) = [one.next_at for one in rows.of_stack(path.split("/")[3])]
        assert due is not None
        file.write_text(file.read_text().replace('"member"', '"reader"'))
        clock.pass_(due - clock.now())
        sweep.run(rows.due(due))
        (ended,) = heat.get(path)["schedules"]
        assert (ended["last"]["result"], ended["last"]["code"]) == ("refused", "Forbidden")
    server.close()
