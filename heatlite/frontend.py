"""A gunicorn worker in which waiting for a client costs no thread.

One thread reads requests and writes answers of all connections. A thread of the pool has a request only once all of it
is there, and gives its answer back as a whole. So a client that is slow, or wants to be, keeps nobody else waiting.
Each phase of a connection has a deadline (docs/operations.md). gunicorn parses what was read.
"""

import heapq
import logging
import os
import resource
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from gunicorn import util
from gunicorn.http import wsgi
from gunicorn.http.body import ChunkedReader
from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import Unreader
from gunicorn.workers.base import Worker

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0
"""Until the head of a request is there."""
BODY_SECONDS = 30.0
"""Until its body is there, or the answer taken; what comes at `RATE` may take longer."""
LINGER_SECONDS = 2.0
"""How long a client may go on to send after the last answer, before it is cut off."""
RATE = 16 * 1024
"""Bytes of a body or an answer that prolong its deadline by a second."""
MOST_HEAD = 64 * 1024
"""Bytes of a head."""
MOST_LINE = 1024
"""Bytes of the line before a chunk."""
MOST_HELD = 128 * 1024 * 1024
"""Bytes of bodies and answers of all connections."""
MOST_CONNECTIONS = 1000
"""Connections at once; beyond that, those that have been idle for the longest are closed."""
SPARE = 20
"""Connections that are closed together, so that the next ones find room."""
STEP = 256 * 1024
"""Bytes that are read at once."""
LOOK = 0.5
"""Seconds between two looks at deadlines."""


class State(Enum):
    """What a connection waits for."""

    IDLE = auto()
    """The next request."""
    HEAD = auto()
    """The rest of a head."""
    BODY = auto()
    """The rest of a body."""
    BUSY = auto()
    """A thread, or what it does."""
    ANSWER = auto()
    """The client, which has not taken its answer yet."""
    LINGER = auto()
    """The client's end of the connection."""


class Received(Unreader):  # type: ignore[misc]  # gunicorn has no types
    """What a client has sent, as gunicorn's parser reads it. It never waits: at the end there is nothing more."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = bytearray(data)

    def put(self, data: bytes) -> None:
        """There is more."""
        self._data += data

    def chunk(self, size_hint: int | None = None) -> bytes:  # noqa: ARG002 - gunicorn's
        """All that is there."""
        data = bytes(self._data)
        self._data.clear()
        return data

    def rest(self) -> bytes:
        """What nobody has read yet."""
        left: bytes = self.buf.getvalue()
        return left + self._data


class Extent:
    """How far a body goes. It only tells when to call gunicorn's parser, which judges what is there."""

    def __init__(self, reader: object) -> None:
        self._chunked = isinstance(reader, ChunkedReader)
        self._left = 0 if self._chunked else int(getattr(reader, "length", 0))
        """Bytes until the body, or the present chunk, has ended."""
        self._line = bytearray()
        """Of a chunked body: what has come of the line between two chunks."""
        self._ends = False
        """Whether the last chunk was there, and only trailers follow."""
        self.payload = 0 if self._chunked else self._left
        """Bytes of the body, as far as that is known."""
        self.come = 0
        """Bytes that have come."""

    def is_whole(self, data: bytes) -> bool:
        """Whether all is there with this. Nonsense counts as the end: there is nothing more to wait for."""
        self.come += len(data)
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
                return len(self._line) > MOST_LINE
            at, line = end + 1, bytes(self._line).strip()
            self._line.clear()
            if self._ends:
                if not line:
                    return True
                continue
            try:
                size = int(line.partition(b";")[0], 16)
            except ValueError:
                return True
            self._ends = not size
            self._left = size + 2 if size else 0  # with the end of its line
            self.payload += size


