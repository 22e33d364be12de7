"""The bridge: an ASGI application that calls a WSGI application in threads.

The event loop reads bodies and sends answers, so a slow client costs a socket and no thread. Limits and deadlines:
docs/reference/limits.md.
"""

import asyncio
import logging
import math
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import lru_cache
from http import HTTPStatus
from io import BytesIO
from mmap import MAP_PRIVATE, mmap
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from heatlite.api.event_streams import ASYNCHRONOUS
from heatlite.api.request import REFUSAL
from heatlite.core.errors import Overloaded
from heatlite.core.runtime.bulkhead import MustWait, waits
from heatlite.serving.connection_guard import ConnectionGuard
from heatlite.serving.lines import LastAnswers, Lines, RequestKind, is_urgent

log = logging.getLogger(__name__)

Environ: TypeAlias = dict[str, Any]
Application: TypeAlias = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]
"""A WSGI application."""
Message: TypeAlias = dict[str, Any]
"""An event, or the scope of a connection (ASGI specification 3.0)."""
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

IDLE_SECONDS = 80.0
"""Time limit for the next request of a connection: a little more than gunicorn's."""
MAX_RECEIVED = 1024 * 1024
"""Bytes after which a connection closes with an answer: gunicorn keeps what a client sends ahead of its answers."""
TRANSFER_SECONDS = 30.0
"""Time limit for a body or an answer. Transfers at `RATE` may take longer."""
RATE = 16 * 1024
"""Bytes of a body or an answer that extend its deadline by a second."""
PIECE = 64 * 1024
"""Bytes of an answer that are sent at once."""
TURN_PIECES = 100
"""Pieces of a body that are read in a row. Other connections have their turn then."""
MAX_PIECES = 20_000
"""Maximum number of pieces of a body. Each costs time, and a client may send bytes one by one."""
STALL_SECONDS = 60.0
"""Time limit for a part of an event stream."""
SAME: Environ = {
    "SCRIPT_NAME": "",
    "wsgi.version": (1, 0),
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": True,
    "wsgi.multiprocess": True,
    "wsgi.run_once": False,
    ASYNCHRONOUS: True,
}
"""Entries of the environment that all requests share."""
LINGER_SECONDS = 2.0
"""Time for a client to take an answer that comes before the end of its body."""
MAX_MEMORY = 128 * 1024 * 1024
"""Maximum bytes of bodies and answers of all connections."""
READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing and are answered in the line of reads."""


class WsgiResponse(Struct, frozen=True):
    """The answer of the WSGI application."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes | AsyncIterable[bytes]


