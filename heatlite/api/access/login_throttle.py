"""A brake on guessing: wrong passwords make a caller wait, longer and longer, and few are checked at once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import ceil
from threading import Lock
from typing import Final

from heatlite.api.request import Request
from heatlite.core.bulkhead import Bulkhead
from heatlite.core.config import BadSetting
from heatlite.core.errors import TooManyFailures, Unavailable

FREE: Final = 5
"""Wrong passwords for one name from one address that cost nothing."""
FREE_FROM_ADDRESS: Final = 50
"""Wrong passwords from one address, for whatever names, that cost nothing: many people may be behind it."""
FIRST, LONGEST = 1.0, 300.0
"""Seconds to wait after the next one; each doubles them, up to the longest."""
LONGEST_FROM_ADDRESS = 60.0
"""The same for an address alone."""
FORGOTTEN: Final = 3600.0
"""Seconds after the last of them when all are forgotten."""
MOST: Final = 10_000
"""Who is kept in mind at the most; those whose last attempt is longest ago go first."""
AT_ONCE: Final = 2
"""Passwords that are checked at once: each takes a processor for a quarter of a second."""
IN_LINE: Final = 2
"""Requests that wait for that; each has a thread of the server."""
IN_LINE_SECONDS: Final = 1.0
"""How long they wait."""
IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that count: whoever has one has all that begin alike (RFC 4291, 2.5.1)."""

Network = IPv4Network | IPv6Network


class TooManyLogins(Unavailable):
    text = "Too many passwords are being checked. Try again in {retry_after} s."
    retry_after = 1

    def __init__(self) -> None:
        super().__init__(retry_after=self.retry_after)


@dataclass(slots=True)
class _Failures:
    count: int
    last: float
    until: float = 0.0
    """Until when nothing is looked at."""


class _FailureCounter:
    """Counts what fails by key, and how long a key has to wait for it.

    Safe for threads.
    """

    def __init__(self, now: Callable[[], float], free: int, longest: float) -> None:
        self._now = now
        self._free = free
        self._longest = longest
        self._failures: OrderedDict[Hashable, _Failures] = OrderedDict()
        self._lock = Lock()

    def ask(self, key: Hashable) -> None:
        """Raise TooManyFailures where the key has to wait."""
        with self._lock:
            found, now = self._failures.get(key), self._now()
            if found is not None and now < found.until:
                raise TooManyFailures(retry_after=ceil(found.until - now))

    def failed(self, key: Hashable) -> None:
        with self._lock:
            now = self._now()
            found = self._failures.pop(key, None)
            if found is None or now - found.last > FORGOTTEN:
                found = _Failures(0, now)
            found.count, found.last = found.count + 1, now
            if found.count > self._free:
                found.until = now + min(self._longest, FIRST * 2.0 ** min(found.count - self._free - 1, 30))
            self._failures[key] = found
            while len(self._failures) > MOST:
                self._failures.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        with self._lock:
            self._failures.pop(key, None)

    def __len__(self) -> int:
        return len(self._failures)


class LoginThrottle:
    """Counts wrong passwords, and bounds how many are checked at once.

    Safe for threads; each process has its own.
    By name and address, so that nobody is kept out by what is tried from elsewhere; and by address alone, or one
    password could be tried with all names.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.by_name = _FailureCounter(now, FREE, LONGEST)
        self.by_address = _FailureCounter(now, FREE_FROM_ADDRESS, LONGEST_FROM_ADDRESS)
        self.checks = Bulkhead(AT_ONCE, IN_LINE, IN_LINE_SECONDS, TooManyLogins)
        """What a password is checked in."""

    def ask(self, name: str, address: str) -> None:
        """Raise TooManyFailures where a password from there is not looked at now."""
        self.by_name.ask((name, address))
        self.by_address.ask(address)

    def failed(self, name: str, address: str) -> None:
        """A password was wrong."""
        self.by_name.failed((name, address))
        self.by_address.failed(address)

    def passed(self, name: str, address: str) -> None:
        """A password was right: nothing is held against that name.

        An attacker may have an account, too, so the address
        keeps its count."""
        self.by_name.forget((name, address))


def proxies(entries: Sequence[str]) -> tuple[Network, ...]:
    """The setting `trusted_proxies`. Raises BadSetting."""
    try:
        return tuple(ip_network(entry, strict=False) for entry in entries)
    except ValueError as error:
        raise BadSetting(f"trusted_proxies: {error}; it has addresses and networks: 127.0.0.1, 10.0.0.0/8.") from None


def address_of(req: Request, trusted: Sequence[Network]) -> str:
    """Where a request comes from, as far as that is known: each proxy that is trusted names the one before it.

    A proxy adds to the end of X-Forwarded-For what has connected to it; what stands before that came with the request.
    """
    address = str(req.env.get("REMOTE_ADDR") or "")
    named = str(req.env.get("HTTP_X_FORWARDED_FOR") or "").split(",")
    while named[-1].strip() and _is_in(address, trusted):
        address = named.pop().strip()
        named = named or [""]
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((found, IPV6_PREFIX), strict=False)) if isinstance(found, IPv6Address) else address


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found in network for network in networks)