class Connection:
    """One client's. gunicorn writes into it as if it were a socket."""

    def __init__(self, sock: socket.socket, peer: Any) -> None:
        self.sock: socket.socket | None = sock
        self.peer = peer
        self.state = State.HEAD
        self.since = time.monotonic()
        """When the state was entered."""
        self.head = bytearray()
        self.received = Received(b"")
        self.request: Any = None
        self.extent: Extent | None = None
        self.is_whole = True
        """Whether all of the request is there. If not, where the next one begins is unknown."""
        self.stays = False
        """Whether another request may follow."""
        self.unsent = bytearray()
        self.taken = 0
        """Bytes of the answer that the client has taken."""

    def enter(self, state: State) -> None:
        """Begin to wait for something else."""
        self.state, self.since = state, time.monotonic()

    @property
    def held(self) -> int:
        """Bytes that it has in memory."""
        return len(self.unsent) + (self.extent.come if self.extent is not None else 0)

    def until(self, keepalive: float) -> float:
        """The deadline of the state."""
        match self.state:
            case State.IDLE:
                return self.since + keepalive
            case State.HEAD:
                return self.since + HEAD_SECONDS
            case State.BODY:
                return self.since + BODY_SECONDS + (self.extent.come if self.extent is not None else 0) / RATE
            case State.ANSWER:
                return self.since + BODY_SECONDS + self.taken / RATE
            case State.LINGER:
                return self.since + LINGER_SECONDS
            case State.BUSY:
                return float("inf")

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """Let go of the client: the socket, and what it is still to be sent. For answers without an end."""
        assert self.sock is not None
        sock, unsent = self.sock, bytes(self.unsent)
        self.sock = None
        self.unsent.clear()
        return sock, unsent

    def flush(self) -> None:
        """Send what the client takes now. Raises OSError when it is gone."""
        while self.unsent and self.sock is not None:
            try:
                with memoryview(self.unsent) as view:
                    sent = self.sock.send(view[:STEP])
            except BlockingIOError:
                return
            del self.unsent[:sent]
            self.taken += sent

    # -- what gunicorn does with a socket -------------------------------------------------------------

    def sendall(self, data: bytes) -> None:
        """More of the answer."""
        if self.sock is not None:
            self.unsent += data

    def send(self, data: bytes) -> int:
        """An interim answer (100 Continue); the client has got it by now."""
        return len(data)

    def gettimeout(self) -> float:
        """It never blocks."""
        return 0.0


