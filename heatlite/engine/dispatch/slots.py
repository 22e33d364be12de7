"""Slots: the threads that run actions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from heatlite.engine.dispatch import ClaimFilter


class Slots:
    """Threads that run actions."""

    def __init__(self, limit: int, claim_filter: Callable[[], ClaimFilter]) -> None:
        """Create them. `claim_filter` returns the limits of what they run now."""
        self.limit = limit
        """Maximum of actions that run at once."""
        self.claim_filter = claim_filter
        self._threads = ThreadPoolExecutor(limit, "engine")

    def submit(self, call: Callable[[], None]) -> None:
        """Have a thread call it, as soon as one is free."""
        self._threads.submit(call)

    def close(self) -> None:
        """Wait for all calls."""
        self._threads.shutdown(wait=True)
