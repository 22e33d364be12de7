"""A brake on guessing: whoever gives wrong passwords has to wait, longer and longer."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from threading import Lock
from typing import Final

from heatlite.api.request import Request
from heatlite.core.errors import TooManyFailures

FREE: Final = 5
"""Wrong passwords that cost nothing."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds to wait after the next one; each doubles them, up to the longest."""
FORGOTTEN: Final = 3600.0
"""Seconds after the last of them when all are forgotten."""
MOST: Final = 10_000
"""Who is kept in mind at the most; those whose last attempt is longest ago go first."""


@dataclass(slots=True)
class _Failures:
    count: int
    last: float
    until: float = 0.0
    """Until when nothing is looked at."""


class Brake:
    """Counts wrong passwords by name and address, so that nobody is kept out by what is tried from elsewhere. Safe for
    threads; each process counts for itself."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()
        self._lock = Lock()

    def ask(self, name: str, address: str) -> None:
        """Raise TooManyFailures where a password from there is not looked at now."""
        with self._lock:
            found, now = self._failures.get((name, address)), self._now()
            if found is not None and now < found.until:
                raise TooManyFailures(retry_after=ceil(found.until - now))

    def failed(self, name: str, address: str) -> None:
        """A password was wrong."""
        with self._lock:
            now = self._now()
            found = self._failures.pop((name, address), None)
            if found is None or now - found.last > FORGOTTEN:
                found = _Failures(0, now)
            found.count, found.last = found.count + 1, now
            if found.count > FREE:
                found.until = now + min(LONGEST, FIRST * 2.0 ** min(found.count - FREE - 1, 30))
            self._failures[name, address] = found
            while len(self._failures) > MOST:
                self._failures.popitem(last=False)

    def passed(self, name: str, address: str) -> None:
        """A password was right: nothing is held against whoever has it."""
        with self._lock:
            self._failures.pop((name, address), None)


def address_of(req: Request) -> str:
    """Where a request comes from. A proxy on this machine is believed what it adds; others are who they are."""
    peer = str(req.env.get("REMOTE_ADDR") or "")
    if peer in ("", "127.0.0.1", "::1"):
        return str(req.env.get("HTTP_X_FORWARDED_FOR") or peer).rpartition(",")[2].strip()
    return peer
