"""Transports of requests: HTTP, or a WSGI application in this process.

Both follow redirects with the same method and body, as Heat's clients do (a look-up by name answers 302).
"""

import io
import os
import re
import sys
from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from heatlite.cli.errors import NO_ADDRESS, CommandError, Misuse
from heatlite.core.config import Settings
from heatlite.core.json import Json, dump, parse
from heatlite.core.redaction.masking import origin

if TYPE_CHECKING:
    import ssl
    from http.client import HTTPConnection
    from wsgiref.types import WSGIApplication

REDIRECTS = frozenset({301, 302, 307, 308})
MAX_REDIRECTS = 5
TIMEOUT_SECONDS = 120.0
UNKNOWN_AUTHORITY = frozenset({18, 19, 20, 21})
"""OpenSSL's codes for certificates of authorities that are not trusted."""


_TOKEN = re.compile(r"[ -~]+")


class Unreachable(CommandError):
    """No server answers at the address."""


class HttpAnswer(Struct, frozen=True):
    """A response.

    `data` is the decoded JSON, or the text if it is not JSON; header names are lower case.
    """

    status: int
    headers: Mapping[str, str]
    data: Json


class ApiTransport(ABC):
    """A transport to the API. As a context manager, it closes itself."""

    @abstractmethod
    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        """Send one request. `target` is path and query. Raises Unreachable."""

    place = ""
    """Address of the server, or the database."""

    def unauthorized(self) -> str:
        """Return who was refused where; "" without credentials of a user."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the transport."""

    def request(self, method: str, target: str, body: Json = None) -> HttpAnswer:
        """Send `body` (None: no body) as JSON and follow redirects. Raises Unreachable."""
        payload = b"" if body is None else dump(body).encode()
        headers = {"Accept": "application/json"}
        if payload:
            headers["Content-Type"] = "application/json"
        for _ in range(MAX_REDIRECTS):
            answer = self.send(method, target, headers, payload)
            location = answer.headers.get("location")
            if answer.status not in REDIRECTS or location is None:
                return answer
            # Location has the server's own address, which may differ from ours (a tunnel, a container).
            # Use its path with the address that has just worked.
            parts = urlsplit(location)
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        raise CommandError(f"{method} {target}: redirected more than {MAX_REDIRECTS} times.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def decode(status: int, headers: Mapping[str, str], payload: bytes) -> HttpAnswer:
    text = payload.decode("utf-8", "replace")
    data: Json = text
    if payload and "application/json" in headers.get("content-type", ""):  # an empty body is not JSON
        try:
            data = parse(text)
        except ValueError:
            raise CommandError(f"The server answered {status} with JSON that cannot be read: {text[:200]!r}") from None
    return HttpAnswer(status, headers, data)


class HTTPTransport(ApiTransport):
    """HTTP. Each request has its own connection, since a server may close idle ones."""

    def __init__(
        self, url: str, credentials: Mapping[str, str] = {}, authority: str | None = None, is_here: bool = False
    ) -> None:
        """`credentials` are the headers from `credentials`.

        `authority` is a file with certificates (PEM). `is_here`: the server runs on this machine, at any address of it.

        Uses the proxy of the variables `http_proxy`, `https_proxy` and `no_proxy`, except for this machine. Raises
        Misuse for a wrong address or file.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host:
            raise Misuse(NO_ADDRESS.format(shown=origin(url)))
        import http.client  # a slow import that work in this process does not need

        self.url = origin(url)
        self.place = f"at {self.url}"
        self._errors = http.client.HTTPException
        self._credentials = credentials
        proxy = None if is_here else _proxy(parts.scheme, host)
        self._tunnel = (host, port) if proxy is not None and parts.scheme == "https" else None
        self._absolute = f"http://{parts.netloc.rpartition('@')[2]}" if proxy is not None and not self._tunnel else ""
        where = (host, port) if proxy is None else proxy
        self._nobody = f"No server answers at {self.url}. Start one with: heatlite serve"
        if proxy is not None:
            self._nobody = f"The proxy of {parts.scheme}_proxy refuses connections: {proxy[0]}, port {proxy[1] or 80}."
        self._connect: Callable[[], HTTPConnection]
        if parts.scheme == "https":
            context = _verification(authority)
            self._connect = partial(http.client.HTTPSConnection, *where, timeout=TIMEOUT_SECONDS, context=context)
        else:
            self._connect = partial(http.client.HTTPConnection, *where, timeout=TIMEOUT_SECONDS)

    def unauthorized(self) -> str:
        if "X-Auth-Token" in self._credentials:
            return f"The token was refused at {self.url}: it is wrong or has expired. HEATLITE_TOKEN gives another."
        if "Authorization" not in self._credentials:
            return (
                f"{self.url} asks for a login, and none was given: set HEATLITE_USERNAME and HEATLITE_PASSWORD, or"
                " HEATLITE_TOKEN."
            )
        user = b64decode(self._credentials["Authorization"].partition(" ")[2]).decode().partition(":")[0]
        return f"{user} was refused at {self.url}: the user or the password is wrong. HEATLITE_PASSWORD gives another."

    def close(self) -> None:
        """Do nothing: no connection is kept."""

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        connection = self._connect()
        if self._tunnel is not None:
            connection.set_tunnel(*self._tunnel)
        try:
            connection.request(method, self._absolute + target, body or None, {**headers, **self._credentials})
            response = connection.getresponse()
            payload = response.read()
        except ConnectionRefusedError:
            raise Unreachable(self._nobody) from None
        except (OSError, self._errors) as error:
            raise Unreachable(f"{self.url}: {_reason(error) or error or type(error).__name__}") from None
        finally:
            connection.close()
        return decode(response.status, {name.lower(): value for name, value in response.getheaders()}, payload)


def _verification(authority: str | None) -> "ssl.SSLContext":
    """Return the check of certificates. Raises CommandError."""
    import ssl

    try:
        return ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise Misuse(f"--cacert {authority}: no certificates can be read: {error.strerror or error}.") from None


def _reason(error: Exception) -> str:
    """Explain an unknown host, a server without TLS, a rejected certificate, or ""."""
    import socket
    import ssl

    if isinstance(error, socket.gaierror):
        return f"no host of this name is found ({error.strerror}). --endpoint URL names another server."
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return "what answers there does not speak TLS. Is it an address with http://?"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return ""
    text = f"the certificate is rejected: {error.verify_message.rstrip('.')}."
    is_private = error.verify_code in UNKNOWN_AUTHORITY
    return text + (" Name the file of its authority with --cacert FILE or HEATLITE_CACERT." if is_private else "")


def _proxy(scheme: str, host: str) -> tuple[str, int | None] | None:
    """Return host and port of the proxy for a server, or None. Raises CommandError."""
    if host in ("localhost", "127.0.0.1", "::1") or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies  # a slow import

    proxies = getproxies()
    found, direct = proxies.get(scheme), [name.strip().lstrip(".") for name in proxies.get("no", "").split(",")]
    if not found or any(name and (name == "*" or f".{host}".endswith(f".{name}")) for name in direct):
        return None
    parts = urlsplit(found if "://" in found else f"http://{found}")
    if parts.scheme != "http" or not parts.hostname:
        raise Misuse(f"{scheme}_proxy: {origin(found)!r} is no proxy; an example is http://proxy:3128.")
    return parts.hostname, parts.port


def credentials(settings: Settings) -> dict[str, str]:
    """Return the headers for authentication.

    Asks for a password that is not in the settings. Raises Misuse.
    """
    if settings.token is not None:
        if not _TOKEN.fullmatch(settings.token):
            raise Misuse("The token has characters that no token has, such as the end of a line.")
        return {"X-Auth-Token": settings.token}
    if settings.username is None:
        return {}
    password = settings.password
    if password is None:
        if not sys.stdin.isatty():
            raise Misuse("The username has no password: set HEATLITE_PASSWORD.")
        import getpass

        password = getpass.getpass(f"Password of {settings.username}: ")
    pair = b64encode(f"{settings.username}:{password}".encode())
    return {"Authorization": f"Basic {pair.decode()}"}


class WSGITransport(ApiTransport):
    """A WSGI application in this process (PEP 3333)."""

    def __init__(self, app: "WSGIApplication", close: Callable[[], None] | None = None, place: str = "") -> None:
        self._app = app
        self.place = place
        self._close = close

    def close(self) -> None:
        """Stop the server behind the application, if the caller gave a function for it."""
        if self._close is not None:
            self._close()

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        path, _, query = target.partition("?")
        environ: dict[str, object] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_HOST": "localhost",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in headers.items():
            key = name.upper().replace("-", "_")
            environ[key if key == "CONTENT_TYPE" else f"HTTP_{key}"] = value

        started: list[tuple[str, list[tuple[str, str]]]] = []
        written: list[bytes] = []

        def start_response(
            status: str, response_headers: list[tuple[str, str]], _exc_info: object = None, /
        ) -> Callable[[bytes], object]:
            started.append((status, response_headers))
            return written.append

        chunks = self._app(environ, start_response)
        try:
            rest = list(chunks)
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()
        status, response_headers = started[-1]
        payload = b"".join(written + rest)
        return decode(int(status[:3]), {name.lower(): value for name, value in response_headers}, payload)
