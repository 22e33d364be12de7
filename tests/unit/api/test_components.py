"""Parts that handlers create at their first use."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

from heatlite.api.components import LockedCachedProperty


class Shared:
    def __init__(self) -> None:
        self.second = Barrier(2)

    @LockedCachedProperty
    def slow(self) -> object:
        try:
            self.second.wait(0.5)  # a second thread that creates it, too, would pass
        except BrokenBarrierError:
            return object()
        return None


def test_two_threads_create_a_part_once() -> None:
    shared = Shared()
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: shared.slow, range(2))
    assert first is second and first is not None
