"""Jobs of a timer: their times, hints, failures, and the threads that call them."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, permutations, product
from math import inf

import pytest

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime import timer as timer_module
from heatlite.core.runtime.timer import Timer
from tests.waiting import eventually


class SetClock(Clock):
    """A clock that the test sets."""

    time = 1000.0

    def now(self) -> float:
        return self.time


class Counted:
    """Work that counts its calls, and may be held."""

    def __init__(self, pause: float = inf) -> None:
        self.pause = pause
        self.times: list[float] = []
        self.threads: set[int] = set()
        self.free = threading.Event()
        self.free.set()

    def __call__(self) -> float:
        self.times.append(time.monotonic())
        self.threads.add(threading.get_ident())
        self.free.wait()
        return self.pause

    def has(self, calls: int) -> bool:
        return len(self.times) == calls


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def closed() -> list[int]:
    return []


@pytest.fixture
def timer(clock: SetClock, closed: list[int]) -> Iterator[Timer]:
    timer = Timer(clock, lambda: closed.append(threading.get_ident()))
    yield timer
    timer.stop()


def started(timer: Timer, call: Callable[[], float]) -> timer_module.Job:
    job = timer.job("job", call)
    job.start()
    return job


def test_a_job_is_called_at_its_start_and_after_each_pause(timer: Timer) -> None:
    work = Counted(0.01)
    started(timer, work)
    eventually(lambda: len(work.times) >= 4)
    assert all(later - earlier >= 0.01 for earlier, later in pairwise(work.times))


def test_a_hint_calls_a_job_and_one_during_a_call_calls_it_again(timer: Timer) -> None:
    work = Counted()
    job = started(timer, work)
    eventually(lambda: work.has(1))
    work.free.clear()
    job.wake()
    eventually(lambda: work.has(2))
    job.wake()
    job.wake()
    work.free.set()
    eventually(lambda: work.has(3))
    eventually(lambda: not job.is_running)
    assert work.has(3)


def test_a_hint_before_the_start_or_after_the_end_calls_nothing(timer: Timer) -> None:
    work = Counted()
    job = timer.job("job", work)
    job.wake()
    assert work.has(0)
    job.start()
    eventually(lambda: work.has(1))
    job.stop()
    job.wake()
    other = Counted()
    started(timer, other)
    eventually(lambda: other.has(1))
    assert work.has(1)


def test_a_job_may_wait_for_its_first_hint(timer: Timer) -> None:
    work = Counted()
    job = timer.job("job", work)
    threads = threading.active_count()
    job.start(inf)
    assert threading.active_count() == threads
    begun = time.monotonic()
    job.within(0.01)
    job.within(3600.0)
    eventually(lambda: work.has(1))
    assert work.times[0] - begun >= 0.01


def test_a_job_that_blocks_delays_no_other(timer: Timer) -> None:
    blocked = [Counted() for _ in range(3)]
    for one in blocked:
        one.free.clear()
        started(timer, one)
    leases = Counted(0.001)
    started(timer, leases)
    try:
        eventually(lambda: len(leases.times) > 20)
        assert all(one.has(1) for one in blocked)
    finally:
        for one in blocked:
            one.free.set()


def test_a_thread_that_had_nothing_to_wait_for_takes_what_is_due_later(timer: Timer) -> None:
    jobs = [Counted(0.02) for _ in range(3)]
    for work in jobs:
        work.free.clear()
        started(timer, work)
    eventually(lambda: all(work.has(1) for work in jobs))
    time.sleep(0.1)  # a further thread waits: no job is idle
    for work in jobs:
        work.free.set()
    blocked, *others = jobs
    eventually(lambda: all(len(work.times) > 3 for work in jobs))
    blocked.free.clear()
    calls = len(blocked.times)
    time.sleep(0.1)
    assert len(blocked.times) - calls <= 1
    counts = [len(work.times) for work in others]
    eventually(lambda: all(len(work.times) > count + 2 for work, count in zip(others, counts, strict=True)))
    blocked.free.set()


@pytest.mark.parametrize("order", [*permutations(range(3))])
@pytest.mark.parametrize("pauses", [*product((inf, 0.01), repeat=3)])
def test_jobs_that_have_blocked_together_go_on(timer: Timer, order: Sequence[int], pauses: Sequence[float]) -> None:
    works = [Counted(pause) for pause in pauses]
    for work in works:
        work.free.clear()
        started(timer, work)
    eventually(lambda: all(work.has(1) for work in works))
    for work in (works[number] for number in order):
        work.free.set()
        eventually(lambda work=work: not timer._jobs[works.index(work)].is_running or len(work.times) > 1)
    eventually(lambda: all(len(work.times) > 2 for work in works if work.pause < inf))


def test_two_threads_are_left_of_those_that_a_block_has_needed(timer: Timer, closed: list[int]) -> None:
    works = [Counted() for _ in range(5)]
    for one in works:
        one.free.clear()
        started(timer, one)
    eventually(lambda: all(one.has(1) for one in works))
    for one in works:
        one.free.set()
    eventually(lambda: len(closed) == 4)
    assert len(timer._threads) == 2


def test_one_thread_does_it_all_at_rest(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread leaves it the jobs that are due."""
    monkeypatch.setattr(timer_module, "GRACE", 60.0)
    works = [Counted(0.002) for _ in range(4)]
    for one in works:
        started(timer, one)
    eventually(lambda: all(len(one.times) > 10 for one in works))
    for one in works:
        one.threads.clear()
    eventually(lambda: all(len(one.times) > 20 for one in works))
    assert len(set[int]().union(*(one.threads for one in works))) == 1


