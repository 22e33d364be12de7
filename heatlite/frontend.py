"""A gunicorn worker in which a slow client occupies no thread.

One thread reads requests and writes answers of all connections. A thread of the pool gets a complete request, and
returns a complete answer, so slow clients do not delay others. Each phase of a connection has a deadline
(docs/reference/limits.md). gunicorn parses the requests.

Beside an engine's process there may be readers. They accept the connections, and pass those to the engine's process
that need it (`core.reading`). That process answers, and keeps the connection for the next such request. It passes the
connection back for a request that readers answer, or once it is idle.
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
from contextvars import copy_context
from functools import partial
from typing import Any

from gunicorn.http.errors import NoMoreData
from gunicorn.http.parser import RequestParser
from gunicorn.workers.base import Worker

from heatlite.channels import Channel
from heatlite.connections import READ_SIZE, Connection, Extent, Received, State, answer
from heatlite.core.reading import NeedsEngine, end_request

log = logging.getLogger(__name__)

MAX_HEAD = 64 * 1024
"""Maximum bytes of a head."""
MAX_MEMORY = 128 * 1024 * 1024
"""Maximum bytes of bodies and answers of all connections."""
MAX_CONNECTIONS = 1000
"""Maximum number of connections. Beyond it, the longest idle ones are closed."""
CLOSE_BATCH = 20
"""Connections closed together to make room."""
READING = ("GET", "HEAD")
"""Methods of requests that a reader tries to answer, if they have no body."""
CHECK_INTERVAL = 0.5
"""Seconds between checks of deadlines."""
QUICK_SECONDS = 0.01
"""Processor time of a quick answer, at most: two turns of a thread with Python's lock (`sys.getswitchinterval`)."""
MAX_QUICK = 1000
"""Requests that are remembered as quick."""
MAX_QUICK_BYTES = 2048
"""Bytes of such a request, with its head."""


class QuickRequests:
    """Requests that are answered without a thread, as their last answer was quick.

    Passing a request to a thread and back takes as long as a quick answer. A request with another body may take longer,
    so it is another one.
    """

    def __init__(self, is_used: bool) -> None:
        """Without `is_used` no request is quick."""
        self._is_used = is_used
        self._known: set[tuple[str, str, bytes]] = set()

    def has(self, connection: Connection) -> bool:
        """Return True if the request is quick."""
        return self._is_used and len(connection.raw) <= MAX_QUICK_BYTES and _same(connection) in self._known

    def note(self, connection: Connection, seconds: float) -> None:
        """Note the processor time of an answer."""
        if not self._is_used or len(connection.raw) > MAX_QUICK_BYTES:
            return
        same = _same(connection)
        if seconds > QUICK_SECONDS:
            self._known.discard(same)
            return
        if len(self._known) >= MAX_QUICK:
            self._known.clear()
        self._known.add(same)


def _same(connection: Connection) -> tuple[str, str, bytes]:
    """Return what equal requests have in common."""
    assert connection.extent is not None
    body = connection.raw.partition(b"\r\n\r\n")[2][: connection.extent.payload]
    return connection.request.method, connection.request.uri, body


