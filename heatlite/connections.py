"""Connections of clients: bytes of a request and its answer, and deadlines."""

import logging
import re
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import Enum, auto
from http import HTTPStatus
from typing import Any, TypeAlias

from gunicorn import util
from gunicorn.config import Config
from gunicorn.http import wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import ParseException
from gunicorn.http.unreader import Unreader

log = logging.getLogger(__name__)

Application: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""

HEAD_SECONDS = 10.0
"""Time limit for the head of a request."""
BODY_SECONDS = 30.0
"""Time limit for a body or an answer. Transfers at `RATE` may take longer."""
LINGER_SECONDS = 2.0
"""Time for a client to close the connection after the last answer."""
RATE = 16 * 1024
"""Bytes of a body or an answer that extend its deadline by a second."""
MAX_LINE = 1024
"""Maximum bytes of the line before a chunk."""
CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]+")
"""Size of a chunk. Python also reads signs: a negative size would move the end backwards, without end."""
PIECE = 8192
"""Bytes that the parser gets at once, unless it wants more."""
READ_SIZE = 256 * 1024
"""Bytes of a body or an answer read or written at once; of a head `MAX_HEAD`."""


class State(Enum):
    """States of a connection, by the event that it waits for."""

    IDLE = auto()
    """The next request."""
    HEAD = auto()
    """The rest of a head."""
    BODY = auto()
    """The rest of a body."""
    BUSY = auto()
    """The application."""
    ANSWER = auto()
    """The client to read the answer."""
    LINGER = auto()
    """The client to close the connection."""


class Received(Unreader):  # type: ignore[misc]  # gunicorn has no types
    """Received bytes for gunicorn's parser.

    Reading never waits; the end means no more data.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = bytearray(data)

    def put(self, data: bytes) -> None:
        """Append data."""
        self._data += data

    def chunk(self, size_hint: int | None = None) -> bytes:
        """Return the next piece of the data.

        The parser copies the rest of a piece for each chunk in it.
        """
        size = max(size_hint or 0, PIECE)
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def rest(self) -> bytes:
        """Return the unread data."""
        left: bytes = self.buf.getvalue()
        return left + self._data


class Extent:
    """Finds the end of a body, to call gunicorn's parser in time.

    The parser validates the body.
    """

    def __init__(self, reader: object) -> None:
        self._chunked = isinstance(reader, ChunkedReader)
        self._left = 0 if self._chunked else int(getattr(reader, "length", 0))
        """Bytes to the end of the body or the current chunk."""
        self._line = bytearray()
        """Received part of the line between two chunks."""
        self._ends = False
        """True after the last chunk: only trailers follow."""
        self.payload = 0 if self._chunked else self._left
        """Known size of the body in bytes."""
        self.received_bytes = 0
        """Received bytes."""

    def is_whole(self, data: bytes) -> bool:
        """Add data. Returns True at the end of the body, or for invalid chunks."""
        self.received_bytes += len(data)
        at = 0
        while True:
            step = min(self._left, len(data) - at)
            self._left -= step
            at += step
            if self._left or not self._chunked:
                return not self._left
            end = data.find(b"\n", at)
            self._line += data[at : end + 1] if end >= 0 else data[at:]
            if end < 0:
                return len(self._line) > MAX_LINE
            at, line = end + 1, bytes(self._line).strip()
            self._line.clear()
            if self._ends:
                if not line:
                    return True
                continue
            digits = line.partition(b";")[0].rstrip()
            if CHUNK_SIZE.fullmatch(digits) is None:
                return True
            size = int(digits, 16)
            self._ends = not size
            self._left = size + 2 if size else 0  # with CRLF
            self.payload += size


class BodyReader:
    """Reader of a body that stays invalid.

    That of gunicorn ends after an error, as if the body had.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._error: Exception | None = None

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes. Raises gunicorn's errors, the first one always."""
        if self._error is not None:
            raise self._error
        try:
            data: bytes = self._inner.read(size)
        except (OSError, ParseException) as error:
            self._error = error
            raise
        return data


