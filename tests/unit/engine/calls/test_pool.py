"""Handler calls of a process that stood still.

None begins for an attempt that another engine has taken over.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.meter import Meter
from heatlite.engine.calls import pool as calls_module
from heatlite.engine.calls.pool import Calls
from heatlite.engine.calls.step_execution import HandlerCall, StepPhase
from heatlite.store.errors import Fenced

LEASE = 30.0
THREADS = 2


class Held(Executor):
    """A pool that runs what is submitted when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        """Run everything that was submitted before."""
        now, self.waiting = self.waiting, []
        for job in now:
            job()


class SetClock(Clock):
    """Time that the test moves."""

    time = 1000.0

    def now(self) -> float:
        return self.time


class _Call:
    """The part of a call that is read before it begins."""

    row = SimpleNamespace(physical_id=None)
    phase = StepPhase.READY
    failure = None

    def __init__(self) -> None:
        self.resource = SimpleNamespace(physical_id=None)


class Scene:
    """The calls of one execution, with everything that they depend on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.pool, self.called, self.asked = SetClock(), Held(), 0, 0
        self.is_fenced = self.fails = False
        self.transactions = 0
        self.calls = Calls(self.pool, Meter(), self.clock, LEASE, self._ask, self._transaction, THREADS)
        self.call = cast(HandlerCall, _Call())
        monkeypatch.setattr(calls_module, "advance", self.advance)

    def _ask(self) -> None:
        self.asked += 1
        if self.is_fenced:
            raise Fenced("a")

    def advance(self, call: HandlerCall, meter: Meter) -> None:
        self.called += 1
        assert call.phase is StepPhase.READY
        assert call.resource.physical_id is None
        call.phase, call.resource.physical_id = StepPhase.DONE, "made"

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.transactions += 1
        yield
        if self.fails:
            raise DatabaseUnavailable(reason="the commit failed")


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_a_call_within_the_lease_asks_nothing(scene: Scene) -> None:
    scene.calls.written(scene.clock.time)
    scene.clock.time += LEASE - 1
    scene.calls.start([scene.call])
    scene.pool.run()
    assert list(scene.calls.results()) == [scene.call]
    assert (scene.called, scene.asked) == (1, 0)


def test_no_call_begins_after_the_lease_for_an_attempt_that_has_lost_its_action(scene: Scene) -> None:
    scene.calls.written(scene.clock.time)
    scene.clock.time += LEASE
    scene.is_fenced = True
    with pytest.raises(Fenced):
        scene.calls.start([scene.call])
    scene.pool.run()
    assert (scene.called, scene.asked, scene.calls.running) == (0, 1, set())


def test_a_lease_that_a_heartbeat_has_renewed_is_asked_for_once(scene: Scene) -> None:
    scene.calls.start([scene.call])
    scene.pool.run()
    assert list(scene.calls.results()) == [scene.call]
    scene.calls.start([scene.call])
    assert (scene.called, scene.asked) == (1, 1)


def test_a_call_that_waited_for_a_thread_beyond_the_lease_is_judged_again(scene: Scene) -> None:
    scene.calls.written(scene.clock.time)
    scene.calls.start([scene.call])
    scene.clock.time += LEASE
    scene.pool.run()
    assert scene.called == 0
    assert list(scene.calls.results()) == []
    assert (scene.asked, scene.calls.running) == (1, {scene.call})
    scene.pool.run()
    assert list(scene.calls.results()) == [scene.call]
    assert scene.called == 1


def test_calls_that_write_to_the_store_only_share_transactions(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls_module, "SHARED", 4)
    calls = [cast(HandlerCall, _Call()) for _ in range(10)]
    scene.calls.start_shared(calls)
    assert scene.calls.running == {*calls}
    scene.pool.run()
    assert list(scene.calls.results()) == calls
    assert (scene.called, scene.transactions) == (10, 3)


def test_calls_of_a_failed_transaction_are_made_again_one_by_one(scene: Scene) -> None:
    scene.fails = True
    calls = [cast(HandlerCall, _Call()) for _ in range(3)]
    scene.calls.start_shared(calls)
    scene.pool.run()
    assert list(scene.calls.results()) == calls
    assert (scene.called, scene.transactions) == (6, 1)
    assert {call.phase for call in calls} == {StepPhase.DONE}


def test_as_many_jobs_as_threads_take_the_calls_in_turn(scene: Scene) -> None:
    calls = [cast(HandlerCall, _Call()) for _ in range(5)]
    scene.calls.start(calls)
    assert len(scene.pool.waiting) == THREADS
    scene.pool.run()
    assert list(scene.calls.results()) == calls


def test_calls_that_one_job_reaches_after_the_lease_are_judged_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def advance_slowly(call: HandlerCall, meter: Meter) -> None:
        scene.clock.time += LEASE
        scene.advance(call, meter)

    monkeypatch.setattr(calls_module, "advance", advance_slowly)
    calls = [cast(HandlerCall, _Call()) for _ in range(2)]
    scene.calls.start(calls)
    scene.pool.run()
    assert list(scene.calls.results()) == calls[:1]
    assert scene.calls.running == {calls[1]}
