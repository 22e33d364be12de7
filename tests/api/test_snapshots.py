"""Snapshots over HTTP."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite
from tests.tables import few

from .conftest import Heat, template, value

KEYS = {"id", "name", "action", "status", "status_reason", "data", "creation_time"}


@pytest.fixture
def path(heat: Heat) -> str:
    return heat.create(template(a=value("x")))


def take(heat: Heat, path: str, name: str | None = "first") -> Any:
    answer = heat.call("POST", f"{path}/snapshots", {"name": name}, code=200).json
    heat.settle(path, "SNAPSHOT_COMPLETE")
    return answer


def test_take_list_show(heat: Heat, path: str) -> None:
    answer = take(heat, path)
    assert answer.keys() == KEYS  # not wrapped
    begun = {key: answer[key] for key in ("name", "action", "status", "data")}
    assert begun == {"name": "first", "action": "CREATE", "status": "IN_PROGRESS", "data": None}
    (listed,) = heat.get(f"{path}/snapshots")["snapshots"]
    assert heat.get(f"{path}/snapshots/{answer['id']}") == {"snapshot": listed}
    assert listed.keys() == KEYS
    assert (listed["status"], listed["creation_time"]) == ("COMPLETE", answer["creation_time"])
    assert listed["data"]["resources"]["a"]["type"] == "OS::Heat::Value"
    take(heat, path, None)
    assert [one["name"] for one in heat.get(f"{path}/snapshots")["snapshots"]] == ["first", None]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Heat]:
    """A server whose lists have at most 20 000 characters of values."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path), max_stack_data=20_000))
    yield Heat(server.app)
    server.close()


@pytest.mark.slow
def test_lists_have_a_size(small: Heat) -> None:
    """Few nested stacks show one value many times: as outputs, and in their templates."""
    child = {**template(v=value("y" * 500)), "description": "d" * 1000}
    child["outputs"] = {f"o{number}": {"value": {"get_attr": ["v", "value"]}} for number in range(10)}
    path = small.create(template(**{f"n{number}": {"type": "n.yaml"} for number in range(6)}),
                        files={"n.yaml": json.dumps(child)})  # fmt: skip
    reason = "The values of the list come to more than 20000 characters of JSON (max_stack_data)."
    listed = small.get(f"{path}/resources?with_detail=true")["resources"]
    assert [one["attributes"] is not None for one in listed] == [True] * 3 + [False] * 3
    assert [one.get("attributes_error") for one in listed[2:4]] == [None, f"{reason} Show the resource."]
    assert small.get(f"{path}/resources/n5")["resource"]["attributes"]["o9"] == "y" * 500
    ids = [take(small, path)["id"] for _ in range(2)]
    listed = small.get(f"{path}/snapshots")["snapshots"]
    assert [(one["data"], one["data_error"]) for one in listed] == [(None, f"{reason} Show the snapshot.")] * 2
    assert "data_error" not in small.get(f"{path}/snapshots/{ids[1]}")["snapshot"]


def test_restore_and_delete(heat: Heat, path: str) -> None:
    snapshot = take(heat, path)
    heat.call("PUT", path, {"template": template(a=value("y"), b=value())}, code=202)
    heat.settle(path, "UPDATE_COMPLETE")
    heat.call("POST", f"{path}/snapshots/{snapshot['id']}/restore", code=202)
    heat.settle(path, "RESTORE_COMPLETE")
    assert heat.get(f"{path}/template") == template(a=value("x"))
    assert heat.get(f"{path}/resources/a")["resource"]["attributes"] == {"value": "x"}
    answer = heat.call("DELETE", f"{path}/snapshots/{snapshot['id']}", code=204)
    assert answer.body == b""
    assert heat.get(f"{path}/snapshots") == {"snapshots": []}


def test_unknown(heat: Heat, path: str) -> None:
    other = heat.create(template(a=value()), "other")
    theirs = take(heat, other)["id"]
    for wrong in ("nope", theirs):
        for method, below in (("GET", ""), ("DELETE", ""), ("POST", "/restore")):
            kind, message = heat.fault(method, f"{path}/snapshots/{wrong}{below}", code=404)
            assert (kind, message) == ("SnapshotNotFound", f"The Snapshot ({wrong}) for Stack (s) could not be found.")
    heat.call("DELETE", path, code=204)
    heat.settle(path, "DELETE_COMPLETE")
    assert heat.fault("GET", f"{path}/snapshots", code=404)[0] == "EntityNotFound"


@pytest.mark.parametrize("body", few([None, [], {"name": 5}, {"name": "n" * 256}]))
def test_bad_bodies(heat: Heat, path: str, body: object) -> None:
    assert heat.fault("POST", f"{path}/snapshots", body)[0] == "HTTPBadRequest"
    assert heat.get(f"{path}/snapshots") == {"snapshots": []}


def test_of_a_stack_that_is_worked_on(heat: Heat) -> None:
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
    path = heat.create(template(a=slow), wait=False)
    end = time.monotonic() + 240
    while True:
        kind, _ = heat.fault("POST", f"{path}/snapshots", {}, code=409)
        if kind == "ResourceIsLocked":
            break
        assert kind == "ActionConflict"
        assert time.monotonic() < end
    assert heat.get(f"{path}/snapshots") == {"snapshots": []}


def test_the_limit(tmp_path: Path) -> None:
    server = wiring.embedded(Settings(database=sqlite(tmp_path), max_snapshots_per_stack=1))
    heat = Heat(server.app)
    path = heat.create(template(a=value()))
    take(heat, path)
    assert heat.fault("POST", f"{path}/snapshots", {})[0] == "RequestLimitExceeded"
    server.close()
