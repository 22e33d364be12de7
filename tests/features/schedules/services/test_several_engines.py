"""Schedules and expiries with several engines on one database with a server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.clock import DAY
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.status import ENDED_ACTIONS, Cause
from heatlite.engine.state.requests import StackRequest
from heatlite.features.schedules.due import next_due
from heatlite.features.schedules.expiry.operations import WantedExpiry
from heatlite.features.schedules.expiry.parts import Expiries
from heatlite.features.schedules.expiry.state import ExpiryState, Then
from heatlite.features.schedules.operations import MAX_SCHEDULES, WantedSchedule
from heatlite.features.schedules.parts import Schedules
from heatlite.features.schedules.store.expiries import ExpiryStore
from heatlite.features.schedules.store.records import ScheduledTask
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.wiring import Embedded
from tests.waiting import eventually

pytestmark = pytest.mark.slow

ENGINES, STACKS = 4, 12
TEMPLATE = {
    "heat_template_version": "2021-04-16",
    "resources": {"a": {"type": "OS::Heat::Value", "properties": {"value": "v"}}},
}
ENDS = f"({', '.join(repr(str(status)) for status in ENDED_ACTIONS)})"
CALLER = Context("demo", user="mia")


@pytest.fixture
def engines(url: str) -> Iterator[list[Embedded]]:
    with ExitStack() as ends:
        yield [ends.enter_context(closing(wiring.embedded(Settings(database=url)))) for _ in range(ENGINES)]


def test_each_time_begins_one_action(engines: list[Embedded]) -> None:
    """All engines sweep by themselves, once a second."""
    first = engines[0]
    store, now = first.store, first.components.clock.now()
    stacks = [first.stacks.create(CALLER, StackRequest(name=f"s{n}", template=TEMPLATE)) for n in range(STACKS)]
    running = f"SELECT COUNT(*) FROM action WHERE status NOT IN {ENDS}"
    eventually(lambda: not store.database.read(running)[0][0], "all are made")
    for stack in stacks[::2]:
        wanted = WantedSchedule("sleep", "0 0 * * *", "UTC", ScheduledTask.SUSPEND, {}, 3600, False, None, None)
        first.components.of(Schedules).operations.add(CALLER, stack, wanted)
    for stack in stacks[1::2]:
        wanted_end = WantedExpiry(now + DAY, Then.SUSPEND, (60,))
        first.components.of(Expiries).operations.put(CALLER, stack, wanted_end)
    schedules, expiries = store.of(SchedulesStore), store.of(ExpiryStore)
    with store.transaction():  # all at once, as if the days had passed
        for stack in stacks[::2]:
            (record,) = schedules.of_stack(stack.id)
            due = replace(record, enabled=True, since=now - 3 * DAY)
            schedules.replace(replace(due, next_at=next_due(due)))
        for before in expiries.of([stack.id for stack in stacks[1::2]]).values():
            expiries.change(before, replace(before, expires_at=now, due=now, state=ExpiryState.WARNED))
    begun = "SELECT COUNT(*) FROM action WHERE cause = ?"
    eventually(lambda: store.database.read(begun, (Cause.SCHEDULED.value,))[0][0] >= STACKS, "all begin")
    eventually(lambda: not store.database.read(running)[0][0], "all end")
    sql = "SELECT stack_id, verb, status FROM action WHERE cause = ? ORDER BY stack_id"
    found = [*store.database.read(sql, (Cause.SCHEDULED.value,))]
    assert found == [(one, "SUSPEND", "SUCCEEDED") for one in sorted(stack.id for stack in stacks)]
    told = [*store.database.read("SELECT stack_id, status FROM event WHERE verb = 'SCHEDULE' ORDER BY stack_id")]
    assert told == [(one, "STARTED") for one in sorted(stack.id for stack in stacks[::2])]


def test_clients_that_ask_at_once(engines: list[Embedded]) -> None:
    """A name, and the last place, go to one of them; each expiry is one row."""
    first = engines[0]
    stack = first.stacks.create(CALLER, StackRequest(name="s", template=TEMPLATE))
    daily = WantedSchedule("sleep", "0 20 * * *", "UTC", ScheduledTask.SUSPEND, {}, 3600, True, None, None)
    parts = [one.components.of(Schedules).operations for one in engines]

    def add(number: int, name: str) -> bool:
        try:
            parts[number % ENGINES].add(CALLER, stack, replace(daily, name=name))
        except HTTPBadRequest:
            return False
        return True

    with ThreadPoolExecutor(2 * ENGINES) as pool:
        clients = range(2 * ENGINES)
        assert sum(pool.map(lambda one: add(one, "sleep"), clients)) == 1
        for number in range(MAX_SCHEDULES - 3):
            assert add(number, f"n{number}")
        assert sum(pool.map(lambda one: add(one, f"last{one}"), clients)) == 2
        assert len(parts[0].list(stack)) == MAX_SCHEDULES
        expiries = [one.components.of(Expiries).operations for one in engines]
        ends = [WantedExpiry(first.components.clock.now() + DAY * (1 + one), Then.SUSPEND, (60,)) for one in clients]
        put = [*pool.map(lambda one: expiries[one % ENGINES].put(CALLER, stack, ends[one]), clients)]
    kept = expiries[0].get(stack)
    assert kept.expires_at in {one.expires_at for one in put}
    assert first.store.inconsistencies(first.components.clock.now(), 0.0) == []
