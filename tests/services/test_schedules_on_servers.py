"""Schedules and dependencies with several engines: one start each, no deadlock."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import Conflict, DatabaseUnavailable
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Signal
from heatlite.engine.state.requests import StackRequest, Timing
from heatlite.store.database.backend import Dialect
from heatlite.store.records import StackRecord
from heatlite.store.store import Store
from heatlite.wiring import Embedded
from tests.services.conftest import soon
from tests.waiting import eventually

TEMPLATE = {
    "heat_template_version": "2021-04-16",
    "resources": {"a": {"type": "OS::Heat::Value", "properties": {"value": "v"}}},
}
ENDS = f"({', '.join(repr(str(status)) for status in ENDED_ACTIONS)})"


class Counting(Meter):
    """Counts what a database refused, a deadlock too."""

    def __init__(self) -> None:
        self.refused = 0

    def database_unavailable(self) -> None:
        self.refused += 1


@pytest.fixture
def meter() -> Counting:
    return Counting()


@pytest.fixture
def engines(url: str, meter: Counting) -> Iterator[list[Embedded]]:
    """Two on one database."""
    made = [wiring.embedded(Settings(database=url)) for _ in range(2)]
    for engine in made:
        engine.store.listen(replace(engine.store.listeners, database_unavailable=meter.database_unavailable))
    yield made
    for engine in made:
        engine.close()


def stacks_of(engine: Embedded, count: int) -> list[StackRecord]:
    made = [engine.stacks.create(Context("demo"), StackRequest(name=f"s{n}", template=TEMPLATE)) for n in range(count)]
    settle(engine)
    return made


def settle(engine: Embedded) -> None:
    """Until no action is left that is to be done now."""
    sql = f"SELECT COUNT(*) FROM action WHERE status NOT IN {ENDS}"
    eventually(lambda: not engine.store.database.read(sql)[0][0], "all ends")


def test_one_engine_lets_a_scheduled_action_in(engines: list[Embedded], meter: Counting) -> None:
    store = engines[0].store
    stacks = stacks_of(engines[0], 10)
    when = 0.0
    actions: list[str] = []
    for stack in stacks:
        context = Context("demo")
        check = partial(engines[0].stacks.check, context, stack)
        when = max(when, soon(lambda at: check(Timing(not_before=at))))  # noqa: B023 - called at once
        actions += context.queued

    def sweep(number: int) -> None:
        engine = engines[number % 2]
        while time.time() < when + 0.5:
            engine.components.scheduled_actions.sweep()
        engine.store.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(sweep, range(4)))
    settle(engines[0])
    for action in actions:
        moves = [move.after for move in store.actions.history(action)]
        assert moves == [ActionStatus.READY, ActionStatus.RUNNING, ActionStatus.SUCCEEDED]
    assert meter.refused == 0


NEIGHBOURS = {Dialect.POSTGRESQL: 0, Dialect.MARIADB: 3}
"""Deadlocks that 200 operations may meet.

Requests and workers lock rows in one order, so PostgreSQL reports none. InnoDB also locks the neighbour of a key that
it inserts into a unique index; that row may belong to another stack. The caller gets 503 and repeats the request.
"""


def answered(store: Store, operation: Callable[[], object]) -> None:
    """Run an operation, and repeat it after a deadlock, as a client does after a 503."""
    while True:
        try:
            operation()
            return
        except DatabaseUnavailable as error:
            if "Deadlock" not in str(error) or not NEIGHBOURS[store.database.backend.dialect]:
                raise


def test_nobody_is_in_a_deadlock(engines: list[Embedded], meter: Counting) -> None:
    """Concurrent puts of dependent actions, ends and cancels."""
    store = engines[0].store
    stacks = stacks_of(engines[0], 12)
    known: list[str] = []
    lock = threading.Lock()

    def work(number: int) -> None:
        chance, engine = random.Random(number), engines[number % 2]
        for _ in range(25):
            with lock:
                recent = known[-8:]
            chosen = chance.sample(recent, min(len(recent), chance.randrange(4)))
            stack, context = chance.choice(stacks), Context("demo")
            timing, is_scheduled = Timing(depends_on=tuple(chosen)), chance.random() < 0.2
            check = partial(engine.stacks.check, context, stack)
            try:
                if is_scheduled:
                    answered(store, lambda: soon(lambda at: check(replace(timing, not_before=at))))  # noqa: B023
                else:
                    answered(store, lambda: check(timing))  # noqa: B023 - called at once
                if recent and chance.random() < 0.3:
                    action = engine.store.actions.get(chance.choice(recent))
                    assert action is not None
                    signals = engine.components.controls
                    answered(store, lambda: signals.signal(context, action, Signal.CANCEL))  # noqa: B023
            except Conflict:
                pass  # The stack is held, the action has ended: as it should be.
            finally:
                with lock:
                    known.extend(context.queued)
        engine.store.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    settle(engines[0])
    assert meter.refused <= NEIGHBOURS[store.database.backend.dialect]
    ends = [f"WHERE {store.database.quote('after')} IN {ENDS}", "GROUP BY action_id"]
    assert {count for (count,) in store.database.read(f"SELECT COUNT(*) FROM transition {' '.join(ends)}")} == {1}
    assert store.inconsistencies(time.time(), 0.0) == []
