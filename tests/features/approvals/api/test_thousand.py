"""A thousand approvals that wait."""

from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.ids import random_id
from heatlite.features.approvals.store.store import ApprovalStore
from heatlite.wiring import Embedded
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here

from .test_approvals import THING, policy

MANY = 1000


@pytest.fixture
def many(server: Embedded, heat: Heat) -> Heat:
    fill(server, heat)
    return heat


def fill(server: Embedded, heat: Heat) -> None:
    """Have creates wait. They belong to no stack, whose limit would count."""
    policy(heat, approve="always")
    heat.call("POST", "/stacks", {"stack_name": "first", "template": template(a=THING)}, code=409)
    (found,) = heat.get("/approvals")["approvals"]
    rows = server.store.of(ApprovalStore)
    record = rows.get(found["id"])
    assert record is not None
    with server.store.transaction():
        for number in range(MANY - 1):
            one = random_id()
            at = record.requested_at + number // 10  # ten have the same time
            rows.insert(replace(record, id=one, stack_name=f"s{number}", open_key=one, requested_at=at))


def pages(heat: Heat, path: str) -> list[list[dict[str, Any]]]:
    found = []
    while path:
        answer = heat.get(path)
        found.append(answer["approvals"])
        path = next((one["href"] for one in answer.get("links", ()) if one["rel"] == "next"), "")
        path = path[path.find("/v1/") :] if path else ""
    return found


@pytest.mark.slow
@pytest.mark.parametrize("size", [7, 200])
def test_each_is_on_one_page(many: Heat, size: int) -> None:
    found = pages(many, f"/approvals?state=PENDING&limit={size}")
    assert {len(one) for one in found[:-1]} == {size}
    every = [one for page in found for one in page]
    assert len({one["id"] for one in every}) == len(every) == MANY
    times = [one["requested_at"] for one in every]
    assert times == sorted(times, reverse=True)
    assert not any("content" in one for one in every)


@pytest.mark.slow
def test_the_command_lists_all(many: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    assert Here(many)("approval list --state PENDING --limit 1000 -f value -c id") == 0
    assert len({*capsys.readouterr().out.split()}) == MANY
