"""Templates that the server gets itself, only from hosts that the operator lists (`template_hosts`)."""

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded

_MOST_REDIRECTS: Final = 5
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Gets text over HTTP and HTTPS.

    A host is asked only if it is listed, each one that a redirect leads to as well, and so is an address that is not
    public, for whoever writes the name's DNS records is not the operator. The address that was checked is the one that
    is connected to. No proxy is used.
    """

    hosts: tuple[str, ...]
    most_bytes: int
    timeout: float

    def lists(self, url: str) -> bool:
        """Whether `text` would ask the host of `url`."""
        try:
            parts = urlsplit(url)
            return self._listed(parts.hostname or "", parts.port or _PORTS[parts.scheme])
        except (KeyError, ValueError):
            return False

    def text(self, url: str) -> str:
        """What is at `url`. Raises HTTPBadRequest, and RequestLimitExceeded for more than `most_bytes`."""
        end = time.monotonic() + self.timeout
        here = url
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                parts = urlsplit(here)
                port = parts.port
            except ValueError as error:
                raise _failed(url, str(error)) from None
            try:
                address = self._address(url, parts, port or _PORTS.get(parts.scheme, 0), end)
                status, target, body = self._get(parts, address, end)
            except (OSError, http.client.HTTPException, ValueError) as error:
                late = time.monotonic() >= end
                reason = f"it took longer than {self.timeout:g} seconds" if late else f"{error or type(error).__name__}"
                raise _failed(url, reason) from error
            if target is None:
                return self._content(url, status, body)
            following = urljoin(here, target)
            if parts.scheme == "https" and not following.startswith("https:"):
                raise _failed(url, f"it redirects from https to {following}")
            here = following
        raise _failed(url, f"there are more than {_MOST_REDIRECTS} redirects")

    def _address(self, url: str, parts: SplitResult, port: int, end: float) -> tuple[str, int]:
        """The address to connect to. Raises HTTPBadRequest where that is not allowed, and TimeoutError."""
        if parts.scheme not in _PORTS:
            raise _failed(url, "only http and https are possible")
        host = parts.hostname
        if (
            not host
            or parts.username is not None
            or any(letter <= " " or letter == "\x7f" for letter in parts.geturl())
        ):
            raise _failed(url, "it is no address of a host")
        if not self._listed(host, port):
            raise _failed(url, f'the setting template_hosts does not list "{host}"')
        try:
            address = _look_up(host, port, _left(end))
        except TimeoutError:
            raise
        except (OSError, UnicodeError) as error:
            raise _failed(url, f'the host "{host}" cannot be found: {error}') from None
        if host != "localhost" and not _is_public(address) and not self._listed(address, port):
            text = f'"{host}" leads to {address}, which is not public, and the setting template_hosts does not list it'
            raise _failed(url, text)
        return address, port

    def _listed(self, host: str, port: int) -> bool:
        return any(_matches(entry, host, port) for entry in self.hosts)

    def _get(self, parts: SplitResult, address: tuple[str, int], end: float) -> tuple[int, str | None, bytes]:
        """Status, target of a redirect, and the body as far as it may go and one byte more."""
        host = parts.hostname or ""
        sock = socket.create_connection(address, timeout=_left(end))
        try:
            sock.settimeout(_left(end))
            if parts.scheme == "https":
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=host)
            # Timeouts of sockets are about silence; this one is about the whole.
            watch = threading.Timer(_left(end), _hang_up, [sock])
            watch.daemon = True
            watch.start()
            try:
                connection = http.client.HTTPConnection(host, address[1])
                connection.sock = sock
                netloc = parts.netloc.rpartition("@")[2]
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("GET", path, headers={"Host": netloc, "Connection": "close"})
                with connection.getresponse() as response:
                    target = response.getheader("Location") if response.status in (301, 302, 303, 307, 308) else None
                    body = b"" if target is not None else response.read(self.most_bytes + 1)
                    if target is None and response.length and len(body) <= self.most_bytes:
                        raise http.client.IncompleteRead(body, response.length)
            finally:
                watch.cancel()
        finally:
            sock.close()
        _left(end)  # what was cut off may look complete
        return response.status, target, body

    def _content(self, url: str, status: int, body: bytes) -> str:
        if status != http.client.OK:
            raise _failed(url, f"the answer is {status}")
        if len(body) > self.most_bytes:
            text = f"Template {url} exceeds maximum allowed size ({self.most_bytes} bytes)."
            raise RequestLimitExceeded(f"Request limit exceeded: {text}")
        try:
            return body.decode()
        except UnicodeDecodeError as error:
            raise _failed(url, f"it is no UTF-8 text (byte {error.start})") from None


def _failed(url: str, reason: str) -> HTTPBadRequest:
    shown = url if url.isprintable() else repr(url)
    return HTTPBadRequest(f"Could not retrieve template {shown[:200]}: {reason}.")


def _left(end: float) -> float:
    """Seconds until `end`. Raises TimeoutError once there are none."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _look_up(host: str, port: int, seconds: float) -> str:
    """The first address of a host. Raises TimeoutError, and what the resolver raises.

    A resolver cannot be told to hurry or to stop: one that is too slow goes on by itself, and nobody waits for it.
    """
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
    with contextlib.suppress(OSError):  # it has ended by itself
        sock.shutdown(socket.SHUT_RDWR)


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether an entry of `template_hosts` means a host: without a port it means all of them."""
    if entry.count(":") > 1 and not entry.startswith("["):
        entry = f"[{entry}]"  # an IPv6 address without a port
    try:
        parts = urlsplit(f"//{entry}")
        return parts.hostname == host.lower() and parts.port in (None, port)
    except ValueError:
        return False


def _is_public(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_global and not found.is_multicast)
