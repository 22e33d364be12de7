"""Attempts that wait without a thread."""

import math
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from heatlite.engine.execution.attempts import Attempt, WaitingAttempts
from heatlite.store.records import ActionRecord


@dataclass
class Execution:
    """The parts of an execution and its walker that are used here."""

    awaits_nested: bool = False
    awaited_addresses: frozenset[str] = frozenset()
    delivered: int = 0

    @property
    def walker(self) -> "Execution":
        return self

    def deliver(self) -> None:
        self.delivered += 1


@dataclass
class Known:
    """An action or an attempt, as far as it is asked here."""

    id: str = ""
    execution: Execution = field(default_factory=Execution)


def add(waiting: WaitingAttempts, name: str, until: float, *addresses: str, nested: bool = False) -> Execution:
    execution = Execution(nested, frozenset(addresses))
    waiting.add(cast(ActionRecord, Known(name)), cast(Attempt, Known(execution=execution)), until)
    return execution


def due(waiting: WaitingAttempts, now: float) -> list[str]:
    return [action.id for action, _ in waiting.take_due(now)]


@pytest.fixture
def waiting() -> WaitingAttempts:
    return WaitingAttempts()


def test_they_are_due_in_the_order_of_time(waiting: WaitingAttempts) -> None:
    for name, until in (("b", 20.0), ("a", 10.0), ("c", 30.0), ("never", math.inf)):
        add(waiting, name, until)
    assert waiting.next_time() == 10.0
    assert due(waiting, 20.0) == ["a", "b"]
    assert due(waiting, 20.0) == []
    assert waiting.next_time() == 30.0
    assert set(waiting.ids) == {"c", "never"}


def test_one_that_is_woken_is_due_once(waiting: WaitingAttempts) -> None:
    add(waiting, "a", 10.0)
    add(waiting, "never", math.inf)
    for name in ("a", "a", "never", "unknown"):
        waiting.wake(name)
    assert sorted(due(waiting, 1.0)) == ["a", "never"]
    assert due(waiting, 100.0) == []
    assert waiting.next_time() == math.inf


def test_an_attempt_that_waits_again_has_its_new_time_only(waiting: WaitingAttempts) -> None:
    add(waiting, "a", 10.0)
    waiting.wake("a")
    assert due(waiting, 1.0) == ["a"]
    add(waiting, "a", 50.0)
    assert due(waiting, 20.0) == []
    assert waiting.next_time() == 50.0


def test_a_message_wakes_those_that_wait_for_it(waiting: WaitingAttempts) -> None:
    both: Any = add(waiting, "both", 60.0, "x", "y")
    other = add(waiting, "other", 60.0, "z")
    assert waiting.awaits_messages
    waiting.deliver(["x", "nowhere"])
    assert due(waiting, 1.0) == ["both"]
    assert (both.delivered, other.delivered) == (1, 0)
    waiting.deliver(["y"])  # it waits no longer
    assert both.delivered == 1
    waiting.deliver(["z"])
    assert due(waiting, 1.0) == ["other"]
    assert not waiting.awaits_messages


def test_nested_stacks_are_awaited_until_it_continues(waiting: WaitingAttempts) -> None:
    add(waiting, "parent", 60.0, nested=True)
    add(waiting, "leaf", 60.0)
    assert set(waiting.awaiting_nested) == {"parent"}
    assert sorted(due(waiting, 60.0)) == ["leaf", "parent"]
    assert set(waiting.awaiting_nested) == set()
