"""Intake of reports: routes, results, tokens, look-up by physical id."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.core.config import Auth, Settings
from heatlite.store.database.database import Database, Parameters
from heatlite.store.store import Store
from tests.databases import sqlite

from .conftest import Heat, template

MEMBER = {"type": "OS::Heat::TestResource", "properties": {"value": "x"}}
GROUP = template(
    db=MEMBER, web={"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": MEMBER}}
)


def alert(physical_id: str = "", status: str = "firing", key: str = "f", **labels: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": "Down", **({"instance_id": physical_id} if physical_id else {}), **labels},
        "annotations": {"summary": "no answer"},
        "startsAt": "2026-11-02T12:00:00Z",
        "fingerprint": key,
    }


def send(heat: Heat, *alerts: Any, source: str = "alertmanager", code: int = 200) -> Any:
    return heat.call("POST", f"/health/{source}", {"version": "4", "alerts": list(alerts)}, code).json


@pytest.fixture
def path(heat: Heat) -> str:
    return heat.create(GROUP)


def physical_id(heat: Heat, path: str, name: str = "db") -> str:
    found: str = heat.get(f"{path}/resources/{name}")["resource"]["physical_resource_id"]
    return found


def test_a_report_is_accepted_once(heat: Heat, path: str) -> None:
    first = send(heat, alert(physical_id(heat, path)))
    assert (first["received"], first["counts"]) == (1, {"accepted": 1})
    (result,) = first["results"]
    assert result["target"]["path"] == "db"
    assert result["incident"]
    again = send(heat, alert(physical_id(heat, path)))
    assert again["counts"] == {"repeated": 1}
    assert again["results"][0]["incident"] == result["incident"]
    (incident,) = heat.get("/incidents")["incidents"]
    assert (incident["state"], incident["source"], incident["path"]) == ("OBSERVED", "alertmanager", "db")
    shown = heat.get("/health/alertmanager")["source"]
    assert [one["result"] for one in shown["results"]] == ["accepted"]
    assert shown["last_report_at"]


def test_resolved_closes_what_was_not_confirmed(heat: Heat, path: str, server: wiring.Embedded) -> None:
    send(heat, alert(physical_id(heat, path)))
    assert send(heat, alert(status="resolved"))["counts"] == {"cleared": 1}
    server.components.healing.sweep()
    (incident,) = heat.get("/incidents")["incidents"]
    assert (incident["state"], incident["closed_as"]) == ("CLOSED", "resolved")
    assert heat.get(f"{path}/resources/db")["resource"]["resource_status"] == "CREATE_COMPLETE"
    assert send(heat, alert(status="resolved"))["counts"] == {"ignored": 1}


def test_a_slot_of_a_nested_stack(heat: Heat, path: str) -> None:
    result = send(heat, alert(heatlite_stack="s", heatlite_resource="web/1"))["results"][0]
    assert (result["result"], result["target"]["path"]) == ("accepted", "web/1")
    (found,) = heat.get(f"/resources?physical_resource_id={result['target']['physical_resource_id']}")["resources"]
    assert (found["path"], found["root_stack_name"], found["resource_name"]) == ("web/1", "s", "1")


@pytest.mark.parametrize(
    ("labels", "result"),
    [
        ({}, "unmapped"),
        ({"instance_id": "short"}, "unknown"),
        ({"instance_id": "11111111-1111"}, "unknown"),
        ({"heatlite_stack": "s", "heatlite_resource": "nothing"}, "unknown"),
        ({"heatlite_stack": "other", "heatlite_resource": "db"}, "unknown"),
        ({"heatlite_stack": "s"}, "unmapped"),
    ],
)
def test_what_is_no_target_changes_nothing(heat: Heat, path: str, labels: dict[str, str], result: str) -> None:
    assert send(heat, alert(**labels))["counts"] == {result: 1}
    assert heat.get("/incidents")["incidents"] == []


def test_a_contradiction_changes_nothing(heat: Heat, path: str) -> None:
    given = alert(physical_id(heat, path), heatlite_stack="s", heatlite_resource="web/0")
    assert send(heat, given)["counts"] == {"contradiction": 1}


def test_another_project_finds_nothing(heat: Heat, path: str) -> None:
    identifier = physical_id(heat, path)
    assert send(heat.of("other"), alert(identifier))["counts"] == {"unknown": 1}
    assert heat.of("other").get(f"/resources?physical_resource_id={identifier}") == {"resources": []}


def test_a_locked_stack_takes_no_evidence(heat: Heat, path: str) -> None:
    identifier = physical_id(heat, path)
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, 200)
    heat.settle(path)
    assert send(heat, alert(identifier))["counts"] == {"suppressed": 1}
    assert heat.get("/incidents")["incidents"] == []


def test_an_earlier_episode_is_ignored_and_a_later_one_takes_its_place(heat: Heat, path: str, store: Store) -> None:
    identifier = physical_id(heat, path)
    send(heat, alert(identifier))
    later = {**alert(identifier), "startsAt": "2026-11-02T13:00:00+00:00"}
    assert send(heat, later)["counts"] == {"accepted": 1}
    assert send(heat, alert(identifier))["counts"] == {"ignored": 1}
    known = store.observations.at("demo", "alertmanager", ["f"])
    assert [one.is_open for one in known] == [False, True]
    assert len(heat.get("/incidents")["incidents"]) == 1


def test_many_reports_in_one_request(heat: Heat, path: str) -> None:
    identifier = physical_id(heat, path)
    answer = send(heat, alert(identifier, key="a"), "broken", alert(identifier, key="b"), alert(identifier, key="a"))
    assert answer["counts"] == {"accepted": 2, "invalid": 1, "repeated": 1}
    assert len({one["incident"] for one in answer["results"] if one["incident"]}) == 1


def test_the_number_of_statements_does_not_depend_on_the_reports(
    heat: Heat, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, statements = Database.read, []

    def counted(database: Database, sql: str, parameters: Parameters = ()) -> Any:
        if threading.current_thread() is threading.main_thread():
            statements.append(sql)
        return read(database, sql, parameters)

    monkeypatch.setattr(Database, "read", counted)
    counts = []
    for number in (2, 40):
        statements.clear()
        sent = [alert(key=f"{number} {n}", heatlite_stack="s", heatlite_resource=f"web/{n % 2}") for n in range(number)]
        assert send(heat, *sent)["counts"] == {"accepted": number}
        counts.append(len(statements))
    assert counts[0] == counts[1]


def test_a_slot_is_named_from_a_nested_stack(heat: Heat, path: str) -> None:
    nested = physical_id(heat, path, "web")
    assert send(heat, alert(heatlite_stack=nested, heatlite_resource="1"))["results"][0]["target"]["path"] == "web/1"


def test_an_alarm_of_aodh_marks_members_and_ends_for_all(heat: Heat, path: str) -> None:
    members = [{"id": physical_id(heat, path)}]
    body = {"alarm_id": "al", "current": "alarm", "reason_data": {"unhealthy_members": members}}
    assert heat.call("POST", "/health/aodh", body, 200).json["counts"] == {"accepted": 1}
    blind = {"alarm_id": "al", "current": "insufficient data"}
    assert heat.call("POST", "/health/aodh", blind, 200).json["counts"] == {"blind": 1}
    assert heat.call("POST", "/health/aodh", {**blind, "current": "ok"}, 200).json["counts"] == {"cleared": 1}


@pytest.mark.parametrize("mode", ["structured", "batched", "binary", "plain"])
def test_cloud_events(heat: Heat, path: str, mode: str) -> None:
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "db", "reason": "disk"}
    event = {"specversion": "1.0", "id": "1", "source": "/probe", "type": "health", "data": report}
    body, headers = {
        "structured": (event, {"Content-Type": "application/cloudevents+json"}),
        "batched": ([event], {"Content-Type": "application/cloudevents-batch+json"}),
        "binary": (report, {"Ce-Specversion": "1.0", "Ce-Id": "1"}),
        "plain": ({"reports": [report]}, {}),
    }[mode]
    assert heat.call("PUT", "/health/generic", body, 200, headers).json["counts"] == {"accepted": 1}


@pytest.mark.parametrize("body", [[], {"version": "5", "alerts": []}, {"version": "4"}, "text", None])
def test_a_body_that_is_no_delivery_is_refused(heat: Heat, body: object) -> None:
    heat.fault("POST", "/health/alertmanager", body, code=400)


def test_sources_are_configured(heat: Heat, path: str) -> None:
    heat.fault("POST", "/health/nagios", {"reports": []}, code=404)
    heat.fault("PUT", "/health/nagios/config", {"format": "nagios"}, code=400)
    document = {"format": "generic", "when": {"labels.team": ["a"]}}
    assert heat.call("PUT", "/health/nagios/config", document, 200).json["source"]["document"] == document
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "db"}
    for team, result in (("b", "ignored"), ("a", "accepted")):
        sent = {"reports": [{**report, "labels": {"team": team}}]}
        assert heat.call("POST", "/health/nagios", sent, 200).json["counts"] == {result: 1}
    heat.call("POST", "/health/nagios/acknowledge", None, 204)
    heat.call("DELETE", "/health/nagios/config", None, 204)
    heat.fault("GET", "/health/nagios", code=404)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Heat]:
    """A server that wants a token of each caller."""
    file = tmp_path / "tokens.toml"
    token = add_token(file, "mia", {"demo": frozenset({"member"})}, None)
    server = wiring.embedded(Settings(database=sqlite(tmp_path), auth=Auth.TOKENS, tokens_file=str(file)))
    yield Heat(server.app, proof={"Authorization": f"Bearer {token}"})
    server.close()


def test_an_intake_token_reports_and_does_nothing_else(guarded: Heat) -> None:
    made = guarded.call("POST", "/health_tokens", {"name": "prometheus", "source": "alertmanager"}, 201).json
    token = made["health_token"]["token"]
    assert token.startswith("hlh_")
    listed = guarded.get("/health_tokens")["health_tokens"]
    assert [one["name"] for one in listed] == ["prometheus"]
    assert token not in str(listed)
    body = {"version": "4", "alerts": []}
    reporter = Heat(guarded.wsgi, proof={"Authorization": f"Bearer {token}"})
    assert reporter.call("POST", "/health/alertmanager", body, 200).json["received"] == 0
    basic = Heat(guarded.wsgi)
    basic.app.authorization = ("Basic", ("anybody", token))
    basic.call("POST", "/health/alertmanager", body, 200)
    for method, path, given in (
        ("GET", "/health/alertmanager", None), ("GET", "/stacks", None), ("GET", "/health_tokens", None),
        ("POST", "/health/grafana", body), ("POST", "/stacks", {}), ("GET", "/incidents", None),
    ):  # fmt: skip
        assert reporter.call(method, path, given).status_int == 403, path
    assert reporter.of("other").call("POST", "/health/alertmanager", body).status_int == 403
    guarded.call("DELETE", f"/health_tokens/{made['health_token']['id']}", None, 204)
    assert reporter.call("POST", "/health/alertmanager", body).status_int == 401
    guarded.fault("DELETE", f"/health_tokens/{made['health_token']['id']}", code=404)


def test_an_expired_token_is_refused(guarded: Heat) -> None:
    given = {"name": "old", "expires_at": "2020-01-01T00:00:00Z"}
    token = guarded.call("POST", "/health_tokens", given, 201).json["health_token"]["token"]
    reporter = Heat(guarded.wsgi, proof={"Authorization": f"Bearer {token}"})
    assert reporter.call("POST", "/health/alertmanager", {}).status_int == 401


@pytest.mark.parametrize("query", ["", "?physical_resource_id=x&more=1"])
def test_a_look_up_names_objects(heat: Heat, query: str) -> None:
    heat.fault("GET", f"/resources{query}", code=400)


def test_a_repair_by_hand(heat: Heat, path: str) -> None:
    heat.call("PATCH", f"{path}/resources/db", {"mark_unhealthy": True}, 200)
    before = physical_id(heat, path)
    kind, message = heat.fault("POST", f"{path}/actions", {"heal": None}, 409)
    assert (kind, "mode_off" in message) == ("HealingHeld", True)
    answer = heat.call("POST", f"{path}/actions", {"heal": {"ignore": ["mode_off"]}}, 200)
    assert answer.text == "null"
    action = heat.get(answer.location.partition("/demo")[2])["action"]
    assert action["action"] == "STACK_UPDATE"
    heat.settle(path, "UPDATE_COMPLETE")
    assert physical_id(heat, path) != before
    for wrong in ({"ignore": ["locked"]}, {"step": "reboot"}, {"resources": []}, {"zz": 1}, []):
        assert heat.fault("POST", f"{path}/actions", {"heal": wrong})[0] == "HTTPBadRequest"
    assert heat.fault("POST", f"{path}/actions", {"heal": {"resources": ["web/9"]}}, 404)[0] == "ResourceNotFound"


def test_health_is_shown_with_resources_and_stacks(heat: Heat, path: str) -> None:
    assert "health" not in heat.get(f"{path}/resources/db")["resource"]
    nothing = {"unhealthy": 0, "unknown": 0, "suspected": 0, "held": 0, "scopes_suspended": 0}
    assert heat.get(path)["stack"]["health"] == nothing
    incident = send(heat, alert(physical_id(heat, path)))["results"][0]["incident"]
    suspected = heat.get(f"{path}/resources/db")["resource"]["health"]
    assert (suspected["state"], suspected["source"], suspected["incident"]) == ("suspected", "alertmanager", incident)
    assert "no answer" in suspected["reason"]
    resources = heat.get(f"{path}/resources?nested_depth=1")["resources"]
    listed = {one["resource_name"]: one.get("health") for one in resources}
    assert listed == {"db": suspected, "web": None, "0": None, "1": None}
    (found,) = heat.get(f"/resources?physical_resource_id={physical_id(heat, path)}")["resources"]
    assert found["health"] == suspected
    heat.call("PATCH", f"{path}/resources/db", {"mark_unhealthy": True, "resource_status_reason": "smoke"}, 200)
    web = heat.get(f"{path}/resources/web")["resource"]["links"][-1]["href"].partition("/demo")[2]
    heat.call("PATCH", f"{web}/resources/1", {"mark_unhealthy": True, "resource_status_reason": "smoke"}, 200)
    marked = heat.get(f"{web}/resources/1")["resource"]["health"]
    assert marked == {**marked, "state": "unhealthy", "source": None, "reason": "smoke", "incident": None}
    counted = heat.get(path)["stack"]["health"]
    assert counted == {**nothing, "unhealthy": 2}
    listed = {one["stack_name"]: one["health"] for one in heat.get("/stacks?show_nested=true")["stacks"]}
    assert listed.pop("s") == counted
    assert [*listed.values()] == [None]
