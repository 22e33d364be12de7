"""Throttle for failed logins: increasing delays, and a bound on concurrent checks."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import ceil
from threading import Lock
from typing import Final

from msgspec import Struct

from heatlite.api.request import Request
from heatlite.core.config import BadSetting
from heatlite.core.errors import TooManyFailures, Unavailable
from heatlite.core.runtime.bulkhead import Bulkhead

FREE: Final = 5
"""Wrong passwords for a name from an address without a delay."""
FREE_FROM_ADDRESS: Final = 50
"""Wrong passwords from an address for any names without a delay: many users may share it."""
MIN_DELAY, MAX_DELAY = 1.0, 300.0
"""Seconds of delay after the next one. Each doubles the delay, up to the longest."""
MAX_FROM_ADDRESS = 60.0
"""The longest delay for an address."""
FORGOTTEN: Final = 3600.0
"""Seconds after the last failure until all are forgotten."""
MAX_FAILURES: Final = 10_000
"""Maximum number of names and addresses. The least recent go first."""
AT_ONCE: Final = 2
"""Passwords checked at once. Each takes 0.25 s of a processor."""
IN_LINE: Final = 2
"""Requests that wait for a check. Each occupies a thread of the server."""
IN_LINE_SECONDS: Final = 1.0
"""Seconds that they wait."""
IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that count: a subnet belongs to one client (RFC 4291, 2.5.1)."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_MAPPED_PREFIX: Final = 96
_BRACKETED: Final = re.compile(r"\[([^]]*)\](:[0-9]+)?")


class TooManyLogins(Unavailable):
    text = "Too many passwords are being checked. Try again in {retry_after} s."
    retry_after = 1

    def __init__(self) -> None:
        super().__init__(retry_after=self.retry_after)


class _Failures(Struct):
    count: int
    last: float
    until: float = 0.0
    """Time until which passwords are not checked."""


class FailureCounter:
    """Counts failures by key, and delays the key. Safe for threads.

    A key is one text or several. The counter keeps its digest: a client chooses its length.
    """

    def __init__(self, now: Callable[[], float], free: int, longest: float) -> None:
        self._now = now
        self._free = free
        self._longest = longest
        self._failures: OrderedDict[bytes, _Failures] = OrderedDict()
        self._lock = Lock()

    def ask(self, *key: str) -> None:
        """Raise TooManyFailures if the key is delayed."""
        with self._lock:
            found, now = self._failures.get(_digest(key)), self._now()
            if found is not None and now < found.until:
                raise TooManyFailures(retry_after=ceil(found.until - now))

    def failed(self, *key: str) -> None:
        with self._lock:
            now, digest = self._now(), _digest(key)
            found = self._failures.pop(digest, None)
            if found is None or now - found.last > FORGOTTEN:
                found = _Failures(0, now)
            found.count, found.last = found.count + 1, now
            if found.count > self._free:
                found.until = now + min(self._longest, MIN_DELAY * 2.0 ** min(found.count - self._free - 1, 30))
            self._failures[digest] = found
            while len(self._failures) > MAX_FAILURES:
                self._failures.popitem(last=False)

    def forget(self, *key: str) -> None:
        with self._lock:
            self._failures.pop(_digest(key), None)

    def __len__(self) -> int:
        return len(self._failures)


class LoginThrottle:
    """Delays logins after wrong passwords, and bounds concurrent checks.

    Counts by name and address, so that attempts from elsewhere lock no user out; and by address alone, against one
    password tried with many names. Safe for threads; each process has its own counts.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.by_name = FailureCounter(now, FREE, MAX_DELAY)
        self.by_address = FailureCounter(now, FREE_FROM_ADDRESS, MAX_FROM_ADDRESS)
        self.checks = Bulkhead(AT_ONCE, IN_LINE, IN_LINE_SECONDS, TooManyLogins)
        """Bounds the concurrent checks of passwords."""

    def ask(self, name: str, address: str) -> None:
        """Raise TooManyFailures if the name or the address is delayed."""
        self.by_name.ask(name, address)
        self.by_address.ask(address)

    def failed(self, name: str, address: str) -> None:
        """Count a wrong password."""
        self.by_name.failed(name, address)
        self.by_address.failed(address)

    def passed(self, name: str, address: str) -> None:
        """Forget the failures of the name after a correct password.

        The address keeps its count: an attacker may have an account, too.
        """
        self.by_name.forget(name, address)


def _digest(key: Sequence[str]) -> bytes:
    return hashlib.sha256("\n".join(key).encode(errors="replace")).digest()


def proxies(entries: Sequence[str]) -> tuple[Network, ...]:
    """Parse the setting `trusted_proxies`. Raises BadSetting."""
    try:
        return tuple(_network(entry) for entry in entries)
    except ValueError as error:
        raise BadSetting(f"trusted_proxies: {error}; it has addresses and networks: 127.0.0.1, 10.0.0.0/8.") from None


def address_of(req: Request, trusted: Sequence[Network]) -> str:
    """Return the client's address: each trusted proxy names the one before it.

    A proxy appends the peer's address to X-Forwarded-For; earlier entries come from the request.
    """
    address = str(req.env.get("REMOTE_ADDR") or "")
    named = str(req.env.get("HTTP_X_FORWARDED_FOR") or "").split(",")
    while named[-1].strip() and _is_in(address, trusted):
        address = named.pop().strip()
        named = named or [""]
    return _counted(address)


@lru_cache(1024)
def _counted(address: str) -> str:
    """Return an address; of IPv6 its network, which one client has for itself."""
    found = _parsed(address)
    if isinstance(found, IPv6Address):
        return str(ip_network((found, IPV6_PREFIX), strict=False))
    return address if found is None else str(found)


def _is_in(address: str, networks: Sequence[Network]) -> bool:
    found = _parsed(address)
    return found is not None and any(found in network for network in networks)


def _parsed(text: str) -> Address | None:
    """Return the address of a client; None for another text.

    Some proxies add a port, which is another one for each connection. A socket of IPv6 names clients of IPv4 by mapped
    addresses (RFC 4291, 2.5.5.2), which have one network.
    """
    bracketed = _BRACKETED.fullmatch(text)
    try:
        found = ip_address(bracketed[1] if bracketed else text.partition(":")[0] if text.count(":") == 1 else text)
    except ValueError:
        return None
    return _unmapped(found)


def _network(text: str) -> Network:
    found = ip_network(text, strict=False)
    first = _unmapped(found.network_address)
    if isinstance(found, IPv6Network) and isinstance(first, IPv4Address) and found.prefixlen >= _MAPPED_PREFIX:
        return IPv4Network((first, found.prefixlen - _MAPPED_PREFIX))
    return found


def _unmapped(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