class Connection:
    """The connection of a client. gunicorn writes to it as to a socket."""

    def __init__(self, sock: socket.socket, peer: Any) -> None:
        self.sock: socket.socket | None = sock
        self.peer = peer
        self.state = State.HEAD
        self.since = time.monotonic()
        """Time at which the state began."""
        self.head = bytearray()
        self.raw = b""
        """The head of the request with all that came with it."""
        self.needs_engine = False
        """True if the engine's process has to answer the request, as a reader has found out."""
        self.is_refused = False
        """True if the last request met a conflict (409)."""
        self.received = Received(b"")
        self.request: Any = None
        self.extent: Extent | None = None
        self.is_whole = True
        """False if the request is incomplete: the start of the next one is unknown then."""
        self.keeps_alive = False
        """True if another request may follow."""
        self.unsent = bytearray()
        self.sent = 0
        """Sent bytes of the answer."""
        self.events = 0
        """Events of the socket that the loop handles."""

    def enter(self, state: State) -> None:
        """Change the state."""
        self.state, self.since = state, time.monotonic()

    @property
    def memory(self) -> int:
        """Bytes in memory."""
        return len(self.unsent) + (self.extent.received_bytes if self.extent is not None else 0)

    def deadline(self, keepalive: float) -> float:
        """Return the deadline of the state."""
        match self.state:
            case State.IDLE:
                return self.since + keepalive
            case State.HEAD:
                return self.since + HEAD_SECONDS
            case State.BODY:
                return self.since + BODY_SECONDS + (self.extent.received_bytes if self.extent is not None else 0) / RATE
            case State.ANSWER:
                return self.since + BODY_SECONDS + self.sent / RATE
            case State.LINGER:
                return self.since + LINGER_SECONDS
            case State.BUSY:
                return float("inf")

    def has_head(self, data: bytes) -> bool:
        """Add data to the head. Returns True if it is complete or invalid."""
        head = self.head
        head += data
        if head[:2] == b"\r\n":  # one empty line is allowed (RFC 9112, 2.2)
            del head[:2]
        # A bare LF has to reach the parser, which rejects it: the head would never end.
        return b"\r\n\r\n" in head or head.count(b"\n") != head.count(b"\r\n")

    def ask_for_body(self) -> None:
        """Send the interim answer for which the client waits with the body, if it does."""
        headers = self.request.headers
        expects = any(name == "EXPECT" and value.lower() == "100-continue" for name, value in headers)
        if expects and self.sock is not None:
            with suppress(OSError):  # noticed at the next read
                self.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def reject(self, code: int, reason: str, text: str, head: str) -> None:
        """Append an error as the answer, with further lines of its head."""
        if head:
            body = f"{text}\n"
            lines = f"HTTP/1.1 {code} {reason}\r\nConnection: close\r\n{head}Content-Type: text/plain\r\n"
            self.sendall(f"{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        else:
            util.write_error(self, code, reason, text)

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """Give up the connection for an endless answer.

        Returns the socket and the unsent bytes.
        """
        assert self.sock is not None
        sock, unsent = self.sock, bytes(self.unsent)
        self.sock = None
        self.unsent.clear()
        return sock, unsent

    def flush(self) -> None:
        """Send as much as possible now. Raises OSError if the client is gone."""
        while self.unsent and self.sock is not None:
            try:
                with memoryview(self.unsent) as view:
                    sent = self.sock.send(view[:READ_SIZE])
            except BlockingIOError:
                return
            del self.unsent[:sent]
            self.sent += sent

    # -- methods of a socket that gunicorn calls -------------------------------------------------------

    def sendall(self, data: bytes) -> None:
        """Append a part of the answer."""
        if self.sock is not None:
            self.unsent += data

    def send(self, data: bytes) -> int:
        """Ignore an interim answer (100 Continue), as it has been sent by now."""
        return len(data)

    def gettimeout(self) -> float:
        """Return 0: the connection never blocks."""
        return 0.0


def answer(application: Application, connection: Connection, cfg: Config, may_stay: bool) -> bool:
    """Write the answer of an application.

    Returns True if the connection may be reused. Without `may_stay` it closes. Raises what the application raises, and
    OSError.
    """
    request = connection.request
    request.body.reader = BodyReader(request.body.reader)
    address = connection.sock.getsockname() if connection.sock is not None else ("", 0)
    response, environ = wsgi.create(request, connection, connection.peer, address, cfg)
    environ["wsgi.multithread"] = True
    if not may_stay:
        response.force_close()
    parts = application(environ, response.start_response)
    try:
        for part in parts:
            response.write(part)
        response.close()
        connection.is_refused = response.status_code == HTTPStatus.CONFLICT
    except Exception:
        if not response.headers_sent:
            raise
        log.exception("an answer was aborted")
        return False
    finally:
        close: Callable[[], None] | None = getattr(parts, "close", None)
        if close is not None:
            close()
    if response.should_close():
        return False
    try:
        while request.body.read(READ_SIZE):  # skip the unread rest
            pass
    except (OSError, ParseException):
        return False  # invalid body: the start of the next request is unknown
    return True
