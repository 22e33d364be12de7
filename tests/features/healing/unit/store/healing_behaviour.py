"""Rows of the healing loop, on every database.

Test modules take these tests over; they bring `store`.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.core.wire.stacks import StackHealth
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.records import (
    HealingPolicyRecord,
    HealingScopeRecord,
    HealthSourceRecord,
    HealthTokenRecord,
    HistoryLine,
    IncidentRecord,
    ObservationRecord,
    RepairRecord,
)
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState, RepairResult, Word
from heatlite.store.errors import Duplicate
from heatlite.store.records import HealthRecord, PreviousState, ResourceRecord, StackRecord
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store

__all__: list[str] = []
"""Every test of this module, for `import *`."""


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


def an_incident(name: str = "one", path: str = "web/0/server", source: str = "alertmanager") -> IncidentRecord:
    return IncidentRecord(
        name, "acme", source, "root", "stack", path, "web/0", "web", "row", "vm-1", IncidentState.OBSERVED, 1.0, 1.0,
        due=1.0, evidence_since=1.0,
    )  # fmt: skip


def an_observation(name: str = "one", key: str = "k", starts_at: float = 1.0) -> ObservationRecord:
    return ObservationRecord(name, "acme", "alertmanager", key, starts_at, 1.0, 1.0)


STALE: JsonMap = {"time": "2026-11-02T12:00:00Z", "key": "k", "result": "stale"}


@everywhere
def test_an_incident_is_read_as_it_was_written(store: Store) -> None:
    full = replace(
        an_incident(), evidence_since=2.0, ttl=60, is_marked=True, needs_resolved=Brake.CANCELLED, action_id="action",
        reason=Brake.LOCKED, also=(Brake.STORM, Brake.BUSY), history=(HistoryLine(1.0, "OBSERVED", "MARKED", "x"),),
        closed_as=ClosedAs.HEALED, closed_at=3.0, settles_until=4.0, plan_digest="d", summary="text",
    )  # fmt: skip
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([full, an_incident("two", "db")])
    assert store.of(HealingStore).incidents.get("one") == full
    assert store.of(HealingStore).incidents.open_of_root("root") == [full, an_incident("two", "db")]
    slot = ("root", "db", "alertmanager")
    assert store.of(HealingStore).incidents.open_of_slots([slot]) == {slot: "two"}
    assert {one.id for one in store.of(HealingStore).incidents.of_object("acme", "vm-1")} == {"one", "two"}
    assert [one.id for one in store.of(HealingStore).incidents.page("acme", IncidentQuery(path=("db",)))] == ["two"]
    assert [one.id for one in store.of(HealingStore).incidents.page("acme", IncidentQuery(limit=1))] == ["two"]
    assert [one.id for one in store.of(HealingStore).incidents.page("acme", IncidentQuery(marker="two"))] == ["one"]
    assert store.of(HealingStore).incidents.count_by_state() == {"OBSERVED": 2}
    assert store.of(HealingStore).incidents.count_by_reason() == {"locked": 1}


@everywhere
def test_a_slot_and_a_source_have_one_open_incident(store: Store) -> None:
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([an_incident()])
    with pytest.raises(Duplicate), store.transaction():
        store.of(HealingStore).incidents.insert_many([an_incident("two")])
    closed = replace(an_incident(), state=IncidentState.CLOSED, due=None, closed_at=5.0)
    with store.transaction():
        assert store.of(HealingStore).incidents.move(closed)
        store.of(HealingStore).incidents.insert_many([an_incident("two")])
    assert [one.id for one in store.of(HealingStore).incidents.open_of_root("root")] == ["two"]
    assert store.of(HealingStore).incidents.older_than(6.0, 10) == ["one"]


@everywhere
def test_an_incident_is_found_by_the_object_that_it_was_opened_for(store: Store) -> None:
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([an_incident()])
        assert store.of(HealingStore).incidents.move(replace(an_incident(), physical_id="vm-2"))
    (found,) = store.of(HealingStore).incidents.of_object("acme", "vm-1")
    assert found.physical_id == "vm-2"
    assert store.of(HealingStore).incidents.of_object("acme", "vm-2") == []


@everywhere
def test_a_move_of_an_earlier_version_changes_nothing(store: Store) -> None:
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([an_incident()])
    with store.transaction():
        store.of(HealingStore).incidents.note_reports(["one"], 9.0)
    with store.transaction():
        assert not store.of(HealingStore).incidents.move(replace(an_incident(), state=IncidentState.CONFIRMED))
    noted = replace(an_incident(), reports=2, last_report_at=9.0, version=1)
    assert store.of(HealingStore).incidents.get("one") == noted
    with store.transaction():
        assert store.of(HealingStore).incidents.move(replace(noted, state=IncidentState.CONFIRMED))
    assert store.of(HealingStore).incidents.get("one") == replace(noted, state=IncidentState.CONFIRMED, version=2)


@everywhere
def test_evidence_that_is_demanded_comes_with_the_next_report(store: Store) -> None:
    marked = replace(an_incident(), state=IncidentState.MARKED)
    settling = replace(an_incident("two", "db"), state=IncidentState.SETTLING)
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([marked, settling])
        store.of(HealingStore).incidents.demand_evidence(5.0, source=("acme", "grafana"))
        store.of(HealingStore).incidents.demand_evidence(6.0, root_id="root")
    stale = replace(marked, evidence_after=6.0, evidence_since=None, reports=0, due=6.0, version=1)
    assert store.of(HealingStore).incidents.open_of_root("root") == [stale, settling]
    with store.transaction():
        store.of(HealingStore).incidents.note_reports(["one"], 7.0)
    found = store.of(HealingStore).incidents.get("one")
    assert found == replace(stale, evidence_since=7.0, last_report_at=7.0, reports=1, due=7.0, version=2)
    assert store.of(HealingStore).incidents.due_roots(7.0, 100) == ["root"]
    assert store.of(HealingStore).incidents.due_roots(0.5, 100) == []


@everywhere
def test_a_report_wakes_an_incident_that_it_may_lead_on(store: Store) -> None:
    """The end of the grace time comes without a report."""
    young = replace(an_incident(), reason=Brake.IN_GRACE, due=500.0)
    waiting = replace(an_incident("two", "db"), reason=Brake.CONFIRMING, due=500.0)
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([young, waiting])
        store.of(HealingStore).incidents.note_reports(["one", "two"], 7.0)
    noted = [replace(one, last_report_at=7.0, reports=2, version=1) for one in (young, replace(waiting, due=7.0))]
    assert store.of(HealingStore).incidents.open_of_root("root") == noted


@everywhere
def test_slots_are_counted_once(store: Store) -> None:
    closed = replace(an_incident("three", "c"), state=IncidentState.CLOSED)
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([an_incident(), an_incident("two", "db"), closed])
    assert store.of(HealingStore).incidents.count_slots("acme", "alertmanager", 0.0, only_open=False) == 3
    assert store.of(HealingStore).incidents.count_slots("acme", "alertmanager", 0.0, only_open=True) == 2
    assert store.of(HealingStore).incidents.count_slots("acme", "alertmanager", 1.5, only_open=False) == 0
    assert store.of(HealingStore).incidents.count_open("acme") == 2


@everywhere
def test_a_key_has_one_open_episode(store: Store) -> None:
    first = an_observation()
    with store.transaction():
        store.of(HealingStore).observations.insert_many([first])
    with pytest.raises(Duplicate), store.transaction():
        store.of(HealingStore).observations.insert_many([an_observation("two", starts_at=2.0)])
    ended = replace(
        first, is_open=False, word=Word.RESOLVED, ended_at=2.0, incident_id="i", muted_for="vm", root_id="r"
    )
    later = replace(an_observation("two", starts_at=2.0), word=Word.BLIND, root_id="r", path="web/0")
    assert store.of(HealingStore).observations.standing(["i"]) == {}
    with store.transaction():
        store.of(HealingStore).observations.save_many([replace(first, incident_id="i")])
        assert store.of(HealingStore).observations.standing(["i", "j"]) == {"i": True}
        store.of(HealingStore).observations.mute("i", "vm")
        assert store.of(HealingStore).observations.open("acme", "alertmanager", ["k"])["k"].muted_for == "vm"
        store.of(HealingStore).observations.save_many([ended])
        store.of(HealingStore).observations.insert_many([later])
    assert store.of(HealingStore).observations.open("acme", "alertmanager", ["k", "l"]) == {"k": later}
    assert store.of(HealingStore).observations.at("acme", "alertmanager", {("k", ended.starts_at)}) == [ended]
    both = {("k", ended.starts_at), ("k", later.starts_at), ("l", 1.0), ("k", 9.0)}
    assert {one.id for one in store.of(HealingStore).observations.at("acme", "alertmanager", both)} == {
        ended.id,
        later.id,
    }
    assert store.of(HealingStore).observations.at("acme", "generic", both) == []
    assert store.of(HealingStore).observations.of_incident("i", 10) == [ended]
    assert store.of(HealingStore).observations.standing(["i", "j"]) == {"i": False}
    assert store.of(HealingStore).observations.blind_paths("acme", "alertmanager", "none") == set()
    assert store.of(HealingStore).observations.blind_paths("acme", "alertmanager", "r") == {"web/0"}
    assert store.of(HealingStore).observations.older_than(3.0, 10) == ["one"]


@everywhere
def test_open_episodes_without_reports_go_with_their_closed_incident(store: Store) -> None:
    gone = replace(an_incident("gone"), state=IncidentState.CLOSED, closed_as=ClosedAs.GONE, closed_at=5.0, due=None)
    episodes = [
        replace(an_observation("silent"), incident_id="gone"),
        replace(an_observation("heard", key="l"), incident_id="gone", last_seen=8.0, muted_for="vm-1"),
        replace(an_observation("of an open one", key="m"), incident_id="open"),
        replace(an_observation("of none", key="n"), word=Word.BLIND),
    ]
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([gone, an_incident("open", path="db")])
        store.of(HealingStore).observations.insert_many(episodes)
    assert store.of(HealingStore).observations.left_by_incidents(5.0, 10) == []
    assert store.of(HealingStore).observations.left_by_incidents(6.0, 10) == ["silent"]


@everywhere
def test_sources_tokens_policies_scopes_and_repairs_are_read_as_they_were_written(store: Store) -> None:
    source = HealthSourceRecord("acme", "mine", {"ttl": 60}, 1.0, None, 2.0, (STALE,))
    named = source.project, source.name
    token = HealthTokenRecord("t", "acme", "am", "d" * 64, None, "ann", 1.0)
    policy = HealingPolicyRecord("root", {"mode": "auto"}, 1, "ann", 1.0)
    scope = HealingScopeRecord("root", "type:OS::Nova::Server", 1.0, True, 2)
    repair = RepairRecord("r", "i", "root", "web", "web/0", "web/0/s", RepairStep.REPLACE, 0, "action", 1.0)
    with store.transaction():
        store.of(HealingStore).sources.put_document(*named, source.document)
        store.of(HealingStore).sources.reported(*named, 1.0, source.results, 10)
        store.of(HealingStore).sources.begin_storm(*named, 1.5)
        store.of(HealingStore).sources.acknowledge(*named, 2.0)
        store.of(HealingStore).tokens.insert(token)
        store.of(HealingStore).policies.put(policy)
        store.of(HealingStore).scopes.save(replace(scope, failures=0))
        store.of(HealingStore).scopes.save(scope)
        store.of(HealingStore).scopes.save(replace(scope, root_id="of a stack that is gone"))
        store.stacks.insert(StackRecord("root", "s", "acme", "ann", "t", {}, Verb.CREATE, Status.COMPLETE, "", 1.0))
        store.of(HealingStore).repairs.insert(repair)
    assert store.of(HealingStore).sources.get(*named) == source
    assert (store.of(HealingStore).sources.count("acme"), store.of(HealingStore).tokens.count("acme")) == (1, 1)
    assert store.of(HealingStore).tokens.by_digest("d" * 64) == token
    assert store.of(HealingStore).policies.get("root") == policy
    assert store.of(HealingStore).scopes.of_root("root") == {scope.scope: scope}
    assert store.of(HealingStore).scopes.counts() == (1, 1)
    assert store.of(HealingStore).repairs.of_root("root", 5.0) == [repair]
    ended = replace(repair, ended_at=2.0, result=RepairResult.FAILED, is_failure=True)
    with store.transaction():
        store.of(HealingStore).repairs.save(ended)
        store.of(HealingStore).policies.put(replace(policy, version=2))
    assert store.of(HealingStore).repairs.of_root("root", 5.0) == []
    assert store.of(HealingStore).repairs.of_incidents(["i"]) == [ended]
    assert store.of(HealingStore).policies.get("root") == replace(policy, version=2)


@everywhere
def test_one_engine_begins_a_storm_and_one_notes_a_sweep(store: Store) -> None:
    with store.transaction():
        assert store.of(HealingStore).sources.begin_storm("acme", "grafana", 5.0)
        assert not store.of(HealingStore).sources.begin_storm("acme", "grafana", 6.0)
        assert [one.storm_since for one in store.of(HealingStore).sources.storms()] == [5.0]
        assert store.of(HealingStore).sources.end_storm("acme", "grafana", 7.0)
        assert store.of(HealingStore).sources.storms() == []
    ended = store.of(HealingStore).sources.get("acme", "grafana")
    assert ended is not None and (ended.storm_since, ended.window_from) == (None, 7.0)
    with store.transaction():
        store.of(HealingStore).policies.put(HealingPolicyRecord("r", {}, 1, "mia", 0.0))
        assert store.of(HealingStore).policies.due("r") is None
        store.of(HealingStore).policies.wake("r", 5.0)
        assert (
            store.of(HealingStore).incidents.due_roots(4.0, 10),
            store.of(HealingStore).incidents.due_roots(5.0, 10),
        ) == ([], ["r"])
        store.of(HealingStore).policies.looked("r", 4.0)
        assert store.of(HealingStore).policies.due("r") == 5.0  # a later mark
        store.of(HealingStore).policies.postpone("r", 5.0, 65.0)
        store.of(HealingStore).policies.looked("r", 65.0)
        assert store.of(HealingStore).policies.due("r") is None
    with store.transaction():
        assert store.of(HealingStore).sweeps.last() is None
        assert store.of(HealingStore).sweeps.swept(1.0, None)
        assert not store.of(HealingStore).sweeps.swept(2.0, None)
        assert store.of(HealingStore).sweeps.swept(3.0, 1.0)
        assert not store.of(HealingStore).sweeps.swept(2.0, 3.0)  # by a thread that was frozen
        assert not store.of(HealingStore).sweeps.swept(4.0, 1.0)
    assert store.of(HealingStore).sweeps.last() == 3.0


@everywhere
def test_the_health_of_trees_is_counted_by_resource(store: Store) -> None:
    def a_row(name: str, stack: str, status: Status = Status.COMPLETE, **fields: object) -> ResourceRecord:
        verb = Verb.CHECK if status is Status.FAILED else Verb.CREATE
        row = ResourceRecord(name, stack, name, "T", "T", verb, status, "", 1.0)
        return replace(row, **fields)  # type: ignore[arg-type]

    failed = PreviousState(Verb.CHECK, Status.FAILED, "")
    well = PreviousState(Verb.CREATE, Status.COMPLETE, "")

    def a_stack(name: str, root: str | None = None) -> StackRecord:
        return StackRecord(
            name, name, "acme", "ann", "0" * 64, {}, Verb.CREATE, Status.COMPLETE, "", 1.0, parent_id=root, root_id=root
        )

    rows = [
        a_row("marked", "root", Status.FAILED),
        a_row("locked", "below", verb=Verb.LOCK, before_lock=failed),
        a_row("well", "below", Status.FAILED, before_lock=well),
        a_row("blind", "below", health=HealthRecord(since=5.0)),
        a_row("known", "below", health=HealthRecord(marked=True)),
        a_row("group", "root", Status.FAILED, physical_id="below", health=HealthRecord(since=5.0)),
        a_row("seen", "root"),
        a_row("repaired", "mended"),
        a_row("elsewhere", "other"),
    ]
    seen = replace(an_incident("one", "seen"), resource_id="seen", reason=Brake.CONFIRMING)
    both = replace(an_incident("two", "marked"), resource_id="marked")
    closed = replace(an_incident("three", "locked"), state=IncidentState.CLOSED, due=None)
    settling = replace(
        an_incident("four", "repaired"), resource_id="repaired", state=IncidentState.SETTLING, root_id="mended"
    )
    with store.transaction():
        for stack in (a_stack("root"), a_stack("below", "root"), a_stack("other"), a_stack("mended")):
            store.stacks.insert(stack)
        store.resources.insert_many(rows)
        store.of(HealingStore).incidents.insert_many([seen, both, closed, settling])
        store.of(HealingStore).scopes.save(HealingScopeRecord("root", "web", is_suspended=True))
        store.of(HealingStore).scopes.save(HealingScopeRecord("root", "db", failures=1))
    assert store.tree_health.of_roots(["root", "other", "mended"])[0] == {"root": StackHealth(2, 2, 1, 1, 1)}
    assert store.overview.of("acme").unhealthy == 1
    assert [one.id for one in store.stacks.list("acme", StackQuery(unhealthy=True))] == ["root"]
    assert store.tree_health.of_roots([]) == ({}, {})
    assert store.of(HealingStore).incidents.open_of_resources(["seen"]) == [seen]


@everywhere
def test_requests_of_a_source_at_once_lose_no_result(store: Store) -> None:
    at_once = 8
    barrier = threading.Barrier(at_once)

    def result(number: int) -> JsonMap:
        return {"key": f"alert {number}", "result": "marked", "time": f"2026-01-01T00:00:0{number}Z"}

    def report(number: int) -> None:
        barrier.wait(240)
        with store.transaction():
            store.of(HealingStore).sources.reported("demo", "alertmanager", 100.0, [result(number)], 100)
        store.database.close()

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(report, number) for number in range(at_once)]:
            done.result()
    found = store.of(HealingStore).sources.get("demo", "alertmanager")
    assert found is not None
    assert list(found.results) == [result(number) for number in range(at_once)]
