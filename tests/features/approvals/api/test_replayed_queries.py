"""Query keys of requests that a lock has suppressed (docs/reference/lock.md).

Each key that a feature states × each request that takes it.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from heatlite.core.config import Settings
from heatlite.feature import active
from tests.api.conftest import Heat, template
from tests.waiting import eventually

from .test_approvals import approve, policy
from .test_kept_requests import read_base
from .test_subjects import NEEDS, clouded, heat, locked, opened

__all__ = ["clouded", "heat"]

NOT_HERE = {"import", "join", "accept_drift", "restore"}
"""They are checked by the same code, and take long to prepare."""


def keys() -> Iterator[tuple[str, str]]:
    """Each value of each query key of a change."""
    for one in active(Settings(database="sqlite://")):
        for key, values in {**one.options, **one.change_options}.items():
            yield from product([key], values)


def unlocked(heat: Heat, path: str) -> None:
    heat.call("POST", f"{path}/actions", {"unlock": None}, 200)
    heat.settle(path)


def replayed(heat: Heat, path: str) -> Any:
    (entry,) = heat.get(f"{path}/lock")["suppressed"]
    return heat.call("POST", f"{path}/lock/suppressed/{entry['id']}/replay")


@pytest.mark.slow
@pytest.mark.parametrize("word", [word for word in NEEDS if word not in NOT_HERE])
def test_each_key_is_kept(heat: Heat, word: str) -> None:
    """Requests that differ in their query only are different ones."""
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    locked(heat, path)
    own = sent.rest.partition("?")[2]
    taken = [("", ""), *(one for one in keys() if sent.method != "DELETE" or one[0] == "approval")]
    expected = []
    for key, value in taken:
        query = "&".join(filter(None, [own, f"{key}={value}" if key else ""]))
        answer = heat.call(sent.method, f"{path}{sent.rest.partition('?')[0]}?{query}", sent.body)
        assert (answer.status_int, answer.json["error"]["type"]) == (409, "StackLocked"), answer.text
        expected.append(query)
    found = heat.get(f"{path}/lock")["suppressed"]
    assert [one["query"] for one in found] == expected
    assert {one["count"] for one in found} == {1}


@pytest.mark.slow
@pytest.mark.parametrize("word", [word for word in NEEDS if word not in NOT_HERE])
@pytest.mark.parametrize("value", ["refuse", "wait"])
def test_the_replay_has_the_key(heat: Heat, word: str, value: str) -> None:
    case = NEEDS[word]
    path = heat.create(case.template)
    sent = case.request(heat, path)
    policy(heat, approve="always")
    locked(heat, path)
    query = f"{'&' if '?' in sent.rest else '?'}approval={value}"
    assert sent.to(heat, path, query).json["error"]["type"] == "StackLocked"
    unlocked(heat, path)
    answer = replayed(heat, path)
    (found,) = heat.get("/approvals")["approvals"]
    if value == "refuse":
        assert answer.json["error"]["type"] == "ApprovalRequired"
        assert len(heat.get(f"{path}/lock")["suppressed"]) == 1
        approve(heat, found)
        assert replayed(heat, path).status_int < 300
    else:
        assert answer.status_int == 202, answer.text
        assert answer.json["action"]["status"] == "INIT"
        approve(heat, found)
    if case.subject != "delete":
        assert heat.get(f"{path}/lock")["suppressed"] == []
    eventually(lambda: not opened(heat), "it has ended")


@pytest.mark.slow
def test_the_replay_insists_like_its_request(own_heat: Heat) -> None:
    heat = own_heat
    path = read_base(heat)
    policy(heat, reads="refuse")
    locked(heat, path)
    heat.call("PUT", f"{path}?force=true", {"template": template()}, code=409)
    unlocked(heat, path)
    assert heat.call("PUT", path, {"template": template()}, code=409).json["error"]["type"] == "OutputInUse"
    assert replayed(heat, path).status_int == 202
    heat.settle(path, "UPDATE_COMPLETE")
