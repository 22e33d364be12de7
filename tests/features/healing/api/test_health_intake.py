"""Intake of reports: routes, results, tokens, look-up by physical id."""

import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given as given_
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.clock import Clock, from_text
from heatlite.core.ids import new_id
from heatlite.core.runtime.meter import Meter
from heatlite.features.healing import operations
from heatlite.features.healing.api import sources
from heatlite.features.healing.intake import intake
from heatlite.features.healing.intake.intake import Intake
from heatlite.features.healing.intake.targets import ReportTargets
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.reports import AlertReport
from heatlite.features.healing.store.records import HealthTokenRecord
from heatlite.features.healing.store.sources import PREFIX, token_digest
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import ReportResult, Word
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters, Row
from heatlite.store.store import Store
from tests.api.conftest import Heat, Town, template
from tests.databases import away
from tests.tables import few

MEMBER = {"type": "OS::Heat::TestResource", "properties": {"value": "x"}}
GROUP = template(db=MEMBER, web={"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": MEMBER}})


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


@pytest.fixture
def own_path(own_heat: Heat) -> str:
    return own_heat.create(GROUP)


def physical_id(heat: Heat, path: str, name: str = "db") -> str:
    found: str = heat.get(f"{path}/resources/{name}")["resource"]["physical_resource_id"]
    return found


def nested(heat: Heat, path: str, name: str) -> str:
    """The path of the nested stack of a resource."""
    links = heat.get(f"{path}/resources/{name}")["resource"]["links"]
    return str(next(one["href"] for one in links if one["rel"] == "nested")).partition(heat.root)[2]


def physical_id_at(heat: Heat, path: str, *names: str) -> str:
    for name in names[:-1]:
        path = nested(heat, path, name)
    return physical_id(heat, path, names[-1])


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
    for asked in ("state=OBSERVED,MARKED", "state=MARKED&state=OBSERVED", "source=grafana,alertmanager", "path=db"):
        assert heat.get(f"/incidents?{asked}")["incidents"] == [incident]
    for asked in ("state=MARKED,CLOSED", "closed_as=healed,gone", "source=grafana", "path=web"):
        assert heat.get(f"/incidents?{asked}")["incidents"] == []
    heat.fault("GET", "/incidents?state=", code=400)
    for _ in range(2):
        send(heat, alert(key="watchdog"))
    shown = heat.get("/health/alertmanager")["source"]
    assert [one["result"] for one in shown["results"]] == ["accepted", "unmapped"]
    assert shown["last_report_at"]


@pytest.mark.parametrize("odd", ["\0", "\ud800"])
def test_an_odd_character_refuses_no_delivery(heat: Heat, path: str, odd: str) -> None:
    """No database keeps it."""
    whole = alert(physical_id(heat, path))
    answer = send(heat, alert("12345678", key=f"k{odd}", note=odd), whole)
    assert answer["counts"] == {"unknown": 1, "accepted": 1}
    assert [one["key"] for one in answer["results"]] == ["k?", "f"]
    reports = [{"key": f"k{odd}", "status": "unhealthy", "physical_id": f"12345678{odd}"}]
    assert heat.call("POST", "/health/generic", {"reports": reports}, 200).json["counts"] == {"unknown": 1}


def test_resolved_closes_what_was_not_confirmed(heat: Heat, path: str, server: wiring.Embedded) -> None:
    send(heat, alert(physical_id(heat, path)))
    assert send(heat, alert(status="resolved"))["counts"] == {"cleared": 1}
    server.components.of(Healing).loop.sweep()
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
    few(
        [
            ({}, "unmapped"),
            ({"instance_id": "short"}, "unknown"),
            ({"instance_id": "11111111-1111"}, "unknown"),
            ({"heatlite_stack": "s", "heatlite_resource": "nothing"}, "unknown"),
            ({"heatlite_stack": "other", "heatlite_resource": "db"}, "unknown"),
            ({"heatlite_stack": "s"}, "unmapped"),
        ]
    ),
)
def test_what_is_no_target_changes_nothing(heat: Heat, path: str, labels: dict[str, str], result: str) -> None:
    assert send(heat, alert(**labels))["counts"] == {result: 1}
    assert heat.get("/incidents")["incidents"] == []