class _Refused(Exception):
    """The request is answered without the application, and its connection closes."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Disconnected(Exception):
    """The client is gone."""


class _Transfer:
    """A request: its body that arrives, then its answer that is sent."""

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.begun = time.monotonic()
        self.size = 0
        """Bytes in memory."""
        self.is_moving = True
        """True while it waits for the client."""
        self.is_body = True
        """True until the body has arrived."""


class Memory:
    """Bytes of all transfers of a process.

    The longest transfers end if there are too many.
    """

    def __init__(self) -> None:
        self._transfers: dict[_Transfer, None] = {}
        """Transfers in the order of their begin."""
        self._size = 0

    @contextmanager
    def transfer(self) -> Iterator[_Transfer]:
        """Count a transfer of this task during the context."""
        transfer = _Transfer()
        self._transfers[transfer] = None
        try:
            yield transfer
        finally:
            self._size -= transfer.size
            del self._transfers[transfer]

    def add(self, transfer: _Transfer, size: int, is_done: bool = False) -> None:
        """Add bytes to a transfer.

        Raises Overloaded if no other can end, unless the request `is_done`: it must not seem to be refused.
        """
        transfer.size += size
        self._size += size
        if self._size <= MAX_MEMORY:
            return
        for other in self._transfers:
            if other.is_moving and other is not transfer and other.task is not None:
                other.is_moving = False
                other.task.cancel()
                self._size -= other.size
                other.size = 0
                if self._size <= MAX_MEMORY:
                    return
        if not is_done:
            raise Overloaded("much data in transfer")

    def end_bodies(self) -> None:
        """End the requests whose bodies have not arrived."""
        for transfer in self._transfers:
            if transfer.is_body and transfer.task is not None:
                transfer.task.cancel()


class Bridge:
    """The ASGI application of a process."""

    def __init__(
        self,
        application: Application,
        threads: int,
        max_json_body_size: int,
        guard: ConnectionGuard,
        instant: Collection[str] = (),
        begin_thread: Callable[[], None] = lambda: None,
        reads_locally: bool = False,
    ) -> None:
        """Answer `instant` paths in the event loop.

        `begin_thread` prepares a thread. If the application `reads_locally`, without waiting, the event loop also
        answers what was quick the last time.
        """
        self._application = application
        self._max_json_body_size = max_json_body_size
        self._guard = guard
        self._instant = instant
        self.lines = Lines(threads)
        self._last = LastAnswers()
        self._reads_locally = reads_locally
        self._pool = ThreadPoolExecutor(self.lines.size, "request", initializer=begin_thread)
        self.memory = Memory()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["client"] is None:  # it is gone
            return
        limit, self._guard.limits[scope["client"]] = 0.0, math.inf
        try:
            with self.memory.transfer() as transfer:
                is_last = await self._serve(scope, receive, send, transfer)
            limit = time.monotonic() + IDLE_SECONDS
            if is_last:
                raise asyncio.CancelledError  # the server closes the connection
        except TimeoutError:
            log.info("a client did not take its answer in time")
            raise asyncio.CancelledError from None  # the server closes the connection
        finally:
            self._guard.limits[scope["client"]] = limit

    async def _serve(self, scope: Message, receive: Receive, send: Send, transfer: _Transfer) -> bool:
        """Answer a request. Returns True if it was the last one of its connection."""
        is_whole = False
        try:
            body, is_whole = await self._read(scope, receive, transfer)
            transfer.is_body = transfer.is_moving = False
            answer = await self._answer(scope, body)
            if isinstance(answer.body, bytes):
                self.memory.add(transfer, len(answer.body), is_done=scope["method"] not in READS)
        except _Disconnected:
            return False
        except _Refused as error:
            answer = _plain(error.status, str(error))
        except Overloaded as error:
            answer = self._call({**_environ(scope, b""), REFUSAL: error})
        is_last = self._guard.received.get(scope["client"], 0) > MAX_RECEIVED
        if is_last or not is_whole:
            answer.headers.append((b"Connection", b"close"))
        transfer.begun, transfer.is_moving = time.monotonic(), True
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        if isinstance(answer.body, bytes):
            await _send(answer.body, send, transfer.begun)
        else:
            await _stream(answer.body, send)
        if not is_whole:
            await _linger(receive)
        return is_last

    async def _read(self, scope: Message, receive: Receive, transfer: _Transfer) -> tuple[bytes, bool]:
        """Return the body of a request, and True if it is whole.

        A body that is too large is not read to its end. Raises _Refused, Overloaded, _Disconnected.
        """
        length, is_whole = 0, True
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value)
                is_whole = length == 0
            elif name == b"transfer-encoding":
                is_whole = False
        if is_whole or length > self._max_json_body_size:
            return b"", is_whole
        pieces = 0
        # Pages of its own: freed pieces of many bodies would leave holes in the memory of the process.
        with mmap(-1, length or PIECE, flags=MAP_PRIVATE) as body:
            while not is_whole and transfer.size <= self._max_json_body_size:
                message = await _receive(receive, transfer)
                piece = message.get("body", b"")
                if transfer.size + len(piece) > len(body):
                    body.resize(2 * (transfer.size + len(piece)))
                body.write(piece)
                self.memory.add(transfer, len(piece))
                pieces += 1
                if pieces > MAX_PIECES:
                    raise _Refused(HTTPStatus.BAD_REQUEST, "The body has too many chunks.")
                is_whole = not message.get("more_body", False)
                if pieces % TURN_PIECES == 0:
                    await asyncio.sleep(0)
            return body[: transfer.size], is_whole

    async def _answer(self, scope: Message, body: bytes) -> WsgiResponse:
        """Call the application, in a thread unless the answer is quick."""
        environ = _environ(scope, body)
        try:
            return await self._answer_in_turn(environ, scope, body)
        except Overloaded as error:
            environ[REFUSAL] = error
            return self._call(environ)

    async def _answer_in_turn(self, environ: Environ, scope: Message, body: bytes) -> WsgiResponse:
        """Call the application after a wait. Raises Overloaded."""
        method, target = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if target in self._instant:
            return self._call(environ)
        is_read = method in READS
        same = hash((target, environ["QUERY_STRING"]) if is_read else _whole(scope, body))
        kind = RequestKind.WRITE
        if is_read:
            kind = RequestKind.DEAR if self._last.was_dear(same) else RequestKind.READ
        elif is_urgent(target, body):
            kind = RequestKind.AHEAD
        if self._reads_locally and kind is not RequestKind.AHEAD and self._last.was_quick(same):
            with suppress(MustWait):
                return await self._answer_at_once(environ, same)
            environ = _environ(scope, body)
        await self.lines.enter(kind)
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[WsgiResponse] = loop.create_future()

        def run() -> None:
            begun = time.monotonic()
            answer = self._call_noted(environ, same, may_wait=True)
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(end, answer, time.monotonic() - begun)

        def end(answer: WsgiResponse, seconds: float) -> None:
            self.lines.leave(kind, seconds)
            if not answered.done():  # otherwise the client is gone
                answered.set_result(answer)

        self._pool.submit(run)
        return await answered

    async def _answer_at_once(self, environ: Environ, same: int) -> WsgiResponse:
        """Call the application in the event loop. Raises Overloaded, MustWait."""
        await self.lines.enter(RequestKind.QUICK)
        begun = time.monotonic()
        try:
            return copy_context().run(self._call_noted, environ, same, may_wait=False)
        finally:
            # The next one begins once the event loop has looked after its connections.
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: self.lines.leave(RequestKind.QUICK, time.monotonic() - begun))

    def _call_noted(self, environ: Environ, same: int, may_wait: bool) -> WsgiResponse:
        """Call the application, and note what the answer cost.

        Raises MustWait unless the thread `may_wait`. Nothing is counted or changed then.
        """
        begun = time.thread_time()
        with waits(may_wait) as noted:
            answer = self._call(environ)
        self._last.note(same, time.thread_time() - begun, noted.have_been)
        return answer

    def _call(self, environ: Environ) -> WsgiResponse:
        """Call the application."""
        status, headers = 500, []

        def start_response(line: str, fields: Iterable[tuple[str, str]], _error: object = None) -> None:
            nonlocal status, headers
            status = int(line[:3])
            headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]

        try:
            parts = self._application(environ, start_response)
            if isinstance(parts, AsyncIterable):
                return WsgiResponse(status, headers, parts)
            try:
                return WsgiResponse(status, headers, b"".join(parts))
            finally:
                getattr(parts, "close", lambda: None)()
        except Exception:  # the client gets an answer, whatever the application raises
            log.exception("%s %r failed", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal Server Error")


async def _receive(receive: Receive, transfer: _Transfer) -> Message:
    """Return the next message of a body. Raises _Refused, _Disconnected."""
    deadline = transfer.begun + TRANSFER_SECONDS + transfer.size / RATE
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            message = await receive()
    except TimeoutError:
        raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "The request did not arrive in time.") from None
    if message["type"] != "http.request":
        raise _Disconnected
    if not transfer.is_moving:  # it was ended, but `asyncio.wait_for` of Python 3.11 may lose that
        raise asyncio.CancelledError
    return message


async def _send(body: bytes, send: Send, begun: float) -> None:
    """Send the body of an answer.

    Raises TimeoutError for a client that does not take it.
    """
    if len(body) <= PIECE:
        await send({"type": "http.response.body", "body": body})
        return
    for at in range(0, len(body), PIECE):
        async with asyncio.timeout(begun + TRANSFER_SECONDS + at / RATE - time.monotonic()):
            is_last = at + PIECE >= len(body)
            await send({"type": "http.response.body", "body": body[at : at + PIECE], "more_body": not is_last})


async def _stream(body: AsyncIterable[bytes], send: Send) -> None:
    """Send an answer in its parts.

    Raises TimeoutError for a client that does not take one.
    """
    parts = aiter(body)
    try:
        async for part in parts:
            async with asyncio.timeout(STALL_SECONDS):
                await send({"type": "http.response.body", "body": part, "more_body": True})
    finally:
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()
    await send({"type": "http.response.body", "body": b""})


async def _linger(receive: Receive) -> None:
    """Take the rest of a body.

    Unread bytes would reset the connection before the client has read the answer.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS) as limit:
            # `asyncio.wait_for` of Python 3.11 may lose the end of the limit if a piece comes at the same moment.
            while not limit.expired() and (await receive())["type"] == "http.request":
                await asyncio.sleep(0)


