"""Writes of counts that a process keeps in memory for a second."""

import logging
from collections.abc import Callable
from math import inf

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.runtime.timer import Job, Timer, for_each

log = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
"""Maximum seconds for which counts are in memory only. A killed process loses them."""


class LateWrites:
    """Calls functions within `WRITE_SECONDS` after it is asked to. Safe for threads."""

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []
        self._job: Job | None = None
        """Writes the counts. Without it only `end` does."""

    def add(self, write: Callable[[], None]) -> None:
        """Add a function that writes counts, if there are any."""
        self._writes.append(write)

    def use(self, timer: Timer) -> None:
        """Let the timer of the process write the counts."""
        self._job = timer.job("repeats of refused requests", self._call)
        self._job.start(inf)

    def ask(self) -> None:
        """Let the counts be written soon."""
        if self._job is not None:
            self._job.within(WRITE_SECONDS)

    def end(self) -> None:
        """Write the counts now, at the end of the process."""
        try:
            self._call()
        except DatabaseUnavailable as error:
            log.warning("repeats of refused requests are lost: %s", error)

    def _call(self) -> float:
        for_each(self._writes, lambda write: write())
        return inf
