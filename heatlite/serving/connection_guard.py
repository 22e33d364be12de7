"""The guard closes connections that gunicorn would keep.

gunicorn's worker has no setting for three limits: the time for the head of a first request, the number of connections,
and the bytes that a client sends ahead of its answers. The guard looks at the sockets of its process, and ends them by
shutdown(2). The event loop then sees that end. gunicorn closes its listening socket when it begins to stop.
"""

import os
import resource
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

Peer: TypeAlias = tuple[str, int]
"""Address and port of a client."""

HEAD_SECONDS = 10.0
"""Time limit for the head of the first request of a connection."""
IDLE_SECONDS = 80.0
"""Time limit for the next request: a little more than gunicorn's."""
BACKLOG = 2048
"""Connections that arrive together and wait to be accepted."""
SPARE_FILES = 100
"""Files of a process that are kept for others than connections."""
MAX_AHEAD = 1024 * 1024
"""Bytes that a client may send ahead of its answers."""
RECEIVED = struct.Struct("128xQ")
"""`tcpi_bytes_received` in the start of `tcp_info` (tcp(7), linux/tcp.h)."""


class ClientConnection(Struct):
    """A connection as the bridge knows it."""

    limit: float
    """Time limit for the head of the next request."""
    begun: int = 0
    """Number of requests that have begun."""
    busy: int = 0
    """Number of requests in progress."""
    is_in_body: bool = False
    """True while a body is read."""
    taken: int = 0
    """Bytes of its requests, about."""
    compared: int = 0
    """Value of `begun` when the guard has last compared `taken` with what was received."""
    is_ahead: bool = False
    """True if the client is so far ahead of its answers that the next one shall be the last."""


def closing(
    connections: Mapping[Peer, ClientConnection],
    now: float,
    excess: int,
    stops: bool = False,
    ends_bodies: bool = False,
) -> dict[Peer, int]:
    """Return which connections to shut down, and how (shutdown(2)).

    These are connections whose next request is late, and the `excess` oldest ones without a request. If the process
    `stops`, these are all without a request. With `ends_bodies`, bodies that are not whole end, too.
    """
    idle = sorted((peer for peer, one in connections.items() if not one.busy), key=lambda peer: connections[peer].limit)
    late = [peer for peer in idle if connections[peer].limit < now]
    in_body = [peer for peer, one in connections.items() if one.is_in_body and ends_bodies]
    chosen = idle if stops else idle[: max(0, excess)]
    # The event loop first sends the rest of an answer, unless the client is late in taking it.
    return dict.fromkeys([*chosen, *in_body], socket.SHUT_RD) | dict.fromkeys(late, socket.SHUT_RDWR)


class ConnectionGuard:
    """Watches the connections to a port.

    Used in the event loop only, which opens and closes them.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.connections: dict[Peer, ClientConnection] = {}
        self._listening: tuple[int, os.stat_result] | None = None

    @property
    def is_stopping(self) -> bool:
        """True once gunicorn has closed the listening socket that the last look has found."""
        if self._listening is None:
            return False
        number, found = self._listening
        try:
            return not os.path.samestat(os.fstat(number), found)
        except OSError:
            return True

    @property
    def is_due(self) -> bool:
        """True if a connection had several requests since the last look."""
        return any(one.begun > one.compared + 1 for one in self.connections.values())

    def look(self, stops: bool = False, ends_bodies: bool = False) -> None:
        """Note new connections, and close others, see `closing`."""
        now, files, found = time.monotonic(), _files(), set()
        excess = len(files) + SPARE_FILES - resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        ends = closing(self.connections, now, excess, stops, ends_bodies)
        for one in _sockets(files):
            try:
                if one.getsockname()[1:2] != (self._port,):
                    continue
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    one.listen(BACKLOG)  # gunicorn's worker has the default of asyncio, which is 100
                    self._listening = one.fileno(), os.fstat(one.fileno())
                    continue
                peer = one.getpeername()[:2]
                found.add(peer)
                connection = self.connections.setdefault(peer, ClientConnection(now + HEAD_SECONDS))
                if connection.begun > connection.compared and not connection.is_in_body:
                    connection.compared = connection.begun
                    connection.is_ahead = _received(one) - connection.taken > MAX_AHEAD
                if peer in ends:
                    one.shutdown(ends[peer])
            except OSError:  # the client is gone
                continue
        for peer in self.connections.keys() - found:
            del self.connections[peer]


def _received(one: socket.socket) -> int:
    """Return the number of bytes that a connection has received.

    It is 0 if the system does not count them.
    """
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, RECEIVED.size)
    return int(RECEIVED.unpack(info)[0]) if len(info) == RECEIVED.size else 0


def _files() -> Sequence[int]:
    """Return the numbers of the open files of this process."""
    try:
        with os.scandir("/dev/fd") as found:
            return [int(one.name) for one in found]
    except OSError:  # no number is free to list them
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _sockets(files: Sequence[int]) -> Iterator[socket.socket]:
    """Yield the sockets among open files.

    Each is valid until the next one. No number is duplicated: to close a duplicate would release the locks of a SQLite
    file.
    """
    for number in files:
        try:
            one = socket.socket(fileno=number)
        except OSError:
            continue
        try:
            yield one
        finally:
            one.detach()
