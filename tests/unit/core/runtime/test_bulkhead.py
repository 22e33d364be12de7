"""Calls that hang take a bounded number of threads."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from heatlite.core.errors import Unavailable
from heatlite.core.runtime.bulkhead import (
    Bulkhead,
    MustWait,
    answer_requests,
    check_may_wait,
    for_requests,
    may_wait,
    waits,
)


def refusal() -> Unavailable:
    return Unavailable(service="It", reason="all turns are taken")


class Hanging:
    """Threads that have a turn until told to go on."""

    def __init__(self, bulkhead: Bulkhead) -> None:
        self.bulkhead = bulkhead
        self.goes_on = threading.Event()
        self.pool = ThreadPoolExecutor(10)

    def begin(self, count: int) -> list[Future[None]]:
        return [self.pool.submit(self._hang) for _ in range(count)]

    def _hang(self) -> None:
        with self.bulkhead.turn():
            self.goes_on.wait(240)

    def until(self, busy: int, waiting: int) -> None:
        while (self.bulkhead.busy, self.bulkhead.waiting) != (busy, waiting):
            self.goes_on.wait(0.01)


@pytest.fixture
def patient() -> Iterator[Hanging]:
    found = Hanging(Bulkhead(2, 3, 60.0, refusal))
    yield found
    found.goes_on.set()
    found.pool.shutdown()


def test_two_have_a_turn_and_three_wait(patient: Hanging) -> None:
    asked = patient.begin(5)
    patient.until(busy=2, waiting=3)
    with pytest.raises(Unavailable), patient.bulkhead.turn():
        pytest.fail("there is no turn left")
    patient.goes_on.set()
    assert [one.result() for one in asked] == [None] * 5
    with patient.bulkhead.turn():
        assert (patient.bulkhead.busy, patient.bulkhead.waiting) == (1, 0)


def test_a_line_that_does_not_move_is_given_up() -> None:
    hanging = Hanging(Bulkhead(1, 10, 0.2, refusal))
    first = hanging.begin(1)
    hanging.until(busy=1, waiting=0)
    for refused in hanging.begin(3):
        assert isinstance(refused.exception(), Unavailable)
    hanging.goes_on.set()
    assert first[0].exception() is None
    hanging.pool.shutdown()


def test_only_threads_that_answer_requests_need_a_turn() -> None:
    closed = Bulkhead(0, 0, 0.0, refusal)
    with for_requests(closed):
        pass

    def request() -> None:
        answer_requests()
        with for_requests(closed):
            pytest.fail("there is no turn")

    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(request).exception(), Unavailable)


def wait_in(closes: Callable[[Bulkhead], object]) -> Callable[[], None]:
    def run() -> None:
        with closes(Bulkhead(1, 0, 0.0, refusal)):  # type: ignore[attr-defined]
            pass

    return run


@pytest.mark.parametrize("wait", [wait_in(Bulkhead.turn), wait_in(for_requests), check_may_wait])
def test_a_thread_that_must_not_wait_is_told_so(wait: Callable[[], None]) -> None:
    with waits(allowed=True) as outer:
        with pytest.raises(MustWait), waits(allowed=False) as inner:
            assert not may_wait()
            with ThreadPoolExecutor(1) as other:
                other.submit(wait).result()  # other threads may
            wait()
        assert (may_wait(), outer.have_been, inner.have_been) == (True, False, False)
        wait()
        assert outer.have_been