def most_connections() -> int:
    """Return the maximum number of connections of this process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files // 2)


class Frontend(Worker):  # type: ignore[misc]
    """The worker process. Its application is a `server.Server`."""

    is_reader = False
    """True in a process that only reads."""
    inbox: Channel | None = None
    """Connections that other processes pass to this one."""
    outbox: Channel | None = None
    """Connections that this process passes to others: readers to the engine's process, which passes idle ones back."""

    def run(self) -> None:
        """Serve until told to stop, then complete the started requests."""
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._done: deque[Connection] = deque()
        """Connections with a finished answer."""
        self._unpassed: deque[Connection] = deque()
        """Connections for the engine's process, which its channel does not hold yet."""
        self._memory = 0
        """Bytes in memory of all connections, or more."""
        self._checked = time.monotonic()
        self._most = most_connections()
        self._pool = ThreadPoolExecutor(self.cfg.threads, "request", initializer=self.app.begin_thread)
        self._quick = QuickRequests(self.app.has_quick_requests)
        if self.app.has_quick_requests:
            self.app.begin_thread()
        self._selector.register(self.PIPE[0], selectors.EVENT_READ, self._woken)
        for listener in self.sockets:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, self._accept)
        if self.inbox is not None:
            self._selector.register(self.inbox.receiver, selectors.EVENT_READ, self._adopt)
        while self.alive and self.ppid == os.getppid():
            self._run_round()
        self._drain()

    def _drain(self) -> None:
        for listener in self.sockets:
            self._selector.unregister(listener)
            listener.close()
        end = time.monotonic() + self.cfg.graceful_timeout
        self._run_round()  # answer the requests received so far
        while self._connections and time.monotonic() < end:
            for connection in [*self._connections]:
                if connection.state in (State.IDLE, State.HEAD, State.BODY):
                    self._drop(connection)
            self._run_round()
        self._pass_counts()
        self._pool.shutdown(wait=False)

    def _run_round(self) -> None:
        self.notify()
        for key, _ in self._selector.select(0 if self._done else CHECK_INTERVAL):
            if isinstance(key.data, Connection):
                if key.data.sock is not None:  # an earlier event of this round may have closed it
                    self._guarded(self._handle, key.data)
            else:
                key.data(key.fileobj)
        for _ in range(len(self._done)):  # those that follow on a connection wait for the next round
            self._guarded(self._resume, self._done.popleft())
        if self._unpassed:
            self._pass_on()
        if time.monotonic() - self._checked >= CHECK_INTERVAL:
            self._check_deadlines()
            self._pass_counts()

    def _guarded(self, what: Callable[[Connection], None], connection: Connection) -> None:
        """Call a method for a connection, and drop the connection after an error."""
        try:
            what(connection)
        except Exception:
            log.exception("dropping a connection after an error")
            self._drop(connection)

    def _woken(self, pipe: int) -> None:
        with suppress(BlockingIOError):
            os.read(pipe, 4096)

    def _accept(self, listener: Any) -> None:
        """Accept a connection. Closes the longest idle ones if there are too many."""
        if len(self._connections) >= self._most:
            self._make_room()
        try:
            sock, peer = listener.accept()
        except BlockingIOError:
            return  # another process has accepted it
        except OSError as error:
            log.warning("cannot accept a connection: %s", error)
            self._make_room()
            return
        self._welcome(sock, peer)

    def _welcome(self, sock: socket.socket, peer: Any) -> Connection:
        sock.setblocking(False)
        connection = Connection(sock, peer)
        self._connections.add(connection)
        self._watch(connection, selectors.EVENT_READ)
        return connection

    def _make_room(self) -> None:
        waiting = (one for one in self._connections if one.state is not State.BUSY)
        idle_first = heapq.nsmallest(CLOSE_BATCH, waiting, key=lambda one: (one.state is not State.IDLE, one.since))
        for connection in idle_first:
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection.sock is not None:
            self._watch(connection, 0)
            connection.sock.close()
            connection.sock = None

    def _watch(self, connection: Connection, events: int) -> None:
        """Select the events of a socket that the loop handles; 0: none."""
        if events == connection.events:
            return
        assert connection.sock is not None
        if not connection.events:
            self._selector.register(connection.sock, events, connection)
        elif events:
            self._selector.modify(connection.sock, events, connection)
        else:
            self._selector.unregister(connection.sock)
        connection.events = events

    def _check_deadlines(self) -> None:
        """Close late connections. Time that this process stood still does not count."""
        last, self._checked = self._checked, (now := time.monotonic())
        stood_still, self._memory = max(0.0, now - last - 2 * CHECK_INTERVAL), 0
        for connection in [*self._connections]:
            connection.since += stood_still
            if now > connection.deadline(self.cfg.keepalive):
                if connection.state is State.BODY or connection.head:
                    self._reject(connection, 408, "Request Timeout", "The request did not arrive in time.")
                else:
                    self._drop(connection)
            elif connection.state is State.IDLE and now - connection.since >= CHECK_INTERVAL:
                self._pass_back(connection)  # a reader survives the end of this process
            self._memory += connection.memory

    # -- passing between processes --------------------------------------------------------------------

    def _adopt(self, _receiver: socket.socket) -> None:
        """Take the connections that other processes have passed on."""
        assert self.inbox is not None
        with suppress(BlockingIOError):
            while True:
                passed = self.inbox.take()
                if isinstance(passed, bytes):
                    self.app.add_count(passed)
                    continue
                if len(self._connections) >= self._most:
                    self._make_room()
                connection = self._welcome(passed.sock, passed.peer)
                connection.enter(State.IDLE)
                connection.is_refused = passed.is_refused
                if passed.data:
                    connection.needs_engine = not self.is_reader
                    self._guarded(partial(self._receive, data=passed.data), connection)

    def _pass(self, connection: Connection) -> None:
        """Pass a connection to the other kind of process, with its request."""
        assert connection.sock is not None
        self._watch(connection, 0)
        connection.extent = None
        connection.enter(State.BUSY)
        self._unpassed.append(connection)
        self._pass_counts()  # before the request, which may read them
        self._pass_on()

    def _pass_counts(self) -> None:
        """Pass a reader's counts to the engine's process, which writes them."""
        if self.is_reader and self.outbox is not None:
            self.app.pass_counts(self.outbox.put_count)
        elif self.app.has_counts:
            self._pool.submit(self.app.write_counts)

    def _pass_on(self) -> None:
        """Pass connections on, as many as the channel holds. The next round does the rest."""
        assert self.outbox is not None
        while self._unpassed:
            connection = self._unpassed[0]
            assert connection.sock is not None
            try:
                self.outbox.put(connection.sock, connection.raw)
            except BlockingIOError:
                return
            except OSError as error:  # too many connections are on their way
                log.warning("cannot pass a connection to another process: %s", error)
                self._unpassed.popleft()
                text = "The server has too many requests in progress. Try again later."
                self._reject(connection, 503, "Service Unavailable", text, "Retry-After: 5\r\n")
            else:
                self._drop(self._unpassed.popleft())

    def _pass_back(self, connection: Connection) -> None:
        """Pass an idle connection from the engine's process to a reader, if possible."""
        if not self.is_reader and self.outbox is not None and connection.sock is not None:
            with suppress(OSError):
                self.outbox.put(connection.sock, b"", connection.is_refused)
                self._drop(connection)

    # -- reading -------------------------------------------------------------------------------------

    def _handle(self, connection: Connection) -> None:
        """Handle an event of the socket: readable, writable, or a disconnect."""
        assert connection.sock is not None
        if connection.state is State.BUSY:
            return  # another request after one that the loop has answered
        try:
            if connection.state is State.ANSWER:
                self._write(connection)
                return
            is_body = connection.state is State.BODY and not self.is_reader
            data = connection.sock.recv(READ_SIZE if is_body else MAX_HEAD)
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        if connection.state is State.LINGER:
            if not data:
                self._drop(connection)
        elif data:
            self._receive(connection, data)
        elif connection.state is State.BODY:
            connection.is_whole = False
            self._submit(connection)  # its handler reports the missing part
        else:
            self._drop(connection)

    def _receive(self, connection: Connection, data: bytes) -> None:
        if connection.state is State.BODY:
            assert connection.extent is not None
            connection.received.put(data)
            connection.raw += data if self.is_reader else b""
            self._receive_body(connection, data)
            return
        if connection.state is State.IDLE:
            connection.enter(State.HEAD)
        if connection.has_head(data):
            self._parse(connection)
        elif len(connection.head) > MAX_HEAD:
            self._reject(connection, 431, "Request Header Fields Too Large", "The head of the request is too large.")

    def _parse(self, connection: Connection) -> None:
        parser = RequestParser(self.cfg, [], connection.peer)
        connection.raw = bytes(connection.head)
        parser.unreader = connection.received = Received(connection.raw)
        connection.head = bytearray()
        try:
            request = connection.request = next(parser)
        except (StopIteration, NoMoreData):
            self._drop(connection)
            return
        except Exception as error:  # noqa: BLE001 - gunicorn knows them all
            self.handle_error(None, connection, connection.peer, error)
            self._send_and_close(connection)
            return
        extent = connection.extent = Extent(request.body.reader)
        is_reading = request.method in READING and extent.is_whole(b"")
        if self.is_reader and connection.is_refused and (extent.payload or extent.is_whole(b"")):
            is_reading = len(connection.raw) + extent.payload <= MAX_HEAD  # the next one often is refused, too
        # At the end readers stop first.
        stays = connection.needs_engine or self.outbox is None or not (self.is_reader or self.alive)
        if is_reading != self.is_reader and not stays:
            self._pass(connection)
            return
        connection.sent = 0
        connection.enter(State.BODY)
        self._receive_body(connection, connection.received.rest())
        if connection.state is State.BODY:
            connection.ask_for_body()

    def _receive_body(self, connection: Connection, data: bytes) -> None:
        """Call the application if the request is complete or too large."""
        extent, most = connection.extent, self.app.max_body
        assert extent is not None
        self._memory += len(data)
        if self._memory > MAX_MEMORY and not self._make_memory(connection):
            text = "The server receives too much data. Try again later."
            self._reject(connection, 503, "Service Unavailable", text, "Retry-After: 5\r\n")
        elif extent.is_whole(data):
            self._submit(connection)
        elif extent.payload > most or extent.received_bytes > 2 * most + MAX_HEAD:
            connection.is_whole = False
            self._submit(connection)  # its handler rejects it

    def _make_memory(self, connection: Connection) -> bool:
        """Drop the slowest transfers until there is memory for this one.

        Returns True on success.
        """
        others = [one for one in self._connections if one.state in (State.BODY, State.ANSWER) and one is not connection]
        for other in sorted(others, key=lambda one: one.since):
            self._memory = sum(one.memory for one in self._connections)
            if self._memory <= MAX_MEMORY:
                break
            self._drop(other)
        self._memory = sum(one.memory for one in self._connections)
        return self._memory <= MAX_MEMORY

    # -- answering -----------------------------------------------------------------------------------

    def _submit(self, connection: Connection) -> None:
        """Pass a request to the application, in a thread unless it is quick."""
        connection.enter(State.BUSY)
        if connection.request.path in self.app.instant or self._quick.has(connection):
            self._answer(connection)
            self._done.append(connection)
            return
        self._watch(connection, 0)
        self._pool.submit(self._answer_in_thread, connection)

    def _answer_in_thread(self, connection: Connection) -> None:
        try:
            self._answer(connection)
        finally:
            self._done.append(connection)
            with suppress(BlockingIOError):  # a wake-up is pending
                os.write(self.PIPE[1], b".")

    def _answer(self, connection: Connection) -> None:
        """Call the application."""
        begun, is_answered = time.thread_time(), False
        try:
            # A context of its own: a request that is passed on leaves its ids for the log there.
            may_stay = connection.is_whole and self.alive
            connection.keeps_alive = copy_context().run(answer, self.wsgi, connection, self.cfg, may_stay)
            is_answered = True
            connection.flush()
        except NeedsEngine:
            connection.unsent.clear()
            connection.needs_engine = True
        except OSError as error:
            log.debug("a client disconnected before its answer: %s", error)
            connection.unsent.clear()
            connection.keeps_alive = False
        except Exception as error:  # noqa: BLE001 - gunicorn logs it
            connection.keeps_alive = False
            self.handle_error(connection.request, connection, connection.peer, error)
        end_request(is_answered)
        self._quick.note(connection, time.thread_time() - begun)

    def _resume(self, connection: Connection) -> None:
        """Continue with a connection after its answer."""
        if connection.sock is None:
            self._connections.discard(connection)  # given up by `hand_over`
            return
        connection.extent = None
        if connection.needs_engine and self.is_reader:
            self._pass(connection)
            return
        connection.needs_engine = False
        self._finish(connection)
        if connection.is_refused and connection.state is State.IDLE and self.alive:
            self._pass_back(connection)

    def _reject(self, connection: Connection, code: int, reason: str, text: str, head: str = "") -> None:
        """Answer without the application, and close the connection."""
        connection.reject(code, reason, text, head)
        self._send_and_close(connection)

    def _send_and_close(self, connection: Connection) -> None:
        connection.keeps_alive, connection.extent, connection.received = False, None, Received(b"")
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
        """Wait for the client to read the answer, send a request, or close the connection."""
        assert connection.sock is not None
        events = selectors.EVENT_READ
        if connection.unsent:
            connection.enter(State.ANSWER)
            events = selectors.EVENT_WRITE
            self._memory += connection.memory
            if self._memory > MAX_MEMORY:
                self._make_memory(connection)
        elif connection.keeps_alive:
            connection.enter(State.IDLE)
        else:
            connection.enter(State.LINGER)
            with suppress(OSError):  # the client is gone
                connection.sock.shutdown(socket.SHUT_WR)
        self._watch(connection, events)
        if connection.state is State.IDLE:
            rest = connection.received.rest()
            connection.received, connection.request, connection.raw = Received(b""), None, b""
            if rest:
                self._receive(connection, rest)
