"""The table of a worker's attempts: each event in each state, times, overlaps."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, cast

import pytest

from heatlite.engine.execution.attempts import HELD, WITH_SLOT, Attempt, AttemptState, AttemptTable
from heatlite.engine.execution.execution import Execution
from heatlite.store.records import ActionRecord
from tests.tables import table as cases
from tests.waiting import eventually

LIMIT = 3
CLAIMED, RUNNING, WAITING, PARKED, ENDED = AttemptState


@dataclass(frozen=True)
class Action:
    """The part of an action that the table reads."""

    id: str = "a"
    attempt: int = 1
    parent_id: str | None = None


@dataclass
class Walker:
    """The part of an execution and its walker that the table uses."""

    awaits_nested: bool = False
    awaited_addresses: frozenset[str] = frozenset()
    is_nudged: bool = False
    happened: list[str] = field(default_factory=list)

    @property
    def walker(self) -> "Walker":
        return self

    def deliver(self) -> None:
        self.happened.append("deliver")

    def nudge(self) -> None:
        self.happened.append("nudge")

    def drain(self) -> None:
        self.happened.append("drain")

    def resume(self, action: ActionRecord) -> None:
        self.happened.append(f"resume {action.attempt}")


class Scene:
    """A table whose hints are kept."""

    def __init__(self) -> None:
        self.hints: list[float] = []
        self.table = AttemptTable(self.hints.append)

    def claim(self, action_id: str = "a", attempt: int = 1, parent: str | None = None) -> Attempt:
        return self.table.claim(cast(ActionRecord, Action(action_id, attempt, parent)))

    def run(self, walker: Walker | None = None, action_id: str = "a", parent: str | None = None) -> Attempt:
        """An attempt that runs."""
        attempt = self.claim(action_id, parent=parent)
        self.table.begin(attempt)
        self.table.start(attempt, cast(Execution, walker or Walker()))
        return attempt

    def wait(self, action_id: str = "a", until: float = inf, walker: Walker | None = None) -> Attempt:
        """An attempt that waits."""
        attempt = self.run(walker, action_id)
        self.table.wait(attempt, until)
        return attempt

    def at(self, state: AttemptState) -> Attempt:
        """An attempt in a state."""
        match state:
            case AttemptState.CLAIMED:
                return self.claim()
            case AttemptState.RUNNING:
                return self.run()
            case AttemptState.WAITING:
                return self.wait(until=50.0)
            case AttemptState.PARKED:
                attempt = self.run()
                self.table.park(attempt)
            case AttemptState.ENDED:
                attempt = self.run()
                self.table.end(attempt)
        return attempt

    @property
    def occupied(self) -> int:
        return LIMIT - self.table.free_slots(LIMIT)

    def due(self, now: float) -> list[str]:
        return [attempt.action.id for attempt in self.table.take_due(now)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


MOVES: dict[str, Callable[[AttemptTable, Attempt], object]] = {
    "begin": AttemptTable.begin,
    "start": lambda table, attempt: table.start(attempt, cast(Execution, Walker())),
    "wait": lambda table, attempt: table.wait(attempt, 50.0),
    "park": AttemptTable.park,
    "end": AttemptTable.end,
}
"""Events of one attempt. In other states than those of `ALLOWED` they are faults of the caller."""
EVENTS: dict[str, Callable[[AttemptTable, Attempt], object]] = {
    "due": lambda table, _: table.take_due(50.0),
    "not due": lambda table, _: table.take_due(49.0),
    "woken": lambda table, _: (table.wake("a"), table.take_due(0.0)),
    "nested": lambda table, _: (table.wake_for_nested(), table.take_due(0.0)),
    "message": lambda table, _: (table.deliver(["x"]), table.take_due(0.0)),
    "drop": lambda table, _: table.drop("a"),
    "drain": lambda table, _: table.drain(),
}
"""Events that may meet an attempt in any state."""
ALLOWED = {
    ("begin", CLAIMED): RUNNING,
    ("start", RUNNING): RUNNING,
    ("wait", RUNNING): WAITING,
    ("park", RUNNING): PARKED,
    ("end", CLAIMED): ENDED,
    ("end", RUNNING): ENDED,
}
CHANGES = {("due", WAITING): CLAIMED, ("woken", WAITING): CLAIMED, ("drop", PARKED): ENDED}


@cases("event, state", [(event, state) for event in MOVES for state in AttemptState])
def test_an_event_of_a_thread_is_allowed_in_some_states(event: str, state: AttemptState) -> None:
    scene = Scene()
    attempt = scene.at(state)
    after = ALLOWED.get((event, state))
    if after is None:
        with pytest.raises(RuntimeError, match=state.name):
            MOVES[event](scene.table, attempt)
    else:
        MOVES[event](scene.table, attempt)
    assert attempt.state is (after or state)
    assert scene.occupied == (attempt.state in WITH_SLOT)
    assert scene.table.is_empty == (attempt.state is ENDED)


@cases("event, state", [(event, state) for event in EVENTS for state in AttemptState])
def test_an_event_from_outside_meets_any_state(event: str, state: AttemptState) -> None:
    scene = Scene()
    attempt = scene.at(state)
    EVENTS[event](scene.table, attempt)
    assert attempt.state is CHANGES.get((event, state), state)
    if event != "drain":
        assert scene.occupied == (attempt.state in WITH_SLOT)


@cases("state", [*AttemptState])
def test_the_lease_is_held_until_the_action_is_released(state: AttemptState) -> None:
    scene = Scene()
    attempt = scene.at(state)
    assert (attempt in scene.table.of(HELD)) == (state in (CLAIMED, RUNNING, WAITING))
    assert [*scene.table.executions()] == (["a"] if state in (RUNNING, WAITING) else [])
    assert [*scene.table.executions(["b"])] == []


# -- slots -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("move", ["wait", "park", "end"])
def test_a_freed_slot_is_told_if_one_was_missed(scene: Scene, move: str) -> None:
    attempts = [scene.run(action_id=name) for name in "abc"]
    assert not MOVES[move](scene.table, attempts[0])
    attempts.append(scene.run(action_id="d"))
    assert scene.table.free_slots(LIMIT) == 0
    assert MOVES[move](scene.table, attempts[1])
    assert not MOVES[move](scene.table, attempts[2])


def test_more_slots_than_the_limit_are_none(scene: Scene) -> None:
    for name in "abcd":
        scene.run(action_id=name)
    assert scene.table.free_slots(LIMIT) == 0


# -- times and hints ---------------------------------------------------------------------------------


def test_they_are_due_in_the_order_of_time(scene: Scene) -> None:
    for name, until in (("b", 20.0), ("a", 10.0), ("c", 30.0), ("never", inf)):
        scene.wait(name, until)
    assert scene.hints == [20.0, 10.0, 30.0]
    assert scene.due(20.0) == ["a", "b"]
    assert scene.hints[3:] == [30.0]
    assert scene.due(20.0) == []
    assert {attempt.action.id for attempt in scene.table.of((WAITING,))} == {"c", "never"}


def test_one_that_is_woken_is_due_once(scene: Scene) -> None:
    scene.wait("a", 10.0)
    scene.wait("never")
    for name in ("a", "a", "never", "unknown"):
        scene.table.wake(name)
    assert scene.hints == [10.0, 0.0, 0.0]
    assert sorted(scene.due(1.0)) == ["a", "never"]
    assert scene.due(100.0) == []


def test_an_attempt_that_waits_again_has_its_new_time_only(scene: Scene) -> None:
    attempt = scene.wait("a", 10.0)
    scene.table.wake("a")
    assert scene.due(1.0) == ["a"]
    scene.table.begin(attempt)
    scene.table.wait(attempt, 50.0)
    assert scene.due(20.0) == []
    assert scene.due(50.0) == ["a"]


def test_one_that_was_nudged_since_its_tick_does_not_wait(scene: Scene) -> None:
    scene.wait("a", 10.0, Walker(is_nudged=True))
    assert scene.due(0.0) == ["a"]


def test_a_message_wakes_those_that_wait_for_it(scene: Scene) -> None:
    both, other = Walker(awaited_addresses=frozenset("xy")), Walker(awaited_addresses=frozenset("z"))
    scene.wait("both", 60.0, both)
    scene.wait("other", 60.0, other)
    assert scene.table.awaits_messages
    scene.table.deliver(["x", "nowhere"])
    assert scene.due(1.0) == ["both"]
    assert (both.happened, other.happened) == (["deliver"], [])
    scene.table.deliver(["y"])  # it waits no longer
    assert both.happened == ["deliver"]
    scene.table.deliver(["z"])
    assert scene.due(1.0) == ["other"]
    assert not scene.table.awaits_messages


def test_those_that_wait_for_nested_stacks_are_woken_together(scene: Scene) -> None:
    scene.wait("parent", 60.0, Walker(awaits_nested=True))
    scene.wait("leaf", 60.0)
    scene.table.wake_for_nested()
    assert scene.due(1.0) == ["parent"]


@pytest.mark.parametrize("move", ["park", "end"])
def test_the_end_of_a_derived_action_nudges_its_parent(scene: Scene, move: str) -> None:
    parent = Walker()
    scene.wait("parent", 60.0, parent)
    child = scene.run(action_id="child", parent="parent")
    MOVES[move](scene.table, child)
    assert (parent.happened, scene.due(1.0)) == (["nudge"], ["parent"])


def test_it_nudges_no_parent_that_is_released(scene: Scene) -> None:
    parent = Walker()
    scene.table.park(scene.run(parent, "parent"))
    scene.table.end(scene.run(action_id="child", parent="parent"))
    assert parent.happened == []


# -- the next attempt --------------------------------------------------------------------------------


def test_the_next_attempt_continues_what_has_parked(scene: Scene) -> None:
    walker = Walker()
    first = scene.run(walker)
    scene.table.park(first)
    second = scene.claim(attempt=2)
    scene.table.begin(second)
    assert second.execution is cast(Execution, walker)
    assert (first.state, walker.happened) == (ENDED, ["resume 2"])


def test_an_attempt_after_that_of_another_engine_begins_anew(scene: Scene) -> None:
    first = scene.run()
    scene.table.park(first)
    third = scene.claim(attempt=3)
    scene.table.begin(third)
    assert (third.execution, first.state) == (None, ENDED)


@pytest.mark.parametrize("move", ["park", "end"])
def test_the_next_attempt_waits_for_the_thread_of_the_one_before(scene: Scene, move: str) -> None:
    walker = Walker()
    first = scene.run(walker)
    second = scene.claim(attempt=2)
    assert scene.occupied == 2
    begun = threading.Thread(target=scene.table.begin, args=(second,))
    begun.start()
    eventually(lambda: second.state is RUNNING)
    assert begun.is_alive()
    MOVES[move](scene.table, first)
    begun.join()
    found: Any = second.execution
    assert found is (walker if move == "park" else None)
    assert scene.table.of(AttemptState) == [second]
    assert scene.occupied == 1


def test_it_waits_for_no_attempt_that_has_lost_its_action(scene: Scene) -> None:
    """That one may run until it meets its fence."""
    first = scene.run()
    third = scene.claim(attempt=3)
    scene.table.begin(third)
    assert (first.state, third.execution) == (RUNNING, None)
    scene.table.end(first)
    assert scene.table.of(AttemptState) == [third]


# -- the end of the engine ---------------------------------------------------------------------------


def test_the_end_drains_executions_and_those_that_begin_later(scene: Scene) -> None:
    running, waiting, parked, new = Walker(), Walker(), Walker(), Walker()
    scene.run(running, "running")
    scene.wait("waiting", 60.0, waiting)
    scene.table.park(scene.run(parked, "parked"))
    begins, resumes = scene.claim("begins"), scene.claim("parked", attempt=2)
    scene.table.drain()
    assert scene.table.free_slots(100) == 0
    for attempt in (begins, resumes):
        scene.table.begin(attempt)
    scene.table.start(begins, cast(Execution, new))
    assert [one.happened[-1] for one in (running, waiting, parked, new)] == ["drain"] * 4
