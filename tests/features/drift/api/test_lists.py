"""Lists of drift, and what resources and stacks show of it."""

import csv
import json
import logging
from typing import Any

import pytest

from heatlite.core.ids import new_id
from heatlite.features.drift.states import DriftRecord, DriftState
from heatlite.features.drift.store.store import DriftStore
from heatlite.store.store import Store
from tests.api.conftest import Heat, Town, template
from tests.api.test_commands import Here

DRIFTING = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "live_value": "w"}}
WELL = {"type": "OS::Heat::TestResource"}
PLAIN = {"type": "OS::Heat::RandomString"}


def checked(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"check": None})
    heat.settle(path, "CHECK_COMPLETE")


def paths(found: Any) -> list[str]:
    return [one["path"] for one in found["drift"]["resources"]]


@pytest.mark.slow
def test_of_a_tree(heat: Heat) -> None:
    child = json.dumps(template(x=DRIFTING, y=WELL))
    path = heat.create(template(a=DRIFTING, n={"type": "child.yaml"}, p=PLAIN), files={"child.yaml": child})
    found = heat.get(f"{path}/drift")["drift"]
    assert (found["drifted"], found["not_checked"], found["checked_at"]) == (0, 5, None)
    checked(heat, path)
    found = heat.get(f"{path}/drift")
    numbers = {key: value for key, value in found["drift"].items() if isinstance(value, int)}
    assert numbers == {"drifted": 2, "in_sync": 1, "unknown": 0, "not_checked": 2, "ignored": 0}
    assert sorted(paths(found)) == ["a", "n/x"]
    one = found["drift"]["resources"][0]
    assert one["differences"] == [{"path": "/value", "stored": "v", "live": "w"}]
    assert one["since"] == one["checked_at"] == found["drift"]["checked_at"]
    nested = heat.get(f"{path}/resources/n")["resource"]["physical_resource_id"]
    (within,) = [item for item in found["drift"]["resources"] if item["path"] == "n/x"]
    assert (within["stack_id"], within["root_stack_id"]) == (nested, path.rpartition("/")[2])
    shown = heat.get(path)["stack"]["drift"]
    assert (shown["drifted"], shown["unknown"]) == (2, 0)
    resource = heat.get(f"{path}/resources/a")["resource"]["drift"]
    assert (resource["state"], resource["differences"]) == ("drifted", 1)
    assert heat.get(f"{path}/resources/p")["resource"]["drift"]["state"] == "not_checked"


@pytest.mark.slow
def test_filters_and_pages(heat: Heat) -> None:
    first = heat.create(template(a=DRIFTING, b=DRIFTING, c=WELL, d=PLAIN), "first")
    second = heat.create(template(e=DRIFTING), "second")
    heat.create(template(f=DRIFTING), "third")
    checked(heat, first)
    checked(heat, second)
    for query, expected in {
        "": ["a", "b", "e"],
        "state=in_sync": ["c"],
        "state=not_checked": ["d", "f"],
        "state=drifted,in_sync,not_checked,unknown": ["a", "b", "c", "d", "e", "f"],
        "stack=second": ["e"],
        "stack=first&stack=second": ["a", "b", "e"],
        "resource_type=OS::Heat::RandomString&state=not_checked": ["d"],
        "state=unknown": [],
        "limit=0": [],
    }.items():
        assert sorted(paths(heat.get(f"/drift?{query}"))) == expected, query
    seen, page = list[str](), "/drift?limit=2"
    while page:
        found = heat.get(page)
        seen += paths(found)
        (page, *_) = [link["href"].partition("/v1/")[2] for link in found.get("links", [])] or [""]
        page = f"/v1/{page}" if page else ""
    assert sorted(seen) == ["a", "b", "e"]
    assert [one["stack_name"] for one in heat.get("/stacks?drifted=true")["stacks"]] == ["second", "first"]
    assert heat.get("/stacks?drifted=false&with_count=true")["count"] == 3
    assert [one["drift"]["drifted"] for one in heat.get("/stacks?sort_keys=name")["stacks"]].count(0) == 1
    heat.call("DELETE", second, code=204)
    heat.settle(second, "DELETE_COMPLETE")
    assert heat.get("/drift")["drift"]["drifted"] == 2


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=bad", "Unknown state bad; there are: drifted, in_sync, unknown, not_checked."),
        ("limit=x", "Only integer is acceptable by 'limit'."),
        ("ignored=x", 'Unrecognized value "x" for "ignored"'),
        ("other=x", "Unknown query key other"),
    ],
)
def test_wrong_queries(heat: Heat, query: str, told: str) -> None:
    assert told in heat.fault("GET", f"/drift?{query}")[1]


def test_another_project(heat: Heat) -> None:
    path = heat.create(template(a=DRIFTING))
    checked(heat, path)
    assert paths(heat.other.get("/drift")) == []
    heat.other.fault("GET", f"{path}/drift", code=404)
    heat.other.fault("GET", f"/drift?stack={path.rpartition('/')[2]}", code=404)