class Frontend(Worker):  # type: ignore[misc]
    """The worker process. Its application is a `server.Server`."""

    def run(self) -> None:
        """Until told to stop: then what has begun is answered first."""
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._done: deque[Connection] = deque()
        """Those whose threads have done their work."""
        self._held = 0
        """At least the bytes in memory of all connections."""
        self._looked = 0.0
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 2)
        self._pool = ThreadPoolExecutor(self.cfg.threads, "request", initializer=self.app.begin_thread)
        self._selector.register(self.PIPE[0], selectors.EVENT_READ, self._woken)
        for listener in self.sockets:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, self._accept)
        while self.alive and self.ppid == os.getppid():
            self._turn()
        self._drain()

    def _drain(self) -> None:
        for listener in self.sockets:
            self._selector.unregister(listener)
            listener.close()
        end = time.monotonic() + self.cfg.graceful_timeout
        self._turn()  # what has come by now is answered
        while self._connections and time.monotonic() < end:
            for connection in [*self._connections]:
                if connection.state in (State.IDLE, State.HEAD, State.BODY):
                    self._drop(connection)
            self._turn()
        self._pool.shutdown(wait=False)

    def _turn(self) -> None:
        self.notify()
        for key, _ in self._selector.select(LOOK):
            if isinstance(key.data, Connection):
                if key.data.sock is not None:  # another event of this turn may have closed it
                    self._see_to(self._attend, key.data)
            else:
                key.data(key.fileobj)
        while self._done:
            self._see_to(self._answered, self._done.popleft())
        if time.monotonic() - self._looked >= LOOK:
            self._look()

    def _see_to(self, what: Callable[[Connection], None], connection: Connection) -> None:
        """Whatever goes wrong with one connection, the others go on."""
        try:
            what(connection)
        except Exception:
            log.exception("a connection is given up")
            self._drop(connection)

    def _woken(self, pipe: int) -> None:
        with suppress(BlockingIOError):
            os.read(pipe, 4096)

    def _accept(self, listener: Any) -> None:
        """Take a new connection; where there are too many, those go that have waited for the longest."""
        if len(self._connections) >= self._most:
            self._make_room()
        try:
            sock, peer = listener.accept()
        except BlockingIOError:
            return  # another process was quicker
        except OSError as error:
            log.warning("cannot take a connection: %s", error)
            self._make_room()
            return
        sock.setblocking(False)
        connection = Connection(sock, peer)
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _make_room(self) -> None:
        waiting = (one for one in self._connections if one.state is not State.BUSY)
        for connection in heapq.nsmallest(SPARE, waiting, key=lambda one: (one.state is not State.IDLE, one.since)):
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        """Close it, whatever it waits for."""
        self._connections.discard(connection)
        if connection.sock is not None:
            with suppress(KeyError, ValueError):  # a thread had it
                self._selector.unregister(connection.sock)
            connection.sock.close()
            connection.sock = None

    def _look(self) -> None:
        """End what has waited for too long."""
        now = self._looked = time.monotonic()
        self._held = 0
        for connection in [*self._connections]:
            if now > connection.until(self.cfg.keepalive):
                if connection.state is State.BODY or connection.head:
                    self._refuse(connection, 408, "Request Timeout", "The request was not there in time.")
                else:
                    self._drop(connection)
            self._held += connection.held

    # -- reading -------------------------------------------------------------------------------------

    def _attend(self, connection: Connection) -> None:
        """The client has sent or taken something, or is gone."""
        assert connection.sock is not None
        try:
            if connection.state is State.ANSWER:
                self._write(connection)
                return
            data = connection.sock.recv(STEP)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.state is State.LINGER:
            if not data:
                self._drop(connection)
        elif data:
            self._take(connection, data)
        elif connection.state is State.BODY:
            connection.is_whole = False
            self._begin(connection)  # its handler says what is missing
        else:
            self._drop(connection)

    def _take(self, connection: Connection, data: bytes) -> None:
        if connection.state is State.BODY:
            assert connection.extent is not None
            connection.received.put(data)
            self._go_on(connection, data)
            return
        if connection.state is State.IDLE:
            connection.enter(State.HEAD)
        head = connection.head
        head += data
        if head[:2] == b"\r\n":  # one is ignored (RFC 9112, 2.2)
            del head[:2]
        # A line that ends otherwise is refused by the parser: its head would never end.
        if b"\r\n\r\n" in head or head.count(b"\n") != head.count(b"\r\n"):
            self._parse(connection)
        elif len(head) > MOST_HEAD:
            self._refuse(connection, 431, "Request Header Fields Too Large", "The head of the request is too large.")

    def _parse(self, connection: Connection) -> None:
        parser = RequestParser(self.cfg, [], connection.peer)
        parser.unreader = connection.received = Received(bytes(connection.head))
        connection.head = bytearray()
        try:
            request = connection.request = next(parser)
        except (StopIteration, NoMoreData):
            self._drop(connection)
            return
        except Exception as error:  # noqa: BLE001 - gunicorn knows them all
            self.handle_error(None, connection, connection.peer, error)
            self._end(connection)
            return
        connection.extent = Extent(request.body.reader)
        connection.taken = 0
        connection.enter(State.BODY)
        expects = any(name == "EXPECT" and value.lower() == "100-continue" for name, value in request.headers)
        self._go_on(connection, connection.received.rest())
        if expects and connection.state is State.BODY and connection.sock is not None:
            with suppress(OSError):  # is noticed when it is read from
                connection.sock.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _go_on(self, connection: Connection, data: bytes) -> None:
        """Call the application, if there is nothing more to wait for."""
        extent, most = connection.extent, self.app.max_body
        assert extent is not None
        self._held += len(data)
        if self._held > MOST_HELD and not self._spares(connection):
            text = "Too much is being sent to the server. Try again later."
            self._refuse(connection, 503, "Service Unavailable", text, "Retry-After: 5\r\n")
        elif extent.is_whole(data):
            self._begin(connection)
        elif extent.payload > most or extent.come > 2 * most + MOST_HEAD:
            connection.is_whole = False
            self._begin(connection)  # its handler refuses it

    def _spares(self, connection: Connection) -> bool:
        """Forget the slowest bodies and answers, until there is room for this connection; whether there is."""
        others = [one for one in self._connections if one.state in (State.BODY, State.ANSWER) and one is not connection]
        for other in sorted(others, key=lambda one: one.since):
            self._held = sum(one.held for one in self._connections)
            if self._held <= MOST_HELD:
                break
            self._drop(other)
        self._held = sum(one.held for one in self._connections)
        return self._held <= MOST_HELD

    # -- answering -----------------------------------------------------------------------------------

    def _begin(self, connection: Connection) -> None:
        """Have a request answered."""
        assert connection.sock is not None
        self._selector.unregister(connection.sock)
        connection.enter(State.BUSY)
        if connection.request.path in self.app.instant:
            self._answer(connection)
        else:
            self._pool.submit(self._answer, connection)

    def _answer(self, connection: Connection) -> None:
        """Call the application (in a thread, unless that is over at once)."""
        try:
            connection.stays = self._call(connection)
            connection.flush()
        except OSError as error:
            log.debug("a client went before its answer: %s", error)
            connection.unsent.clear()
            connection.stays = False
        except Exception as error:  # noqa: BLE001 - gunicorn logs it
            connection.stays = False
            self.handle_error(connection.request, connection, connection.peer, error)
        finally:
            self._done.append(connection)
            with suppress(BlockingIOError):  # it is awake
                os.write(self.PIPE[1], b".")

    def _call(self, connection: Connection) -> bool:
        """Write the answer into the connection; whether that may be used for another request."""
        request = connection.request
        address = connection.sock.getsockname() if connection.sock is not None else ("", 0)
        response, environ = wsgi.create(request, connection, connection.peer, address, self.cfg)
        environ["wsgi.multithread"] = True
        if not connection.is_whole or not self.alive:
            response.force_close()
        parts = self.wsgi(environ, response.start_response)
        try:
            for part in parts:
                response.write(part)
            response.close()
        except Exception:
            if not response.headers_sent:
                raise
            log.exception("an answer breaks off")
            return False
        finally:
            close: Callable[[], None] | None = getattr(parts, "close", None)
            if close is not None:
                close()
        if response.should_close():
            return False
        try:
            while request.body.read(STEP):  # what the application has left
                pass
        except (OSError, ParseException):
            return False  # nonsense: where the next request begins is unknown
        return True

    def _answered(self, connection: Connection) -> None:
        """A thread is done with it."""
        if connection.sock is None:
            self._connections.discard(connection)  # handed over
            return
        connection.extent = None
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)
        self._finish(connection)

    def _refuse(self, connection: Connection, code: int, reason: str, text: str, head: str = "") -> None:
        """Answer without the application, and close."""
        if head:
            body = f"{text}\n"
            lines = f"HTTP/1.1 {code} {reason}\r\nConnection: close\r\n{head}Content-Type: text/plain\r\n"
            connection.sendall(f"{lines}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        else:
            util.write_error(connection, code, reason, text)
        self._end(connection)

    def _end(self, connection: Connection) -> None:
        connection.stays, connection.extent, connection.received = False, None, Received(b"")
        try:
            connection.flush()
        except OSError:
            self._drop(connection)
            return
        self._finish(connection)

    def _write(self, connection: Connection) -> None:
        connection.flush()
        if not connection.unsent:
            self._finish(connection)

    def _finish(self, connection: Connection) -> None:
        """Wait for the client to take the answer, for its next request, or for its end of the connection."""
        assert connection.sock is not None
        events = selectors.EVENT_READ
        if connection.unsent:
            connection.enter(State.ANSWER)
            events = selectors.EVENT_WRITE
        elif connection.stays:
            connection.enter(State.IDLE)
        else:
            connection.enter(State.LINGER)
            with suppress(OSError):  # it is gone
                connection.sock.shutdown(socket.SHUT_WR)
        self._selector.modify(connection.sock, events, connection)
        if connection.state is State.IDLE:
            rest = connection.received.rest()
            connection.received, connection.request = Received(b""), None
            if rest:
                self._take(connection, rest)
