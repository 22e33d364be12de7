"""Writes of counts that a process keeps in memory for a second."""

import logging
import threading
from collections.abc import Callable

from heatlite.core.errors import DatabaseUnavailable

log = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
"""Maximum seconds for which counts are in memory only. A killed process loses them."""


class LateWrite:
    """Calls a function within `WRITE_SECONDS` after it is asked to. Safe for threads."""

    def __init__(self, what: str, write: Callable[[], None], close: Callable[[], None]) -> None:
        """`what` names the counts in the log. `close` releases what the thread has opened."""
        self._what = what
        self._write = write
        self._close = close
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        """Will write the counts; None if there are none."""

    def ask(self) -> None:
        """Let the counts be written soon."""
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(WRITE_SECONDS, self._run)
                self._timer.daemon = True
                self._timer.start()

    def end(self) -> None:
        """Write the counts now, at the end of the process."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        self._try()

    def _run(self) -> None:
        with self._lock:
            self._timer = None
        self._try()
        self._close()

    def _try(self) -> None:
        try:
            self._write()
        except DatabaseUnavailable as error:
            log.warning("%s are not counted so far: %s", self._what, error)