def test_jobs_of_a_second_are_due_together(timer: Timer) -> None:
    jobs = [timer.job(str(number), Counted(1.0)) for number in range(3)]
    for job in jobs:
        job.start()
        time.sleep(0.005)
        job.wake()
    eventually(lambda: all(job.due not in (0.0, inf) for job in jobs))
    ticks = {(job.due - timer._began) / timer_module.BEAT for job in jobs}
    assert all(tick == pytest.approx(round(tick)) for tick in ticks)


def test_a_time_of_the_clock_counts_by_the_clock(timer: Timer, clock: SetClock) -> None:
    work = Counted()
    job = started(timer, work)
    eventually(lambda: work.has(1))
    job.at(clock.time + 3600.0)
    other = started(timer, Counted(0.01))
    clock.time += 3599.0
    other.wake()
    eventually(lambda: not other.is_running and other.due < inf)
    assert work.has(1)
    clock.time += 1.0
    eventually(lambda: work.has(2))


def test_the_earliest_time_of_the_clock_counts(timer: Timer, clock: SetClock) -> None:
    work = Counted()
    job = started(timer, work)
    eventually(lambda: work.has(1))
    job.at(clock.time + 3600.0)
    job.at(clock.time)
    job.at(clock.time + 7200.0)
    eventually(lambda: work.has(2))


@pytest.mark.parametrize("error", [DatabaseUnavailable(reason="away"), ZeroDivisionError()])
def test_no_failure_ends_a_job(
    timer: Timer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(timer_module, "RETRY_INTERVAL", 0.001)
    calls = []

    def fail() -> float:
        calls.append(1)
        if len(calls) < 3:
            raise error
        return inf

    with caplog.at_level(logging.WARNING):
        started(timer, fail)
        eventually(lambda: len(calls) == 3)
    is_away = isinstance(error, DatabaseUnavailable)
    assert [record.levelname for record in caplog.records] == ["WARNING" if is_away else "ERROR"] * 2


def test_jobs_go_on_where_no_further_thread_can_begin(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked, work = Counted(), Counted(0.001)
    blocked.free.clear()
    started(timer, blocked)
    eventually(lambda: blocked.has(1) and timer._waiting)

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    try:
        started(timer, work)
        eventually(lambda: len(work.times) > 10)
    finally:
        blocked.free.set()


def test_stopping_a_job_waits_for_its_call(timer: Timer) -> None:
    work = Counted(0.0)
    work.free.clear()
    job = started(timer, work)
    eventually(lambda: work.has(1))
    stopper = threading.Thread(target=job.stop)
    stopper.start()
    eventually(job.stopping.is_set)
    assert stopper.is_alive()
    work.free.set()
    stopper.join()
    assert work.has(1)


def test_the_end_closes_what_each_thread_has_opened(clock: SetClock, closed: list[int]) -> None:
    timer = Timer(clock, lambda: closed.append(threading.get_ident()))
    works = Counted(0.001), Counted(0.001)
    for work in works:
        started(timer, work)
    eventually(lambda: len(timer._waiting) == 2)
    timer.stop()
    assert works[0].threads | works[1].threads <= {*closed}
    assert timer._threads == set()
