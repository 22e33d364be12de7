"""Routes and the command of expiries."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatlite.cli.main import run
from tests.api.conftest import Heat, Town, template, value
from tests.api.test_commands import Here
from tests.tables import table

LATER = "2099-01-01T20:00:00Z"


@pytest.mark.slow
def test_an_expiry_from_begin_to_end(heat: Heat) -> None:
    path = heat.create(template(a=value()))
    assert heat.get(path)["stack"]["expiry"] is None
    assert heat.fault("GET", f"{path}/expiry", code=404)[0] == "EntityNotFound"
    asked = {"expires_at": "2099-01-01T21:00:00+01:00", "then": "suspend", "warn_before": [600.0]}
    made = heat.call("PUT", f"{path}/expiry", asked, code=200).json["expiry"]
    assert made == {
        "expires_at": LATER, "then": "suspend", "warn_before": [600], "state": "pending", "code": None,
        "set_by": "anonymous",
    }  # fmt: skip
    assert heat.get(f"{path}/expiry") == {"expiry": made}
    assert heat.get(path)["stack"]["expiry"] == made
    assert [one["expiry"] for one in heat.get("/stacks")["stacks"]] == [made]
    for before, count in (("2099-01-01T20:00:00Z", 0), ("2099-01-01T20:00:01Z", 1)):
        assert len(heat.get(f"/stacks?expires_before={before}")["stacks"]) == count
    (entry,) = heat.get("/schedules")["schedules"]
    assert {key: entry[key] for key in ("kind", "do", "next_at", "owner", "name")} == {
        "kind": "expiry", "do": {"suspend": {}}, "next_at": LATER, "owner": "anonymous", "name": "s",
    }  # fmt: skip
    again = heat.call("PUT", f"{path}/expiry", {"expires_at": LATER}, code=200).json["expiry"]
    assert (again["then"], again["warn_before"]) == ("delete", [86_400, 3600])
    heat.call("DELETE", f"{path}/expiry", code=204)
    heat.fault("DELETE", f"{path}/expiry", code=404)
    assert heat.get("/schedules")["schedules"] == []
    assert heat.get("/stacks?expires_before=2222-01-01")["stacks"] == []


@table(
    ("asked", "faults"),
    [
        (None, ["The body: must be an object"]),
        ({}, ["needs expires_at"]),
        ({"expires_at": "soon", "then": "explode", "warn_before": [], "more": 1},
         ['expires_at: "soon" is not a time', "then: must be one of", "warn_before: needs at least 1 entry",
          "unknown key more"]),
        ({"expires_at": LATER, "warn_before": [1, 2, 3, 4, 5, 6]}, ["warn_before: may have at most 5 entries"]),
        ({"expires_at": LATER, "warn_before": [59, "x"]}, ["warn_before[0]: must be at least 60", "warn_before[1]:"]),
        ({"expires_at": "2020-01-01T00:00:00Z"}, ["expires_at: is 2020-01-01T00:00:00Z, and has to be"]),
    ],
)  # fmt: skip
def test_a_bad_body_is_refused_with_all_its_faults(heat: Heat, asked: Any, faults: list[str]) -> None:
    found = [one for one in heat.get("/stacks")["stacks"] if one["stack_name"] == "ends"]
    path = f"/stacks/ends/{found[0]['id']}" if found else heat.create(template(a=value()), "ends")
    message = heat.fault("PUT", f"{path}/expiry", asked)[1]
    for fault in faults:
        assert fault in message


@pytest.mark.slow
def test_who_may(town: Town) -> None:
    path = town["member"].create(template(a=value())) + "/expiry"
    town["reader"].call("PUT", path, {"expires_at": LATER}, code=403)
    town["member"].call("PUT", path, {"expires_at": LATER}, code=200)
    town["reader"].call("GET", path, code=200)
    town["reader"].call("DELETE", path, code=403)
    town["member"].call("DELETE", path, code=204)


def test_a_stack_that_is_handed_over_does_not_expire(heat: Heat) -> None:
    path = heat.create(template(a=value()))
    heat.call("PUT", f"{path}/expiry", {"expires_at": LATER}, code=200)
    assert "expir" not in str(heat.get(f"{path}/export"))
    heat.call("DELETE", f"{path}/abandon", code=200)
    heat.settle(path, "DELETE_COMPLETE")
    assert heat.get("/schedules")["schedules"] == []


def test_from_the_command_line(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(template(a=value()))
    here = Here(heat)
    expire = ["expire", "s", "--project", heat.project]
    assert run([*expire, LATER, "--then", "suspend"], here) == 0
    assert capsys.readouterr().out == f"s: suspend at {LATER}\n"
    assert here("explain s") == 0
    assert f"expires: suspend at {LATER}, set by anonymous" in " ".join(capsys.readouterr().out.split())
    heat.call("PUT", f"{path}/expiry", {"expires_at": LATER, "then": "suspend", "warn_before": [7200]}, code=200)
    for then, given in (("suspend", []), ("delete", ["--then", "delete"]), ("delete", [])):
        assert run([*expire, "+7d", *given], here) == 0
        extended = heat.get(f"{path}/expiry")["expiry"]
        assert (extended["then"], extended["warn_before"]) == (then, [7200])
    assert run([*expire, "never"], here) == 0
    assert run([*expire, "never"], here) == 1
    assert run([*expire, "some day"], here) == 2
    heat.fault("GET", f"{path}/expiry", code=404)


@pytest.mark.slow
def test_up_lets_a_stack_expire(heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(json.dumps(template(a=value())))
    up = ["up", str(file), "--project", heat.project, "--yes"]
    for expires in (LATER, "2099-02-01T20:00:00Z"):
        assert run([*up, "--expires", expires], Here(heat)) == 0
        assert f"web: delete at {expires}" in capsys.readouterr().err
        assert [one["expiry"]["expires_at"] for one in heat.get("/stacks")["stacks"]] == [expires]
    assert run(up, Here(heat)) == 0
    assert [one["expiry"]["expires_at"] for one in heat.get("/stacks")["stacks"]] == [expires]
