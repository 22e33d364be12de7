"""Approvals on databases with a server, by several engines at once."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.clock import to_text
from heatlite.core.config import Settings
from tests.api.conftest import Heat, template
from tests.features.approvals.api.test_approvals import THING, policy, refused, replacing
from tests.waiting import eventually

pytestmark = pytest.mark.slow
CLIENTS = 4


@pytest.fixture
def clients(url: str) -> Iterator[list[Heat]]:
    """Clients of an engine each, on one database."""
    settings = Settings(database=url, lease_seconds=600.0)  # no engine ends; one may be slow
    with ExitStack() as stack:
        engines = [stack.enter_context(closing(wiring.embedded(settings))) for _ in range(CLIENTS)]
        yield [Heat(one.app) for one in engines]


def at_once(clients: list[Heat], call: Callable[[Heat], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(clients)) as pool:
        return [*pool.map(call, clients)]


def codes(answers: list[Any]) -> dict[int, int]:
    return dict(Counter(one.status_int for one in answers))


@pytest.mark.parametrize("query", ["", "?approval=wait"])
def test_four_decide_at_once(clients: list[Heat], query: str) -> None:
    """One decides. What waits begins once."""
    heat = clients[0]
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    heat.call("PUT", path + query, replacing(), code=202 if query else 409)
    (found,) = heat.get("/approvals")["approvals"]
    body = {"digest": found["digest"]}
    answers = at_once(clients, lambda one: one.call("POST", f"/approvals/{found['id']}/approve", body))
    assert codes(answers) == {202: 1, 409: CLIENTS - 1}, [one.text for one in answers]
    heat.settle(path)
    updates = [one for one in heat.get("/actions")["actions"] if one["action"] == "STACK_UPDATE"]
    assert [one["status"] for one in updates] == ["SUCCEEDED"] * bool(query)
    events = [one["resource_status"] for one in heat.get(f"{path}/events?limit=100")["events"]]
    assert events.count("APPROVAL_APPROVED") == 1


def test_four_decide_about_a_time_at_once(clients: list[Heat]) -> None:
    """One decides. At its time one of the engines begins it."""
    heat = clients[0]
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    body = {"delete": {"not_before": to_text(time.time() + 20)}}
    asked = at_once(clients, lambda one: one.call("POST", f"{path}/actions?approval=wait", body))
    assert codes(asked) == {202: CLIENTS}, [one.text for one in asked]
    (action,) = {one.json["action"]["id"] for one in asked}
    (found,) = heat.get("/approvals")["approvals"]
    body = {"digest": found["digest"]}
    answers = at_once(clients, lambda one: one.call("POST", f"/approvals/{found['id']}/approve", body))
    assert codes(answers) == {202: 1, 409: CLIENTS - 1}, [one.text for one in answers]
    eventually(lambda: heat.get(f"/actions/{action}")["action"]["status"] == "SUCCEEDED", "its time has come")
    (done,) = heat.get("/approvals")["approvals"]
    assert (done["state"], done["action_id"]) == ("DONE", action)


def test_four_ask_at_once(clients: list[Heat]) -> None:
    """They have one approval (law A4), and one of them uses it (law A6)."""
    heat = clients[0]
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    asked = at_once(clients, lambda one: one.call("PUT", path, replacing()))
    assert {one.headers.get("X-Heatlite-Approval") for one in asked} == {refused(heat, "PUT", path, replacing())["id"]}
    (found,) = heat.get("/approvals")["approvals"]
    heat.call("POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]}, code=202)
    answers = at_once(clients, lambda one: one.call("PUT", path, replacing()))
    assert codes(answers) == {202: 1, 409: CLIENTS - 1}, [one.text for one in answers]
    heat.settle(path, "UPDATE_COMPLETE")
    (done,) = heat.get("/approvals")["approvals"]
    assert done["state"] == "DONE"


def test_one_approves_while_another_rejects(clients: list[Heat]) -> None:
    heat = clients[0]
    path = heat.create(template(a=THING))
    policy(heat, approve="removals")
    action = heat.call("PUT", f"{path}?approval=wait", replacing(), code=202).json["action"]["id"]
    (found,) = heat.get("/approvals")["approvals"]
    calls = {
        clients[0]: ("approve", {"digest": found["digest"]}), clients[1]: ("reject", {}),
        clients[2]: ("approve", {"digest": found["digest"]}), clients[3]: ("reject", {}),
    }  # fmt: skip
    answers = at_once(clients, lambda one: one.call("POST", f"/approvals/{found['id']}/{calls[one][0]}", calls[one][1]))
    assert sorted(one.status_int for one in answers)[1:] == [409, 409, 409], [one.text for one in answers]
    heat.settle(path)
    (after,) = heat.get("/approvals")["approvals"]
    ended = heat.get(f"/actions/{action}")["action"]["status"]
    assert (after["state"], ended) in {("DONE", "SUCCEEDED"), ("REJECTED", "CANCELLED")}
