"""The guard closes connections of silent clients.

gunicorn's worker waits without end for the head of a first request, and for a client to take an aborted answer. It has
no setting for either. So the guard looks at the sockets of its process.
"""

import os
import resource
import socket
import stat
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path

HEAD_SECONDS = 10.0
"""Time limit for the head of the first request of a connection."""
IDLE_SECONDS = 80.0
"""Time limit for the next request: a little more than gunicorn's."""
INTERVAL = 2.0
"""Seconds between looks."""
SPARE_FILES = 100
"""Files of a process that are no connections."""


class Guard:
    """Closes connections to a port. Knows clients by address and port."""

    def __init__(self, port: int, active: Container[object], ended: dict[tuple[str, int], float]) -> None:
        """`active` and `ended` are those of the `Bridge`."""
        self._port, self._active, self._ended = port, active, ended
        self._seen: dict[tuple[object, int], float] = {}
        """Client and inode of a connection → the last time at which it did not exist yet."""
        self._looked = time.monotonic()

    def look(self, closes_all: bool = False) -> None:
        """Close connections whose next request is late, and the oldest of too many.

        With `closes_all`, close all without a request.
        """
        now, idle = time.monotonic(), []
        seen: dict[tuple[object, int], float] = {}
        for file, inode, peer in _connections(self._port):
            since = seen[peer, inode] = self._seen.get((peer, inode), self._looked)
            ended = self._ended.get(peer, 0.0)
            limit = since + HEAD_SECONDS + INTERVAL if ended < since else ended + IDLE_SECONDS
            if peer not in self._active:
                idle.append((limit, file, inode))
        excess = len(seen) + SPARE_FILES - resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        for number, (limit, file, inode) in enumerate(sorted(idle)):
            if closes_all or limit < now or number < excess:
                _shut_down(file, inode)
        for peer in {*self._ended} - {peer for peer, _ in seen}:
            self._ended.pop(peer, None)
        self._seen, self._looked = seen, now


def _connections(port: int) -> Iterator[tuple[int, int, tuple[str, int]]]:
    """Yield file, inode and client of each connection of this process to a port."""
    for file in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        with suppress(OSError):  # closed meanwhile, or listening
            found = os.fstat(file)
            if stat.S_ISSOCK(found.st_mode):
                with socket.socket(fileno=os.dup(file)) as sock:
                    if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getsockname()[1] == port:
                        yield file, found.st_ino, sock.getpeername()[:2]


def _shut_down(file: int, inode: int) -> None:
    """Shut a connection down. The event loop closes it then."""
    with suppress(OSError), socket.socket(fileno=os.dup(file)) as sock:
        if os.fstat(sock.fileno()).st_ino == inode:
            sock.shutdown(socket.SHUT_RDWR)
