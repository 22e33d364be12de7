"""Egress rules: outbound connections to allowed hosts only, within a time limit.

The address that was checked is the one that is connected to. No proxy is used.
"""

import contextlib
import http.client
import ipaddress
import math
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from email.message import Message
from typing import Final
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from heatlite.core.runtime.bulkhead import check_may_wait

_STANDS_FOR_IPV4: Final = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""IPv4-mapped (RFC 4291) and NAT64 addresses (RFC 6052): the last 32 bits are an IPv4 address."""
_SPECIAL_IPV4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
            "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
            "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        ),
    )
)  # fmt: skip
"""IANA's special-purpose addresses, multicast and reserved ones, and the host agent of a public cloud.

Listed, since Python releases differ in what they count as global.
"""
_UNICAST_IPV6: Final = ipaddress.IPv6Network("2000::/3")
"""All other IPv6 addresses are special, or not assigned."""
_SPECIAL_IPV6: Final = tuple(
    map(
        ipaddress.IPv6Network,
        ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
)
"""IANA's special-purpose addresses among them, such as Teredo, 6to4 and documentation."""

_PORTS: Final = {"http": 80, "https": 443}
_NO_URL: Final = re.compile(r"[\x00-\x20\x7f]")
"""Characters that no URL has."""


class RefusedHost(ValueError):
    """Refusal of a host, with the reason."""


class UnknownHost(RefusedHost):
    """The host cannot be resolved now; a retry may succeed."""


class EgressHosts(Struct, frozen=True):
    """Egress allow-list: the hosts that the server may connect to (SSRF guard).

    `listed` are entries ``name``, ``name:port`` or ``10.0.0.0/8`` of a setting. Other hosts are allowed only with
    `allows_public`, and only at public addresses. A listed name with a private address needs that address in the list,
    too: the owner of the name's DNS records is not the operator.
    """

    setting: str
    listed: tuple[str, ...]
    allows_public: bool = False

    def lists(self, url: str) -> bool:
        """True if the host of `url` is in the list."""
        try:
            parts = urlsplit(url)
            return self._has(parts.hostname or "", parts.port or _PORTS[parts.scheme])
        except (KeyError, ValueError):
            return False

    def address(self, parts: SplitResult, end: float) -> tuple[str, int]:
        """Return the address to connect to. Raises Refused, and TimeoutError."""
        try:
            port = parts.port or _PORTS.get(parts.scheme, 0)
        except ValueError as error:
            raise RefusedHost(str(error)) from None
        if parts.scheme not in _PORTS:
            raise RefusedHost("only http and https are possible")
        host = parts.hostname
        if not host or parts.username is not None or _NO_URL.search(parts.geturl()):
            raise RefusedHost("it is no address of a host")
        if not self.allows_public and not self._has(host, port):
            raise RefusedHost(f'the setting {self.setting} does not list "{host}"')
        try:
            address = resolve(host, port, remaining(end))
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            raise UnknownHost(f'the host "{host}" cannot be found: {error}') from None
        if _is_public(address) or self._has(address, port) or (host == "localhost" and self._has(host, port)):
            return address, port
        text = f'"{host}" leads to {address}, which is not public, and the setting {self.setting} does not list it'
        raise RefusedHost(text)

    def _has(self, host: str, port: int) -> bool:
        return any(_matches(entry, host, port) for entry in self.listed)


@contextlib.contextmanager
def connection(
    parts: SplitResult,
    address: tuple[str, int],
    end: float,
    tls: ssl.SSLContext | None = None,
    reach: float = math.inf,
) -> Iterator[http.client.HTTPConnection]:
    """Open a connection to `address` for the host of a URL.

    It ends at `end` in any case. Raises OSError.

    `tls` holds the trusted certificates; None: those of this machine. `reach` limits the connect, in seconds.
    """
    host = parts.hostname or ""
    sock = socket.create_connection(address, timeout=min(reach, remaining(end)))
    try:
        # Head and body are two segments: the second would wait until the first is acknowledged.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(remaining(end))
        if parts.scheme == "https":
            sock = (tls or ssl.create_default_context()).wrap_socket(sock, server_hostname=host)
        connected = http.client.HTTPConnection(host, address[1])
        connected.auto_open = 0  # a second connection could go to an unchecked address
        connected.sock = sock
        with deadline(connected, remaining(end)):
            yield connected
    finally:
        sock.close()


class Response(Struct, frozen=True):
    """Answer of a host."""

    status: int
    headers: Message
    body: bytes
    """At most one byte over the limit of the call."""


def exchange(
    connected: http.client.HTTPConnection,
    method: str,
    path: str,
    headers: Mapping[str, str],
    limit: int,
    body: bytes | None = None,
) -> Response:
    """Send a request and read at most one byte over `limit` of the answer.

    Raises OSError, and HTTPException for something else than a whole HTTP answer.
    """
    connected.request(method, path, body, dict(headers))
    with connected.getresponse() as response:
        text = response.read(limit + 1)
        if response.length and len(text) <= limit:
            raise http.client.IncompleteRead(text, response.length)
        return Response(response.status, response.headers, text)


def failure(error: Exception, end: float, seconds: float) -> str:
    """Return the reason of a failed request that had `seconds`, until `end`."""
    if time.monotonic() >= end:
        return f"it took longer than {seconds:g} seconds"
    return str(error) or type(error).__name__


@contextlib.contextmanager
def deadline(connected: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """Close the connection if the block does not end within `seconds`.

    Socket timeouts limit each silence; this limits the whole.
    """
    watch = threading.Timer(seconds, _hang_up, [connected.sock])
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def path_of(parts: SplitResult) -> str:
    """Return path and query of a request."""
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def remaining(end: float) -> float:
    """Return the seconds until `end`. Raises TimeoutError if it has passed."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def resolve(host: str, port: int, seconds: float) -> str:
    """Resolve the first address of a host.

    Raises TimeoutError, and the resolver's errors.

    A resolver cannot be interrupted: a slow one continues in its own thread, and its result is dropped.
    """
    check_may_wait()  # a connection follows
    with contextlib.suppress(ValueError):  # a name
        return str(ipaddress.ip_address(host))
    answer: Future[str] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer.set_result(str(found[0][4][0]))
        except (OSError, UnicodeError) as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    return answer.result(seconds)


def _hang_up(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended in time
        sock.shutdown(socket.SHUT_RDWR)


def _matches(entry: str, host: str, port: int) -> bool:
    """True if an entry of the list covers a host.

    An entry without a port, or a network, covers all ports.
    """
    if "/" in entry:
        with contextlib.suppress(ValueError):  # a name, or no network
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        return False
    if entry.count(":") > 1 and not entry.startswith("["):
        entry = f"[{entry}]"  # an IPv6 address without a port
    try:
        parts = urlsplit(f"//{entry}")
        return parts.hostname == host.lower() and parts.port in (None, port)
    except ValueError:
        return False


def _is_public(address: str) -> bool:
    """Return whether an address is public.

    An IPv6 address that embeds an IPv4 address counts as that.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and any(found in network for network in _STANDS_FOR_IPV4):
        found = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _SPECIAL_IPV4)
    return found in _UNICAST_IPV6 and not any(found in network for network in _SPECIAL_IPV6)