def dump(store: Store) -> dict[str, list[Row]]:
    """All rows of the database, but those of sources."""
    names = [str(name) for (name,) in store.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {name: store.database.read(f'SELECT * FROM "{name}"') for name in names if name not in ("health_source",)}


@pytest.mark.slow
def test_what_is_no_evidence_changes_no_row(own_heat: Heat, own_path: str, own_server: wiring.Embedded) -> None:
    """Every other result of a target, and each malformed report."""
    old = physical_id(own_heat, own_path)
    send(own_heat, alert(old, key="old"))
    own_heat.call("PATCH", f"{own_path}/resources/db", {"mark_unhealthy": True}, 200)
    own_heat.call("PATCH", own_path, {}, 202)
    own_heat.settle(own_path, "UPDATE_COMPLETE")
    row = own_server.store.resources.by_name(own_path.rpartition("/")[2], ["db"])[0]
    twins = [replace(row, id=new_id(), name=f"twin{n}", physical_id="two-of-a-kind") for n in range(2)]
    with own_server.store.transaction():
        own_server.store.resources.insert_many(twins)
    here = physical_id(own_heat, own_path)
    slot = {"heatlite_stack": "s", "heatlite_resource": "web/0"}
    own_server.close()  # nobody else writes
    before = dump(own_server.store)
    before.pop("guard_alert")  # guards of updates count alerts without a target, too
    sent: list[tuple[str, Any]] = [
        ("stale", alert(old, key="new")),
        ("unknown", alert("22222222-2222-4222-8222-222222222222")),
        ("unknown", alert("short")),
        ("unknown", alert(heatlite_stack="s", heatlite_resource="web/7")),
        ("unknown", alert(heatlite_stack="none", heatlite_resource="db")),
        ("ambiguous", alert("two-of-a-kind")),
        ("contradiction", alert(here, **slot)),
        ("unmapped", alert()),
        ("unmapped", alert(heatlite_stack="s")),
        ("ignored", alert(here, status="resolved", key="none")),
        *(("invalid", one) for one in MALFORMED),
    ]
    for result, one in sent:
        answer = send(own_heat, one)
        assert (answer["counts"], answer["results"][0]["incident"]) == ({result: 1}, None), one
    many = send(own_heat, *(one for _, one in sent * 3))
    assert many["counts"] == {name: number * 3 for name, number in Counter(name for name, _ in sent).items()}
    for source, body in MALFORMED_ELSEWHERE:
        assert own_heat.call("POST", f"/health/{source}", body, 200).json["counts"] == {"invalid": 1}, body
    after = dump(own_server.store)
    after.pop("guard_alert")
    assert after == before


MALFORMED: list[Any] = [
    None, 1, "text", [], {}, {**alert(), "status": "maybe"}, {**alert(), "status": ["firing"]},
    {**alert(), "labels": 1},
    {**alert(), "labels": {"a": 1}}, {**alert(), "labels": {str(n): "x" for n in range(65)}},
    {**alert(), "labels": None}, {**alert(), "annotations": {"a": None}}, {**alert(), "annotations": []},
    {**alert(), "startsAt": "yesterday"}, {**alert(), "startsAt": None}, {**alert(), "startsAt": {}},
    {**alert(), "startsAt": "99999-01-01T00:00:00Z"}, {key: one for key, one in alert().items() if key != "startsAt"},
]  # fmt: skip


MALFORMED_ELSEWHERE: list[tuple[str, Any]] = [
    *(("grafana", {"version": "1", "alerts": [one]}) for one in MALFORMED),
    *(
        ("aodh", {"alarm_id": "a", "current": "alarm", "reason_data": {"unhealthy_members": [one]}})
        for one in (None, 1, "text", [], {}, {"id": None}, {"id": 5}, {"id": ""})
    ),
    *(
        ("generic", {"reports": [one]})
        for one in (
            None, 1, "text", [], {}, {"key": "k"}, {"status": "healthy"}, {"key": "", "status": "healthy"},
            {"key": "k" * 256, "status": "healthy"}, {"key": 5, "status": "healthy"}, {"key": "k", "status": "ill"},
            *(
                {"key": "k", "status": "unhealthy", **more}
                for more in (
                    {"zz": 1}, {"since": "yesterday"}, {"reason": "x" * 1001}, {"reason": 5}, {"labels": []},
                    {"labels": {"a": 1}}, {"labels": {str(n): "x" for n in range(65)}}, {"physical_id": 5},
                    {"stack": 5}, {"resource": None},
                )
            ),
        )
    ),
]  # fmt: skip


def test_another_project_finds_nothing(heat: Heat, path: str) -> None:
    identifier = physical_id(heat, path)
    assert send(heat.other, alert(identifier))["counts"] == {"unknown": 1}
    assert heat.other.get(f"/resources?physical_resource_id={identifier}") == {"resources": []}


@pytest.mark.slow
def test_a_locked_stack_takes_no_evidence(heat: Heat, path: str) -> None:
    identifier = physical_id(heat, path)
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, 200)
    heat.settle(path)
    slot = alert(heatlite_stack="s", heatlite_resource="web/1")
    for number in range(2):
        assert send(heat, alert(identifier), slot, alert(identifier, key="other"))["counts"] == {"suppressed": 3}
        listed = heat.get(f"{path}/lock")["suppressed"]
        assert [(one["request"], one["target"], one["count"]) for one in listed] == [
            ("mark_unhealthy", "db", number + 1), ("mark_unhealthy", "web/1", number + 1),
        ]  # fmt: skip
    assert heat.get("/incidents")["incidents"] == []
    heat.call("POST", f"{path}/actions", {"unlock": None}, 200)
    heat.settle(path, "UNLOCK_COMPLETE")
    heat.call("POST", f"{path}/lock/suppressed/{listed[1]['id']}/replay", None, 200)
    (marked,) = heat.get(f"/resources?physical_resource_id={physical_id_at(heat, path, 'web', '1')}")["resources"]
    assert marked["resource_status"] == "CHECK_FAILED"