def _whole(scope: Message, body: bytes) -> tuple[object, ...]:
    """Return all that makes a request equal to another one."""
    return scope["method"], scope["raw_path"], scope["query_string"], scope["client"][0], *scope["headers"], body


def _plain(status: HTTPStatus, text: str) -> WsgiResponse:
    body = f"{text}\n".encode()
    return WsgiResponse(status, [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body))], body)


@lru_cache(1000)
def _key(name: bytes) -> str:
    """Return the key of a header in the environment."""
    key = name.decode("latin-1").upper().replace("-", "_")
    return key if key in ("CONTENT_LENGTH", "CONTENT_TYPE") else f"HTTP_{key}"


def _environ(scope: Message, body: bytes) -> Environ:
    """Return the WSGI environment of a request (PEP 3333)."""
    client, server, path = scope["client"], scope["server"], scope["raw_path"]
    if not path.startswith(b"/") and b"://" in path:  # a target for a proxy (RFC 9112, 3.2.2)
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    environ: Environ = {
        **SAME,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1]),
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(body),
    }
    for name, value in scope["headers"]:
        if b"_" in name:
            continue  # it would have the key of another header
        key = _key(name)
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    if environ.pop("HTTP_TRANSFER_ENCODING", None) is not None:
        environ["CONTENT_LENGTH"] = str(len(body))  # the chunks are joined
    return environ