@pytest.mark.slow
def test_hidden_values_are_in_no_sink(
    own_heat: Heat, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Law 1.8: not in an answer, a log or an output of a command."""
    heat = own_heat
    caplog.set_level(logging.DEBUG)
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}}
    given = {**DRIFTING, "properties": {"value": {"get_param": "p"}, "live_value": "swordfish"}}
    # The live value is in the template of this type; so only answers about drift are looked through.
    path = heat.create({**template(a=given), "parameters": hidden})
    checked(heat, path)
    reason = heat.get(f"{path}/resources/a")["resource"]["resource_status_reason"]
    events = [one for one in heat.get(f"{path}/events")["events"] if one.get("resource_action") == "DRIFT"]
    capsys.readouterr()
    here = Here(heat)
    assert [here(line) for line in ("drift s -f json", "drift s", "explain s")] == [0, 0, 0]
    told = [*capsys.readouterr()]
    assert "******" in told[0]
    for answer in (heat.get("/drift"), heat.get(f"{path}/drift"), reason, events, told, caplog.text):
        assert "hunter2" not in json.dumps(answer)
        assert "swordfish" not in json.dumps(answer)
    assert heat.get("/drift")["drift"]["resources"][0]["differences"] == [
        {"path": "/value", "stored": "******", "live": "******"}
    ]


def test_events(heat: Heat) -> None:
    path = heat.create(template(a=DRIFTING))
    checked(heat, path)
    checked(heat, path)
    (event,) = heat.get(f"{path}/events?resource_action=DRIFT")["events"]
    assert (event["resource_status"], event["resource_status_reason"]) == ("DRIFT_DETECTED", "/value")


@pytest.mark.slow
@pytest.mark.parametrize("role", ["member", "reader"])
def test_statements_do_not_grow_with_a_list(town: Town, role: str) -> None:
    """Acceptance 10: two about drift, and some about the stacks of the page."""
    heat, database = town["member"], town.server.components.store.database
    for name in ("one", "two"):
        children = {f"n{at}": {"type": "child.yaml"} for at in range(2)}
        document = template(**{f"r{at}": DRIFTING for at in range(20)}, **children)
        checked(heat, heat.create(document, name, files={"child.yaml": json.dumps(template(x=DRIFTING))}))
    statements: list[str] = []
    read, reader = database.read, town[role]

    def counted(sql: str, *rest: Any) -> Any:
        statements.append(sql)
        return read(sql, *rest)

    numbers = []
    database.read = counted  # type: ignore[method-assign]
    try:
        for limit in (4, 44):
            statements.clear()
            assert len(paths(reader.get(f"/drift?limit={limit}"))) == limit
            numbers.append(len(statements))
            assert len([sql for sql in statements if "drift" in sql]) == 2
    finally:
        database.read = read  # type: ignore[method-assign]
    stacks, levels = 6, 2
    assert max(numbers) <= 3 + levels + (3 * stacks if role == "reader" else 0)


def test_the_command(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    here = Here(heat)
    path = heat.create(template(a=DRIFTING, b=WELL))
    assert here("drift s --detailed-exitcode") == 0
    assert here("drift s --check --detailed-exitcode") == 1
    assert heat.get(path)["stack"]["stack_status"] == "CHECK_COMPLETE"
    capsys.readouterr()
    assert here("drift s") == 0
    assert "Put back: heatlite drift revert s." in " ".join(capsys.readouterr().err.split())
    assert here("drift s -f json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["resource"], row["property"], row["stored"], row["live"]) == ("a", "/value", "v", "w")
    assert here("drift") == 0
    out, err = capsys.readouterr()
    assert "s: a" in out
    assert "1 drifted, 1 in sync" in err
    assert here("drift show --state in_sync s") == 0
    capsys.readouterr()
    assert here("explain s") == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "drifted: a differs in 1 place since" in told
    assert "heatlite drift revert s a puts it back" in told
    (action,) = heat.get("/actions?action=STACK_CHECK")["actions"]
    assert action["outputs"]["checked"]["drifted"] == 1
    assert here("drift --check") == 2


@pytest.mark.slow
def test_in_other_lists(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    """A column where there is any, and a flag of `ls`."""
    here = Here(heat)
    path = heat.create(template(a=DRIFTING, b=WELL))
    heat.create(template(b=WELL), "other")

    capsys.readouterr()
    assert here("ls -f csv") == 0
    assert "drift" not in capsys.readouterr().out
    checked(heat, path)
    capsys.readouterr()
    for words, expected in (
        ("ls", {"s": "1 drifted", "other": ""}),
        ("ls --drifted", {"s": "1 drifted"}),
        ("resources s", {"a": "drifted", "b": ""}),
    ):
        assert here(f"{words} -f csv") == 0
        rows = [*csv.DictReader(capsys.readouterr().out.splitlines())]
        assert {row.get("stack_name") or row["resource_name"]: row["drift"] for row in rows} == expected
    assert here("ls --drifted -f json") == 0
    (stack,) = json.loads(capsys.readouterr().out)
    assert stack["drift"]["drifted"] == 1
    with pytest.raises(SystemExit):
        here("ls --help")
    assert "--drifted" in capsys.readouterr().out


@pytest.mark.slow
def test_ten_thousand(own_heat: Heat, own_store: Store) -> None:
    """Acceptance 10, without the time: the page reads the index of drifted rows."""
    heat = own_heat
    path = heat.create(template(a=WELL))
    root = path.rpartition("/")[2]
    row = own_store.resources.of(root)[0]
    drift = own_store.of(DriftStore)
    records = [
        DriftRecord(new_id(), "demo", root, root, DriftState.IN_SYNC, 1.0) for _ in range(2000)
    ] + [DriftRecord(row.id, "demo", root, root, DriftState.DRIFTED, 1.0, 1.0)]
    with own_store.transaction():
        drift._table.insert(records)
    sql = "SELECT resource_id FROM drift d WHERE d.project = 'demo' AND d.state IN ('drifted') AND d.resource_id > ''"
    plan = " ".join(str(one) for one in own_store.database.read(f"EXPLAIN QUERY PLAN {sql} ORDER BY d.resource_id"))
    assert "drift_project_state_resource_id" in plan
    assert paths(heat.get("/drift")) == ["a"]
