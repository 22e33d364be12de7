"""The guard watches connections between the event loop and gunicorn.

gunicorn's worker has no setting for three limits: the time for the head of a first request, the number of connections,
and the bytes that a client sends ahead of its answers. The event loop shows each connection to the guard (asyncio:
policies, `create_server`, protocols and transports).
"""

import asyncio
import resource
from typing import Any, TypeAlias

import uvloop

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client."""

HEAD_SECONDS = 10.0
"""Time limit for the head of the first request of a connection."""
IDLE_SECONDS = 80.0
"""Time limit for the next request: a little more than gunicorn's."""
INTERVAL = 2.0
"""Seconds between looks."""
BACKLOG = 2048
"""Connections that arrive together and wait to be accepted."""
SPARE_FILES = 100
"""Files of a process that are no connections."""
MAX_AHEAD = 64 * 1024
"""Bytes of further requests that a client may send before it has its answer. Then the server reads no more."""
LULL = 0.05
"""Seconds without a request after which a connection has no further ones."""


class Connection(asyncio.Protocol):
    """A connection. To gunicorn's protocol it is the transport."""

    def __init__(self, protocol: asyncio.Protocol, guard: "Guard") -> None:
        self._protocol, self._guard = protocol, guard
        self._transport: Any = None
        self._peer: Peer = ("", 0)
        self._loop = asyncio.get_running_loop()
        self._is_held = self._is_paused = False
        self.is_in_body = False
        """True while a body is read."""
        self._ahead = 0
        """Bytes that came, without those of requests that have begun. A head counts by its fields, so about."""
        self._begun = 0
        """Number of requests that have begun."""
        self.requests = 0
        """Number of requests in progress."""
        self.limit = self._loop.time() + HEAD_SECONDS
        """Time limit for the head of the next request."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer is None:  # the client is gone
            self._protocol = asyncio.Protocol()
            transport.abort()
            return
        self._peer = peer[:2]
        self._guard.connections[self._peer] = self
        self._protocol.connection_made(self)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)
        self._ahead += len(data)
        if self._ahead > MAX_AHEAD and not self.is_in_body and not self._is_held:
            self._is_held = True
            self._transport.pause_reading()
            self._loop.call_later(LULL, self._look, self._begun)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._guard.connections.pop(self._peer, None)
        self._protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def pause_reading(self) -> None:
        """Pause for gunicorn."""
        self._is_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume for gunicorn, unless the client is ahead."""
        self._is_paused = False
        if not self._is_held:
            self._transport.resume_reading()

    def begin_request(self, head: int) -> None:
        """Note a request whose head has `head` bytes."""
        self._begun += 1
        self.requests += 1
        self.take(head)

    def begin_body(self) -> None:
        """Read a body, whose bytes are not ahead."""
        self.is_in_body = True
        self._release()

    def take(self, size: int) -> None:
        """Count bytes of a request that has begun."""
        self._ahead = max(0, self._ahead - size)

    def end_body(self) -> None:
        """Note that a body is whole."""
        self.is_in_body = False

    def end_request(self, is_answered: bool) -> None:
        """Note the end of a request.

        A client that did not take its answer loses the connection.
        """
        self.requests -= 1
        self.is_in_body = False
        self.limit = self._loop.time() + IDLE_SECONDS if is_answered else 0.0

    def _look(self, begun: int) -> None:
        """Read on once no request has begun for a while: what came ahead is used up."""
        if self._is_held and (self.requests or begun != self._begun):
            self._loop.call_later(LULL, self._look, self._begun)
        else:
            self._ahead = 0
            self._release()

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            if not self._is_paused:
                self._transport.resume_reading()


class _Loop(uvloop.Loop):
    def __init__(self, guard: "Guard") -> None:
        super().__init__()
        self._guard = guard

    async def create_server(self, protocol_factory: Any, *address: Any, **options: Any) -> Any:
        def connect() -> Connection:
            return Connection(protocol_factory(), self._guard)

        return await super().create_server(connect, *address, **(options | {"backlog": BACKLOG}))


class Guard(asyncio.DefaultEventLoopPolicy):
    """Closes connections without a request.

    Event loops that it makes show it their connections.
    """

    def __init__(self) -> None:
        super().__init__()
        self.connections: dict[Peer, Connection] = {}

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Create an event loop."""
        return _Loop(self)

    def look(self, closes_all: bool = False, ends_bodies: bool = False) -> None:
        """Close connections whose next request is late, and the oldest of too many.

        With `closes_all`, close all without a request. With `ends_bodies`, end those whose body is not whole.
        """
        now = asyncio.get_running_loop().time()
        idle = sorted((one for one in self.connections.values() if not one.requests), key=lambda one: one.limit)
        excess = len(self.connections) + SPARE_FILES - resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        for number, connection in enumerate(idle):
            if connection.limit < now:
                connection.abort()
            elif closes_all or number < excess:
                connection.close()  # once its client has taken the last answer
        for connection in [*self.connections.values()] if ends_bodies else ():
            if connection.is_in_body:
                connection.abort()