def test_reports_leave_half_of_the_threads(heat: Heat, path: str, server: wiring.Embedded) -> None:
    """The third of eight threads that wait for the four others is refused at once."""
    turns, free = server.components.of(Healing).intake.turns, threading.Event()
    inside = threading.Barrier(5)

    def report(waits: bool) -> None:
        with turns.turn():
            if not waits:
                inside.wait(240)
                free.wait(240)

    threads = [threading.Thread(target=report, args=(False,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    inside.wait(240)
    threads += [threading.Thread(target=report, args=(True,)) for _ in range(2)]
    for thread in threads[4:]:
        thread.start()
    while turns.waiting < 2:
        time.sleep(0.001)
    refused = heat.call("POST", "/health/alertmanager", {"version": "4", "alerts": []}, 503)
    assert refused.headers["Retry-After"] == "5"
    free.set()
    for thread in threads:
        thread.join()
    assert send(heat)["received"] == 0


@pytest.mark.slow
def test_several_marks_are_all_or_none(heat: Heat, path: str) -> None:
    def state(*names: str) -> str:
        found = heat.get(f"/resources?physical_resource_id={physical_id_at(heat, path, *names)}")["resources"]
        return str(found[0]["resource_status"])

    def mark(*resources: str, unhealthy: bool = True) -> dict[str, Any]:
        return {"marks": [{"resource": one, "mark_unhealthy": unhealthy} for one in resources]}

    _, message = heat.fault("PATCH", f"{path}/resources", mark("db", "web/7", "web/1", "x"), 404)
    assert "web/7: " in message and "x: " in message and "web/1: " not in message
    assert (state("db"), state("web", "1")) == ("CREATE_COMPLETE", "CREATE_COMPLETE")
    assert heat.call("PATCH", f"{path}/resources", mark(physical_id(heat, path), "web/1"), 200).text == "null"
    assert (state("db"), state("web", "0"), state("web", "1")) == ("CHECK_FAILED", "CREATE_COMPLETE", "CHECK_FAILED")
    heat.call("PATCH", f"{path}/resources", mark("db", "web/1", unhealthy=False), 200)
    assert (state("db"), state("web", "1")) == ("CHECK_COMPLETE", "CHECK_COMPLETE")
    below = nested(heat, path, "web")
    heat.call("POST", f"{below}/actions", {"lock": {"level": "stacks"}}, 200)
    heat.settle(below, "LOCK_COMPLETE")
    assert heat.fault("PATCH", f"{path}/resources", mark("db", "web/1"), 409)[0] == "StackLocked"
    (entry,) = heat.get(f"{path}/lock")["suppressed"]
    assert len(entry["effect"]["marks"]) == 2
    assert state("db") == "CHECK_COMPLETE"
    for body in ({}, {"marks": []}, {"marks": [{"mark_unhealthy": True}]}, mark(*["db"] * 201), {"marks": [{}]}):
        heat.fault("PATCH", f"{path}/resources", body, 400)


@pytest.mark.slow
def test_of_two_hundred_marks_one_refuses_all(heat: Heat) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 199, "resource_def": MEMBER}}
    path = heat.create(template(web=group))
    marks = [{"resource": f"web/{number}", "mark_unhealthy": True} for number in [*range(199), 999]]
    _, message = heat.fault("PATCH", f"{path}/resources", {"marks": marks}, 404)
    assert message == "Nothing was marked. web/999: The Resource (web/999) could not be found in Stack s."
    states = {one["resource_status"] for one in heat.get(f"{nested(heat, path, 'web')}/resources")["resources"]}
    assert states == {"CREATE_COMPLETE"}
    heat.call("PATCH", f"{path}/resources", {"marks": marks[:199]}, 200)
    states = {one["resource_status"] for one in heat.get(f"{nested(heat, path, 'web')}/resources")["resources"]}
    assert states == {"CHECK_FAILED"}


@pytest.mark.slow
def test_a_look_up_deep_in_a_tree_among_many_stacks(own_heat: Heat, own_store: Store) -> None:
    deep: dict[str, Any] = MEMBER
    for _ in range(3):
        deep = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": deep}}
    path = own_heat.create(template(web=deep))
    wanted = physical_id_at(own_heat, path, "web", "0", "0", "0")
    stack = own_store.stacks.get(path.rpartition("/")[2])
    assert stack is not None
    row = own_store.resources.of(stack.id)[0]
    with own_store.transaction():
        for number in range(500):
            other = replace(stack, id=new_id(), name=f"other{number}")
            own_store.stacks.insert(other)
            own_store.resources.insert_many([
                replace(row, id=new_id(), stack_id=other.id, name=str(n), physical_id=f"{wanted[:20]}-{number}-{n}")
                for n in range(10)
            ])  # fmt: skip
    (found,) = own_heat.get(f"/resources?physical_resource_id={wanted}")["resources"]
    assert (found["path"], found["root_stack_name"]) == ("web/0/0/0", "s")
    assert own_heat.other.get(f"/resources?physical_resource_id={wanted}") == {"resources": []}


def test_an_earlier_episode_is_ignored_and_a_later_one_takes_its_place(heat: Heat, path: str, store: Store) -> None:
    identifier = physical_id(heat, path)
    send(heat, alert(identifier))
    later = {**alert(identifier), "startsAt": "2026-11-02T13:00:00+00:00"}
    assert send(heat, later)["counts"] == {"accepted": 1}
    assert send(heat, alert(identifier))["counts"] == {"ignored": 1}
    first, second = (from_text(one["startsAt"]) for one in (alert(identifier), later))
    known = store.of(HealingStore).observations.at(heat.project, "alertmanager", {("f", first), ("f", second)})
    assert {one.starts_at: one.is_open for one in known} == {first: False, second: True}
    assert len(heat.get("/incidents")["incidents"]) == 1
    # Alertmanager joins alerts of two senders and keeps the earlier begin. A missed end would cost a healthy object.
    assert send(heat, alert(identifier, "resolved"))["counts"] == {"cleared": 1}


@pytest.mark.slow
def test_episodes_have_a_limit(heat: Heat, path: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A monitoring system has no account, and may report any number of episodes."""
    monkeypatch.setattr(intake, "MAX_OPEN_EPISODES", 4)
    monkeypatch.setattr(intake, "MAX_EPISODES", 10)
    blind = [{"key": f"b{number}", "status": "unknown"} for number in range(6)]
    answer = heat.call("POST", "/health/generic", {"reports": blind}, 200).json
    assert answer["counts"] == {"blind": 4, "overflow": 2}
    assert send(heat, alert(physical_id(heat, path)))["counts"] == {"overflow": 1}
    ends = [{"key": "b0", "status": "healthy"}]
    assert heat.call("POST", "/health/generic", {"reports": ends}, 200).json["counts"] == {"cleared": 1}
    for hour in range(20):
        later = {**alert(physical_id(heat, path)), "startsAt": f"2026-11-03T{hour:02}:00:00Z"}
        assert send(heat, later)["counts"] == {"accepted": 1}
    assert store.of(HealingStore).observations.count(heat.project) == (4, 10)
    assert "f" in store.of(HealingStore).observations.open(heat.project, "alertmanager", ["f"])


def test_texts_of_a_report_are_bounded(heat: Heat, path: str) -> None:
    """A monitoring system has no account, and chooses the length of each text."""
    long = "x" * 100_000
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "nothing"}
    changes: list[dict[str, Any]] = [
        {long: 1}, {"since": long}, {"physical_id": long}, {"stack": long}, {"resource": long}, {"reason": long},
        {"labels": {long: long}}, {"key": long}, {"stack": "y" * 1000},
    ]  # fmt: skip
    answer = heat.call("POST", "/health/generic", {"reports": [{**report, **one} for one in changes]}, 200).json
    assert answer["counts"] == {"invalid": 7, "unknown": 2}
    assert max(len(str(one["detail"])) for one in answer["results"]) < 2000
    assert len(str(heat.get("/health/generic"))) < 10_000
    assert len(heat.call("POST", "/health/generic", {"reports": [], long: 1}, 400).body) < 2000
    for since in ("9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00+14:00"):
        one = {"key": since, "status": "unhealthy", "since": since, "stack": "s", "resource": "db"}
        assert heat.call("POST", "/health/generic", {"reports": [one]}, 200).json["counts"] == {"invalid": 1}
    alarm = {"alarm_id": "al", "current": "alarm", "reason_data": {"unhealthy_members": [{"id": long}]}}
    assert heat.call("POST", "/health/aodh", alarm, 200).json["counts"] == {"invalid": 1}


@pytest.mark.slow
def test_sources_and_tokens_have_a_limit(guarded: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MAX_SOURCES", 2)
    monkeypatch.setattr(sources, "MAX_TOKENS", 2)
    for number in range(2):
        guarded.call("PUT", f"/health/s{number}/config", {"format": "generic"}, 200)
        guarded.call("POST", "/health_tokens", {"name": "t"}, 201)
    guarded.fault("PUT", "/health/s2/config", {"format": "generic"}, code=400)
    guarded.fault("POST", "/health_tokens", {"name": "t"}, code=400)
    guarded.call("PUT", "/health/s1/config", {"format": "generic", "ttl": 60}, 200)
    guarded.call("DELETE", "/health/s0/config", None, 204)
    guarded.call("PUT", "/health/s2/config", {"format": "generic"}, 200)


def test_an_incident_shows_the_newest_of_many_alerts(
    heat: Heat, path: str, server: wiring.Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "MAX_ALERTS", 3)
    for number in range(5):
        send(heat, alert(physical_id(heat, path), key=f"k{number}"))
    (incident,) = heat.get("/incidents")["incidents"]
    shown = heat.get(f"/incidents/{incident['id']}")["incident"]["alerts"]
    assert [one["key"] for one in shown] == ["k2", "k3", "k4"]


def test_an_acknowledgement_and_a_configuration_at_once_keep_both(
    heat: Heat, server: wiring.Embedded, store: Store
) -> None:
    """Two processes of the API: one has read the source before the other writes it."""
    document = {"format": "generic", "ttl": 60}

    class Late(Clock):
        """A clock that is read while another request configures the source."""

        def now(self) -> float:
            server.components.of(Healing).intake.configure(heat.project, "generic", document)
            return super().now()

    Intake(store, Late(), 8, Meter()).acknowledge(heat.project, "generic")
    found = store.of(HealingStore).sources.get(heat.project, "generic")
    assert found is not None and found.document == document and found.window_from > 0


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
    for number in (24, 25, 60):  # the first opens the incidents
        statements.clear()
        sent = [alert(key=f"{number} {n}", heatlite_stack="s", heatlite_resource=f"web/{n % 2}") for n in range(number)]
        assert send(heat, *sent)["counts"] == {"accepted": number}
        counts.append(len(statements))
    assert counts[1] == counts[2]


def test_a_slot_is_named_from_a_nested_stack(heat: Heat, path: str) -> None:
    nested = physical_id(heat, path, "web")
    assert send(heat, alert(heatlite_stack=nested, heatlite_resource="1"))["results"][0]["target"]["path"] == "web/1"


@pytest.mark.slow
def test_a_source_that_cannot_see_is_shown(heat: Heat, path: str) -> None:
    assert heat.get("/health/grafana")["source"]["blind_since"] is None
    for status, is_blind in (("firing", True), ("resolved", False)):
        sent = {"version": "1", "alerts": [{**alert(status=status), "labels": {"alertname": "DatasourceError"}}]}
        heat.call("POST", "/health/grafana", sent, 200)
        assert (heat.get("/health/grafana")["source"]["blind_since"] is not None) is is_blind


def test_an_alarm_of_aodh_marks_members_and_ends_for_all(heat: Heat, path: str) -> None:
    members = [{"id": physical_id(heat, path)}]
    body = {"alarm_id": "al", "current": "alarm", "reason_data": {"unhealthy_members": members}}
    assert heat.call("POST", "/health/aodh", body, 200).json["counts"] == {"accepted": 1}
    blind = {"alarm_id": "al", "current": "insufficient data"}
    assert heat.call("POST", "/health/aodh", blind, 200).json["counts"] == {"blind": 1}
    assert heat.call("POST", "/health/aodh", {**blind, "current": "ok"}, 200).json["counts"] == {"cleared": 1}


def test_a_member_that_an_alarm_of_aodh_no_longer_lists_has_recovered(heat: Heat, path: str) -> None:
    """Aodh sends all that are unhealthy, and is "ok" once none is left."""
    first, second = {"id": physical_id(heat, path)}, {"id": physical_id_at(heat, path, "web", "0")}

    def sent(*members: object, alarm: str = "al") -> Any:
        body = {"alarm_id": alarm, "current": "alarm", "reason_data": {"unhealthy_members": members}}
        return heat.call("POST", "/health/aodh", body, 200).json["counts"]

    assert (sent(first, second), sent(first, second)) == ({"accepted": 2}, {"repeated": 2})
    assert sent(second, alarm="another") == {"accepted": 1}
    assert (sent(second), sent(second)) == ({"cleared": 1, "repeated": 1}, {"repeated": 1})
    assert sent(first, second) == {"accepted": 1, "repeated": 1}
    assert sent() == {"cleared": 2}


def test_incidents_are_found_by_their_stack_and_by_its_root(heat: Heat, path: str) -> None:
    root, member = path.rpartition("/")[2], physical_id_at(heat, path, "web", "0")
    send(heat, alert(member, key="f"), alert(physical_id(heat, path), key="g"))

    def found(stack_id: str) -> list[str]:
        return [one["path"] for one in heat.get(f"/incidents?stack_id={stack_id}&limit=1000")["incidents"]]

    assert (sorted(found(root)), found(physical_id(heat, path, "web"))) == (["db", "web/0"], ["web/0"])
    assert heat.get(f"/incidents?stack_id={root}&path=web/0")["incidents"][0]["physical_resource_id"] == member


def test_a_member_that_goes_while_its_report_is_read_is_unknown(heat: Heat, path: str, store: Store) -> None:
    """PostgreSQL and MariaDB show each statement what others have committed."""
    report = AlertReport("k", Word.FIRING, physical_id=physical_id(heat, path))
    targets = ReportTargets(store, heat.project, [report])
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    assert targets.find(report, marks_member=True).result is ReportResult.UNKNOWN


@pytest.mark.parametrize("mode", few(["structured", "batched", "binary", "plain"]))
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
def guarded(town: Town) -> Heat:
    """A project of a server that wants a token of each caller."""
    return Heat(town.server.app, town.project, {"Authorization": f"Bearer {town.tokens['member']}"})


def test_an_intake_token_reports_and_does_nothing_else(guarded: Heat) -> None:
    made = guarded.call("POST", "/health_tokens", {"name": "prometheus", "source": "alertmanager"}, 201).json
    token = made["health_token"]["token"]
    assert token.startswith("hlh_")
    listed = guarded.get("/health_tokens")["health_tokens"]
    assert [one["name"] for one in listed] == ["prometheus"]
    assert token not in str(listed)
    body = {"version": "4", "alerts": []}
    reporter = Heat(guarded.wsgi, guarded.project, proof={"Authorization": f"Bearer {token}"})
    assert reporter.call("POST", "/health/alertmanager", body, 200).json["received"] == 0
    basic = Heat(guarded.wsgi, guarded.project)
    basic.app.authorization = ("Basic", ("anybody", token))
    basic.call("POST", "/health/alertmanager", body, 200)
    for method, path, given in (
        ("GET", "/health/alertmanager", None), ("GET", "/stacks", None), ("GET", "/health_tokens", None),
        ("POST", "/health/grafana", body), ("POST", "/stacks", {}), ("GET", "/incidents", None),
    ):  # fmt: skip
        assert reporter.call(method, path, given).status_int == 403, path
    refused = reporter.fault("POST", "/health/grafana", body, code=403)
    assert refused[1] == "The intake token prometheus may only report to the source alertmanager."
    assert reporter.other.call("POST", "/health/alertmanager", body).status_int == 403
    no_source = guarded.fault("POST", "/health_tokens", {"name": "t", "source": "Alert manager"}, code=400)
    assert no_source[1] == "The name of a source has 1 to 64 small letters, digits, - and _."
    guarded.call("DELETE", f"/health_tokens/{made['health_token']['id']}", None, 204)
    assert reporter.call("POST", "/health/alertmanager", body).status_int == 401
    guarded.fault("DELETE", f"/health_tokens/{made['health_token']['id']}", code=404)


@pytest.mark.slow
def test_a_member_replays_the_mark_of_a_report(guarded: Heat) -> None:
    path = guarded.create(GROUP)
    identifier = physical_id(guarded, path)
    guarded.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, 200)
    guarded.settle(path)
    token = guarded.call("POST", "/health_tokens", {"name": "prometheus"}, 201).json["health_token"]["token"]
    reporter = Heat(guarded.wsgi, guarded.project, proof={"Authorization": f"Bearer {token}"})
    assert send(reporter, alert(identifier))["counts"] == {"suppressed": 1}
    (listed,) = guarded.get(f"{path}/lock")["suppressed"]
    guarded.call("POST", f"{path}/actions", {"unlock": None}, 200)
    guarded.settle(path, "UNLOCK_COMPLETE")
    guarded.call("POST", f"{path}/lock/suppressed/{listed['id']}/replay", None, 200)
    assert guarded.get(f"{path}/resources/db")["resource"]["resource_status"] == "CHECK_FAILED"


def test_an_expired_token_is_refused(guarded: Heat, town: Town) -> None:
    token = f"{PREFIX}{'0' * 40}"
    record = HealthTokenRecord(new_id(), guarded.project, "old", token_digest(token), None, "mia", 1.0, 2.0)
    with town.server.store.transaction():
        town.server.store.of(HealingStore).tokens.insert(record)
    reporter = Heat(guarded.wsgi, guarded.project, proof={"Authorization": f"Bearer {token}"})
    assert reporter.call("POST", "/health/alertmanager", {}).status_int == 401


def test_a_token_expires_in_the_future(guarded: Heat) -> None:
    _, message = guarded.fault("POST", "/health_tokens", {"name": "t", "expires_at": "2020-01-01T00:00:00Z"}, code=400)
    assert message == (
        "'expires_at' is 2020-01-01T00:00:00Z, which is not in the future. Give a later time, or none for a token that"
        " does not expire."
    )
    guarded.fault("POST", "/health_tokens", {"name": "t", "expires_at": "soon"}, code=400)
    assert guarded.get("/health_tokens")["health_tokens"] == []
    guarded.call("POST", "/health_tokens", {"name": "t", "expires_at": "2999-01-01T00:00:00Z"}, 201)


@pytest.mark.slow
def test_a_repair_by_hand(heat: Heat, path: str) -> None:
    heat.call("PATCH", f"{path}/resources/db", {"mark_unhealthy": True}, 200)
    before = physical_id(heat, path)
    kind, message = heat.fault("POST", f"{path}/actions", {"heal": None}, 409)
    assert (kind, "mode_off" in message) == ("HealingHeld", True)
    answer = heat.call("POST", f"{path}/actions", {"heal": {"ignore": ["mode_off"]}}, 200)
    assert answer.text == "null"
    action = heat.get(answer.location.partition(heat.root)[2])["action"]
    assert action["action"] == "STACK_UPDATE"
    heat.settle(path, "UPDATE_COMPLETE")
    assert physical_id(heat, path) != before
    for wrong in ({"ignore": ["locked"]}, {"step": "fence"}, {"resources": []}, {"zz": 1}, []):
        assert heat.fault("POST", f"{path}/actions", {"heal": wrong})[0] == "HTTPBadRequest"
    assert heat.fault("POST", f"{path}/actions", {"heal": {"resources": ["web/9"]}}, 404)[0] == "ResourceNotFound"


@pytest.mark.slow
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
    web = heat.get(f"{path}/resources/web")["resource"]["links"][-1]["href"].partition(heat.root)[2]
    heat.call("PATCH", f"{web}/resources/1", {"mark_unhealthy": True, "resource_status_reason": "smoke"}, 200)
    marked = heat.get(f"{web}/resources/1")["resource"]["health"]
    assert marked == {**marked, "state": "unhealthy", "source": None, "reason": "smoke", "incident": None}
    end = time.monotonic() + 240
    while (counted := heat.get(path)["stack"]["health"])["held"] == 0:
        assert time.monotonic() < end  # the next sweep holds the incident, which is in its grace period
        time.sleep(0.01)
    assert counted == {**nothing, "unhealthy": 2, "held": 1}
    listed = {one["stack_name"]: one["health"] for one in heat.get("/stacks?show_nested=true")["stacks"]}
    assert listed.pop("s") == counted
    assert [*listed.values()] == [None]


def test_look_ups_and_idle_sweeps_use_an_index(
    own_server: wiring.Embedded, own_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, seen = Database.read, list[tuple[str, Parameters]]()

    def noted(database: Database, sql: str, parameters: Parameters = ()) -> Any:
        if threading.current_thread() is threading.main_thread():
            seen.append((sql, parameters))
        return read(database, sql, parameters)

    own_server.components.of(Healing).loop.sweep()  # notes the sweep
    monkeypatch.setattr(Database, "read", noted)
    own_server.components.of(Healing).loop.sweep()
    assert len(seen) == 1
    own_store.resources.objects_of_project("demo", ["11111111-1111"])
    own_store.resources.with_objects("demo", ["11111111-1111"])
    own_store.of(HealingStore).incidents.of_object("demo", "11111111-1111")
    for sql, parameters in seen:
        plan = [str(row[-1]) for row in read(own_store.database, f"EXPLAIN QUERY PLAN {sql}", parameters)]
        assert not [line for line in plan if line.startswith(("SCAN resource", "SCAN incident", "SCAN healing"))], sql


TEXTS = st.text(max_size=8) | st.sampled_from(["firing", "resolved", "unhealthy", "2026-11-02T12:00:00Z", "4"])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
KEYS = (
    "key", "status", "since", "labels", "annotations", "startsAt", "fingerprint", "physical_id", "stack", "resource",
    "id",
)  # fmt: skip
ONE = st.dictionaries(st.sampled_from(KEYS), ANYTHING) | ANYTHING
BODIES = ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        "version": st.sampled_from(["4", "1", 4]) | ANYTHING,
        "alerts": st.lists(ONE, max_size=3) | ANYTHING,
        "reports": st.lists(ONE, max_size=3) | ANYTHING,
        "truncatedAlerts": ANYTHING,
        "alarm_id": TEXTS | ANYTHING,
        "current": st.sampled_from(["alarm", "ok", "insufficient data"]) | ANYTHING,
        "reason_data": st.fixed_dictionaries({"unhealthy_members": st.lists(ONE, max_size=3)}) | ANYTHING,
    },
)


@pytest.mark.slow
@given_(source=st.sampled_from(["alertmanager", "grafana", "aodh", "generic"]), body=BODIES)
def test_no_content_is_a_fault_of_the_server_or_changes_a_resource(
    own_heat: Heat, own_path: str, own_store: Store, source: str, body: object
) -> None:
    random.seed()  # hypothesis repeats it for each example, and ids of requests come from it
    tables = ("stack", "resource", "event", "action", "incident", "suppressed", "repair")
    before = [own_store.database.read(f"SELECT * FROM {name}") for name in tables]
    answer = own_heat.call("POST", f"/health/{source}", body)
    assert answer.status_int in (200, 400), answer.text
    if answer.status_int == 200:
        assert sum(answer.json["counts"].values()) == len(answer.json["results"])
    assert [own_store.database.read(f"SELECT * FROM {name}") for name in tables] == before


@pytest.mark.slow
def test_alerts_sent_many_times_by_many_clients_count_once(heat: Heat, path: str, store: Store) -> None:
    alerts = [alert(heatlite_stack="s", heatlite_resource=f"web/{n % 2}", key=f"k{n}") for n in range(40)]
    counts = Counter[str]()
    lock = threading.Lock()

    def client() -> None:
        for _ in range(5):
            found = send(heat, *alerts)["counts"]
            with lock:
                counts.update(found)

    threads = [threading.Thread(target=client) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == {"accepted": 40, "repeated": 19 * 40}
    assert (
        len(store.of(HealingStore).observations.open(heat.project, "alertmanager", [f"k{n}" for n in range(40)])) == 40
    )
    assert len(heat.get("/incidents")["incidents"]) == 2


@pytest.mark.slow
def test_only_a_database_that_is_away_asks_for_a_retry(
    own_heat: Heat, own_path: str, tmp_path: Path, own_store: Store
) -> None:
    many = [alert(key=str(number)) for number in range(5001)]
    _, message = own_heat.fault("POST", "/health/alertmanager", {"version": "4", "alerts": many}, 400)
    assert "max_alerts" in message
    one = alert(physical_id(own_heat, own_path))
    with away(tmp_path):
        own_store.database.close()
        refused = own_heat.call("POST", "/health/alertmanager", {"version": "4", "alerts": [one]}, 503)
    assert refused.headers["Retry-After"] == "5"
    own_store.database.close()
    assert send(own_heat, one)["counts"] == {"accepted": 1}
